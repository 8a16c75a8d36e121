"""Which Engine line belongs to which speculation line, and how far apart the lines of a process are.

The logger prints an Engine line and, if it drafted, a speculation line after it. So the Engine line
of a speculation line is the entry before it in the same process, within a second; it belongs to one
speculation line at most.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from draftmeter.formats.log.clock import NO_TIME
from draftmeter.formats.log.recovered import Bools, Ints

# Two lines of one log call carry the same time unless the clock's second ends between them.
LARGEST_GAP_S = 1
# The server's interval unless it is given another.
USUAL_INTERVAL_S = 10
# Threads of one process may print in another order than they took the time.
_REORDERED_S = 2
_LONGEST_SPACING_S = 86_400


@dataclass(frozen=True, slots=True)
class Events:
    """Entries in file order: the byte of each, whether it is an Engine line, a code of its process, and its time.

    `second` counts from any one moment (NO_TIME: unknown), `speed` is an Engine line's generation throughput.
    """

    offset: Ints
    is_engine: Bools
    process: Ints
    second: Ints
    speed: NDArray[np.float64]


@dataclass(slots=True)
class _Process:
    """The last lines of a process so far, and the spacings between its Engine lines and between its speculation lines."""

    last: dict[bool, int] = field(default_factory=dict)
    spacings: dict[bool, Counter[int]] = field(default_factory=lambda: {True: Counter(), False: Counter()})
    lines: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    waiting: bool = False  # its last line is an Engine line of a server that generated
    latest: int = NO_TIME


@dataclass(slots=True)
class Matching:
    """Follows the lines of each process through the file.

    `backwards` counts times that run backwards in a process, of which the first is at byte `first_backwards`.
    """

    processes: dict[int, _Process] = field(default_factory=lambda: defaultdict(_Process))
    backwards: int = 0
    first_backwards: int | None = None

    def match(self, events: Events, refused: Ints) -> Ints:
        """For each line, the index of the Engine line that belongs to it, or -1.

        Where nothing shows their times, no other statistics line may stand between the two, nor any of the bytes `refused`
        (ascending), at which an entry may have stood that was not read: the Engine line may have been that one's.
        """
        partner = np.full(len(events.process), -1, np.int64)
        order = np.argsort(events.process, kind="stable")
        process = events.process[order]
        second = events.second[order]
        is_engine = events.is_engine[order]
        unknown = second == NO_TIME
        gap = second[1:] - second[:-1]
        offset = events.offset[order]
        adjacent = np.searchsorted(refused, offset[1:]) == np.searchsorted(refused, offset[:-1])
        adjacent &= np.diff(order) == 1
        near = np.where(unknown[1:], adjacent, (gap >= 0) & (gap <= LARGEST_GAP_S)) & (unknown[1:] == unknown[:-1])
        matches = np.flatnonzero(~is_engine[1:] & is_engine[:-1] & (process[1:] == process[:-1]) & near)
        partner[order[matches + 1]] = order[matches]
        return partner

    def follow(self, events: Events, fresh: int) -> None:
        """Take note of spacings, of times that run backwards and of the last lines; the first `fresh` lines are known."""
        order = np.argsort(events.process[fresh:], kind="stable") + fresh
        starts = np.flatnonzero(np.diff(events.process[order], prepend=-1))
        for rows in np.split(order, starts[1:]) if len(order) else ():
            self._follow_process(self.processes[int(events.process[rows[0]])], events, rows)

    def _follow_process(self, process: _Process, events: Events, rows: Ints) -> None:
        last = rows[-1]
        process.waiting = bool(events.is_engine[last] and events.speed[last] > 0)
        for is_engine in (True, False):
            process.lines[is_engine] += int((events.is_engine[rows] == is_engine).sum())
        timed = rows[events.second[rows] != NO_TIME]
        if not len(timed):
            return
        second = events.second[timed]
        steps = np.diff(second, prepend=second[0] if process.latest == NO_TIME else process.latest)
        back = np.flatnonzero(steps < -_REORDERED_S)
        self.backwards += len(back)
        if len(back) and self.first_backwards is None:
            self.first_backwards = int(events.offset[timed[back[0]]])
        process.latest = int(second[-1])
        for is_engine in (True, False):
            of_kind = second[events.is_engine[timed] == is_engine]
            if len(of_kind):
                steps = np.diff(of_kind, prepend=process.last.get(is_engine, of_kind[0]))
                values, counts = np.unique(steps[(steps > 0) & (steps <= _LONGEST_SPACING_S)], return_counts=True)
                process.spacings[is_engine].update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
                process.last[is_engine] = int(of_kind[-1])


def modal_spacing(spacings: Counter[int]) -> int | None:
    """The usual number of seconds between lines; None if no two spacings agree. Stamps are whole seconds, so a neighbour
    counts half."""
    steps = {near for step in spacings for near in (step - 1, step, step + 1) if near > 0}
    weights = {step: 2 * spacings[step] + spacings[step - 1] + spacings[step + 1] for step in steps}
    most = max(weights.values(), default=0)
    if most <= 2:
        return None  # no two that agree: it may as well be a gap
    best = sorted(step for step, weight in weights.items() if weight == most)
    return USUAL_INTERVAL_S if USUAL_INTERVAL_S in best else best[(len(best) - 1) // 2]
