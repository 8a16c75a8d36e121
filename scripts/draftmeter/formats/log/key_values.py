"""Lists of key-values ("key: value, key: value"), read strictly: a value of another shape means that
something else printed the text.

An unknown key is kept. Text is bytes, as it lies in the file. A list may be cut anywhere; what is
whole of it is kept, and a number that further digits may follow is told apart. `loose` reads a
list that was wrapped: no space in it counts.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

# No count of a usual entry has more digits, nor has a number more before its decimal point.
USUAL_DIGITS = 12


class State(Enum):
    """How a text ends: with its last key-value, in the middle of one, or as no such text could."""

    WHOLE = "whole"
    CUT = "cut"
    BAD = "bad"


@dataclass(frozen=True)
class Shape:
    """The shape of a value (a pattern whose only group is the value) and an ending that makes a cut
    value whole. `usual` is the pattern of numbers that are neither unusually long nor nan or inf."""

    pattern: str
    ending: bytes
    usual: bytes = field(init=False)
    strict: re.Pattern[bytes] = field(init=False)
    loose: re.Pattern[bytes] = field(init=False)

    def __post_init__(self) -> None:
        usual = self.pattern.replace("|nan", "").replace("|inf", "").replace(r"\d+", rf"\d{{1,{USUAL_DIGITS}}}")
        object.__setattr__(self, "usual", usual.encode())
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

# A value may hold commas (rates by position, stages of a fetch); a part that begins with a letter begins the next key.
BETWEEN = re.compile(rb", (?=[A-Za-z])(?!nan\b|inf\b)")
_LOOSE_BETWEEN = re.compile(rb" *, *(?=[A-Za-z])(?!nan\b|inf\b)")
_UNKNOWN_KEY = re.compile(rb"[A-Za-z][\w ./()%#-]{0,80}")
_UNKNOWN_VALUE = re.compile(rb"[\w.%/+()\[\]=-][\w .,%/+()\[\]=-]{0,200}")
# The beginning of a key that was cut. Prose goes on in lower case.
_KEY_BEGUN = re.compile(rb"[A-Z][\w /()%#-]{0,80}")


@dataclass(slots=True)
class KeyValues:
    """A list as far as it is whole: the known values by their column, unknown ones by their key.

    `open` are the columns whose value ends the text so that more of it may have followed (digits,
    rates); `problem` says what is bad.
    """

    values: dict[str, bytes] = field(default_factory=dict)
    extra: dict[str, str] = field(default_factory=dict)
    state: State = State.WHOLE
    problem: str = ""
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

    def read(self, text: bytes, *, loose: bool) -> KeyValues:
        """The key-values of `text`, which may end with a comma: then it is cut."""
        found = KeyValues()
        kept = text.rstrip(b" ")
        comma = kept.endswith(b",")
        parts = (_LOOSE_BETWEEN if loose else BETWEEN).split(kept.rstrip(b", ") if comma else text)
        for number, part in enumerate(parts, start=1):
            if not self._take(found, part, loose, last=number == len(parts), comma=comma):
                break
        if comma and found.state is State.WHOLE:
            found.end(State.CUT)
        return found

    def pattern(self, *keys: str, optional: Sequence[str] = ()) -> bytes:
        """Of a list of these keys in this order, whole and with usual values, a group for each; at
        the end any of the `optional` keys may be missing.

        What it matches, :meth:`read` reads in the same way.
        """
        texts = []
        for key in (*keys, *optional):
            name = key.encode()
            texts.append(b", %s: %s" % (re.escape(name), self._strict[name][1].usual))
        ends = b"".join(b"(?:%s)?" % text for text in texts[len(keys) :])
        return b"".join(texts[: len(keys)]).removeprefix(b", ") + ends

    def columns(self, *keys: str) -> list[str]:
        """The columns of these keys."""
        return [self._strict[key.encode()][0] for key in keys]

    def holds(self, part: bytes) -> bool:
        """True for one key-value of a known key, whole and of its shape."""
        name, _, value = part.partition(b": ")
        known = self._strict.get(name)
        return known is not None and known[1].strict.fullmatch(value) is not None

    def _take(self, found: KeyValues, part: bytes, loose: bool, *, last: bool, comma: bool) -> bool:
        """Add one key-value; False ends the reading."""
        name, colon, value = part.partition(b":")
        if loose:
            name, value = name.strip(b" "), value.strip(b" ")
        if not colon:
            if last and self._begins(part, loose):
                return found.end(State.CUT)
            return found.end(State.BAD, "a part that is no 'key: value' pair")
        known = self._loose.get(_squeeze(name)) if loose else self._strict.get(name)
        if not loose:
            if value and not value.startswith(b" "):
                return found.end(State.BAD, "no space after a colon")
            value = value[1:]
        if known is None:
            return _take_unknown(found, name, value, last)
        return _take_known(found, name, known, value, loose=loose, last=last, comma=comma)

    def _begins(self, part: bytes, loose: bool) -> bool:
        known, begun = (self._loose, _squeeze(part)) if loose else (self._strict, part)
        return any(name.startswith(begun) for name in known) or _KEY_BEGUN.fullmatch(part) is not None


def _take_known(
    found: KeyValues, name: bytes, known: tuple[str, Shape], value: bytes, *, loose: bool, last: bool, comma: bool
) -> bool:
    column, shape = known
    if column in found.values:
        return found.end(State.BAD, f"'{name.decode()}' stands twice")
    match = (shape.loose if loose else shape.strict).fullmatch(value)
    if match is not None:
        found.values[column] = _squeeze(match[1]) if loose or shape is RATES else match[1]
        if last and (shape is RATES or (shape is NUMBER and not comma)):
            found.open.add(column)
        return True
    begun = value + b"," if comma else value
    if not last or not any(shape.loose.fullmatch(begun + shape.ending[at:]) for at in range(len(shape.ending))):
        return found.end(State.BAD, f"the value of '{name.decode()}' is not of its shape")
    if shape is RATES:
        found.values[column] = b",".join(_WHOLE_RATE.findall(value))
        found.open.add(column)
    elif shape in (TOKENS, NUMBER) and (digits := _DIGITS.match(value)):
        found.values[column] = digits[0]
        if digits[0] == value:
            found.open.add(column)
    return found.end(State.CUT)


def _take_unknown(found: KeyValues, name: bytes, value: bytes, last: bool) -> bool:
    if not _UNKNOWN_KEY.fullmatch(name):
        return found.end(State.BAD, "a part that is no 'key: value' pair")
    key = name.decode()
    if last and not value:
        return found.end(State.CUT)
    if not _UNKNOWN_VALUE.fullmatch(value):
        return found.end(State.BAD, f"the value of '{key}' is no number or word")
    if key in found.extra:
        return found.end(State.BAD, f"'{key}' stands twice")
    found.extra[key] = value.decode(errors="replace").strip()
    return True


def _squeeze(text: bytes) -> bytes:
    return text.replace(b" ", b"")
