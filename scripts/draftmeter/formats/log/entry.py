"""One entry around a place in the file, whatever stands before it and however its lines were broken.

A place is where a word of an entry was found. The entry is read from the line there; if that is not all of it, the lines
around are tried as its parts: broken anywhere, broken at a space, or each with the prefix of its first line. What cannot be
read is refused with a reason; the reason never quotes the text, for it may be a prompt.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from draftmeter.formats.log.embedded import Printed, find_printed, string_of_lines
from draftmeter.formats.log.head import HEAD, PREFIXES, Head, is_time, read_head, read_outer, without_colours
from draftmeter.formats.log.key_values import BETWEEN, State
from draftmeter.formats.log.window import REACH, Line, Window
from draftmeter.formats.log.wordings import (
    BEGINNING,
    ENGINE,
    LOOSE_BEGINNING,
    NEW,
    OLD,
    OLD_NAME,
    WORDS,
    EngineLine,
    Speculation,
    read_engine_line,
    read_speculation,
)

_MOST_PARTS = 24
_MOST_PARTS_BEFORE = 6

_PROCESS_LAST = re.compile(rb"pid=\d+\)(?:\x1b\[[\d;]*m)?\s*\Z")
# Of keys that are not known, only those that are made of the words of statistics, with a number.
_PLAIN_WORDS = (
    b"Accepted|Acceptance|Active|Average|Avg|Bonus|By|Current|Depth|Draft|Drafted|Drafter|Drafts|Efficiency|Emitted|Generated|"
    b"Generation|K|Latency|Length|Max|Mean|Method|Min|Model|Num|Number|Of|Per|Position|Proposed|Rate|Rejected|Request|Requests|"
    b"Sequence|Speculation|Speculative|Step|Steps|System|Target|Throughput|Time|Token|Tokens|Total|Verification|Verified|Window"
)
_PLAIN_KEY_VALUE = re.compile(
    rb"(?:W)(?: (?:W)){0,5}: -?\d{1,15}(?:\.\d{1,9})?(?:%| tokens/s| tokens| reqs| ms| s)?".replace(b"W", _PLAIN_WORDS),
    re.IGNORECASE,
)
_ENDS = (b",", b".")
_WORDS_AS_TEXT = tuple(word.decode() for word in WORDS)
_ENDS_OF_JSON = (b"}", b"},", b"]", b"],")
# A line that begins another message is no part of a broken one.
_OTHER_MESSAGE = re.compile(rb"pid=\d+\)|\b(?:INFO|DEBUG|WARNING|ERROR|CRITICAL)\b(?: \d\d-\d\d|:)|Traceback \(")
NOT_PRINTED = "the words of a statistics line, but not as the statistics logger prints them"


class Place(NamedTuple):
    """Where an entry stands: its byte, its process (name of the container, zero byte, process) and its time stamps.

    `stamp` is the server's ("11-30 05:11:52"), `iso` a container's or journal's; either may be b"". `last`: nothing
    follows the entry, not even a line end.
    """

    offset: int
    process: bytes
    stamp: bytes
    iso: bytes
    last: bool


class Taken(NamedTuple):
    """An entry that was read, the kinds of what was done to it on its way, and the byte at which it ends."""

    place: Place
    entry: Speculation | EngineLine
    kinds: tuple[str, ...]
    end: int


class Refused(NamedTuple):
    """A place that looked like an entry: its bytes from `start` up to `end`, why it is not read, and whether it was cut."""

    start: int
    end: int
    reason: str
    cut: bool = False


class Attempt(NamedTuple):
    """What a text gives as an entry. Without an entry and a reason, the text holds no name of an entry."""

    state: State
    reason: str
    printed: Printed
    head: Head | None = None
    entry: Speculation | EngineLine | None = None
    unknown: int = 0  # keys
    name_at: int = 0  # where its name stands in the printed text

    @property
    def head_cut(self) -> bool:
        """True if the text before the entry is no whole head."""
        return self.head is None or self.head.cut


def read_entry(window: Window, place: int) -> Taken | Refused | None:
    """The entry in which `place` lies; None if nothing there claims to be one."""
    line = window.line_at(place)
    if (inside := string_of_lines(window, line, place)) is not None:
        outcome = read_entry(*inside)
        return outcome._replace(kinds=(*outcome.kinds, "JSON string")) if isinstance(outcome, Taken) else outcome
    alone = read_text(window.text(line), window.position(line, place), line)
    if alone.printed.quoted or _quotes(alone):
        return _refused(window, line, alone)
    whole = alone.state is State.WHOLE and not _goes_on(window, line)
    if whole and not alone.head_cut and not _lacks_process(window, line, alone):
        return _taken(window, [line], alone)
    joined = _best(window, _joined(window, line, place, alone, whole))
    if joined is not None and joined[1].state is State.WHOLE and not (whole and joined[1].head_cut):
        return _taken(window, *joined, "wrapped")
    for lines, attempt in (([line], alone), *((joined,) if joined else ())):
        if attempt.entry is not None:
            kinds: tuple[str, ...] = ("cut head",) if attempt.head_cut and attempt.head is not None and attempt.head.file else ()
            kinds += ("cut tail",) if attempt.state is State.CUT else ()
            return _taken(window, lines, attempt, *kinds, *(("wrapped",) if len(lines) > 1 else ()))
    return _refused(window, line, alone) if alone.reason else None


def _refused(window: Window, line: Line, attempt: Attempt) -> Refused:
    start, end = (window.base + line.start + at for at in (attempt.printed.start, attempt.printed.end))
    return Refused(start, end, attempt.reason, attempt.state is State.CUT)


def _quotes(attempt: Attempt) -> bool:
    """True if text that is no part of a head stands directly before the entry, so that no line before can make it one."""
    return attempt.reason == NOT_PRINTED and not attempt.printed.text[: attempt.name_at].rstrip().endswith(b"]")


def read_text(text: bytes, at: int, line: Line, *, loose: bool = False) -> Attempt:
    """The entry of which a word stands at position `at` of a text that begins with `line`."""
    printed = find_printed(text, at, opening=line.opening, first=line.first)
    if printed.quoted:
        return Attempt(State.BAD, printed.quoted, printed)
    match = (LOOSE_BEGINNING if loose else BEGINNING).search(printed.text)
    if match is None:
        return Attempt(State.CUT, "", printed)
    head = read_head(printed.text[: match.start()], loose=loose)
    if head is None:
        return Attempt(State.BAD, NOT_PRINTED, printed, name_at=match.start())
    if head.stamp and not is_time(head.stamp):
        return Attempt(State.BAD, "its time is a time of no year", printed)
    body = printed.text[match.end() :]
    if not match["name"]:
        reading = read_engine_line(match["label"] or b"", body, loose=loose)
    elif head.file == b"loggers":
        return Attempt(State.BAD, NOT_PRINTED, printed)
    else:
        reading = read_speculation(match["name"], body, loose=loose)
    return Attempt(reading.state, reading.problem, printed, head, reading.entry, reading.unknown, match.start())


def _goes_on(window: Window, line: Line) -> bool:
    """True if the next line begins with a comma: the entry was broken before it."""
    after = window.line_after(line)
    if after is None:
        return False
    text = bytes(window.data[after.start : min(after.end, after.start + 200)])
    return b"," in text and (text.lstrip().startswith(b",") or text.startswith(b",", read_outer(text).length))


def _lacks_process(window: Window, line: Line, attempt: Attempt) -> bool:
    """True if the head has no process but the line before ends with one."""
    if attempt.head is None or attempt.head.process:
        return False
    before = window.line_before(line)
    return before is not None and _PROCESS_LAST.search(window.text(before)) is not None


_Candidate = tuple[list[Line], Attempt]


def _best(window: Window, candidates: Iterator[_Candidate]) -> _Candidate | None:
    """The most believable reading: whole, with a whole head that names a process, with the fewest unknown keys."""
    best, best_rank = None, None
    for lines, attempt in candidates:
        named = attempt.head is not None and attempt.head.process != b""
        rank = (attempt.state is State.WHOLE, not attempt.head_cut, named, -attempt.unknown)
        if best_rank is None or rank > best_rank:
            best, best_rank = (lines, attempt), rank
        if rank[:2] == (True, True) and not attempt.unknown and not _lacks_process(window, lines[0], attempt):
            break
    return best


def _joined(window: Window, line: Line, place: int, alone: Attempt, whole: bool) -> Iterator[_Candidate]:
    """Ways of reading the lines around as parts of one entry.

    If the entry is `whole` but for its head, only its beginning is looked for.
    """
    before = _parts_before(window, line, bare=whole and alone.name_at == 0)
    after = [] if whole or alone.printed.closed else _parts_after(window, line)
    if (alone.state is State.BAD and alone.head is not None) or not (before or after):
        return
    for join, loose in _JOINS:
        for count in range(len(before) + 1):
            lines = [*before[len(before) - count :], line]
            candidate = _grown(window, lines, after, count, window.position(line, place), join, loose)
            if candidate is not None:
                yield candidate
                if not candidate[1].head_cut and not _lacks_process(window, lines[0], candidate[1]):
                    break


def _grown(
    window: Window, lines: list[Line], after: list[Line], index: int, at: int, join: "_Join", loose: bool
) -> _Candidate | None:
    """The lines, of which number `index` holds the place, with as many of the lines after them as make an entry whole."""
    best: _Candidate | None = None
    for part in (None, *after):
        lines = lines if part is None else [*lines, part]
        if len(lines) == 1:
            continue
        attempt = read_text(*join([window.text(one) for one in lines], index, at), lines[0], loose=loose)
        if attempt.state is State.BAD:
            break
        if attempt.state is State.WHOLE and _goes_on(window, lines[-1]):
            best = best or (lines, attempt._replace(state=State.CUT))
            continue
        if attempt.entry is not None and (best is None or attempt.state is State.WHOLE or best[1].state is not State.WHOLE):
            best = lines, attempt
        if attempt.printed.closed or (attempt.state is State.WHOLE and not _may_go_on(lines, attempt)):
            break
    return best


def _may_go_on(lines: list[Line], attempt: Attempt) -> bool:
    """True if the next line may belong to an entry that is whole: a value, of which the shape is unknown, ends with a line
    that is about as long as the others."""
    lengths = [line.end - line.start for line in lines]
    return attempt.unknown > 0 and 2 * lengths[-1] > max(lengths)


def _parts_before(window: Window, line: Line, *, bare: bool) -> list[Line]:
    """Lines that may hold the beginning of this one, in file order. A `bare` line begins with an entry's name, so its whole
    head would be before it."""
    parts: list[Line] = []
    part: Line | None = line
    while part is not None and len(parts) < _MOST_PARTS_BEFORE:
        part = window.line_before(part)
        if part is None or line.end - part.start > REACH:
            break
        text = window.text(part).rstrip()
        if not text or text.endswith(_ENDS_OF_JSON) or (bare and not parts and not without_colours(text).endswith(b"]")):
            break
        parts.insert(0, part)
        if _OTHER_MESSAGE.search(text):
            break
    return parts


def _parts_after(window: Window, line: Line) -> list[Line]:
    """Lines that may go on with this one."""
    parts: list[Line] = []
    part: Line | None = line
    while part is not None and len(parts) < _MOST_PARTS:
        part = window.line_after(part)
        if part is None or part.end - line.start > REACH:
            break
        text = window.text(part)
        if not text.strip() or _OTHER_MESSAGE.search(text):
            break
        parts.append(part)
    return parts


_Join = Callable[[list[bytes], int, int], tuple[bytes, int]]


def _directly(parts: list[bytes], index: int, at: int) -> tuple[bytes, int]:
    """Parts as they are, and where position `at` of part number `index` is then."""
    return b"".join(parts), sum(map(len, parts[:index])) + at


def _with_space(parts: list[bytes], index: int, at: int) -> tuple[bytes, int]:
    return b" ".join(parts), sum(map(len, parts[:index])) + index + at


def _without_prefix(parts: list[bytes], index: int, at: int) -> tuple[bytes, int]:
    """Parts without the kinds of prefix that the first one has."""
    outer = read_outer(parts[0])
    lengths = [0, *(_length_of(part, parts[0][: outer.length], outer.kinds) for part in parts[1:])]
    bare = [part[length:] for part, length in zip(parts, lengths, strict=True)]
    return b"".join(bare), sum(map(len, bare[:index])) + max(at - lengths[index], 0)


def _length_of(part: bytes, prefix: bytes, kinds: tuple[str, ...]) -> int:
    if part.startswith(prefix):
        return len(prefix)
    end = 0
    for kind in kinds:
        matches = [match.end() for name, pattern in PREFIXES if name == kind and (match := pattern.match(part, end))]
        if not matches:
            break
        end = matches[0]
    return end


_JOINS = ((_directly, False), (_with_space, False), (_without_prefix, False), (_directly, True))


def _taken(window: Window, lines: list[Line], attempt: Attempt, *kinds: str) -> Taken:
    head, entry = attempt.head, attempt.entry
    assert head is not None and entry is not None
    start, end = lines[0].start, lines[-1].end
    if len(lines) == 1:
        start, end = start + attempt.printed.start, start + attempt.printed.end
    last = window.last and end == len(window.data)
    iso = head.outer.iso or attempt.printed.outer.iso
    name = head.outer.name or attempt.printed.outer.name
    place = Place(window.base + start, name + b"\0" + head.process, head.stamp, iso, last)
    return Taken(place, entry, (*attempt.printed.outer.kinds, *head.outer.kinds, *kinds), window.base + end)


def is_statistics_line(line: str) -> bool:
    """True for an entry as the statistics logger prints it, with nothing before it, and for nothing else in a log.

    A logged prompt may hold any text, even a whole line such as these, but another source file prints it.
    """
    if not any(word in line for word in _WORDS_AS_TEXT):
        return False
    text = line.rstrip().encode(errors="replace")
    head = HEAD.match(text)
    beginning = BEGINNING.match(text, head.end()) if head else None
    if head is None or beginning is None or (beginning["name"] and head["file"] == b"loggers"):
        return False
    return beginning.end() < len(text) and b"\n" not in text and b"\r" not in text


def statistics_text(line: str) -> str | None:
    """The entry of a line, whatever stands before it: its head and its key-values, nothing else.

    None if the line holds no whole entry that the statistics logger printed. What no key has ever been (a prompt, a
    reply) is never in it, nor the names of containers and hosts.
    """
    text = line.rstrip("\r\n").encode(errors="replace")
    at = min((at for at in map(text.find, WORDS) if at >= 0), default=-1)
    if at < 0:
        return None
    attempt = read_text(text, at, Line(0, len(text)))
    if attempt.entry is None or attempt.head is None or attempt.state is not State.WHOLE:
        return None
    printed = attempt.printed.text
    head = b"" if attempt.head.cut else printed[attempt.head.outer.length : attempt.name_at]
    match = BEGINNING.match(printed, attempt.name_at)
    if match is None:
        return None
    rest = printed[match.end() :].rstrip()
    grammar = ENGINE if not match["name"] else OLD if match["name"] == OLD_NAME else NEW
    end = next((end for end in _ENDS if rest.endswith(end)), b"")
    parts = [part for part in BETWEEN.split(rest.removesuffix(end)) if grammar.holds(part) or _PLAIN_KEY_VALUE.fullmatch(part)]
    return (head + match[0] + b", ".join(parts) + end).decode()
