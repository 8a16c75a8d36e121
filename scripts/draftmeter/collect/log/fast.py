"""The usual statistics lines of a window, all at once: the wording since 0.10.2, with nothing unusual before or in them.

What the patterns do not match is no worse off: the careful reader in `records` takes it.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from draftmeter.collect.log.heads import ISO, STAMP
from draftmeter.collect.log.scan import Places
from draftmeter.collect.log.window import Window

_OUTER = rb"(?:([\w.-]+) *\| )?(?:(" + ISO + rb") (?:std(?:out|err) [FP] )?)?"
_COLOUR = rb"(?:\x1b\[[0-9;]*m)?"
# "~" stands for a place where a colour may begin or end.
_HEAD = rb"(?:~\(([\w.:-]+ pid=\d+)\)~ )?~(?:INFO|DEBUG)~ ~(" + STAMP + rb")~ ~\[(?:[\w.]+/)*FILE\.py:\d+\]~ "
_NUMBER = rb"(\d{1,12}\.\d{1,9})"
_COUNT = rb"(\d{1,15})"
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
    """Of a numbered line as the server prints it, and of one that a container's tools stored or a terminal coloured."""
    head = _HEAD.replace(b"FILE", file)
    whole = (rb"^(\d+)\t" + head.replace(b"~", b"") + body, rb"^(\d+)\t" + _OUTER + head.replace(b"~", _COLOUR) + body)
    return re.compile(whole[0] + rb"\r?$", re.MULTILINE), re.compile(whole[1] + rb"\r?$", re.MULTILINE)


_RECORDS = _patterns(b"metrics", _RECORD)
_ENGINES = _patterns(b"loggers", _ENGINE_LINE)
_ACCEPTED, _DRAFTED = -4, -3  # of the groups of a record
_LONGEST = 1_500

Row = tuple[bytes, ...]


@dataclass(slots=True)
class Lines:
    """Usual lines of one kind: the bytes at which they begin, and what they say.

    A row of `plain` is a number, process, time stamp and the body's values; a row of `stored` has the name and time stamp of
    the container behind its number. What is missing is b"".
    """

    plain_offsets: list[int] = field(default_factory=list)
    plain: list[Row] = field(default_factory=list)
    stored_offsets: list[int] = field(default_factory=list)
    stored: list[Row] = field(default_factory=list)
    colours: int = 0

    def __len__(self) -> int:
        return len(self.plain) + len(self.stored)

    def extend(self, more: "Lines") -> None:
        """Add lines that follow these in the file."""
        self.plain_offsets += more.plain_offsets
        self.plain += more.plain
        self.stored_offsets += more.stored_offsets
        self.stored += more.stored


@dataclass(frozen=True, slots=True)
class Usual:
    """The usual Engine lines and records of a window."""

    engines: Lines = field(default_factory=Lines)
    records: Lines = field(default_factory=Lines)

    def kinds(self) -> Counter[str]:
        """What stood before them, and how often."""
        kinds: Counter[str] = Counter()
        for lines in (self.engines, self.records):
            kinds["none"] += len(lines.plain)
            kinds["compose"] += sum(bool(row[1]) for row in lines.stored)
            kinds["container time"] += sum(bool(row[2]) for row in lines.stored)
            kinds["colours"] += lines.colours
        return kinds


def read_usual(window: Window, places: Places) -> tuple[Usual, list[int]]:
    """The usual lines at these places, and the places of everything else, in order."""
    engines, other = _read_lines(window, places.engines, _ENGINES)
    records, rest = _read_lines(window, places.records, _RECORDS)
    return Usual(engines, records), sorted((*other, *rest, *places.others))


def _read_lines(window: Window, places: list[int], patterns: tuple[re.Pattern[bytes], ...]) -> tuple[Lines, list[int]]:
    found = Lines()
    if not places:
        return found, []
    data, base = window.data, window.base
    starts = [data.rfind(b"\n", 0, place) + 1 for place in places]
    ends = [data.find(b"\n", place) for place in places]
    if starts[0] == 0 and window.opening is not None:
        starts[0] = places[0]  # the line begins before the window: as good as cut
    texts = [data[start:end] if end - start < _LONGEST else b"" for start, end in zip(starts, ends, strict=True)]
    left: Sequence[int] = range(len(places))
    for pattern, offsets, rows in (
        (patterns[0], found.plain_offsets, found.plain),
        (patterns[1], found.stored_offsets, found.stored),
    ):
        rows += pattern.findall(b"\n".join([b"%d\t%b" % (index, texts[index]) for index in left]))
        if patterns is _RECORDS:
            rows[:] = [row for row in rows if int(row[_ACCEPTED]) <= int(row[_DRAFTED])]
        taken = [int(row[0]) for row in rows]
        offsets += [base + starts[index] for index in taken]
        if len(taken) == len(left):
            left = ()
            break
        left = sorted(set(left).difference(taken))
    found.colours = sum(b"\x1b" in row for row in map(texts.__getitem__, map(int, (row[0] for row in found.stored))))
    return found, [places[index] for index in left]
