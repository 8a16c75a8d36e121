"""Which figures are made of the lines of a log: each family added to a collection of parts."""

from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from draftmeter.stats.autocorrelation import Curve, autocorrelation_curve, curve_lags
from draftmeter.stats.blocks import plan_blocks
from draftmeter.stats.collection import Collection
from draftmeter.stats.histograms import groups_part, percentile_part
from draftmeter.stats.intervals import FEWEST_PAIRS
from draftmeter.stats.lines import Lines
from draftmeter.stats.load import RUNNING_NAMES, running_group
from draftmeter.stats.parts import chance_variance_part, correlation_part, difference_names, means_part, pooled_part, spread_part
from draftmeter.stats.positions import names_along_the_draft
from draftmeter.stats.resample import Scale, lines_in_words

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

FIFTHS = 5
RUNNING = tuple(f"running.{name}" for name in RUNNING_NAMES)
IDLE = ("running.none", "running.some")
STEP_RATE_RUNNING = (1, 2, 3)
SPREAD = ("mean", "sd", "sampling_sd", "variance_ratio", "true_variance")
NEED_POSITIONS = SPREAD[2:]
STEP_PERCENTILES = ("tokens_per_step_p10", "tokens_per_step_p90", "tokens_per_step_p90_over_p10")
NO_POSITIONS = "a line gives no acceptance by position"
NO_RUNNING = "the lines do not say how many requests were running"


def acceptance_memory(lines: Lines, taking_part: BoolArray) -> FloatArray:
    """What decides the length of blocks, shape (n, 3): acceptance of the lines taking part, its square, and pooled acceptance.

    Each as its deviation, 0 for a line that does not take part.
    """
    deviation = squared = np.zeros(len(lines))
    if taking_part.any():
        deviation = np.where(taking_part, lines.acceptance - lines.acceptance[taking_part].mean(), 0.0)
        squared = np.where(taking_part, deviation**2 - np.mean(deviation[taking_part] ** 2), 0.0)
    pooled = lines.accepted.sum() / lines.drafted.sum()
    return np.column_stack([deviation, squared, (lines.accepted - pooled * lines.drafted) / lines.drafted.mean()])


def add_pooled(together: Collection, lines: Lines) -> None:
    """All drafts of all lines together."""
    together.add([], partial(pooled_part, lines=lines, prefix="pooled."))


def add_threshold(together: Collection, lines: Lines, min_drafts: int) -> None:
    """Spread and percentiles over the lines with at least `min_drafts` drafts."""
    chosen, prefix = lines.at_least(min_drafts), f"t{min_drafts}."
    reason = None if chosen.any() else f"no line holds {min_drafts} drafts"
    together.add([prefix + name for name in SPREAD], partial(spread_part, lines=lines, taking_part=chosen, prefix=prefix), reason)
    if lines.accepted_at is None and reason is None:
        together.unknown.append((tuple(prefix + name for name in NEED_POSITIONS), NO_POSITIONS))
    kinds: list[tuple[FloatArray, tuple[str, ...], Scale]] = [
        (lines.acceptance, ("p10", "p90"), "fraction"),
        (lines.tokens_per_step, STEP_PERCENTILES, "log"),
    ]
    for values, names, scale in kinds:
        full = tuple(prefix + name for name in names)
        together.add(full, partial(percentile_part, values=values, taking_part=chosen, names=full, scale=scale), reason)


def add_autocorrelation(together: Collection, lines: Lines, taking_part: BoolArray, until_s: float) -> Curve | None:
    """The curve to `until_s`; None where intervals have no common length or are too few."""
    interval_s = lines.interval_s()
    if interval_s is None or int(taking_part.sum()) < FEWEST_PAIRS:
        return None
    lags = curve_lags(interval_s, until_s)
    curve = autocorrelation_curve(together.blocks, lines, taking_part, lags, interval_s, "autocorrelation.")
    together.parts.append(curve.part)
    return curve


def add_running(together: Collection, lines: Lines, taking_part: BoolArray) -> None:
    """Mean acceptance by requests running at the interval's end, and with none against some."""
    group = running_group(lines.running)
    reason = NO_RUNNING if (group[taking_part] < 0).all() else None
    for groups, names in ((group, RUNNING), (np.minimum(group, 1), IDLE)):
        make = partial(means_part, values=lines.acceptance, groups=groups, names=names, taking_part=taking_part)
        together.add([*names, *difference_names(names)], make, reason)


def add_workloads(together: Collection, lines: Lines, taking_part: BoolArray, workload: ArrayLike) -> tuple[str, ...]:
    """Mean acceptance by workload; the names."""
    every, number = np.unique(np.asarray(workload), return_inverse=True)
    names = tuple(f"workload.{name}" for name in every)
    groups = number.astype(np.int64)
    make = partial(means_part, values=lines.acceptance, groups=groups, names=names, taking_part=taking_part)
    together.add([*names, *difference_names(names)], make, None if taking_part.any() else "no line qualifies")
    return names


def add_positions(together: Collection, lines: Lines, taking_part: BoolArray) -> None:
    """Chances by fifth of acceptance, and how each position's chance varies between intervals."""
    count = int(taking_part.sum())
    if lines.accepted_at is None or lines.k is None:
        return
    fifths = [f"fifth_{group}.{label}" for group in range(1, FIFTHS + 1) for label in names_along_the_draft(lines.k)]
    make = partial(
        groups_part,
        acceptance=lines.acceptance,
        taking_part=taking_part,
        drafts=lines.drafts,
        accepted_at=lines.accepted_at,
        prefix="fifth_",
        groups=FIFTHS,
    )
    together.add(
        fifths, make, None if count >= FIFTHS else f"{lines_in_words(count)} with enough drafts; five groups need at least five"
    )
    positions = range(1, lines.k + 1)
    names = [f"dispersion.{kind}_{position}" for position in positions for kind in ("variance", "binomial")]
    variances = partial(
        chance_variance_part,
        drafts=lines.drafts,
        accepted_at=lines.accepted_at,
        taking_part=taking_part,
        prefix="dispersion.",
    )
    together.add(names, variances, None if count else "no line qualifies")


def step_rates(lines: Lines, thresholds: tuple[int, ...], confidence: float, resamples: int, seed: int) -> Collection:
    """Step rates and their correlation with tokens per step, in blocks of their own: load forgets at another pace."""
    rate, tokens = lines.step_rate, lines.tokens_per_step
    known = np.isfinite(rate) & np.isfinite(lines.running)
    one = known & lines.at_least(thresholds[0]) & (lines.running == 1)
    some = known & lines.at_least(thresholds[0]) & np.isin(lines.running, STEP_RATE_RUNNING)
    memory = np.column_stack([_deviation(rate, one), _deviation(rate, some) * _deviation(tokens, some)])
    together = Collection(plan_blocks(memory, lines.boot), confidence, resamples, seed)
    reason = None if np.isfinite(lines.running).any() else NO_RUNNING
    groups = {
        f"t{min_drafts}.step_rate_correlation_{running}": known & lines.at_least(min_drafts) & (lines.running == running)
        for min_drafts in thresholds
        for running in STEP_RATE_RUNNING
    }
    together.add(list(groups), partial(correlation_part, x=tokens, y=rate, groups=groups), reason)
    names = ("step_rate.p10", "step_rate.p90", "step_rate.p90_over_p10")
    none = None if one.any() else f"no line with one request running holds {thresholds[0]} drafts"
    together.add(names, partial(percentile_part, values=rate, taking_part=one, names=names, scale="log"), reason or none)
    return together


def _deviation(values: FloatArray, taking_part: BoolArray) -> FloatArray:
    result = np.zeros(len(values))
    if taking_part.any():
        result[taking_part] = values[taking_part] - values[taking_part].mean()
    return result
