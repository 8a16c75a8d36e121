"""A stream of bytes to windows, and the places in each where a statistics record may be.

Records are rare, so what counts is how fast the rest is passed over: a few literal words are searched, nothing else is
looked at. A word that was broken over two lines is found in the text without its white space; that is done until the
first whole record shows that the file is not wrapped, and wherever a record is broken.
"""

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from draftmeter.collect.log.search import find_all
from draftmeter.collect.log.window import REACH, Window, opening_at

CHUNK = 1 << 20
MARGIN = 2 * REACH
WORDS = (b"SpecDecoding metrics: ", b"Speculative metrics: ", b"Avg prompt throughput: ")
_SQUEEZED = tuple(word.replace(b" ", b"") for word in WORDS)
_FILES = (b"metrics.py:", b"loggers.py:")
_WHITE = b" \t\r\n"
_IS_INK = np.ones(256, bool)
_IS_INK[list(_WHITE)] = False
# After the file name in a head, a record's own words end a line only if they are broken.
_LONGEST_BEGINNING = 60


def windows(stream: BinaryIO) -> Iterator[Window]:
    """The stream in windows that overlap by a margin, so that every place has what surrounds it."""
    data, base, low = b"", 0, 0
    opening: bytes | None = None
    while True:
        chunk = _read(stream)
        data += chunk
        last = len(chunk) < CHUNK
        high = len(data) if last else len(data) - MARGIN
        window = Window(data, base, low, high, opening, last)
        yield window
        if last:
            return
        start = max(high - MARGIN, 0)
        opening = opening_at(window, start)
        data, base, low = data[start:], base + start, high - start


def _read(stream: BinaryIO) -> bytes:
    """A whole chunk, or what is left of the stream."""
    parts = []
    missing = CHUNK
    while missing and (part := stream.read(missing)):
        parts.append(part)
        missing -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


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
            end = data.find(b"\n", at, at + REACH)
            rest = data[at:end] if end >= 0 else b""
            if not rest or len(rest) > _LONGEST_BEGINNING or any(word in rest for word in WORDS):
                continue
        broken.append(at)
    return broken
