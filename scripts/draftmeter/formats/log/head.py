"""What stands before an entry on its line: the server's own head, and what carried the line here.

The head is "(APIServer pid=71) INFO 11-30 05:11:52 [metrics.py:120] ". Its file name tells the
statistics logger from a logged prompt that quotes one. Before it may stand any chain of what
compose, containers, journald, syslog, grep or a progress bar put there; anything else means that
something quotes the entry. A head may have lost its beginning.
"""

import re
from dataclasses import dataclass

FILES = (b"metrics", b"loggers")

_ESCAPE = rb"(?:\x1b|\^\[|\\x1b|\\u001[bB]|\\033|\\e|#033)"
# Also without its escape character, as some tools leave a colour.
_COLOUR = re.compile(_ESCAPE + rb"\[[0-9;?]*[A-Za-z]|\[(?:0|\d{1,3}(?:;\d{1,3})+|[1-9]\d?)m")

_MONTH_DAY = (
    rb"(?:02-(?:0[1-9]|[12]\d)|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    rb"|(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01]))"
)
_TIME = _MONTH_DAY + rb" (?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d"
_VALID_TIME = re.compile(_TIME)


def _pattern(*, file: bytes, stamp: bytes, colour: bytes = b"") -> bytes:
    """Of a head whose groups are `process`, `stamp`, and what `file` has; `colour` may stand where
    a terminal's colours begin and end."""
    parts = (
        rb"(?:~\((?P<process>[\w.:-]+ pid=\d+)(?:, [^()]*)?\)~ )?",
        rb"~(?:INFO|DEBUG)~ ",
        rb"~(?P<stamp>" + stamp + rb")~ ",
        rb"~\[?(?:[\w.]+/)*" + file + rb"\.py:\d+\]~ ",
    )
    return b"".join(parts).replace(b"~", colour)


_HEAD = _pattern(file=rb"(?P<file>" + b"|".join(FILES) + rb")", stamp=rb"\d\d-\d\d \d\d:\d\d:\d\d")
HEAD = re.compile(_HEAD)
_LOOSE_HEAD = re.compile(_HEAD.replace(b" ", b" *"))
# A text is the end of a head if some beginning of these makes it one.
_EXAMPLES = tuple(b"(APIServer pid=1) INFO 01-01 00:00:00 [%s.py:1] " % file for file in FILES)

ISO = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_DATE = rb"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?"
_SENDER = rb"[\w.-]+ [\w.@/()-]+(?:\[\d+\])?: "
_COMPOSE = rb"(?P<name>[\w.-]+) *\| "
_CONTAINER_TIME = rb"\[?(?P<iso>" + ISO + rb")\]? (?:std(?:out|err) [FP] |\| )?"
_PREFIXES = (
    ("byte order mark", rb"\xef\xbb\xbf"),
    ("indented", rb"[ \t]+"),
    ("syslog", rb"<\d{1,3}>1 (?P<iso>" + ISO + rb") \S+ \S+ \S+ \S+ (?:-|\[[^\]]*\]) "),
    ("syslog", rb"<\d{1,3}>(?:" + _DATE + rb"|(?P<iso>" + ISO + rb")) " + _SENDER),
    ("journald", rb"(?:" + _DATE + rb"|(?:[A-Z][a-z]{2} )?(?P<iso>" + ISO + rb")(?: [A-Z]{3,5})?) " + _SENDER),
    ("container time", _CONTAINER_TIME),
    ("pod", rb"\[(?P<name>pod/[\w.-]+/[\w.-]+)\] "),
    ("compose", _COMPOSE),
    ("grep", rb"(?:[\w./~+@-]+:)?\d+[:-]|[\w./~+@-]+\.\w+:"),
    ("outer process", rb"\([\w.:-]+ pid=\d+(?:, [^()]*)?\) (?=\()"),
    ("progress bar", rb"[^\r\n]*?\d+%\|[^|\r\n]*\| *\S+ \[[^\]\r\n]*\] ?"),
    ("progress bar", rb"[^\r\n|]{0,80}\d+it \[[^\]\r\n]*\] ?"),
    ("progress bar", rb"\[?[^\r\n|\[\]]{0,80}(?:it/s|s/it|toks/s)\] ?"),  # its end
)
PREFIXES = tuple((kind, re.compile(pattern)) for kind, pattern in _PREFIXES)
_LONGEST_CHAIN = 6


def usual_heads(file: bytes) -> tuple[bytes, bytes]:
    """Patterns of the heads of this source file that most logs have, from the line's beginning on.

    One is of a line as the server prints it, with the groups `process` and `stamp`; the other of
    one that a container's tools stored or a terminal coloured, with `name` and `iso` before these.
    """
    plain = _pattern(file=file, stamp=_TIME)
    coloured = _pattern(file=file, stamp=_TIME, colour=rb"(?:\x1b\[[0-9;]*m)?")
    return plain, b"(?:%s)?(?:%s)?%s" % (_COMPOSE, _CONTAINER_TIME, coloured)


@dataclass(frozen=True, slots=True)
class Outer:
    """A chain of prefixes: its kinds, its length in bytes, its first time stamp with a year and the name of the container or
    pod (both b"" where it has none)."""

    kinds: tuple[str, ...]
    length: int
    iso: bytes
    name: bytes


@dataclass(frozen=True, slots=True)
class Head:
    """What stands before an entry. `process`, `stamp` ("11-30 05:11:52") and `file` are b"" where the text lacks them."""

    process: bytes
    stamp: bytes
    file: bytes
    outer: Outer
    cut: bool


NO_OUTER = Outer((), 0, b"", b"")


def without_colours(text: bytes) -> bytes:
    """The text without terminal colours, written in any of the usual ways."""
    return _COLOUR.sub(b"", text) if b"[" in text and b"m" in text else text


def read_head(text: bytes, *, loose: bool = False) -> Head | None:
    """The head that is the whole of `text`, which stands before an entry on its line; None if it is none."""
    pattern = _LOOSE_HEAD if loose else HEAD
    match = pattern.fullmatch(text)
    if match is not None:
        return _whole(match, NO_OUTER)
    outer = read_outer(text, loose=loose)
    if outer.length and (match := pattern.fullmatch(text, outer.length)):
        return _whole(match, outer)
    return _read_cut(pattern, text, NO_OUTER) or (_read_cut(pattern, text[outer.length :], outer) if outer.length else None)


def read_outer(text: bytes, *, loose: bool = False) -> Outer:
    """The chain of prefixes with which `text` begins."""
    kinds: list[str] = []
    iso = name = b""
    at = 0
    head = _LOOSE_HEAD if loose else HEAD
    while len(kinds) < _LONGEST_CHAIN and not head.match(text, at):
        for kind, pattern in PREFIXES:
            match = pattern.match(text, at)
            if match is not None and match.end() > at:
                kinds.append(kind)
                groups = match.groupdict()
                iso, name = iso or groups.get("iso") or b"", name or groups.get("name") or b""
                at = match.end()
                break
        else:
            break
    return Outer(tuple(kinds), at, iso, name)


def _whole(match: re.Match[bytes], outer: Outer) -> Head:
    return Head(_process(match), _stamp(match), match["file"], outer, cut=False)


def _read_cut(pattern: re.Pattern[bytes], text: bytes, outer: Outer) -> Head | None:
    if len(text) > len(_EXAMPLES[0]) + 80:
        return None
    if not text:
        return Head(b"", b"", b"", outer, cut=True)
    for example in _EXAMPLES:
        for lost in range(1, len(example)):
            match = pattern.fullmatch(example[:lost] + text)
            if match is not None:
                process = _process(match) if match["process"] and match.start("process") > lost else b""
                stamp = _stamp(match) if match.start("stamp") >= lost else b""
                return Head(process, stamp, match["file"] if match.start("file") >= lost else b"", outer, cut=True)
    return None


def _process(match: re.Match[bytes]) -> bytes:
    process = match["process"]
    return b"" if process is None else re.sub(rb" *pid", b" pid", process)


def _stamp(match: re.Match[bytes]) -> bytes:
    stamp = match["stamp"].replace(b" ", b"")
    return stamp[:5] + b" " + stamp[5:]


def is_time(stamp: bytes) -> bool:
    """True if there is such a time in some year."""
    return _VALID_TIME.fullmatch(stamp) is not None
