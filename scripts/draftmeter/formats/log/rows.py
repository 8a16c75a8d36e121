"""Records gathered batch after batch, in file order, so that memory stays bounded.

A raw batch holds the speculation records with what their Engine lines say. Years, zone, window lengths and all that needs
the whole file follow later, from the clock, the pairing and the numbers of texts kept here.
"""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from draftmeter.formats.log.clock import LEAP_YEAR_S, NO_TIME, Clock, Stamps, read_stamps
from draftmeter.formats.log.columns import (
    Codes,
    Columns,
    Ints,
    engine_columns,
    joined,
    rates_of,
    record_columns,
    taken,
    usual_engine_columns,
    usual_record_columns,
)
from draftmeter.formats.log.fast import Usual
from draftmeter.formats.log.pairing import Events, Pairing
from draftmeter.formats.log.records import Place
from draftmeter.formats.log.store import Store
from draftmeter.formats.log.wordings import RATES_CUT, EngineLine, Speculation

BATCH = 6_000
_NO_PLACE = Place(-1, b"\0", b"", b"", False)
_NO_ENGINE = EngineLine("", b"", b"", b"", b"", b"", b"", "")


@dataclass(frozen=True, slots=True)
class RawBatch:
    """Speculation records: `said` in columns (as in `columns`), what their Engine lines say, their times.

    `rates`, in thousandths, follow each other; `n_rates` belong to each record. `extra` is the JSON object of both lines.
    """

    said: Columns
    engine: Columns
    stamps: Stamps
    years: Ints
    rates: Ints
    n_rates: Ints
    extra: list[bytes]


class Gatherer:
    """Takes records in file order and appends raw batches to `store`."""

    def __init__(self) -> None:
        self.store: Store[RawBatch] = Store()
        self.clock = Clock()
        self.pairing = Pairing()
        self.processes = Codes()
        self.engines = Codes()
        self.wordings = Codes()
        self.engine_lines = 0
        self.positions: dict[int, Counter[int]] = defaultdict(Counter)
        self.most_positions = 0
        self._usual = Usual()
        self._engines: list[tuple[Place, EngineLine]] = []
        self._records: list[tuple[Place, Speculation]] = []
        self._carried = engine_columns([], self.processes, self.engines)
        self._refused: list[int] = []
        self._containers: dict[str, str] = {}

    def refuse(self, offset: int) -> None:
        """Take note of a place that may have been a record and was not read."""
        self._refused.append(offset)

    def add(self, place: Place, record: Speculation | EngineLine) -> None:
        """Add a record."""
        if isinstance(record, EngineLine):
            self._engines.append((place, record))
        else:
            self._records.append((place, record))

    def add_usual(self, usual: Usual) -> None:
        """Add usual Engine lines and records."""
        self._usual.extend(usual)

    def end_window(self) -> None:
        """Append a batch if enough was added; what is added later lies further on in the file."""
        if len(self._usual) + len(self._engines) + len(self._records) >= BATCH:
            self.finish()

    def finish(self) -> None:
        """Append what was added since the last batch."""
        engines, records = self._columns()
        n_engines, carried = len(engines["offset"]), len(self._carried["offset"])
        self.engine_lines += n_engines - carried
        places = joined(
            {name: part[name] for name in ("offset", "process", "stamp", "iso", "last")} for part in (engines, records)
        )
        order = np.argsort(places["offset"], kind="stable")
        if not len(order):
            return
        # In the order of the file, like everything that follows the lines through it.
        places = taken(places, order)
        stamps = read_stamps(places["stamp"], places["iso"])
        years = self.clock.follow(stamps)
        events = Events(
            offset=places["offset"],
            is_engine=order < n_engines,
            process=self._with_containers(places["process"]),
            second=np.where(stamps.second == NO_TIME, NO_TIME, stamps.second + years * LEAP_YEAR_S),
            speed=np.r_[np.nan_to_num(engines["generation_speed"]), np.zeros(len(records["offset"]))][order],
        )
        partner = self.pairing.pair(events, np.array(self._refused, np.int64))
        self.pairing.follow(events, carried)
        rows = np.flatnonzero(~events.is_engine)
        if len(rows):
            said = taken(records, order[rows] - n_engines) | {"process": events.process[rows]}
            none = engine_columns([(_NO_PLACE, _NO_ENGINE)], Codes(), self.engines)
            engine = np.where(partner[rows] >= 0, order[partner[rows]], n_engines)
            self._append(said, taken(joined((engines, none)), engine), stamps.at(rows), years[rows])
        # Each process's last line, if it is an Engine line: its record may be in the next batch.
        last = len(order) - 1 - np.unique(events.process[::-1], return_index=True)[1]
        self._carried = taken(engines, order[np.sort(last[events.is_engine[last]])])
        self._usual, self._engines, self._records, self._refused = Usual(), [], [], self._refused[-1:]

    def _columns(self) -> tuple[Columns, Columns]:
        """Everything that was added: the carried Engine lines and those since, and the records."""
        engines = [self._carried, *usual_engine_columns(self._usual, self.processes, self.engines)]
        records = usual_record_columns(self._usual, self.processes, self.wordings)
        engines.append(engine_columns(self._engines, self.processes, self.engines))
        records.append(record_columns(self._records, self.processes, self.wordings))
        return joined(engines), joined(records)

    def _append(self, said: Columns, engine: Columns, stamps: Stamps, years: Ints) -> None:
        rates, n_rates = rates_of(said["rates"].tolist())
        whole = (said["rates_end"] != RATES_CUT) & ~said["last"] & (n_rates > 0)
        self._count_positions(said["process"][whole], n_rates[whole])
        self.most_positions = max(self.most_positions, int(n_rates.max()))
        extras = said["extra"].tolist(), engine["extra"].tolist()
        extra = [_merge(*pair) for pair in zip(*extras, strict=True)] if any(map(any, extras)) else [b""] * len(years)
        self.store.append(RawBatch(said, engine, stamps, years, rates, n_rates, extra), len(years))

    def _count_positions(self, process: Ints, n_rates: Ints) -> None:
        numbers, counts = np.unique(process * 1000 + n_rates, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self.positions[number // 1000][number % 1000] += count

    def _with_containers(self, process: Ints) -> Ints:
        """A line without its container's name (a progress bar or a cut took it) is of the container that the process was in
        before."""
        names = [name.partition("\0") for name in self.processes.texts()]
        if not any(container for container, _, _ in names):
            return process
        codes = process.tolist()
        for index, code in enumerate(codes):
            container, _, name = names[code]
            container = self._containers[name] = container or self._containers.get(name, "")
            codes[index] = self.processes.of(f"{container}\0{name}")
        return np.array(codes, np.int64)


def _merge(one: str, other: str) -> bytes:
    if one and other:
        return json.dumps(json.loads(other) | json.loads(one), sort_keys=True).encode()
    return (one or other).encode()
