"""Entries gathered batch after batch, in file order, as numpy columns, so that memory stays bounded.

A raw batch holds the speculation lines with what their Engine lines say. Years, zone, window
lengths and all that needs the whole file follow later, from the clock, the matching and the
numbers of texts kept here.

Engine lines and speculation lines each are one dict of arrays. Both have `offset`, `process` and
`engine` or `wording` (numbers of texts), `stamp` and `iso` (bytes; b"": none), `last` (nothing
follows in the file) and `extra` (a JSON object or ""). What a line does not print is ABSENT in
whole numbers, nan in real ones.
"""

import json
import pickle
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from draftmeter.formats.log.clock import LEAP_YEAR_S, NO_TIME, Clock, Stamps, read_stamps
from draftmeter.formats.log.entry import Place
from draftmeter.formats.log.matching import Events, Matching
from draftmeter.formats.log.recovered import ABSENT, NOT_A_NUMBER, Floats, Ints
from draftmeter.formats.log.usual import Lines, Usual
from draftmeter.formats.log.wordings import (
    ENGINE_COLUMNS,
    RATES_CUT,
    RATES_WHOLE,
    SPECULATION_COLUMNS,
    THROUGHPUTS,
    USUAL_ENGINE_COLUMNS,
    USUAL_SPECULATION_COLUMNS,
    EngineLine,
    Speculation,
    engine_name,
)

Columns = dict[str, NDArray[Any]]
Texts = Mapping[str, Sequence[bytes]]

BATCH = 6_000
MOST_ROWS_IN_MEMORY = 100_000
_NO_PLACE = Place(-1, b"\0", b"", b"", False)
_NO_ENGINE = EngineLine("", b"", b"", b"", b"", b"", b"", "")
_SPECIAL = {b"": ABSENT, b"nan": NOT_A_NUMBER}
_LONGEST_ISO = 40

Batch = TypeVar("Batch")


class Store(Generic[Batch]):
    """Batches, appended one by one and read again in the same order. The file goes when the store goes."""

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._rows_in_memory = 0
        self._in_file = 0
        self._file: IO[bytes] | None = None
        self.rows = 0

    def append(self, batch: Batch, rows: int) -> None:
        """Add a batch of this many rows."""
        self.rows += rows
        self._batches.append(batch)
        self._rows_in_memory += rows
        if self._rows_in_memory > MOST_ROWS_IN_MEMORY:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="draftmeter-")  # noqa: SIM115 (it lives as long as the store)
        self._file.seek(0, 2)
        for batch in self._batches:
            pickle.dump(batch, self._file, protocol=5)
        self._in_file += len(self._batches)
        self._batches, self._rows_in_memory = [], 0

    def __iter__(self) -> Iterator[Batch]:
        """The batches in order; none may be appended meanwhile."""
        place = 0
        for _ in range(self._in_file):
            assert self._file is not None
            # Two iterations may take turns.
            self._file.seek(place)
            batch: Batch = pickle.load(self._file)
            place = self._file.tell()
            yield batch
        yield from self._batches


class Codes:
    """Numbers for texts, in the order of their first appearance."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def of(self, text: str) -> int:
        """The number of this text."""
        return self._codes.setdefault(text, len(self._codes))

    def of_all(self, keys: Sequence[Any], text: Callable[[Any], str]) -> Ints:
        """The numbers of the texts that these keys stand for."""
        codes = {key: self.of(text(key)) for key in dict.fromkeys(keys)}
        return np.fromiter(map(codes.__getitem__, keys), np.int64, len(keys))

    def texts(self) -> list[str]:
        """The texts by their numbers."""
        return list(self._codes)


def _joined(parts: Iterable[Columns]) -> Columns:
    """One set of columns after the other; there is at least one."""
    parts = list(parts)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _taken(columns: Columns, rows: Ints) -> Columns:
    """These rows of all columns."""
    return {name: values[rows] for name, values in columns.items()}


@dataclass(frozen=True, slots=True)
class RawBatch:
    """Speculation lines, and, row by row, their Engine lines and their times.

    `rates`, in thousandths, follow each other; `n_rates` belong to each line. `extra` is the JSON
    object of both lines, or "".
    """

    speculation: Columns
    engine: Columns
    stamps: Stamps
    years: Ints
    rates: Ints
    n_rates: Ints
    extra: list[str]


class Gatherer:
    """Takes entries in file order and appends raw batches to `store`."""

    def __init__(self) -> None:
        self.store: Store[RawBatch] = Store()
        self.clock = Clock()
        self.matching = Matching()
        self.processes = Codes()
        self.engines = Codes()
        self.wordings = Codes()
        self.engine_lines = 0
        self.positions: dict[int, Counter[int]] = defaultdict(Counter)
        self.most_positions = 0
        self._usual = Usual()
        self._engines: list[tuple[Place, EngineLine]] = []
        self._speculation: list[tuple[Place, Speculation]] = []
        self._carried, *_ = _engine_columns(Usual(), [], self.processes, self.engines)
        self._refused: list[int] = []
        self._containers: dict[str, str] = {}

    def refuse(self, offset: int) -> None:
        """Take note of a place that may have been an entry and was not read."""
        self._refused.append(offset)

    def add(self, place: Place, entry: Speculation | EngineLine) -> None:
        """Add an entry."""
        if isinstance(entry, EngineLine):
            self._engines.append((place, entry))
        else:
            self._speculation.append((place, entry))

    def add_usual(self, usual: Usual) -> None:
        """Add usual entries."""
        self._usual.extend(usual)

    def end_window(self) -> None:
        """Append a batch if enough was added; what is added later lies further on in the file."""
        if len(self._usual) + len(self._engines) + len(self._speculation) >= BATCH:
            self.finish()

    def finish(self) -> None:
        """Append what was added since the last batch."""
        engines = _joined([self._carried, *_engine_columns(self._usual, self._engines, self.processes, self.engines)])
        speculation = _joined(_speculation_columns(self._usual, self._speculation, self.processes, self.wordings))
        n_engines, carried = len(engines["offset"]), len(self._carried["offset"])
        self.engine_lines += n_engines - carried
        places = _joined(
            {name: part[name] for name in ("offset", "process", "stamp", "iso", "last")} for part in (engines, speculation)
        )
        order = np.argsort(places["offset"], kind="stable")
        if not len(order):
            return
        # In the order of the file, like everything that follows the lines through it.
        places = _taken(places, order)
        stamps = read_stamps(places["stamp"], places["iso"])
        years = self.clock.follow(stamps)
        events = Events(
            offset=places["offset"],
            is_engine=order < n_engines,
            process=self._with_containers(places["process"]),
            second=np.where(stamps.second == NO_TIME, NO_TIME, stamps.second + years * LEAP_YEAR_S),
            speed=np.r_[np.nan_to_num(engines["generation_speed"]), np.zeros(len(speculation["offset"]))][order],
        )
        partner = self.matching.match(events, np.array(self._refused, np.int64))
        self.matching.follow(events, carried)
        rows = np.flatnonzero(~events.is_engine)
        if len(rows):
            lines = _taken(speculation, order[rows] - n_engines) | {"process": events.process[rows]}
            none = _engine_columns(Usual(), [(_NO_PLACE, _NO_ENGINE)], Codes(), self.engines)
            engine = np.where(partner[rows] >= 0, order[partner[rows]], n_engines)
            self._append(lines, _taken(_joined((engines, *none)), engine), stamps.at(rows), years[rows])
        # Each process's last line, if it is an Engine line: its speculation line may be in the next batch.
        last = len(order) - 1 - np.unique(events.process[::-1], return_index=True)[1]
        self._carried = _taken(engines, order[np.sort(last[events.is_engine[last]])])
        self._usual, self._engines, self._speculation, self._refused = Usual(), [], [], self._refused[-1:]

    def _append(self, lines: Columns, engine: Columns, stamps: Stamps, years: Ints) -> None:
        rates, n_rates = _rates_of(lines["rates"].tolist())
        whole = (lines["rates_end"] != RATES_CUT) & ~lines["last"] & (n_rates > 0)
        self._count_positions(lines["process"][whole], n_rates[whole])
        self.most_positions = max(self.most_positions, int(n_rates.max()))
        extra = list(map(_merge, lines["extra"].tolist(), engine["extra"].tolist()))
        self.store.append(RawBatch(lines, engine, stamps, years, rates, n_rates, extra), len(years))

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


def _merge(one: str, other: str) -> str:
    """One JSON object of two; "" is an empty one."""
    if one and other:
        return json.dumps(json.loads(other) | json.loads(one), sort_keys=True)
    return one or other


def _engine_columns(usual: Usual, lines: Sequence[tuple[Place, EngineLine]], processes: Codes, engines: Codes) -> list[Columns]:
    """Usual Engine lines, and those that were read one by one."""
    found = []
    for places, texts in _usual(usual.engines, usual.stored_engines, USUAL_ENGINE_COLUMNS, processes):
        more = {"engine": engines.of_all(texts["label"], engine_name), "extra": np.full(len(texts["label"]), "", object)}
        found.append(places | _values(ENGINE_COLUMNS, texts) | more)
    entries = [line for _, line in lines]
    more = {"engine": engines.of_all([line.engine for line in entries], str), "extra": _objects([line.extra for line in entries])}
    texts = {column: [getattr(line, column) for line in entries] for column in ENGINE_COLUMNS}
    return [*found, _places([place for place, _ in lines], processes) | _values(ENGINE_COLUMNS, texts) | more]


def _speculation_columns(
    usual: Usual, lines: Sequence[tuple[Place, Speculation]], processes: Codes, wordings: Codes
) -> list[Columns]:
    """Usual speculation lines, and those that were read one by one."""
    found = []
    for places, texts in _usual(usual.speculation, usual.stored_speculation, USUAL_SPECULATION_COLUMNS, processes):
        n = len(texts["rates"])
        rates = b"\n".join(texts["rates"]).replace(b" ", b"").split(b"\n")
        more = {
            "wording": np.full(n, wordings.of(THROUGHPUTS), np.int64),
            "rates_end": np.full(n, RATES_WHOLE, np.int64),
            "extra": np.full(n, "", object),
        }
        found.append(places | _values(SPECULATION_COLUMNS, {**texts, "rates": rates}) | more)
    entries = [line for _, line in lines]
    more = {
        "wording": wordings.of_all([line.wording for line in entries], str),
        "rates_end": np.array([line.rates_end for line in entries], np.int64),
        "extra": _objects([line.extra for line in entries]),
    }
    texts = {column: [getattr(line, column) for line in entries] for column in SPECULATION_COLUMNS}
    return [*found, _places([place for place, _ in lines], processes) | _values(SPECULATION_COLUMNS, texts) | more]


def _values(columns: Iterable[str], texts: Texts) -> Columns:
    """The printed values in these columns, each as its column holds them."""
    return {column: _AS_ARRAY.get(column, _floats)(texts[column]) for column in columns}


def _usual(
    plain: Lines, stored: Lines, columns: Sequence[str], processes: Codes
) -> Iterable[tuple[Columns, dict[str, list[bytes]]]]:
    """The places of usual lines, and their own values by column."""
    if plain:
        process, stamp, *values = plain.columns
        code = processes.of_all(process, lambda process: "\0" + process.decode())
        yield _columns_of_places(plain.offsets, code, stamp, None), dict(zip(columns, values, strict=True))
    if stored:
        name, iso, process, stamp, *values = stored.columns
        keys = list(zip(name, process, strict=True))
        code = processes.of_all(keys, lambda key: f"{key[0].decode(errors='replace')}\0{key[1].decode()}")
        yield _columns_of_places(stored.offsets, code, stamp, iso), dict(zip(columns, values, strict=True))


def _places(places: Sequence[Place], processes: Codes) -> Columns:
    code = processes.of_all([place.process for place in places], lambda process: process.decode(errors="replace"))
    columns = _columns_of_places(
        [place.offset for place in places], code, [place.stamp for place in places], [place.iso for place in places]
    )
    return columns | {"last": np.array([place.last for place in places], bool)}


def _columns_of_places(offset: Sequence[int], process: Ints, stamp: Sequence[bytes], iso: Sequence[bytes] | None) -> Columns:
    return {
        "offset": np.array(offset, np.int64),
        "process": process,
        "stamp": np.array(stamp, "S14"),
        "iso": np.zeros(len(offset), f"S{_LONGEST_ISO}") if iso is None else np.array(iso, f"S{_LONGEST_ISO}"),
        "last": np.zeros(len(offset), bool),
    }


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _integers(texts: Sequence[bytes]) -> Ints:
    known = texts if all(texts) else [text or b"%d" % ABSENT for text in texts]
    return np.fromiter(map(int, known), np.int64, len(texts))


def _digits(texts: Sequence[bytes]) -> Ints:
    """Printed numbers in units of their last decimal."""
    if not texts:
        return np.zeros(0, np.int64)
    bare = b"\n".join(texts).replace(b".", b"").split(b"\n")
    known: Iterable[int]
    known = map(int, bare) if _SPECIAL.keys().isdisjoint(bare) else (_SPECIAL[t] if t in _SPECIAL else int(t) for t in bare)
    return np.fromiter(known, np.int64, len(texts))


def _floats(texts: Sequence[bytes]) -> Floats:
    """Real numbers; nan for b"" and whatever is not finite."""
    known = texts if all(texts) else [text or b"nan" for text in texts]
    values = np.fromiter(map(float, known), np.float64, len(texts))
    return np.where(np.isfinite(values), values, np.nan)


# How the values of a column are held; the others are real numbers.
_AS_ARRAY: dict[str, Callable[[Sequence[bytes]], NDArray[Any]]] = {
    "mean": _digits,
    "share": _digits,
    "rates": _objects,
    **dict.fromkeys(("accepted", "drafted", "running", "waiting"), _integers),
}


def _rates_of(texts: Sequence[bytes]) -> tuple[Ints, Ints]:
    """All rates in thousandths, one line's ("0.799,0.646") after another's, and how many each line has."""
    counts = np.fromiter((text.count(b",") + 1 if text else 0 for text in texts), np.int64, len(texts))
    flat = b",".join(texts if all(texts) else [text for text in texts if text])
    if not flat:
        return np.zeros(0, np.int64), counts
    tokens = np.array(flat.split(b","), dtype="S5")
    digits = tokens.view(np.uint8).reshape(len(tokens), 5).astype(np.int64) - ord("0")
    values = digits[:, 0] * 1000 + digits[:, 2] * 100 + digits[:, 3] * 10 + digits[:, 4]
    return np.where(tokens == b"nan", NOT_A_NUMBER, values), counts
