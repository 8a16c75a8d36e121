"""The statistics lines in the log of a vLLM server, and the intervals that they report.

Once per log interval the server prints an Engine line (throughputs, running and waiting requests) and, if it drafted,
a SpecDecoding line after it. Both are lists of "key: value" pairs. Keys that are unknown here are skipped, and every
ratio is recomputed from counts, because versions differ in both.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal

ENGINE_LINE = "engine"
SPECULATION_LINE = "speculation"

# The source file in brackets is part of the pattern: a logged prompt may hold any text, even a whole line such as
# these, but it is printed by another source file.
_LINE = re.compile(
    r"(?:\((?P<process>[^()]*pid=\d+)\) )?(?:INFO|DEBUG) "
    r"(?P<month>\d\d)-(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d) \[(?:[\w.]+/)*(?:"
    r"loggers\.py:\d+\] (?P<engine>Engine \d+: |\d+ Engines Aggregated: )(?=Avg prompt throughput: )|"
    r"metrics\.py:\d+\] (?P<speculation>SpecDecoding metrics: ))"
    r"(?P<pairs>[^\r\n]+)\s*\Z"
)
# A value may contain commas (rates by position), but a part that begins with a letter begins the next pair.
_PAIR = re.compile(r"(?P<key>[A-Za-z][^:,]*): (?P<value>.*?)(?:, (?=[A-Za-z])|\Z)")
_OFFSET = re.compile(r"(?P<sign>[+-])(?P<hours>\d\d):(?P<minutes>\d\d)")

MEAN = "Mean acceptance length"
ACCEPTED = "Accepted"
DRAFTED = "Drafted"
RATES = "Per-position acceptance rate"

# Two lines of one log call carry the same time unless the clock's second ends between them.
LARGEST_GAP_S = 1


class LogError(ValueError):
    """A log that cannot be used: which line, what was found, what would be right."""


@dataclass(frozen=True, slots=True)
class Interval:
    """What one SpecDecoding line says about its interval, and the Engine line of the same moment.

    `line` is the number of the SpecDecoding line, from 1. `start` and `end` are Unix seconds, to the whole second of
    the time stamp; `window_s` is the nominal interval, for the throughputs' own clock also spans idle time before it.
    `drafts_exact`: `drafts` is Drafted / K and agrees with every printed ratio; else it follows from the printed mean,
    to its rounding, or is null. `accepted_k` has K entries; `accepted_k_exact`: the printed rates leave one integer at
    every position, and these add up to Accepted. Shares are fractions of 1. The last six fields come from the Engine
    line and are null without one; `running` and `waiting` are sampled at the interval's end.
    """

    line: int
    start: float
    end: float
    window_s: float
    k: int
    drafts: int | None
    drafts_exact: bool
    drafted: int
    accepted: int
    accepted_k: tuple[int | None, ...]
    accepted_k_exact: bool
    running: int | None
    waiting: int | None
    prompt_tokens_per_s: float | None
    generation_tokens_per_s: float | None
    kv_cache_usage: float | None
    prefix_cache_hit_rate: float | None


@dataclass(frozen=True, slots=True)
class _Line:
    """One statistics line, taken apart: kind, printing process, time and key/value pairs."""

    number: int
    kind: str
    process: str | None
    time: datetime
    pairs: Mapping[str, str]


def is_statistics_line(line: str) -> bool:
    """True for an Engine or SpecDecoding line as the statistics logger prints it, and for nothing else in a log."""
    return ("SpecDecoding metrics: " in line or "Avg prompt throughput: " in line) and _LINE.match(line) is not None


def read_intervals(lines: Iterable[str], *, zone: str, start: datetime, log_interval_s: float, k: int) -> list[Interval]:
    """Read the intervals of a log of statistics lines, one for each SpecDecoding line, in the order of the log.

    `zone` is the UTC offset of the time stamps ("+01:00"), `start` an aware time near the first line, from which the
    years follow that the stamps leave out, `log_interval_s` the server's interval, `k` its draft tokens per step.
    Raises :class:`LogError` with its number for a line that is not a statistics line or contradicts itself.
    """
    offset = _parse_zone(zone)
    near = start.astimezone(offset)
    engine_lines: dict[str | None, _Line] = {}
    intervals = []
    for number, text in enumerate(lines, start=1):
        line = _parse_line(number, text, near)
        near = line.time
        if line.kind == ENGINE_LINE:
            engine_lines[line.process] = line
        else:
            # Taken out: an Engine line belongs to one SpecDecoding line, the next one of its process.
            engine = engine_lines.pop(line.process, None)
            if engine is not None and not 0 <= (line.time - engine.time).total_seconds() <= LARGEST_GAP_S:
                engine = None
            intervals.append(_make_interval(line, engine, log_interval_s, k))
    return intervals


def _parse_zone(zone: str) -> timezone:
    match = _OFFSET.fullmatch(zone)
    if match is None:
        raise LogError(f"time zone: found {zone!r}; expected an UTC offset such as +00:00")
    offset = timedelta(hours=int(match["hours"]), minutes=int(match["minutes"]))
    return timezone(-offset if match["sign"] == "-" else offset)


def _parse_line(number: int, text: str, near: datetime) -> _Line:
    match = _LINE.match(text)
    if match is None:
        raise LogError(
            f"line {number}: found {text[:60].rstrip()!r}; expected a line such as "
            "'(APIServer pid=1) INFO 01-31 12:00:00 [metrics.py:1] SpecDecoding metrics: ...'"
        )
    pairs: dict[str, str] = {}
    position = 0
    while position < len(match["pairs"].rstrip()):
        pair = _PAIR.match(match["pairs"].rstrip(), position)
        if pair is None or pair["key"] in pairs:
            raise LogError(f"line {number}: found {match['pairs'][position:][:60]!r}; expected a new 'key: value' pair")
        pairs[pair["key"]] = pair["value"]
        position = pair.end()
    return _Line(
        number=number,
        kind=ENGINE_LINE if match["engine"] else SPECULATION_LINE,
        process=match["process"],
        time=_nearest_time(number, f"{match['month']}-{match['day']}T{match['time']}", near),
        pairs=pairs,
    )


def _nearest_time(number: int, stamp: str, near: datetime) -> datetime:
    """The time of a stamp without a year: in the year that brings it nearest to `near`."""
    candidates = []
    for year in (near.year - 1, near.year, near.year + 1):
        try:
            candidates.append(datetime.fromisoformat(f"{year:04d}-{stamp}").replace(tzinfo=near.tzinfo))
        except ValueError:
            continue  # 29 February exists in some of the years only
    if not candidates:
        raise LogError(f"line {number}: found the time {stamp!r}, which is in no year around {near.year}")
    return min(candidates, key=lambda time: abs(time - near))


def _make_interval(line: _Line, engine: _Line | None, log_interval_s: float, k: int) -> Interval:
    drafted = _read_count(line, DRAFTED, "tokens")
    accepted = _read_count(line, ACCEPTED, "tokens")
    if accepted > drafted:
        raise LogError(f"line {line.number}: found {accepted} accepted of {drafted} drafted tokens; expected no more")
    rates = _require(line, RATES).split(", ")
    if len(rates) != k:
        raise LogError(f"line {line.number}: found {len(rates)} positions in '{RATES}'; expected K = {k}")
    for rate in rates:
        if not re.fullmatch(r"[01]\.\d{3}", rate) or float(rate) > 1:
            raise LogError(f"line {line.number}: found the rate {rate!r}; expected three decimals from 0.000 to 1.000")
    mean = _require(line, MEAN)
    if accepted == 0 and (mean != "1.00" or any(rate != "0.000" for rate in rates)):
        raise LogError(f"line {line.number}: found 0 accepted tokens, but a mean of {mean} and rates {', '.join(rates)}")
    drafts, drafts_exact = _find_drafts(line, drafted, accepted, mean, rates)
    accepted_k, accepted_k_exact = _find_accepted_k(drafts, drafts_exact, accepted, rates)
    end = line.time.astimezone(UTC).timestamp()
    return Interval(
        line=line.number,
        start=end - log_interval_s,
        end=end,
        window_s=log_interval_s,
        k=k,
        drafts=drafts,
        drafts_exact=drafts_exact,
        drafted=drafted,
        accepted=accepted,
        accepted_k=accepted_k,
        accepted_k_exact=accepted_k_exact,
        running=None if engine is None else _read_count(engine, "Running", "reqs"),
        waiting=None if engine is None else _read_count(engine, "Waiting", "reqs"),
        prompt_tokens_per_s=_read_speed(engine, "Avg prompt throughput"),
        generation_tokens_per_s=_read_speed(engine, "Avg generation throughput"),
        kv_cache_usage=_read_fraction(engine, "KV cache usage"),
        prefix_cache_hit_rate=_read_fraction(engine, "Prefix cache hit rate"),
    )


def _find_drafts(line: _Line, drafted: int, accepted: int, mean: str, rates: list[str]) -> tuple[int | None, bool]:
    """Drafted / K if every draft was full, which every printed ratio must confirm; else accepted / (mean - 1)."""
    k = len(rates)
    if drafted > 0 and drafted % k == 0:
        drafts = drafted // k
        candidates = [_counts_printed_as(rate, drafts) for rate in rates]
        if (
            f"{1 + accepted / drafts:.2f}" == mean
            and all(candidates)
            and sum(map(min, candidates)) <= accepted <= sum(map(max, candidates))
        ):
            return drafts, True
    above_one = Decimal(mean) - 1 if re.fullmatch(r"\d+\.\d\d", mean) else None
    if above_one is None or not 0 <= above_one <= k:
        raise LogError(f"line {line.number}: found the mean {mean!r}; expected a number from 1.00 to {k + 1}.00")
    if above_one == 0 or accepted == 0:
        return None, False  # nothing accepted, so the printed ratios do not depend on the number of drafts
    # Short drafts (the end of the context, a grammar): at least Drafted / K of them, at most one per drafted token.
    estimate = int((accepted / above_one).to_integral_value(ROUND_HALF_UP))
    return min(max(estimate, math.ceil(drafted / k), 1), drafted), False


def _find_accepted_k(
    drafts: int | None, drafts_exact: bool, accepted: int, rates: list[str]
) -> tuple[tuple[int | None, ...], bool]:
    if accepted == 0:
        return (0,) * len(rates), True
    if drafts is None:
        return (None,) * len(rates), False
    candidates = [_counts_printed_as(rate, drafts) for rate in rates]
    if drafts_exact and all(len(found) == 1 for found in candidates):
        counts = tuple(found.start for found in candidates)
        return counts, sum(counts) == accepted
    return tuple(int((Decimal(rate) * drafts).to_integral_value(ROUND_HALF_UP)) for rate in rates), False


def _counts_printed_as(rate: str, drafts: int) -> range:
    """The counts n for which n / drafts is printed with three decimals as `rate`; empty if there is none."""
    half = Decimal("0.0005")
    first = max(0, math.floor((Decimal(rate) - half) * drafts))
    last = min(drafts, math.ceil((Decimal(rate) + half) * drafts))
    # Only the ends can be off, at a tie, where the binary quotient decides: so they are printed as the server does it.
    while first <= last and f"{first / drafts:.3f}" != rate:
        first += 1
    while last >= first and f"{last / drafts:.3f}" != rate:
        last -= 1
    return range(first, last + 1)


def _require(line: _Line, key: str) -> str:
    if key not in line.pairs:
        raise LogError(f"line {line.number}: no '{key}: ...' found; the line has {', '.join(line.pairs)}")
    return line.pairs[key]


def _read_count(line: _Line, key: str, unit: str) -> int:
    value = _require(line, key)
    match = re.fullmatch(rf"(\d+) {unit}", value)
    if match is None:
        raise LogError(f"line {line.number}: found '{key}: {value}'; expected a whole number of {unit}")
    return int(match[1])


def _read_speed(line: _Line | None, key: str) -> float | None:
    if line is None:
        return None
    value = _require(line, key)
    match = re.fullmatch(r"(\d+\.\d+) tokens/s", value)
    if match is None:
        raise LogError(f"line {line.number}: found '{key}: {value}'; expected a number of tokens/s")
    return float(match[1])


def _read_fraction(line: _Line | None, ending: str) -> float | None:
    """A percentage as a fraction of 1, by the end of its key ("CPU KV cache usage"); null if the line has none."""
    keys = [] if line is None else [key for key in line.pairs if key.endswith(ending)]
    if line is None or not keys:
        return None
    value = line.pairs[keys[0]]
    match = re.fullmatch(r"(\d+\.\d+)%", value)
    if match is None:
        raise LogError(f"line {line.number}: found '{keys[0]}: {value}'; expected a percentage")
    return float(Decimal(match[1]) / 100)
