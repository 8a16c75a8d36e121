"""Records as numpy columns: one dict of arrays for Engine lines, one for speculation records.

Both have `offset`, `process` and `engine` or `wording` (numbers of texts), `stamp` and `iso` (bytes; b"": none), `last` (nothing
follows in the file) and `extra` (a JSON object or ""). What a line does not print is ABSENT in whole numbers, nan in real ones.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftmeter.formats.log.counts import ABSENT, NOT_A_NUMBER
from draftmeter.formats.log.fast import Lines, Usual
from draftmeter.formats.log.records import Place
from draftmeter.formats.log.wordings import RATES_WHOLE, THROUGHPUTS, EngineLine, Speculation

Columns = dict[str, NDArray[Any]]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_SPECIAL = {b"": ABSENT, b"nan": NOT_A_NUMBER}
_LONGEST_ISO = 40


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


def joined(parts: Iterable[Columns]) -> Columns:
    """One set of columns after the other; there is at least one."""
    parts = list(parts)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def taken(columns: Columns, rows: Ints) -> Columns:
    """These rows of all columns."""
    return {name: values[rows] for name, values in columns.items()}


def engine_columns(lines: Sequence[tuple[Place, EngineLine]], processes: Codes, engines: Codes) -> Columns:
    """Engine lines that were read one by one."""
    said = [line for _, line in lines]
    return _places([place for place, _ in lines], processes) | {
        "engine": engines.of_all([line.engine for line in said], str),
        **{name: floats([getattr(line, name) for line in said]) for name in ("prompt_speed", "generation_speed")},
        **{name: _integers([getattr(line, name) for line in said]) for name in ("running", "waiting")},
        **{name: floats([getattr(line, name) for line in said]) for name in ("kv_usage", "prefix_hits")},
        "extra": _objects([line.extra for line in said]),
    }


def record_columns(records: Sequence[tuple[Place, Speculation]], processes: Codes, wordings: Codes) -> Columns:
    """Speculation records that were read one by one."""
    said = [record for _, record in records]
    return _places([place for place, _ in records], processes) | {
        "wording": wordings.of_all([record.wording for record in said], str),
        **{name: _digits([getattr(record, name) for record in said]) for name in ("mean", "share")},
        **{name: floats([getattr(record, name) for record in said]) for name in ("accepted_speed", "drafted_speed")},
        **{name: _integers([getattr(record, name) for record in said]) for name in ("accepted", "drafted")},
        "rates": _objects([record.rates for record in said]),
        "rates_end": np.array([record.rates_end for record in said], np.int64),
        "extra": _objects([record.extra for record in said]),
    }


def usual_engine_columns(usual: Usual, processes: Codes, engines: Codes) -> list[Columns]:
    """Usual Engine lines."""
    found = []
    for places, values in _usual(usual.engines, usual.stored_engines, processes):
        label, prompt, generation, running, waiting, kv_usage, prefix_hits = values
        found.append(
            places
            | {
                "engine": engines.of_all(label, _engine_name),
                "prompt_speed": floats(prompt),
                "generation_speed": floats(generation),
                "running": _integers(running),
                "waiting": _integers(waiting),
                "kv_usage": floats(kv_usage),
                "prefix_hits": floats(prefix_hits),
                "extra": np.full(len(label), "", object),
            }
        )
    return found


def usual_record_columns(usual: Usual, processes: Codes, wordings: Codes) -> list[Columns]:
    """Usual speculation records."""
    found = []
    for places, values in _usual(usual.records, usual.stored_records, processes):
        mean, accepted_speed, drafted_speed, accepted, drafted, rates, share = values
        found.append(
            places
            | {
                "wording": np.full(len(mean), wordings.of(THROUGHPUTS), np.int64),
                "mean": _digits(mean),
                "share": _digits(share),
                "accepted_speed": floats(accepted_speed),
                "drafted_speed": floats(drafted_speed),
                "accepted": _integers(accepted),
                "drafted": _integers(drafted),
                "rates": _objects(b"\n".join(rates).replace(b" ", b"").split(b"\n")),
                "rates_end": np.full(len(mean), RATES_WHOLE, np.int64),
                "extra": np.full(len(mean), "", object),
            }
        )
    return found


def _usual(plain: Lines, stored: Lines, processes: Codes) -> Iterable[tuple[Columns, list[list[bytes]]]]:
    """The places of usual lines, and their own values in columns."""
    if plain:
        process, stamp, *values = plain.columns
        code = processes.of_all(process, lambda process: "\0" + process.decode())
        yield _columns_of_places(plain.offsets, code, stamp, None), values
    if stored:
        name, iso, process, stamp, *values = stored.columns
        keys = list(zip(name, process, strict=True))
        code = processes.of_all(keys, lambda key: f"{key[0].decode(errors='replace')}\0{key[1].decode()}")
        yield _columns_of_places(stored.offsets, code, stamp, iso), values


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


def _engine_name(label: bytes) -> str:
    number = label.removeprefix(b"Engine ")
    return str(int(number)) if number.isdigit() else f"{int(label.split()[0])} aggregated"


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


def floats(texts: Sequence[bytes]) -> Floats:
    """Real numbers; nan for b"" and whatever is not finite."""
    known = texts if all(texts) else [text or b"nan" for text in texts]
    values = np.fromiter(map(float, known), np.float64, len(texts))
    return np.where(np.isfinite(values), values, np.nan)


def rates_of(texts: Sequence[bytes]) -> tuple[Ints, Ints]:
    """All rates in thousandths, one line's ("0.799,0.646") after another's, and how many each line has."""
    counts = np.fromiter((text.count(b",") + 1 if text else 0 for text in texts), np.int64, len(texts))
    flat = b",".join(texts if all(texts) else [text for text in texts if text])
    if not flat:
        return np.zeros(0, np.int64), counts
    tokens = np.array(flat.split(b","), dtype="S5")
    digits = tokens.view(np.uint8).reshape(len(tokens), 5).astype(np.int64) - ord("0")
    values = digits[:, 0] * 1000 + digits[:, 2] * 100 + digits[:, 3] * 10 + digits[:, 4]
    return np.where(tokens == b"nan", NOT_A_NUMBER, values), counts
