"""What the statistics logger of each vLLM version prints, and the numbers that a record of it gives.

A speculation record is a name ("SpecDecoding metrics: ", "Speculative metrics: ") and pairs; an Engine line is
"Engine 000: ", "2 Engines Aggregated: " or nothing (versions before 0.8.3), and pairs.
"""

import json
import math
from collections.abc import Mapping
from typing import NamedTuple

from draftmeter.formats.log.pairs import (
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
    Pairs,
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
MOST_POSITIONS = 256

# How the list of rates ends: more text follows it; it ends the record; it was cut.
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
_DEVICES = ("GPU", "CPU", "TPU", "XPU", "HPU", "NPU", "NEURON", "MUSA")

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
        **{f"{device} KV cache usage": (f"{device} usage", PERCENT) for device in _DEVICES},
        "Prefix cache hit rate": ("prefix_hits", PERCENT),
        **{key: (key, shape) for key, (shape, _) in _OPTIONAL.items()},
    }
)


class Speculation(NamedTuple):
    """What one speculation record prints; b"" is what it leaves out. Ratios keep their printed digits."""

    wording: str
    mean: bytes
    accepted_speed: bytes
    drafted_speed: bytes
    accepted: bytes
    drafted: bytes
    rates: bytes  # "0.799,0.646"
    rates_end: int
    share: bytes  # accepted / drafted: percent with one decimal, or a fraction with three
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


class Reading(NamedTuple):
    """A record (or None), how its text ends, why it is refused, and how many of its keys are unknown."""

    record: Speculation | EngineLine | None
    state: State
    problem: str
    unknown: int = 0


def read_speculation(name: bytes, text: bytes, *, loose: bool = False) -> Reading:
    """Read the pairs after `name`. A record that is cut after its counts is a record of what is whole."""
    old = name.startswith(b"Speculative")
    if old and text.rstrip(b" ").endswith(b"."):
        text = text.rstrip(b" ").removesuffix(b".")
    pairs = (OLD if old else NEW).read(text, loose=loose)
    if pairs.state is State.BAD:
        return Reading(None, State.BAD, pairs.problem)
    values = pairs.values
    if old and {"efficiency", "emitted", "k"} & values.keys():
        return Reading(_record(CUMULATIVE, pairs), pairs.state, "")
    if "accepted" not in values or "drafted" not in values:
        return Reading(None, State.CUT, "cut before its counts")
    record = _record(_family(values, old), pairs)
    if problem := _problem(record, "drafted" in pairs.open):
        return Reading(None, *problem)
    # The wording of March 2025 ends with a comma.
    whole = old and not pairs.open and values.keys() == {"share", "accepted", "drafted"}
    return Reading(record, State.WHOLE if whole else pairs.state, "", len(pairs.extra))


def read_engine_line(engine: str, text: bytes, *, loose: bool = False) -> Reading:
    """Read the pairs of an Engine line, from "Avg prompt throughput" on."""
    pairs = ENGINE.read(text.rstrip(b" ").removesuffix(b"."), loose=loose)
    if pairs.state is State.BAD:
        return Reading(None, State.BAD, f"Engine line: {pairs.problem}")
    values = pairs.values
    if any(len(values.get(count, b"")) > DIGITS for count in ("running", "waiting")):
        return Reading(None, State.BAD, "Engine line: a number of requests that no server has")
    usages = [value for column, value in values.items() if column.endswith(" usage")]
    record = EngineLine(
        engine=engine,
        prompt_speed=values.get("prompt_speed", b""),
        generation_speed=values.get("generation_speed", b""),
        running=values.get("running", b""),
        waiting=values.get("waiting", b""),
        kv_usage=usages[0] if usages else b"",
        prefix_hits=values.get("prefix_hits", b""),
        extra=_json(pairs.extra | {key: values[key].decode() + unit for key, (_, unit) in _OPTIONAL.items() if key in values}),
    )
    return Reading(record, pairs.state, "", len(pairs.extra))


def _record(wording: str, pairs: Pairs) -> Speculation:
    values = pairs.values
    rates_end = RATES_WHOLE
    if "rates" in pairs.open:
        rates_end = RATES_CUT if pairs.state is State.CUT else RATES_LAST
    return Speculation(
        wording=wording,
        mean=values.get("mean", b""),
        accepted_speed=values.get("accepted_speed", b""),
        drafted_speed=values.get("drafted_speed", b""),
        accepted=values.get("accepted", b""),
        drafted=values.get("drafted", b""),
        rates=values.get("rates", b""),
        rates_end=rates_end,
        share=values.get("share", b""),
        extra=_json(pairs.extra),
    )


def _family(values: Mapping[str, bytes], old: bool) -> str:
    if old:
        return MARCH_2025
    if "accepted_speed" in values or "drafted_speed" in values:
        return THROUGHPUTS
    if "mean" not in values:
        return APRIL_2025
    # The order of the pairs is that of the text: versions before 0.10.2 print the rate first.
    order = list(values)
    return RATE_FIRST if "share" in values and order.index("share") < order.index("mean") else THROUGHPUTS


def _problem(record: Speculation, open_count: bool) -> tuple[State, str] | None:
    """Why the counts are not those of an interval; `open_count`: further digits may have followed the drafted tokens."""
    if max(map(len, (record.accepted, record.drafted, record.mean, record.share))) > DIGITS:
        return State.BAD, "a number that no interval has"
    if open_count and not _confirmed(record):
        return State.CUT, "cut within the number of drafted tokens, and no printed ratio confirms it"
    accepted, drafted = int(record.accepted), int(record.drafted)
    if accepted > drafted:
        return State.BAD, f"{accepted} accepted of {drafted} drafted tokens"
    if record.rates.count(b",") >= MOST_POSITIONS:
        return State.BAD, f"more than {MOST_POSITIONS} positions"
    return None


def _confirmed(record: Speculation) -> bool:
    """True if a printed ratio leaves no room for further digits of the drafted tokens."""
    accepted, drafted = int(record.accepted), int(record.drafted)
    if accepted == 0 or drafted == 0:
        return False
    share = record.share
    if share not in (b"", b"nan") and float(share) > 0:
        ratio = accepted / drafted
        return share.decode() in (f"{100 * ratio:.1f}", f"{ratio:.3f}")
    if record.accepted_speed and record.drafted_speed:
        speeds = float(record.accepted_speed), float(record.drafted_speed)
        if all(math.isfinite(speed) and speed >= 0.1 for speed in speeds):
            return abs(accepted * speeds[1] - drafted * speeds[0]) <= 0.0051 * (accepted + drafted)
    return False


def _json(extra: Mapping[str, str]) -> str:
    return json.dumps(dict(extra), sort_keys=True) if extra else ""
