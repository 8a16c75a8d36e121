"""Lists of "key: value" pairs, read strictly: a value of another shape means that something else printed the text.

An unknown key is kept. Text is bytes, as it lies in the file. A list may be cut anywhere; what is whole of it is kept, and
a number that further digits may follow is told apart. `loose` reads a list that was wrapped: no space in it counts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class State(Enum):
    """How a text ends: with its last pair, in the middle of one, or as no such text could."""

    WHOLE = "whole"
    CUT = "cut"
    BAD = "bad"


@dataclass(frozen=True)
class Shape:
    """The shape of a value (a pattern whose first group is the value) and an ending that makes a cut value whole."""

    pattern: str
    ending: bytes
    strict: re.Pattern[bytes] = field(init=False)
    loose: re.Pattern[bytes] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "strict", re.compile(self.pattern.encode()))
        object.__setattr__(self, "loose", re.compile(self.pattern.replace(" ", " *").replace(", *", " *, *").encode()))


SPEED = Shape(r"(\d+\.\d+|nan|inf) tokens/s", b"0.00 tokens/s")
TOKENS = Shape(r"(\d+) tokens", b"0 tokens")
REQUESTS = Shape(r"(\d+) reqs", b"0 reqs")
NUMBER = Shape(r"(\d+)", b"0")
PERCENT = Shape(r"(\d+\.\d+|nan)%", b"0.0%")
MEAN = Shape(r"(\d+\.\d\d|nan)", b"0.00")
SHARE = Shape(r"(\d+\.\d|nan)%", b"0.0%")
FRACTION = Shape(r"(\d\.\d{3}|nan)", b"0.000")
RATES = Shape(r"((?:\d\.\d{3}|nan)(?:, (?:\d\.\d{3}|nan))*)", b", 0.000")

_WHOLE_RATE = re.compile(rb"(?:\d\.\d{3}|nan)(?= *,|$)")
_DIGITS = re.compile(rb"\d+")

# A value may hold commas (rates by position, stages of a fetch); a part that begins with a letter begins the next pair.
BETWEEN = re.compile(rb", (?=[A-Za-z])(?!nan\b|inf\b)")
_LOOSE_BETWEEN = re.compile(rb" *, *(?=[A-Za-z])(?!nan\b|inf\b)")
_UNKNOWN_KEY = re.compile(rb"[A-Za-z][\w ./()%#-]{0,80}")
_UNKNOWN_VALUE = re.compile(rb"[\w.%/+()\[\]=-][\w .,%/+()\[\]=-]{0,200}")
# The beginning of a key that was cut. Prose goes on in lower case.
_KEY_BEGUN = re.compile(rb"[A-Z][\w /()%#-]{0,80}")


@dataclass(slots=True)
class Pairs:
    """The pairs of a list as far as they are whole: known ones by their column, unknown ones by their key.

    `last` is the column of the last pair. `open` are the columns whose value ends the text so that more of it may have
    followed (digits, rates); `problem` says what is bad.
    """

    values: dict[str, bytes] = field(default_factory=dict)
    extra: dict[str, str] = field(default_factory=dict)
    state: State = State.WHOLE
    problem: str = ""
    last: str = ""
    open: set[str] = field(default_factory=set)

    def end(self, state: State, problem: str = "") -> bool:
        """Stop reading here."""
        self.state, self.problem = state, problem
        return False


class Grammar:
    """The known keys of one kind of list, each with the column and the shape of its value."""

    def __init__(self, keys: Mapping[str, tuple[str, Shape]]) -> None:
        self._strict = {name.encode(): key for name, key in keys.items()}
        self._loose = {_squeeze(name): key for name, key in self._strict.items()}

    def read(self, text: bytes, *, loose: bool) -> Pairs:
        """The pairs of `text`, which may end with a comma: then it is cut."""
        pairs = Pairs()
        kept = text.rstrip(b" ")
        comma = kept.endswith(b",")
        parts = (_LOOSE_BETWEEN if loose else BETWEEN).split(kept.rstrip(b", ") if comma else text)
        for number, part in enumerate(parts, start=1):
            if not self._take(pairs, part, loose, last=number == len(parts), comma=comma):
                break
        if comma and pairs.state is State.WHOLE:
            pairs.end(State.CUT)
        return pairs

    def holds(self, part: bytes) -> bool:
        """True for one pair of a known key, whole and of its shape."""
        name, _, value = part.partition(b": ")
        known = self._strict.get(name)
        return known is not None and known[1].strict.fullmatch(value) is not None

    def _take(self, pairs: Pairs, part: bytes, loose: bool, *, last: bool, comma: bool) -> bool:
        """Add one pair; False ends the reading."""
        name, colon, value = part.partition(b":")
        if loose:
            name, value = name.strip(b" "), value.strip(b" ")
        if not colon:
            if last and self._begins(part, loose):
                return pairs.end(State.CUT)
            return pairs.end(State.BAD, "a part that is no 'key: value' pair")
        known = self._loose.get(_squeeze(name)) if loose else self._strict.get(name)
        if not loose:
            if value and not value.startswith(b" "):
                return pairs.end(State.BAD, "no space after a colon")
            value = value[1:]
        if known is None:
            return _take_unknown(pairs, name, value, last)
        return _take_known(pairs, name, known, value, loose=loose, last=last, comma=comma)

    def _begins(self, part: bytes, loose: bool) -> bool:
        known, begun = (self._loose, _squeeze(part)) if loose else (self._strict, part)
        return any(name.startswith(begun) for name in known) or _KEY_BEGUN.fullmatch(part) is not None


def _take_known(
    pairs: Pairs, name: bytes, known: tuple[str, Shape], value: bytes, *, loose: bool, last: bool, comma: bool
) -> bool:
    column, shape = known
    if column in pairs.values:
        return pairs.end(State.BAD, f"'{name.decode()}' stands twice")
    match = (shape.loose if loose else shape.strict).fullmatch(value)
    if match is not None:
        pairs.values[column] = _squeeze(match[1]) if loose or shape is RATES else match[1]
        pairs.last = column
        if last and (shape is RATES or (shape is NUMBER and not comma)):
            pairs.open.add(column)
        return True
    begun = value + b"," if comma else value
    if not last or not any(shape.loose.fullmatch(begun + shape.ending[at:]) for at in range(len(shape.ending))):
        return pairs.end(State.BAD, f"the value of '{name.decode()}' is not of its shape")
    if shape is RATES:
        pairs.values[column] = b",".join(_WHOLE_RATE.findall(value))
        pairs.open.add(column)
    elif shape in (TOKENS, NUMBER) and (digits := _DIGITS.match(value)):
        pairs.values[column] = digits[0]
        if digits[0] == value:
            pairs.open.add(column)
    return pairs.end(State.CUT)


def _take_unknown(pairs: Pairs, name: bytes, value: bytes, last: bool) -> bool:
    if not _UNKNOWN_KEY.fullmatch(name):
        return pairs.end(State.BAD, "a part that is no 'key: value' pair")
    key = name.decode()
    if last and not value:
        return pairs.end(State.CUT)
    if not _UNKNOWN_VALUE.fullmatch(value):
        return pairs.end(State.BAD, f"the value of '{key}' is no number or word")
    if key in pairs.extra:
        return pairs.end(State.BAD, f"'{key}' stands twice")
    pairs.extra[key] = value.decode(errors="replace").strip()
    pairs.last = ""
    return True


def _squeeze(text: bytes) -> bytes:
    return text.replace(b" ", b"")
