"""A stream of bytes to windows, and the places in each where a statistics record may be.

Records are rare, so what counts is how fast the rest is passed over: a few literal words are searched, nothing else is
looked at. A word that was broken over two lines is found in the text without its white space; that is done until the
first whole record shows that the file is not wrapped, and wherever a record is broken.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from draftmeter.formats.log.heads import without_colours
from draftmeter.formats.log.search import find_all
from draftmeter.formats.log.window import REACH, Window, opening_at

CHUNK = 1 << 19
MARGIN = 2 * REACH
WORDS = (b"SpecDecoding metrics: ", b"Speculative metrics: ", b"Avg prompt throughput: ")
_SQUEEZED = tuple(word.replace(b" ", b"") for word in WORDS)
_FILES = (b"metrics.py:", b"loggers.py:")
_WHITE = b" \t\r\n"
_IS_INK = np.ones(256, bool)
_IS_INK[list(_WHITE)] = False
_LONGEST_BEGINNING = 120
_AFTER_FILE = re.compile(rb"(?:metrics|loggers)\.py:\d*(?:\] ?(?P<begun>.*))?", re.DOTALL)
_NAMES = (*WORDS, b"Engine 0: " + WORDS[2], b"0 Engines Aggregated: " + WORDS[2])


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
    """Where in a window's data the words of a record stand whole, in order: of records as all versions since April 2025 print
    them, of other records, and of Engine lines."""

    records: list[int]
    others: list[int]
    engines: list[int]

    def all(self) -> list[int]:
        """All places in order."""
        return sorted((*self.records, *self.others, *self.engines))


def find_places(window: Window, low: int) -> Places:
    """The places of a window from `low` on."""
    return Places(*(find_all(window.data, word, max(window.low, low), window.high + len(word) - 1) for word in WORDS))


def broken_places(window: Window) -> list[int]:
    """Where the words of a record, or the file name in the head before them, are broken by the end of a line."""
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
            if end < 0 or not _begins_record(bytes(data[at:end])):
                continue
        broken.append(at)
    return broken


def _begins_record(text: bytes) -> bool:
    """True if a line that ends with `text`, from a file name on, breaks a head or the name of a record."""
    match = _AFTER_FILE.fullmatch(without_colours(text).rstrip())
    begun = b"" if match is None else re.sub(rb"\d+", b"0", match["begun"] or b"")
    return match is not None and any(name.startswith(begun) for name in _NAMES)
