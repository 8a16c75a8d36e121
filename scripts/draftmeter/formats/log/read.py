"""Reading a log: bytes in, the interval table and what was found out."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from draftmeter.formats.log.clock import Calendar, settle
from draftmeter.formats.log.entry import Refused, Taken, read_entry
from draftmeter.formats.log.found import MOST_REFUSED, LogFound, Tally, describe
from draftmeter.formats.log.gather import Gatherer, Store
from draftmeter.formats.log.head import HEAD
from draftmeter.formats.log.intervals import Settled, make_batch, schema
from draftmeter.formats.log.known import Known
from draftmeter.formats.log.matching import modal_spacing
from draftmeter.formats.log.usual import Usual, read_usual
from draftmeter.formats.log.window import Window, broken_places, find_places, windows
from draftmeter.formats.log.wordings import CUMULATIVE, NAME_BEGUN, SPECULATION_END, THROUGHPUTS, Speculation

_PIECE = 50_000
_BROKEN = frozenset({"wrapped", "cut head", "cut tail"})


class LogReading:
    """A log that was read: `found` says what it is, `batches` gives its `n` intervals in file order."""

    def __init__(self, found: LogFound, batches: Store[pa.Table], layout: pa.Schema) -> None:
        self.found = found
        self._batches = batches
        self._layout = layout

    @property
    def n(self) -> int:
        """The number of intervals."""
        return self._batches.rows

    def batches(self) -> Iterator[pa.Table]:
        """The interval table in pieces of bounded size, in file order; all have the columns of `table`."""
        pieces: list[pa.Table] = []
        for piece in self._batches:
            pieces.append(piece)
            if sum(map(len, pieces)) >= _PIECE:
                yield pa.concat_tables(pieces)
                pieces = []
        if pieces:
            yield pa.concat_tables(pieces)

    def table(self) -> pa.Table:
        """The whole interval table at once."""
        return pa.concat_tables([self._layout.empty_table(), *self._batches]).combine_chunks()


class _Reader:
    """The state of reading one stream."""

    def __init__(self) -> None:
        self.gatherer = Gatherer()
        self.found = LogFound()
        self._prefixes: Counter[str] = Counter()
        self._wordings: Counter[str] = Counter()
        self._done = 0
        self._plain_seen = False
        self._broken = True

    def read(self, stream: BinaryIO) -> None:
        """Read all of it."""
        for window in windows(stream):
            self._read_window(window)
            self.gatherer.end_window()
        self.gatherer.finish()
        self.found.prefixes = {kind: n for kind, n in self._prefixes.most_common() if n}
        self.found.wordings = {wording: n for wording, n in self._wordings.most_common() if n}
        self.found.engine_lines = self.gatherer.engine_lines

    def _read_window(self, window: Window) -> None:
        places = find_places(window, self._done - window.base)
        more = broken_places(window) if self._broken or not self._plain_seen else []
        usual, rest = read_usual(window, places) if not more else (Usual(), sorted({*places.all(), *more}))
        outcomes = self._outcomes(window, rest)
        if not more and any(map(_is_broken, outcomes)):
            # Then others may be broken too, even lines that look whole.
            usual, outcomes = Usual(), self._outcomes(window, sorted({*places.all(), *broken_places(window)}))
        self._edges(window, outcomes, usual)
        self.gatherer.add_usual(usual)
        self._prefixes.update(usual.prefixes())
        self._wordings[THROUGHPUTS] += len(usual.speculation) + len(usual.stored_speculation)
        for outcome in outcomes:
            self._keep(outcome)
        self._broken = any(map(_is_broken, outcomes))
        self._plain_seen = self._plain_seen or len(usual) > 0 or len(outcomes) > self._broken

    def _outcomes(self, window: Window, where: Sequence[int]) -> list[Taken | Refused]:
        """What the places of a window turn out to be, from the end of the last entry on."""
        outcomes: list[Taken | Refused] = []
        done = self._done - window.base
        for place in where:
            if place < done:
                continue
            outcome = read_entry(window, place)
            if outcome is None:
                continue
            outcomes.append(outcome)
            done = max(done, outcome.end - window.base)
        return outcomes

    def _keep(self, outcome: Taken | Refused) -> None:
        self._done = max(self._done, outcome.end)
        if isinstance(outcome, Refused):
            self._refuse(outcome)
            return
        self._prefixes.update(outcome.kinds or ("none",))
        entry = outcome.entry
        if isinstance(entry, Speculation):
            self._wordings[entry.wording] += 1
            if entry.wording == CUMULATIVE:
                self.found.cumulative += 1
                return
        self.gatherer.add(outcome.place, entry)

    def _refuse(self, refused: Refused) -> None:
        self.found.refused_count += 1
        self.gatherer.refuse(refused.start)
        if len(self.found.refused) < MOST_REFUSED:
            self.found.refused.append({"offset": refused.start, "reason": refused.reason})

    def _edges(self, window: Window, outcomes: Sequence[Taken | Refused], usual: Usual) -> None:
        """Entries at the file's ends that have lost their very name."""
        data = window.data
        if window.base == 0:
            line = window.line_at(0)
            if (not outcomes or outcomes[0].end > line.end) and not usual.begins_at(0) and _is_beheaded(window.text(line)):
                self._refuse(Refused(0, line.end, "the beginning of the entry is cut off, with its name"))
        if window.last and NAME_BEGUN.search(data[-80:]):
            start = data.rfind(b"\n") + 1
            self._refuse(Refused(window.base + start, window.base + len(data), "cut before its counts"))


def _is_beheaded(text: bytes) -> bool:
    return SPECULATION_END.search(text[-200:]) is not None and HEAD.search(text) is None


def _is_broken(outcome: Taken | Refused) -> bool:
    return outcome.cut if isinstance(outcome, Refused) else not _BROKEN.isdisjoint(outcome.kinds)


def read_log(stream: BinaryIO, known: Known) -> LogReading:
    """Read a log to its end. Whatever bytes come, nothing is raised for them; what could not be read is in `found`."""
    reader = _Reader()
    reader.read(stream)
    gatherer, found = reader.gatherer, reader.found
    calendar = settle(gatherer.clock, known)
    settled = _settle(gatherer, known, calendar)
    tally = Tally()
    batches: Store[pa.Table] = Store()
    for raw in gatherer.store:
        batch = make_batch(raw, settled)
        tally.add(batch, known)
        batches.append(batch.table, batch.table.num_rows)
    describe(found, gatherer, known, settled, tally)
    return LogReading(found, batches, schema(settled.positions))


def _settle(gatherer: Gatherer, known: Known, calendar: Calendar) -> Settled:
    processes = gatherer.processes.texts()
    windows_s = np.full(len(processes), np.nan)
    for code, process in gatherer.matching.processes.items():
        spacing = modal_spacing(process.spacings[process.lines[True] > 1])
        windows_s[code] = np.nan if spacing is None else spacing
    if known.log_interval_s is not None:
        windows_s[:] = known.log_interval_s
    return Settled(
        calendar=calendar,
        processes=[name.partition("\0")[2] for name in processes],
        engines=gatherer.engines.texts(),
        wordings=gatherer.wordings.texts(),
        windows=windows_s,
        shown_k=dict(gatherer.positions),
        known_k=known.k,
        positions=max([known.k or 0, gatherer.most_positions]),
    )
