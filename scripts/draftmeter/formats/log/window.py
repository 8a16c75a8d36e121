"""A piece of the file with what surrounds it: lines are found in it by position."""

from dataclasses import dataclass, field

# A record is some 400 bytes; a line is looked at up to this far from a place in it.
REACH = 6_000
_OPENING = 200


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
