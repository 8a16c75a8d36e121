"""A stream of bytes to windows, and the places in each at which an entry of the statistics may stand.

Entries are rare, so what counts is how fast the rest is passed over: a few literal words are
searched, nothing else is looked at. A word that was broken over two lines is found in the text
without its white space; that is done until the first whole entry shows that the file is not
wrapped, and wherever an entry is broken.
"""

import ctypes
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

import numpy as np

from draftmeter.formats.log.head import FILES, without_colours
from draftmeter.formats.log.wordings import BEGINNINGS, WORDS

Data = bytes | bytearray
Find = Callable[[Data, bytes, int, int], list[int]]

CHUNK = 1 << 19
# An entry is some 400 bytes; a line is looked at up to this far from a place in it.
REACH = 6_000
MARGIN = 2 * REACH
_OPENING = 200
_SQUEEZED = tuple(word.replace(b" ", b"") for word in WORDS)
_FILES = tuple(file + b".py:" for file in FILES)
_WHITE = b" \t\r\n"
_IS_INK = np.ones(256, bool)
_IS_INK[list(_WHITE)] = False
_LONGEST_BEGINNING = 120
_AFTER_FILE = re.compile(rb"(?:%s)\.py:\d*(?:\] ?(?P<begun>.*))?" % b"|".join(FILES), re.DOTALL)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the file, or as much of it as is within reach, from `start` up to `end` in the window's data.

    `opening` is the true beginning of a line of which `start` is not the beginning. `first`: the first line of the file.
    """

    start: int
    end: int
    opening: bytes | None = None
    first: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """`data` begins at byte `base` of the stream. Places in [low, high) belong to this window, the rest surrounds them.

    `opening` is the beginning of the line within which `data` begins, if it does not begin a line. `last`: the stream
    ends with `data`.
    """

    data: bytes | bytearray
    base: int
    low: int
    high: int
    opening: bytes | None
    last: bool
    # Windows of the JSON strings in it that hold many lines, by the places at which they begin and end.
    strings: list[tuple[int, int, "Window"]] = field(default_factory=list, compare=False)

    def line_at(self, place: int) -> Line:
        """The line that holds the byte at `place`."""
        data = self.data
        end = data.find(b"\n", place, place + REACH)
        if end < 0:
            end = min(len(data), place + REACH)
        near = max(place - REACH, 0)
        start = data.rfind(b"\n", near, place) + 1
        if start == 0 and (near > 0 or self.opening is not None):
            start = data.rfind(b"\n", 0, near) + 1 if near else 0
            cut = self.opening if start == 0 and self.opening is not None else bytes(data[start : start + _OPENING])
            first = self.base + start == 0 if self.opening is None else False
            return Line(near, end, cut, first)
        return Line(start, end, None, self.base + start == 0)

    def line_after(self, line: Line) -> Line | None:
        """The next line; None at the end of the data or where a line is out of reach."""
        at = line.end + 1
        return self.line_at(at) if line.end < len(self.data) and at < len(self.data) and self.data[line.end] == 0x0A else None

    def line_before(self, line: Line) -> Line | None:
        """The line before; None at the beginning of the data or where a line is out of reach."""
        return self.line_at(line.start - 1) if line.start > 0 and line.opening is None else None

    def text(self, line: Line) -> bytes:
        """The line without its end."""
        return bytes(self.data[line.start : line.end]).removesuffix(b"\r")

    def position(self, line: Line, place: int) -> int:
        """Where the byte at `place` stands in the text of its line."""
        return place - line.start


def opening_at(window: Window, place: int) -> bytes | None:
    """What `opening` is for a window whose data begins at `place` of this one."""
    start = window.data.rfind(b"\n", 0, place) + 1
    if start == place:
        return None if place else window.opening
    return window.opening if start == 0 and window.opening is not None else bytes(window.data[start : start + _OPENING])


def windows(stream: BinaryIO) -> Iterator[Window]:
    """The stream in windows that overlap by a margin, so that every place has what surrounds it.

    All windows share one buffer: a window's data hold until the next is asked for.
    """
    buffer = bytearray(CHUNK + 2 * MARGIN)
    filled = base = low = 0
    opening: bytes | None = None
    while True:
        filled = _fill(stream, buffer, filled)
        last = filled < len(buffer)
        high = filled if last else filled - MARGIN
        window = Window(buffer[:filled] if last else buffer, base, low, high, opening, last)
        yield window
        if last:
            return
        start = high - MARGIN
        opening = opening_at(window, start)
        filled -= start
        buffer[:filled] = buffer[start:]
        base, low = base + start, high - start


def _fill(stream: BinaryIO, buffer: bytearray, filled: int) -> int:
    """Read on into the buffer until it is full or the stream ends; return how much of it is filled then."""
    readinto = getattr(stream, "readinto", None)
    view = memoryview(buffer)
    while filled < len(buffer):
        if readinto is not None:
            length = readinto(view[filled:]) or 0
        else:
            part = stream.read(len(buffer) - filled)
            length = len(part)
            view[filled : filled + length] = part
        if length == 0:
            break
        filled += length
    return filled


class Places(NamedTuple):
    """Where in a window's data the words of an entry stand whole, in order: of speculation lines as all
    versions since April 2025 print them, of older ones, and of Engine lines."""

    speculation: list[int]
    others: list[int]
    engines: list[int]

    def all(self) -> list[int]:
        """All places in order."""
        return sorted((*self.speculation, *self.others, *self.engines))


def find_places(window: Window, low: int) -> Places:
    """The places of a window from `low` on."""
    return Places(*(find_all(window.data, word, max(window.low, low), window.high + len(word) - 1) for word in WORDS))


def broken_places(window: Window) -> list[int]:
    """Where the words of an entry, or the file name in the head before them, are broken by the end of a line."""
    # The ends of lines within a JSON string, at the same places.
    data = window.data.replace(rb"\n", b"\n\n")
    squeezed = data.translate(None, _WHITE)
    found = [at for word in (*_SQUEEZED, *_FILES) for at in find_all(squeezed, word, 0, len(squeezed))]
    if not found:
        return []
    ink = np.flatnonzero(_IS_INK[np.frombuffer(data, np.uint8)])
    broken = []
    for at in sorted(ink[found].tolist()):
        if not window.low <= at < window.high or data.startswith(WORDS, at):
            continue
        if data.startswith(_FILES, at):
            end = data.find(b"\n", at, at + _LONGEST_BEGINNING)
            if end < 0 or not _begins_entry(bytes(data[at:end])):
                continue
        broken.append(at)
    return broken


def _begins_entry(text: bytes) -> bool:
    """True if a line that ends with `text`, from a file name on, breaks a head or the beginning of an entry."""
    match = _AFTER_FILE.fullmatch(without_colours(text).rstrip())
    begun = b"" if match is None else re.sub(rb"\d+", b"0", match["begun"] or b"")
    return match is not None and any(beginning.startswith(begun) for beginning in BEGINNINGS)


def find_all_in_python(data: Data, word: bytes, low: int, high: int) -> list[int]:
    """Where `word` begins in data[low:high], in order and without overlap."""
    found = []
    at = data.find(word, low, high)
    while at >= 0:
        found.append(at)
        at = data.find(word, at + len(word), high)
    return found


def _with_memmem() -> Find | None:
    """The same with memmem; None where the C library has none."""
    try:
        memmem = ctypes.CDLL(None).memmem
    except (AttributeError, OSError, TypeError):
        return None
    memmem.restype = ctypes.c_void_p
    memmem.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]

    def find_all(data: Data, word: bytes, low: int, high: int) -> list[int]:
        if not data:
            return []
        if isinstance(data, bytearray):
            begin = ctypes.addressof(ctypes.c_char.from_buffer(data))
        else:
            begin = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
        end, length = begin + min(high, len(data)), len(word)
        found = []
        at = begin + low
        while at + length <= end:
            at = memmem(at, end - at, word, length)
            if at is None:
                break
            found.append(at - begin)
            at += length
        return found

    return find_all


find_all: Find = _with_memmem() or find_all_in_python
