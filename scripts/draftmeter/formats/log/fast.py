"""The usual statistics lines of a window, all at once: the wording since 0.10.2, with nothing unusual before or in them.

What the patterns do not match is no worse off: the careful reader in `records` takes it.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from draftmeter.formats.log.heads import ISO, STAMP
from draftmeter.formats.log.scan import Places
from draftmeter.formats.log.window import Window

_OUTER = rb"(?:([\w.-]+) *\| )?(?:(" + ISO + rb") (?:std(?:out|err) [FP] )?)?"
_COLOUR = rb"(?:\x1b\[[0-9;]*m)?"
# "~" stands for a place where a colour may begin or end.
_HEAD = rb"(?:~\(([\w.:-]+ pid=\d+)\)~ )?~(?:INFO|DEBUG)~ ~(" + STAMP + rb")~ ~\[(?:[\w.]+/)*FILE\.py:\d+\]~ "
_NUMBER = rb"(\d{1,12}\.\d{1,9})"
_COUNT = rb"(0|[1-9]\d{0,14})"
_RECORD = (
    rb"SpecDecoding metrics: Mean acceptance length: (\d{1,9}\.\d\d), "
    + rb"Accepted throughput: N tokens/s, Drafted throughput: N tokens/s, ".replace(b"N", _NUMBER)
    + rb"Accepted: N tokens, Drafted: N tokens, ".replace(b"N", _COUNT)
    + rb"Per-position acceptance rate: (\d\.\d{3}(?:, \d\.\d{3}){0,63}), Avg Draft acceptance rate: (\d{1,3}\.\d)%"
)
_ENGINE_LINE = (
    rb"(Engine \d{1,6}|\d{1,6} Engines Aggregated): "
    + rb"Avg prompt throughput: N tokens/s, Avg generation throughput: N tokens/s, ".replace(b"N", _NUMBER)
    + rb"Running: N reqs, Waiting: N reqs, ".replace(b"N", _COUNT)
    + rb"[A-Z]+ KV cache usage: N%(?:, Prefix cache hit rate: N%)?".replace(b"N", _NUMBER)
)


def _patterns(file: bytes, body: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Of a line as the server prints it, and of one that a container's tools stored or a terminal coloured."""
    head = _HEAD.replace(b"FILE", file)
    plain, stored = head.replace(b"~", b"") + body, _OUTER + head.replace(b"~", _COLOUR) + body
    return re.compile(b"^" + plain + rb"\r?$", re.MULTILINE), re.compile(b"^" + stored + rb"\r?$", re.MULTILINE)


_RECORDS = _patterns(b"metrics", _RECORD)
_ENGINES = _patterns(b"loggers", _ENGINE_LINE)
_ACCEPTED, _DRAFTED = -4, -3  # of the groups of a record
_LONGEST = 1_500

Row = tuple[bytes, ...]


@dataclass(slots=True)
class Lines:
    """Usual lines of one kind: the bytes at which they begin, and one column for each group of their pattern."""

    offsets: list[int] = field(default_factory=list)
    columns: list[list[bytes]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.offsets)

    def extend(self, offsets: Iterable[int], columns: Iterable[Iterable[bytes]]) -> None:
        """Add lines that follow these in the file."""
        self.offsets.extend(offsets)
        if self.columns:
            for column, values in zip(self.columns, columns, strict=True):
                column.extend(values)
        else:
            self.columns = [list(values) for values in columns]


@dataclass(slots=True)
class Usual:
    """Usual Engine lines and records; `stored_...` have the name and time stamp of a container (b"": none) before the rest,
    which is process, time stamp and the line's own values. `colours`: so many of the stored have terminal colours."""

    engines: Lines = field(default_factory=Lines)
    records: Lines = field(default_factory=Lines)
    stored_engines: Lines = field(default_factory=Lines)
    stored_records: Lines = field(default_factory=Lines)
    colours: int = 0

    def __len__(self) -> int:
        return sum(map(len, self._kinds()))

    def _kinds(self) -> tuple[Lines, ...]:
        return self.engines, self.records, self.stored_engines, self.stored_records

    def extend(self, more: "Usual") -> None:
        """Add lines that follow these in the file."""
        for mine, other in zip(self._kinds(), more._kinds(), strict=True):
            if other.offsets:
                mine.extend(other.offsets, other.columns)

    def begins_at(self, offset: int) -> bool:
        """True if the first line of a kind is there."""
        return any(lines.offsets[:1] == [offset] for lines in self._kinds())

    def prefixes(self) -> Counter[str]:
        """What stood before the lines, and how often."""
        prefixes = Counter({"none": len(self.engines) + len(self.records), "colours": self.colours})
        for lines in (self.stored_engines, self.stored_records):
            for kind, column in zip(("compose", "container time"), lines.columns, strict=False):
                prefixes[kind] += sum(map(bool, column))
        return prefixes


def read_usual(window: Window, places: Places) -> tuple[Usual, list[int]]:
    """The usual lines at these places, and the places of everything else, in order."""
    usual = Usual()
    rest = [*places.others]
    for where, patterns in ((places.engines, _ENGINES), (places.records, _RECORDS)):
        if where:
            rest += _read_lines(usual, window, where, patterns)
    return usual, sorted(rest)


def _read_lines(usual: Usual, window: Window, places: list[int], patterns: tuple[re.Pattern[bytes], ...]) -> list[int]:
    """Add the usual lines of one kind to `usual`; return the places of the others."""
    data, base = window.data, window.base
    starts = [data.rfind(b"\n", 0, place) + 1 for place in places]
    ends = [data.find(b"\n", place) for place in places]
    if starts[0] == 0 and window.opening is not None:
        starts[0] = places[0]  # the line begins before the window: as good as cut
    texts = [data[start:end] if 0 <= end - start < _LONGEST else b"" for start, end in zip(starts, ends, strict=True)]
    plain, stored = patterns
    records = patterns is _RECORDS
    rows = plain.findall(b"\n".join(texts))
    if len(rows) == len(texts) and (not records or all(map(_is_possible, rows))):
        (usual.records if records else usual.engines).extend([base + start for start in starts], zip(*rows, strict=True))
        return []
    found: dict[re.Pattern[bytes], list[tuple[int, Row]]] = {plain: [], stored: []}
    rest = []
    for place, start, text in zip(places, starts, texts, strict=True):
        match = plain.fullmatch(text) or stored.fullmatch(text)
        if match is None or (records and not _is_possible(match.groups())):
            rest.append(place)
        else:
            found[match.re].append((base + start, tuple(map(bytes, match.groups(b"")))))
            usual.colours += b"\x1b" in text
    for pattern, lines in (
        (plain, usual.records if records else usual.engines),
        (stored, usual.stored_records if records else usual.stored_engines),
    ):
        if found[pattern]:
            offsets, groups = zip(*found[pattern], strict=True)
            lines.extend(offsets, zip(*groups, strict=True))
    return rest


def _is_possible(row: Row) -> bool:
    """True unless more tokens were accepted than drafted."""
    accepted, drafted = row[_ACCEPTED], row[_DRAFTED]
    return len(accepted) < len(drafted) or int(accepted) <= int(drafted)
