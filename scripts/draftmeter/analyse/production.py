"""The facts of the production server's intervals: how many there are, and how acceptance varied over them."""

import math

import numpy as np
from numpy.typing import NDArray

from draftmeter.analyse.autocorrelation import autocorrelation_facts
from draftmeter.analyse.facts import count_fact, rounded, within_unit
from draftmeter.analyse.fifths import Fifth, fifth_facts
from draftmeter.analyse.lines import SUBJECT, Intervals, block_method, described, memory
from draftmeter.analyse.tables import Tables, numbers
from draftmeter.facts import Fact
from draftmeter.plan import derive_seed
from draftmeter.stats.intervals import hours_covered, sampling_sd, spread, variance_ratio
from draftmeter.stats.uncertainty import block_intervals
from draftmeter.study import Analysis

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Where its value is not finite; the sampling sd and the ratio to it need acceptance by position.
NO_SPREAD = "one interval, or intervals of one acceptance, give no such spread"
NO_POSITION = "a line gives no acceptance by position"
ESTIMATED = ("p10", "p90", "sd_pp", "sampling_sd_pp", "variance_ratio")
FIRST_ON_LOG_SCALE = 2


def production_facts(lines: Intervals, fifths: list[Fifth], tables: Tables, analysis: Analysis, seed: int) -> dict[str, Fact]:
    """Counts, spread at each threshold, autocorrelation, the `fifths`, and the gap to the counters."""
    n = len(lines.drafts)
    facts = {
        "lines": count_fact(n, "statistics lines with drafts in the server's log", "log lines", n, "lines"),
        "hours_with_lines": described(
            hours_covered(lines.window_s), lines, "h", "time that the lines cover, each counted as its nominal window"
        ),
        "lines_vs_counters_gap": _gap(lines, tables),
    }
    facts |= _threshold_facts(lines, analysis.min_drafts, analysis, seed)
    facts |= autocorrelation_facts(lines.at_least(analysis.min_drafts), analysis, seed)
    for one in fifths:
        facts[f"fifth_{one.fifth}.chance_{one.position}"] = one.chance
        facts[f"fifth_{one.fifth}.equal_chance_{one.position}"] = one.equal
    for threshold in analysis.min_drafts_sensitivity:
        at_threshold = _threshold_facts(lines, threshold, analysis, seed)
        facts |= {f"t{threshold}.{quantity}": fact for quantity, fact in at_threshold.items()}
    return {f"{SUBJECT}.{quantity}": fact for quantity, fact in facts.items()}


def production_fifths(lines: Intervals, analysis: Analysis, seed: int) -> list[Fifth]:
    """The fifths of the qualifying intervals by acceptance."""
    return fifth_facts(lines.at_least(analysis.min_drafts), _rule(analysis.min_drafts), analysis, seed)


def _rule(min_drafts: int) -> str:
    return f"intervals with at least {min_drafts} drafts"


def _threshold_facts(lines: Intervals, min_drafts: int, analysis: Analysis, seed: int) -> dict[str, Fact]:
    chosen, rule = lines.at_least(min_drafts), _rule(min_drafts)
    n, total, drafted = len(chosen.drafts), len(lines.drafts), float(lines.drafted.sum())
    share = float(chosen.drafted.sum()) / drafted if drafted else None
    facts = {
        "min_drafts": count_fact(min_drafts, "fewest drafts of an interval that qualifies", "setting", total, "lines"),
        "qualifying": count_fact(n, rule, "log lines", total, "lines"),
        "share_of_lines": described(n / total if total else None, lines, "fraction", f"{rule}, over all lines"),
        "share_of_draft_tokens": described(share, lines, "fraction", f"draft tokens in {rule}, over those in all lines"),
    }
    if n == 0:
        return facts | {name: _unknown(name, chosen, rule, f"no {rule}") for name in DEFINITIONS}
    facts |= _estimates(chosen, min_drafts, analysis, seed)
    summary = spread(chosen.acceptance)
    for name, value in (("min", summary.lowest), ("max", summary.highest)):
        facts[name] = _fact(name, value, (None, None), chosen, rule, "", None)
    return facts


def _estimates(chosen: Intervals, min_drafts: int, analysis: Analysis, seed: int) -> dict[str, Fact]:
    rule = _rule(min_drafts)
    values = _spread_values(chosen, np.arange(len(chosen.drafts)))
    blocks = block_intervals(
        memory(chosen),
        lambda members: _on_interval_scale(_spread_values(chosen, members)),
        analysis.confidence,
        analysis.resamples,
        derive_seed(seed, "analyse", "spread", min_drafts),
    )
    method = block_method(blocks, analysis.confidence)
    facts = {}
    for index, name in enumerate(ESTIMATED):
        value, ends = float(values[index]), (blocks.low[index], blocks.high[index])
        if not math.isfinite(value):
            no_position = chosen.accepted_at is None and name in ("sampling_sd_pp", "variance_ratio")
            facts[name] = _unknown(name, chosen, rule, NO_POSITION if no_position else NO_SPREAD)
        elif index < FIRST_ON_LOG_SCALE:
            facts[name] = _fact(name, value, within_unit(*ends), chosen, rule, method, blocks.unknown[index])
        else:
            low, high = (None if end is None else math.exp(end) for end in ends)
            facts[name] = _fact(name, value, (low, high), chosen, rule, method, blocks.unknown[index])
    return facts


def _spread_values(intervals: Intervals, members: IntArray) -> FloatArray:
    """P10, P90, sd and sampling sd in percentage points, variance ratio; nan where unknown."""
    summary = spread(intervals.acceptance[members])
    sd = math.nan if summary.sd is None else summary.sd
    sampling, ratio = math.nan, math.nan
    if intervals.accepted_at is not None:
        drafts = intervals.drafts[members]
        sampling = sampling_sd(intervals.accepted_at[members].sum(axis=0) / drafts.sum(), drafts)
        found = variance_ratio(sd, sampling)
        ratio = math.nan if found is None else found
    return np.array([summary.p10, summary.p90, 100 * sd, 100 * sampling, ratio])


def _on_interval_scale(values: FloatArray) -> FloatArray:
    """Measures of spread are positive and skewed: their intervals are made on the scale of logarithms."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.concatenate([values[:FIRST_ON_LOG_SCALE], np.log(values[FIRST_ON_LOG_SCALE:])])


DEFINITIONS = {
    "p10": ("fraction", "10th percentile of acceptance over {rule}, unweighted"),
    "p90": ("fraction", "90th percentile of acceptance over {rule}, unweighted"),
    "min": ("fraction", "lowest acceptance of {rule}"),
    "max": ("fraction", "highest acceptance of {rule}"),
    "sd_pp": ("percentage points", "standard deviation of acceptance over {rule}, unweighted"),
    "sampling_sd_pp": ("percentage points", "standard deviation over {rule} if every draft had their pooled chances"),
    "variance_ratio": ("ratio", "(standard deviation / sampling standard deviation)^2 over {rule}"),
}


def _fact(
    name: str,
    value: float,
    ends: tuple[float | None, float | None],
    intervals: Intervals,
    rule: str,
    method: str,
    unknown: str | None,
) -> Fact:
    unit, definition = DEFINITIONS[name]
    return Fact(
        value=rounded(value),
        low=rounded(ends[0]),
        high=rounded(ends[1]),
        method=intervals.source + (method if ends[0] is not None else ""),
        n=len(intervals.drafts),
        n_unit="intervals",
        unit=unit,
        definition=definition.format(rule=rule),
        unknown=unknown,
    )


def _unknown(name: str, intervals: Intervals, rule: str, reason: str) -> Fact:
    unit, definition = DEFINITIONS[name]
    return described(None, intervals, unit, definition.format(rule=rule), reason)


def _gap(lines: Intervals, tables: Tables) -> Fact:
    counted = float(numbers(tables.counters, "draft_tokens").sum())
    value = float(lines.drafted.sum()) / counted - 1 if counted > 0 else None
    definition = "draft tokens of all lines over those of the counters, less 1"
    return described(value, lines, "relative", definition, None if counted > 0 else "the counters hold no draft token")
