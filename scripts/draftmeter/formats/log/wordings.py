"""What the statistics logger of each vLLM version prints, and the numbers that an entry of it gives.

An entry is what the logger prints on one line. A speculation line is a name ("SpecDecoding metrics:
", "Speculative metrics: ") and key-values; an Engine line is "Engine 000: ", "2 Engines Aggregated:
" or nothing (versions before 0.8.3), and key-values. A wording is written here once: everything
that looks for entries is made from it.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from draftmeter.formats.log.key_values import (
    FRACTION,
    MEAN,
    NUMBER,
    PERCENT,
    RATES,
    REQUESTS,
    SHARE,
    SPEED,
    TOKENS,
    Grammar,
    KeyValues,
    Shape,
    State,
)

# Version families.
THROUGHPUTS = "0.10.2+"
RATE_FIRST = "0.8.5-0.10.1"
APRIL_2025 = "2025-04"
MARCH_2025 = "2025-03 speculative"
CUMULATIVE = "V0 cumulative"

# Counts up to 10^15 stay exact in every computation.
DIGITS = 15
_ANY_DIGITS = re.compile(rb"\d+")
MOST_POSITIONS = 256

# How the list of rates ends: more text follows it; it ends the entry; it was cut.
RATES_WHOLE, RATES_LAST, RATES_CUT = 0, 1, 2

_FETCHES = Shape(
    r"(\d+ waiting to start, \d+ in progress, \d+ completed waiting)", b"0 waiting to start, 0 in progress, 0 completed waiting"
)
# Keys of an Engine line that have no column: the shape of the value, and its unit.
_OPTIONAL = {
    "Deferred": (REQUESTS, " reqs"),
    "KV fetch": (_FETCHES, ""),
    "Preemptions": (NUMBER, ""),
    "Corrupted": (REQUESTS, " reqs"),
    "External prefix cache hit rate": (PERCENT, "%"),
    "MM cache hit rate": (PERCENT, "%"),
}
_OTHER_DEVICES = ("CPU", "TPU", "XPU", "HPU", "NPU", "NEURON", "MUSA")

NEW = Grammar(
    {
        "Mean acceptance length": ("mean", MEAN),
        "Accepted throughput": ("accepted_speed", SPEED),
        "Drafted throughput": ("drafted_speed", SPEED),
        "Accepted": ("accepted", TOKENS),
        "Drafted": ("drafted", TOKENS),
        "Per-position acceptance rate": ("rates", RATES),
        "Avg Draft acceptance rate": ("share", SHARE),
        "Draft acceptance rate": ("share", SHARE),
    }
)
OLD = Grammar(
    {
        "Draft acceptance rate": ("share", FRACTION),
        "Number of accepted tokens": ("accepted", NUMBER),
        "Number of draft tokens": ("drafted", NUMBER),
        # Only V0 engines print these, and their counts run since the server's start.
        "System efficiency": ("efficiency", FRACTION),
        "Number of speculative tokens": ("k", NUMBER),
        "Number of emitted tokens": ("emitted", NUMBER),
        "Number of draft tokens tokens": ("drafted", NUMBER),
        "Number of emitted tokens tokens": ("emitted", NUMBER),
    }
)
ENGINE = Grammar(
    {
        "Avg prompt throughput": ("prompt_speed", SPEED),
        "Avg generation throughput": ("generation_speed", SPEED),
        "Running": ("running", REQUESTS),
        "Waiting": ("waiting", REQUESTS),
        "Pending": ("waiting", REQUESTS),
        "Swapped": ("swapped", REQUESTS),
        "GPU KV cache usage": ("kv_usage", PERCENT),
        **{f"{device} KV cache usage": (f"{device} kv_usage", PERCENT) for device in _OTHER_DEVICES},
        "Prefix cache hit rate": ("prefix_hits", PERCENT),
        **{key: (key, shape) for key, (shape, _) in _OPTIONAL.items()},
    }
)


# The beginnings of entries. Of an Engine line it is what follows its label, which may be missing.
NEW_NAME, OLD_NAME, ENGINE_NAME = b"SpecDecoding metrics: ", b"Speculative metrics: ", b"Avg prompt throughput: "
WORDS = (NEW_NAME, OLD_NAME, ENGINE_NAME)
_LABEL = rb"(?P<label>Engine \d{1,6}|\d{1,6} Engines Aggregated): "
BEGINNINGS = (*WORDS, b"Engine 0: " + ENGINE_NAME, b"0 Engines Aggregated: " + ENGINE_NAME)
_BEGINNING = b"(?P<name>%s|%s)|(?:%s)?(?=%s)" % (NEW_NAME, OLD_NAME, _LABEL, ENGINE_NAME)
BEGINNING = re.compile(_BEGINNING)
LOOSE_BEGINNING = re.compile(_BEGINNING.replace(b" ", b" *"))

# The name of an entry of which the end of the file cut off the rest.
NAME_BEGUN = re.compile(
    rb"metrics\.py:\d+\] (?:%s)\Z"
    % b"|".join(name[:end] for name in (NEW_NAME, OLD_NAME) for end in range(len("Spec"), len(name)))
)
# The end of a speculation line of any version, of which the rest may be cut off.
SPECULATION_END = re.compile(
    rb"(?:%s)\s*\Z" % b"|".join(NEW.pattern(key) for key in ("Drafted", "Per-position acceptance rate", "Draft acceptance rate"))
)

# Entries as most logs have them: those since 0.10.2, with no key beyond these.
_SPECULATION_KEYS = (
    "Mean acceptance length",
    "Accepted throughput",
    "Drafted throughput",
    "Accepted",
    "Drafted",
    "Per-position acceptance rate",
    "Avg Draft acceptance rate",
)
_ENGINE_KEYS = (
    "Avg prompt throughput",
    "Avg generation throughput",
    "Running",
    "Waiting",
    "GPU KV cache usage",
)
_LATER_ENGINE_KEYS = ("Prefix cache hit rate",)
# The pattern of each, and the columns of its groups.
USUAL_SPECULATION = NEW_NAME + NEW.pattern(*_SPECULATION_KEYS)
USUAL_SPECULATION_COLUMNS = NEW.columns(*_SPECULATION_KEYS)
_ON_GPU = _LABEL + ENGINE.pattern(*_ENGINE_KEYS, optional=_LATER_ENGINE_KEYS)
USUAL_ENGINE = _ON_GPU.replace(b"GPU", b"(?:%s)" % "|".join(("GPU", *_OTHER_DEVICES)).encode())
USUAL_ENGINE_COLUMNS = ["label", *ENGINE.columns(*_ENGINE_KEYS, *_LATER_ENGINE_KEYS)]


class Speculation(NamedTuple):
    """What one speculation line prints; b"" is what it leaves out. Ratios keep their printed digits."""

    wording: str
    mean: bytes
    accepted_speed: bytes
    drafted_speed: bytes
    accepted: bytes
    drafted: bytes
    rates: bytes  # "0.799,0.646"
    share: bytes  # accepted / drafted: percent with one decimal, or a fraction with three
    rates_end: int
    extra: str  # a JSON object of the unknown keys, or ""


class EngineLine(NamedTuple):
    """What one Engine line prints; b"" is what it leaves out."""

    engine: str  # "0", "2 aggregated", ""
    prompt_speed: bytes
    generation_speed: bytes
    running: bytes
    waiting: bytes
    kv_usage: bytes  # percent
    prefix_hits: bytes  # percent
    extra: str


# The printed values among their fields.
SPECULATION_COLUMNS = Speculation._fields[1:-2]
ENGINE_COLUMNS = EngineLine._fields[1:-1]


class Reading(NamedTuple):
    """An entry (or None), how its text ends, why it is refused, and how many of its keys are unknown."""

    entry: Speculation | EngineLine | None
    state: State
    problem: str
    unknown: int = 0


def read_speculation(name: bytes, text: bytes, *, loose: bool = False) -> Reading:
    """Read the key-values after `name`. A line that is cut after its counts gives what is whole of it."""
    old = name.startswith(b"Speculative")
    if old and text.rstrip(b" ").endswith(b"."):
        text = text.rstrip(b" ").removesuffix(b".")
    found = (OLD if old else NEW).read(text, loose=loose)
    if found.state is State.BAD:
        return Reading(None, State.BAD, found.problem)
    values = found.values
    if old and {"efficiency", "emitted", "k"} & values.keys():
        return Reading(_speculation(CUMULATIVE, found), found.state, "")
    if "accepted" not in values or "drafted" not in values:
        return Reading(None, State.CUT, "cut before its counts")
    line = _speculation(_family(values, old), found)
    if problem := _problem(line, "drafted" in found.open):
        return Reading(None, *problem)
    # The wording of March 2025 ends with a comma.
    whole = old and not found.open and values.keys() == {"share", "accepted", "drafted"}
    return Reading(line, State.WHOLE if whole else found.state, "", len(found.extra))


def read_engine_line(label: bytes, text: bytes, *, loose: bool = False) -> Reading:
    """Read the key-values of an Engine line, from "Avg prompt throughput" on; `label` is b"" where it has none."""
    found = ENGINE.read(text.rstrip(b" ").removesuffix(b"."), loose=loose)
    if found.state is State.BAD:
        return Reading(None, State.BAD, f"Engine line: {found.problem}")
    values = found.values
    if any(len(values.get(count, b"")) > DIGITS for count in ("running", "waiting")):
        return Reading(None, State.BAD, "Engine line: a number of requests that no server has")
    # An engine that names several devices names its own first.
    usages = [value for column, value in values.items() if column.endswith("kv_usage")]
    line = EngineLine(
        engine=engine_name(label),
        **{column: values.get(column, b"") for column in ENGINE_COLUMNS} | {"kv_usage": usages[0] if usages else b""},
        extra=_json(found.extra | {key: values[key].decode() + unit for key, (_, unit) in _OPTIONAL.items() if key in values}),
    )
    return Reading(line, found.state, "", len(found.extra))


def engine_name(label: bytes) -> str:
    """The engine of a label such as "Engine 000" or "2 Engines Aggregated": "0", "2 aggregated"; "" without a label."""
    digits = _ANY_DIGITS.search(label)
    if digits is None:
        return ""
    return f"{int(digits[0])} aggregated" if b"Aggregated" in label else str(int(digits[0]))


def _speculation(wording: str, found: KeyValues) -> Speculation:
    values = found.values
    rates_end = RATES_WHOLE
    if "rates" in found.open:
        rates_end = RATES_CUT if found.state is State.CUT else RATES_LAST
    printed = {column: values.get(column, b"") for column in SPECULATION_COLUMNS}
    return Speculation(wording, **printed, rates_end=rates_end, extra=_json(found.extra))


def _family(values: Mapping[str, bytes], old: bool) -> str:
    if old:
        return MARCH_2025
    if "accepted_speed" in values or "drafted_speed" in values:
        return THROUGHPUTS
    if "mean" not in values:
        return APRIL_2025
    # The order of the columns is that of the text: versions before 0.10.2 print the rate first.
    order = list(values)
    return RATE_FIRST if "share" in values and order.index("share") < order.index("mean") else THROUGHPUTS


def _problem(line: Speculation, open_count: bool) -> tuple[State, str] | None:
    """Why the counts are not those of an interval; `open_count`: further digits may have followed the drafted tokens."""
    if max(map(len, (line.accepted, line.drafted, line.mean, line.share))) > DIGITS:
        return State.BAD, "a number that no interval has"
    if open_count and not _confirmed(line):
        return State.CUT, "cut within the number of drafted tokens, and no printed ratio confirms it"
    accepted, drafted = int(line.accepted), int(line.drafted)
    if accepted > drafted:
        return State.BAD, f"{accepted} accepted of {drafted} drafted tokens"
    if line.rates.count(b",") >= MOST_POSITIONS:
        return State.BAD, f"more than {MOST_POSITIONS} positions"
    return None


def _confirmed(line: Speculation) -> bool:
    """True if a printed ratio leaves no room for further digits of the drafted tokens."""
    accepted, drafted = int(line.accepted), int(line.drafted)
    if accepted == 0 or drafted == 0:
        return False
    share = line.share
    if share not in (b"", b"nan") and float(share) > 0:
        ratio = accepted / drafted
        return share.decode() in (f"{100 * ratio:.1f}", f"{ratio:.3f}")
    if line.accepted_speed and line.drafted_speed:
        speeds = float(line.accepted_speed), float(line.drafted_speed)
        if all(math.isfinite(speed) and speed >= 0.1 for speed in speeds):
            return abs(accepted * speeds[1] - drafted * speeds[0]) <= 0.0051 * (accepted + drafted)
    return False


def _json(extra: Mapping[str, str]) -> str:
    return json.dumps(dict(extra), sort_keys=True) if extra else ""
