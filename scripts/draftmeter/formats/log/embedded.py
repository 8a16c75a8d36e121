"""From a line of the file to the line that the server printed: carriage returns, and JSON strings that hold log lines.

A JSON object a line, a whole log in one JSON string, and JSON within JSON are unwrapped as often as the text asks for it.
A logged prompt is not: what a plain line quotes keeps its escapes, and only keys that hold log lines are opened.
"""

import re
from dataclasses import dataclass

from draftmeter.formats.log.head import ISO, NO_OUTER, Outer, read_outer, without_colours
from draftmeter.formats.log.window import Line, Window

_JSON = re.compile(rb'[ \t]*(?:[\[{][\[{ \t]*)?"')
_TIME = re.compile(rb'"(?:time|timestamp|@timestamp|ts|asctime|__time)" *: *"(' + ISO + rb')"', re.IGNORECASE)
_KEY = re.compile(rb'"((?:[^"\\]|\\.)*)"[ \t]*:[ \t]*\Z')
_LIST_KEY = re.compile(rb'"([\w.@-]*)"[ \t]*:[ \t]*\[')
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|(.?))", re.DOTALL)
_LINE_END = re.compile(rb"((?<!\\)(?:\\\\)*)\\n")
_QUOTE = re.compile(rb'(?<!\\)(?:\\\\)*"')
_JSON_END = re.compile(rb'"[ \t]*[\]}]*[ \t]*,?[ \t\r]*\Z')
_PLAIN = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}
_QUOTES_TRAFFIC = re.compile(rb"Received request|Generated response|prompt: |output: ")
_DEEPEST = 3
_LONGEST_OBJECT = 20_000
_OPENING = 200
# Keys under which log shippers store a line. Any other may hold a prompt or a reply.
_LOG_KEYS = frozenset(
    b"log logs line lines log_line message @message msg full_message short_message event original body raw _raw textpayload "
    b"text_payload stdout stderr".split()
)


@dataclass(frozen=True, slots=True)
class Printed:
    """A line as the server printed it, without colours.

    It lies from `start` up to `end` in the text given. `outer`: what it was wrapped in, and what stood before that;
    `closed`: its end is marked, it is not just the text's. `quoted` says why the text cannot be the server's own, or is "".
    """

    text: bytes
    start: int
    end: int
    outer: Outer = NO_OUTER
    closed: bool = False
    quoted: str = ""


@dataclass(frozen=True, slots=True)
class StringWindow(Window):
    """The inside of a JSON string of many lines, with line ends in the place of the escaped ones."""

    def text(self, line: Line) -> bytes:
        """The line without its end and without escapes."""
        return unescape(bytes(self.data[line.start : line.end]).removesuffix(b"\r"))

    def position(self, line: Line, place: int) -> int:
        """Where the byte at `place` stands in the text of its line."""
        return len(unescape(bytes(self.data[line.start : place])))


def string_of_lines(window: Window, line: Line, place: int) -> tuple[Window, int] | None:
    """The window of the JSON string of many lines that holds `place`, and the place in it; None if there is no such."""
    for left, right, inside in window.strings:
        if left <= place < right:
            return inside, place - left
    data = window.data
    if data.find(b"\\n", line.start, line.end) < 0:
        return None
    start = data.rfind(b"\n", 0, place) + 1
    opening = bytes(data[start : min(place, start + _OPENING)]) if start or window.opening is None else window.opening
    end = data.find(b"\n", place)
    within = window.base + start == 0 and _ends_json(bytes(data[place : None if end < 0 else end]), end < 0 and not window.last)
    before = bytes(data[start:place]) if within or _opens_json(opening) else b""
    if not before or (not _opens_json(opening) and not _may_be_in_json(before, opening)):
        return None
    beginning = before if start or window.opening is None else window.opening
    quotes = [match.end() for match in _QUOTE.finditer(data, start, place)]
    left = quotes[-1] if quotes else start
    closing = _QUOTE.search(data, place)
    right = len(data) if closing is None else closing.end() - 1
    text = bytes(data[left:right])
    if _key_problem(before[: left - start] if quotes else b"", beginning) or _next_mark(text, 0, b"\\n") >= len(text) - 2:
        return None
    # Of the same length, so that every byte keeps its place.
    text = text.replace(b"\\n", b"\r\n") if b"\\\\" not in text else _LINE_END.sub(rb"\1\r\n", text)
    inside = StringWindow(text, window.base + left, 0, len(text), None if quotes else b"", window.last and closing is None)
    window.strings.append((left, right, inside))
    return inside, place - left


def find_printed(text: bytes, at: int, *, opening: bytes | None = None, first: bool = False) -> Printed:
    """The printed line around position `at` of the line `text` of the file.

    `opening` is the true beginning of a line that is too long to be all in `text`; `first`: the line is the file's first
    and may have lost its beginning.
    """
    kinds: tuple[str, ...] = ()
    iso = name = b""
    start, stop, line, position, closed = 0, len(text), text, at, False
    for depth in range(_DEEPEST):
        beginning = line[:position] if depth or opening is None else opening
        within = first and not depth and _ends_json(line[position:], opening is not None)
        if not (_opens_json(beginning) or (within and _may_be_in_json(line[:position], beginning))):
            break
        quote = _last_mark(line[:position], b'"')
        if problem := _key_problem(line[:quote], beginning):
            return Printed(b"", start, stop, quoted=problem)
        left = max(quote, _last_mark(line[:position], b"\\n"))
        right = min(_next_mark(line, position, b'"'), _next_mark(line, position, b"\\n"))
        if not depth:
            start, stop, closed = left, right, right < len(line)
        kinds += ("JSON string" if line[left - 2 : left] == rb"\n" else "JSON",)
        if len(line) < _LONGEST_OBJECT and not iso and (time := _TIME.search(line)):
            iso = time[1]
        line, position = unescape(line[left:right]), len(unescape(line[left:position]))
    embedded = bool(kinds)
    left, right = line.rfind(b"\r", 0, position) + 1, line.find(b"\r", position)
    if left:
        outer = read_outer(without_colours(line[:left]))
        kinds, iso, name = (*kinds, *outer.kinds, "carriage return"), iso or outer.iso, outer.name
    if not embedded:
        start, stop, closed = left, len(text) if right < 0 else right, right >= 0
    line = line[left:] if right < 0 else line[left:right]
    printed = without_colours(line)
    kinds += ("colours",) if len(printed) < len(line) else ()
    return Printed(printed, start, stop, Outer(kinds, 0, iso, name), closed)


def _opens_json(beginning: bytes) -> bool:
    quote = beginning.find(b'"')
    if quote < 0:
        return False
    return _JSON.match(beginning) is not None or _JSON.match(beginning, read_outer(beginning[: quote + 1]).length) is not None


def _ends_json(after: bytes, goes_on: bool) -> bool:
    """True if a line that may begin within a JSON string ends as one does, or goes on out of reach."""
    return goes_on or _JSON_END.search(after[-200:]) is not None


def _may_be_in_json(before: bytes, beginning: bytes) -> bool:
    """For a file that begins within a JSON string: escaped line ends, and no sign of a prompt before the first of them."""
    return rb"\n" in before and not _QUOTES_TRAFFIC.search(beginning.partition(rb"\n")[0])


def _key_problem(before: bytes, beginning: bytes) -> str:
    """Why the key of a JSON string says that it holds no log lines, or "". `before` ends with the string's opening quote; if
    that is out of reach it is empty, and the last quote of the `beginning` counts."""
    opened = before[:-1] if before else beginning[: max(_last_mark(beginning, b'"') - 1, 0)]
    match = _KEY.search(opened[-200:])
    lists = [] if match else _LIST_KEY.findall(opened)
    key = match[1] if match else lists[-1] if lists else b"log"
    return "" if key.lower() in _LOG_KEYS else "it stands in a JSON text under a key that holds no log lines"


def _last_mark(text: bytes, mark: bytes) -> int:
    """The end of the last `mark` that no backslash escapes; 0 if there is none."""
    at = text.rfind(mark)
    while at >= 0 and _escaped(text, at):
        at = text.rfind(mark, 0, at)
    return 0 if at < 0 else at + len(mark)


def _next_mark(text: bytes, at: int, mark: bytes) -> int:
    """The first `mark` from `at` on that no backslash escapes; the text's end if there is none."""
    end = text.find(mark, at)
    while end >= 0 and _escaped(text, end):
        end = text.find(mark, end + 1)
    return len(text) if end < 0 else end


def _escaped(text: bytes, at: int) -> bool:
    before = text[max(at - 64, 0) : at]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1


def unescape(text: bytes) -> bytes:
    """The text that stands escaped in a JSON string."""
    return _ESCAPE.sub(_character, text) if b"\\" in text else text


def _character(match: re.Match[bytes]) -> bytes:
    if match[1]:
        return chr(int(match[1], 16)).encode("utf-8", "surrogatepass")
    return _PLAIN.get(match[2], match[2])
