"""The facts of the production server's intervals: how many there are, and everything that the survey says of them."""

import numpy as np

from draftmeter.analyse.dispersion import dispersion_facts
from draftmeter.analyse.facts import PERCENT, POINTS, count_fact, fact
from draftmeter.analyse.fifths import Fifth
from draftmeter.analyse.lines import NO_LINE, LogLines, piece_s
from draftmeter.analyse.load import load_facts
from draftmeter.analyse.memory import memory_facts
from draftmeter.analyse.surveyed import NO_RUNNING, UNKNOWN_INTERVAL, Surveyed, rule
from draftmeter.analyse.tables import Tables, known, numbers
from draftmeter.facts import Fact
from draftmeter.stats.interval_statistics import STEP_RATE_RUNNING
from draftmeter.stats.intervals import hours_covered
from draftmeter.stats.runs import relative_gap

SUBJECT = "production_intervals"
NO_COUNTERS = "there are no counters; the lines are all there is"
# name: unit, factor, what is subtracted, definition
SPREAD = {
    "p10": ("fraction", 1.0, 0.0, "10th percentile of acceptance over {rule}, unweighted"),
    "p90": ("fraction", 1.0, 0.0, "90th percentile of acceptance over {rule}, unweighted"),
    "sd": (POINTS, PERCENT, 0.0, "standard deviation of acceptance over {rule}, unweighted"),
    "sampling_sd": (POINTS, PERCENT, 0.0, "standard deviation over {rule} if every draft had their pooled chances"),
    "variance_ratio": ("ratio", 1.0, 0.0, "(standard deviation / sampling standard deviation)^2 over {rule}"),
    "tokens_per_step_p10": ("tokens", 1.0, 0.0, "10th percentile of tokens per step over {rule}, unweighted"),
    "tokens_per_step_p90": ("tokens", 1.0, 0.0, "90th percentile of tokens per step over {rule}, unweighted"),
    "tokens_per_step_p90_over_p10": (
        "relative",
        1.0,
        1.0,
        "90th percentile of tokens per step over the 10th, less 1, over {rule}",
    ),
}
NAMES = {"sd": "sd_pp", "sampling_sd": "sampling_sd_pp", "tokens_per_step_p90_over_p10": "tokens_per_step_spread"}


def interval_facts(
    found: Surveyed, k: int, fifths: list[Fifth], tables: Tables | None, sensitivity: list[int]
) -> dict[str, Fact]:
    """Counts, spread at each threshold, memory, load, dispersion and the `fifths`, by quantity; K = `k` positions.

    `tables` are those of the workload; None for intervals that are not those of its log, and are not counted against it.
    """
    facts = _counts(found.log, tables)
    facts |= _threshold_facts(found, found.min_drafts)
    facts |= _step_rates(found)
    facts |= memory_facts(found)
    facts |= load_facts(found)
    facts |= dispersion_facts(found, k)
    for one in fifths:
        facts |= one.facts()
    for threshold in sensitivity:
        facts |= {f"t{threshold}.{quantity}": one for quantity, one in _threshold_facts(found, threshold).items()}
    return facts | _extremes_of_correlation(found, facts)


def _counts(log: LogLines, tables: Tables | None) -> dict[str, Fact]:
    n = len(log)
    running = known(numbers(log.table, "running"))
    timed = bool(np.isfinite(log.windows_s).all())
    facts = {
        "lines": count_fact(
            n, "intervals with drafts: statistics lines of a log, or differences of counters", log.kind, n, "lines"
        ),
        "hours_with_lines": _described(
            hours_covered(log.windows_s) if timed and n else None,
            log,
            "h",
            "time that the lines cover, each counted as its nominal window",
            None if timed else UNKNOWN_INTERVAL,
        ),
        "most_running": count_fact(
            float(running.max()) if len(running) else None,
            "most requests running at the end of an interval",
            log.kind,
            len(running),
            "lines",
            None if len(running) else NO_RUNNING if n else NO_LINE,
        ),
    }
    if tables is None:
        return facts
    length = piece_s(log)
    if length is not None:
        definition = "length of the pieces of time that stand for so many intervals in a picture of acceptance over time"
        facts["piece_s"] = _described(length, log, "s", definition, None)
    return facts | {"hours_of_counters": _hours_of_counters(tables), "lines_vs_counters_gap": _gap(log, tables)}


def _hours_of_counters(tables: Tables) -> Fact:
    seconds = numbers(tables.totals, "seconds")
    unknown: str | None = None
    if tables.counted_by == "lines":
        unknown = NO_COUNTERS
    elif np.isnan(seconds).any():
        unknown = f"how long the counters were watched is unknown in {int(np.isnan(seconds).sum())} of {len(seconds)} records"
    return fact(
        None if unknown else float(seconds.sum()) / 3600,
        unit="h",
        definition="time between the first and the last reading of the counters, over all records",
        method="server counters",
        n=len(seconds),
        n_unit="records",
        unknown=unknown,
    )


def _gap(log: LogLines, tables: Tables) -> Fact:
    definition = "draft tokens of all lines over those of the counters, less 1"
    if tables.counted_by == "lines":
        return _described(None, log, "relative", definition, NO_COUNTERS)
    counted = float(numbers(tables.totals, "draft_tokens").sum())
    value = relative_gap(float(numbers(log.table, "drafted").sum()), counted) if counted > 0 else None
    return _described(value, log, "relative", definition, None if counted > 0 else "the counters hold no draft token")


def _described(value: float | None, log: LogLines, unit: str, definition: str, unknown: str | None) -> Fact:
    """A description of the lines themselves: no estimate of anything else, so without an interval."""
    unknown = NO_LINE if value is None and unknown is None else unknown
    return fact(value, unit=unit, definition=definition, method=log.source, n=len(log), n_unit="intervals", unknown=unknown)


def _threshold_facts(found: Surveyed, min_drafts: int) -> dict[str, Fact]:
    log, text, unknown = found.log, rule(min_drafts), found.why_none_at(min_drafts)
    prefix = f"t{min_drafts}."
    threshold = None
    if found.survey is not None:
        threshold = next(one for one in found.survey.thresholds if one.min_drafts == min_drafts)
    lines = 0 if threshold is None else threshold.intervals
    names = ("share_of_intervals", "share_of_draft_tokens", "lowest", "highest")
    share, of_tokens, lowest, highest = (None if threshold is None else getattr(threshold, name) for name in names)
    facts = {
        "min_drafts": count_fact(min_drafts, "fewest drafts of an interval that qualifies", "setting", len(log), "lines"),
        "qualifying": count_fact(lines, text, log.kind, len(log), "lines"),
        "share_of_lines": _described(share, log, "fraction", f"{text}, over all lines", None),
        "share_of_draft_tokens": _described(
            of_tokens,
            log,
            "fraction",
            f"draft tokens in {text}, over those in all lines",
            None,
        ),
        "min": found.plain(lowest, "fraction", f"lowest acceptance of {text}", unknown, n=lines),
        "max": found.plain(highest, "fraction", f"highest acceptance of {text}", unknown, n=lines),
    }
    for name, (unit, factor, less, definition) in SPREAD.items():
        facts[NAMES.get(name, name)] = found.estimate(
            prefix + name, unit, definition.format(rule=text), factor=factor, less=less, unknown=unknown
        )
    for running in STEP_RATE_RUNNING:
        name = f"step_rate_correlation_{running}"
        requests = "one request" if running == 1 else f"{running} requests"
        definition = f"correlation of tokens per step with drafts per second, over {text} and {requests} running at their end"
        facts[name] = found.estimate(prefix + name, "correlation", definition, unknown=unknown or _no_rate(log))
    return facts


def _no_rate(log: LogLines) -> str | None:
    return None if np.isfinite(log.windows_s).any() else UNKNOWN_INTERVAL


def _step_rates(found: Surveyed) -> dict[str, Fact]:
    text = f"drafts per second of the window, over {found.rule} and one request running at their end"
    kinds = {
        "p10": ("drafts per second", f"10th percentile of {text}"),
        "p90": ("drafts per second", f"90th percentile of {text}"),
        "p90_over_p10": ("ratio", f"90th percentile over the 10th of {text}"),
    }
    return {
        f"step_rate_{name}": found.estimate(f"step_rate.{name}", unit, definition, unknown=_no_rate(found.log))
        for name, (unit, definition) in kinds.items()
    }


def _extremes_of_correlation(found: Surveyed, facts: dict[str, Fact]) -> dict[str, Fact]:
    """Of the correlations that have an interval: those of a few lines reach any value. Extremes have none themselves."""
    every = [one for name, one in facts.items() if name.rpartition(".")[2].startswith("step_rate_correlation_")]
    values = [one.value for one in every if one.value is not None and one.low is not None]
    unknown = None if values else f"none of {len(every)} correlations has an interval"
    what = f"of {len(values)} correlations of tokens per step with drafts per second, at all thresholds and one to three running"
    return {
        f"step_rate_correlation_{name}": found.plain(choose(values) if values else None, "correlation", f"{name} {what}", unknown)
        for name, choose in (("lowest", min), ("highest", max))
    }
