"""The usual statistics lines of a window, all at once: the wording since 0.10.2, with nothing unusual
before or in them.

The patterns are made of those of heads and wordings. They take only what the careful reader in
`entry` reads in the same way, and leave everything else to it.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from draftmeter.formats.log.head import usual_heads
from draftmeter.formats.log.window import Places, Window
from draftmeter.formats.log.wordings import USUAL_ENGINE, USUAL_SPECULATION, USUAL_SPECULATION_COLUMNS


def _patterns(file: bytes, entry: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Of a line as the server prints it, and of one that a container's tools stored or a terminal coloured."""
    plain, stored = (re.compile(b"^" + head + entry + rb"\r?$", re.MULTILINE) for head in usual_heads(file))
    return plain, stored


_SPECULATION = _patterns(b"metrics", USUAL_SPECULATION)
_ENGINES = _patterns(b"loggers", USUAL_ENGINE)
# Of the groups of a speculation line, counted from its end.
_ACCEPTED, _DRAFTED = (
    USUAL_SPECULATION_COLUMNS.index(column) - len(USUAL_SPECULATION_COLUMNS) for column in ("accepted", "drafted")
)
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
    """Usual Engine and speculation lines. The columns of each are process, time stamp and the values of
    the entry; those of `stored_...` have the name and time stamp of a container (b"": none) before
    these. `colours`: so many of the stored have terminal colours."""

    engines: Lines = field(default_factory=Lines)
    speculation: Lines = field(default_factory=Lines)
    stored_engines: Lines = field(default_factory=Lines)
    stored_speculation: Lines = field(default_factory=Lines)
    colours: int = 0

    def __len__(self) -> int:
        return sum(map(len, self._kinds()))

    def _kinds(self) -> tuple[Lines, ...]:
        return self.engines, self.speculation, self.stored_engines, self.stored_speculation

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
        prefixes = Counter({"none": len(self.engines) + len(self.speculation), "colours": self.colours})
        for lines in (self.stored_engines, self.stored_speculation):
            for kind, column in zip(("compose", "container time"), lines.columns, strict=False):
                prefixes[kind] += sum(map(bool, column))
        return prefixes


def read_usual(window: Window, places: Places) -> tuple[Usual, list[int]]:
    """The usual lines at these places, and the places of everything else, in order."""
    usual = Usual()
    rest = [*places.others]
    for where, patterns in ((places.engines, _ENGINES), (places.speculation, _SPECULATION)):
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
    speculation = patterns is _SPECULATION
    rows = plain.findall(b"\n".join(texts))
    if len(rows) == len(texts) and (not speculation or all(map(_is_possible, rows))):
        (usual.speculation if speculation else usual.engines).extend([base + start for start in starts], zip(*rows, strict=True))
        return []
    found: dict[re.Pattern[bytes], list[tuple[int, Row]]] = {plain: [], stored: []}
    rest = []
    for place, start, text in zip(places, starts, texts, strict=True):
        match = plain.fullmatch(text) or stored.fullmatch(text)
        if match is None or (speculation and not _is_possible(match.groups())):
            rest.append(place)
        else:
            found[match.re].append((base + start, tuple(map(bytes, match.groups(b"")))))
            usual.colours += b"\x1b" in text
    for pattern, lines in (
        (plain, usual.speculation if speculation else usual.engines),
        (stored, usual.stored_speculation if speculation else usual.stored_engines),
    ):
        if found[pattern]:
            offsets, groups = zip(*found[pattern], strict=True)
            lines.extend(offsets, zip(*groups, strict=True))
    return rest


def _is_possible(row: Row) -> bool:
    """True unless more tokens were accepted than drafted."""
    return int(row[_ACCEPTED]) <= int(row[_DRAFTED])
