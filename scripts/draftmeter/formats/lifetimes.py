"""The lives of server processes in a series of scrapes: counters only rise within one life, and begin anew with the next.

A new life shows by the start time of the process (or of its counters), else by a count that fell. Where one address is
answered by several processes in turn, each keeps its own life.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from draftmeter.formats.counters import SCALARS, SPECULATION, Counters, EngineKey, EngineReading

SAME_START_S = 1.0
CLOCKS_APART_S = 60.0
"""How far the clock of a server may be behind that of the scrapes."""


@dataclass(slots=True, eq=False)
class Life:
    """One engine between the first and the last scrape that saw it in one life of its process. Times are Unix seconds."""

    began: float | None
    """Start of the process, else of its counters; null where the scrapes do not show it."""
    with_group: bool
    """Whether engines of its server that were there before restarted at its first scrape."""
    first_t: float
    first: Counters
    last_t: float
    last: Counters


class Restart(NamedTuple):
    """A restart between the scrapes at `after` and `before`; `began` is null where the scrapes do not show it. Unix seconds."""

    replica: str
    after: float
    before: float
    began: float | None


class Counted(NamedTuple):
    """What a life adds to the total: all that it counted if `whole`, else what its counts rose by after its first scrape.

    `in_turn`: another process answered before and after this one first did, or this one began before the series did.
    """

    life: Life
    whole: bool
    restart: Restart | None
    in_turn: bool

    @property
    def increase(self) -> Counters:
        """The counts to be added up."""
        return self.life.last if self.whole else rise(self.life.first, self.life.last)


class Lifetimes:
    """Sorts the readings of one series of scrapes into lives."""

    def __init__(self) -> None:
        self._lives: dict[EngineKey, list[Life]] = {}
        self._start: float | None = None

    @property
    def keys(self) -> list[EngineKey]:
        """The engines that were seen, in the order in which they first were."""
        return list(self._lives)

    def see(self, t: float, readings: Sequence[EngineReading]) -> dict[EngineKey, Life] | None:
        """The life of each engine in the scrape at `t`; null (and no change) if a count is missing that was there before."""
        found = {reading.key: self._life_of(reading) for reading in readings}
        for reading in readings:
            life = found[reading.key]
            if life is not None and _lacks(life.last, reading.counters):
                return None
        restarted = {key.replica for key, life in found.items() if life is None and key in self._lives}
        self._start = t if self._start is None else self._start
        lives: dict[EngineKey, Life] = {}
        for reading in readings:
            life, group = found[reading.key], reading.key.replica in restarted
            if life is None or (group and reading.began is None):
                life = Life(reading.began, group, t, reading.counters, t, reading.counters)
                self._lives.setdefault(reading.key, []).append(life)
            life.last_t, life.last = t, reading.counters
            life.began = reading.began if life.began is None else life.began
            lives[reading.key] = life
        return lives

    def counted(self, key: EngineKey) -> list[Counted]:
        """The lives of an engine, in order of their first scrapes."""
        result: list[Counted] = []
        start = -math.inf if self._start is None else self._start
        for n, life in enumerate(self._lives[key]):
            last_t = max((other.last_t for other in self._lives[key][:n]), default=-math.inf)
            # The clocks of server and scrapes may differ: what the first scrape shows began before it, whatever it says.
            began_within = life.began is not None and life.first_t > start and life.began > start
            began_before = life.began is not None and life.began < start - CLOCKS_APART_S
            in_turn = n > 0 and (last_t > life.first_t or began_before)
            restart = Restart(key.replica, last_t, life.first_t, life.began) if n > 0 and not in_turn else None
            with_group = life.with_group and life.began is None and not in_turn
            result.append(Counted(life, restart is not None or began_within or with_group, restart, in_turn))
        return result

    def _life_of(self, reading: EngineReading) -> Life | None:
        """The life that a reading continues; null if it begins one."""
        lives = self._lives.get(reading.key, [])
        if reading.began is not None:
            lives = [life for life in lives if life.began is None or abs(life.began - reading.began) <= SAME_START_S]
        latest = max(lives, key=lambda life: life.last_t, default=None)
        return None if latest is None or _falls(latest.last, reading.counters) else latest


def rise(before: Counters, after: Counters) -> Counters:
    """After minus before; what was not shown before counted from 0 (Ray shows a counter only from its first count on)."""
    positions = after.accepted_per_position
    if positions is not None and before.accepted_per_position is not None:
        old = before.accepted_per_position + (0,) * (len(positions) - len(before.accepted_per_position))
        positions = tuple(new - was for was, new in zip(old, positions, strict=True))
    changes: dict[str, int | None] = {}
    for name in SCALARS:
        new = getattr(after, name)
        changes[name] = None if new is None else new - (getattr(before, name) or 0)
    return Counters(accepted_per_position=positions, **changes)


def joined(increases: Sequence[Counters]) -> Counters:
    """The sum over lives. A life without speculation adds no drafts; any other count that a life lacks makes the sum null.

    Positions are null if K differs between lives that drafted, or one of them lacks positions.
    """
    sums: dict[str, int | None] = {}
    for name in SCALARS:
        values = [getattr(increase, name) for increase in increases]
        known = [value for value in values if value is not None]
        sums[name] = sum(known) if known and (name in SPECULATION or len(known) == len(values)) else None
    drafted = [increase for increase in increases if increase.drafts] or [one for one in increases if one.drafts is not None][:1]
    positions = [increase.accepted_per_position for increase in drafted if increase.accepted_per_position is not None]
    alike = bool(drafted) and len(positions) == len(drafted) and len(set(map(len, positions))) == 1
    return Counters(accepted_per_position=tuple(map(sum, zip(*positions, strict=True))) if alike else None, **sums)


def _falls(before: Counters, after: Counters) -> bool:
    for name in SCALARS:
        old, new = getattr(before, name), getattr(after, name)
        if old is not None and new is not None and new < old:
            return True
    old_positions, new_positions = before.accepted_per_position or (), after.accepted_per_position or ()
    return any(new < old for old, new in zip(old_positions, new_positions, strict=False))


def _lacks(before: Counters, after: Counters) -> bool:
    if len(before.accepted_per_position or ()) > len(after.accepted_per_position or ()):
        return True
    return any(getattr(before, name) is not None and getattr(after, name) is None for name in SCALARS)
