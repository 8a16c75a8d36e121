"""Everything that an interval series says about acceptance, with confidence intervals."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from draftmeter.stats.acceptance import BoolArray, FloatArray, names_along_the_draft
from draftmeter.stats.beyond_chance import Overdispersion, Planning, expected_groups, overdispersion, planning
from draftmeter.stats.blocks import Blocks, acceptance_blocks, plan_blocks
from draftmeter.stats.estimate import Estimate
from draftmeter.stats.intervals import FEWEST_PAIRS, IntervalSeries, IntervalsError
from draftmeter.stats.load import (
    RUNNING_NAMES,
    RangeOfMeans,
    Regression,
    explained_share,
    range_of_means,
    regression_on_running,
    running_group,
)
from draftmeter.stats.memory import Curve, DecayChoice, autocorrelation_curve, curve_lags, fit_decay
from draftmeter.stats.pooled import EqualityTest, equality_test_of, pooled_sums
from draftmeter.stats.resample import Joint, Resampling, Scale, lines_in_words
from draftmeter.stats.sums import (
    chance_variance_sums,
    correlation_sums,
    difference_names,
    group_sums,
    mean_sums,
    percentile_sums,
    spread_sums,
)

FEWEST_RESAMPLES = 2
FIFTHS = 5
RUNNING = tuple(f"running.{name}" for name in RUNNING_NAMES)
IDLE = ("running.none", "running.some")
STEP_RATE_RUNNING = (1, 2, 3)
SPREAD = ("mean", "sd", "sampling_sd", "variance_ratio", "true_variance")
NEED_POSITIONS = SPREAD[2:]
STEP_PERCENTILES = ("tokens_per_step_p10", "tokens_per_step_p90", "tokens_per_step_p90_over_p10")
NO_POSITIONS = "a line gives no acceptance by position"
NO_RUNNING = "the lines do not say how many requests were running"


@dataclass(frozen=True)
class Settings:
    """What is asked of an interval series."""

    min_drafts: int = 500
    sensitivity: tuple[int, ...] = (100, 1000)
    confidence: float = 0.95
    resamples: int = 2000
    seed: int = 0
    until_s: float = 1800.0
    """Longest lag of the autocorrelation curve."""
    half_width: float = 0.01
    """Of the planning number."""

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1 or self.resamples < FEWEST_RESAMPLES or self.half_width <= 0:
            raise IntervalsError(
                f"found confidence {self.confidence}, {self.resamples} resamples, half width {self.half_width}; needs a "
                f"confidence between 0 and 1, at least {FEWEST_RESAMPLES} resamples, a positive half width"
            )
        if min(self.thresholds) < 1 or self.until_s <= 0:
            raise IntervalsError(
                f"found thresholds {self.thresholds}, lags to {self.until_s} s; needs at least one draft, a positive lag"
            )

    @property
    def thresholds(self) -> tuple[int, ...]:
        """Fewest drafts of an interval that qualifies, the first one first."""
        return tuple(dict.fromkeys((self.min_drafts, *self.sensitivity)))

    def resampling(self, blocks: Blocks) -> Resampling:
        """Of these blocks, as asked."""
        return Resampling(blocks, self.confidence, self.resamples, self.seed)


@dataclass(frozen=True)
class Threshold:
    """Which intervals hold at least `min_drafts` drafts.

    Counts and extremes, so without confidence intervals.
    """

    min_drafts: int
    intervals: int
    share_of_intervals: float
    share_of_draft_tokens: float
    lowest: float | None
    highest: float | None


@dataclass(frozen=True)
class IntervalStatistics:
    """The statistics. Those with resampled confidence intervals are in `estimates`, by name.

    `pooled.`: the rates of `draftmeter.stats.pooled.pooled_names`, over all intervals.

    `t<T>.` for each threshold T: mean, sd, sampling_sd, variance_ratio, true_variance, p10, p90,
    tokens_per_step_p10, _p90 and _p90_over_p10, step_rate_correlation_1..3 (with tokens per step,
    at one, two, three running).

    At the first threshold alone: `autocorrelation.<lag in s>`; `running.0` .. `running.6+`,
    `running.none`, `running.some`, and differences such as `running.2 - running.1`; `fifth_1.` ..
    `fifth_5.` with chance_k, rise_k, chance_slope; `dispersion.variance_k`, `.binomial_k`;
    `step_rate.p10`, `.p90`, `.p90_over_p10` (at one running); `workload.<name>` and differences,
    where workloads are given.
    """

    estimates: dict[str, Estimate] = field(repr=False)
    thresholds: tuple[Threshold, ...]
    pairs: dict[str, int] = field(repr=False)
    """Pairs of intervals behind each autocorrelation."""
    decay: DecayChoice
    running_range: RangeOfMeans
    """Of the means at 1 to 6 or more running."""
    regression: Regression | None
    explained_by_running: Estimate
    explained_by_workload: Estimate | None
    equality: EqualityTest
    equality_in_fifths: tuple[EqualityTest, ...]
    equal_chances: tuple[tuple[float, ...], ...] | None
    """Chance by fifth and position that equal chances in all intervals would give."""
    overdispersion: Overdispersion
    planning: Planning | None
    intervals: int
    block_length: float
    memory: float
    """Block length in intervals that acceptance asks for, at least."""


def interval_statistics(series: IntervalSeries, settings: Settings, workload: ArrayLike | None = None) -> IntervalStatistics:
    """All statistics of `series` (at least one interval).

    `workload` labels each interval, shape (n,), where workloads are known.
    """
    if len(series) == 0:
        raise IntervalsError("found no line with a draft token; interval statistics need at least one")
    main, confidence = series.at_least(settings.min_drafts), settings.confidence
    resampling = settings.resampling(acceptance_blocks(series, main))
    resampling.add([], partial(pooled_sums, series=series, prefix="pooled."))
    for min_drafts in settings.thresholds:
        _add_threshold(resampling, series, min_drafts)
    curve = _add_autocorrelation(resampling, series, main, settings.until_s)
    _add_running(resampling, series, main)
    workloads = () if workload is None else _add_workloads(resampling, series, main, workload)
    _add_positions(resampling, series, main)
    estimates, joints = resampling.estimated()
    estimates |= _step_rates(series, settings).estimated()[0]
    variation = _overdispersion(estimates, series, settings)
    true_variance = (variation.acceptance.value or 0.0) ** 2
    return IntervalStatistics(
        estimates=estimates,
        thresholds=tuple(_threshold(series, min_drafts) for min_drafts in settings.thresholds),
        pairs={} if curve is None else dict(zip(curve.sums.names, curve.pairs, strict=True)),
        decay=_decay(curve, series, int(main.sum()), confidence),
        running_range=range_of_means(estimates, RUNNING[1:], confidence),
        regression=_regression(resampling.blocks, series, main, confidence),
        explained_by_running=explained_share(joints[RUNNING[0]], RUNNING, true_variance, confidence),
        explained_by_workload=(
            explained_share(joints[workloads[0]], workloads, true_variance, confidence) if workloads else None
        ),
        equality=equality_test_of(joints["pooled.accepted_over_drafted"], "pooled."),
        equality_in_fifths=_fifths_equality(joints),
        equal_chances=_equal_chances(series, main),
        overdispersion=variation,
        planning=_planning(estimates["pooled.accepted_over_drafted"], series, settings),
        intervals=len(series),
        block_length=resampling.blocks.length,
        memory=resampling.blocks.memory,
    )


def _add_threshold(resampling: Resampling, series: IntervalSeries, min_drafts: int) -> None:
    """Spread and percentiles over the intervals with at least `min_drafts` drafts."""
    chosen, prefix = series.at_least(min_drafts), f"t{min_drafts}."
    reason = None if chosen.any() else f"no line holds {min_drafts} drafts"
    names = [prefix + name for name in SPREAD]
    resampling.add(names, partial(spread_sums, series=series, chosen=chosen, prefix=prefix), reason)
    if series.accepted_at is None and reason is None:
        resampling.unknown.append((tuple(prefix + name for name in NEED_POSITIONS), NO_POSITIONS))
    kinds: list[tuple[FloatArray, tuple[str, ...], Scale]] = [
        (series.acceptance, ("p10", "p90"), "fraction"),
        (series.tokens_per_step, STEP_PERCENTILES, "log"),
    ]
    for values, percentiles, scale in kinds:
        full = tuple(prefix + name for name in percentiles)
        resampling.add(full, partial(percentile_sums, values=values, chosen=chosen, names=full, scale=scale), reason)


def _add_autocorrelation(resampling: Resampling, series: IntervalSeries, chosen: BoolArray, until_s: float) -> Curve | None:
    """The curve to `until_s`; None where intervals have no common length or are too few."""
    interval_s = series.interval_s()
    if interval_s is None or int(chosen.sum()) < FEWEST_PAIRS:
        return None
    lags = curve_lags(interval_s, until_s)
    curve = autocorrelation_curve(resampling.blocks, series, chosen, lags, interval_s, "autocorrelation.")
    resampling.sums.append(curve.sums)
    return curve


def _add_running(resampling: Resampling, series: IntervalSeries, chosen: BoolArray) -> None:
    """Mean acceptance by requests running at the interval's end, and with none against some."""
    group = running_group(series.running)
    reason = NO_RUNNING if (group[chosen] < 0).all() else None
    for groups, names in ((group, RUNNING), (np.minimum(group, 1), IDLE)):
        make = partial(mean_sums, values=series.acceptance, groups=groups, names=names, chosen=chosen)
        resampling.add([*names, *difference_names(names)], make, reason)


def _add_workloads(resampling: Resampling, series: IntervalSeries, chosen: BoolArray, workload: ArrayLike) -> tuple[str, ...]:
    """Mean acceptance by workload; the names."""
    every, number = np.unique(np.asarray(workload), return_inverse=True)
    names = tuple(f"workload.{name}" for name in every)
    make = partial(mean_sums, values=series.acceptance, groups=number.astype(np.int64), names=names, chosen=chosen)
    resampling.add([*names, *difference_names(names)], make, None if chosen.any() else "no line qualifies")
    return names


def _add_positions(resampling: Resampling, series: IntervalSeries, chosen: BoolArray) -> None:
    """Chances by fifth of acceptance, and how each position's chance varies between intervals."""
    count = int(chosen.sum())
    if series.k is None:
        return
    fifths = [f"fifth_{group}.{label}" for group in range(1, FIFTHS + 1) for label in names_along_the_draft(series.k)]
    reason = None if count >= FIFTHS else f"{lines_in_words(count)} with enough drafts; five groups need at least five"
    resampling.add(fifths, partial(group_sums, series=series, chosen=chosen, prefix="fifth_", groups=FIFTHS), reason)
    names = [f"dispersion.{kind}_{position}" for position in range(1, series.k + 1) for kind in ("variance", "binomial")]
    make = partial(chance_variance_sums, series=series, chosen=chosen, prefix="dispersion.")
    resampling.add(names, make, None if count else "no line qualifies")


def _step_rates(series: IntervalSeries, settings: Settings) -> Resampling:
    """Step rates and their correlation with tokens per step.

    In blocks of their own: load forgets at another pace.
    """
    rate, tokens, first = series.step_rate, series.tokens_per_step, settings.min_drafts
    known = np.isfinite(rate) & np.isfinite(series.running)
    one = known & series.at_least(first) & (series.running == 1)
    some = known & series.at_least(first) & np.isin(series.running, STEP_RATE_RUNNING)
    memory = np.column_stack([_deviation(rate, one), _deviation(rate, some) * _deviation(tokens, some)])
    resampling = settings.resampling(plan_blocks(memory, series.boot))
    reason = None if np.isfinite(series.running).any() else NO_RUNNING
    groups = {
        f"t{min_drafts}.step_rate_correlation_{running}": known & series.at_least(min_drafts) & (series.running == running)
        for min_drafts in settings.thresholds
        for running in STEP_RATE_RUNNING
    }
    resampling.add(list(groups), partial(correlation_sums, x=tokens, y=rate, groups=groups), reason)
    names = ("step_rate.p10", "step_rate.p90", "step_rate.p90_over_p10")
    none = None if one.any() else f"no line with one request running holds {first} drafts"
    resampling.add(names, partial(percentile_sums, values=rate, chosen=one, names=names, scale="log"), reason or none)
    return resampling


def _deviation(values: FloatArray, chosen: BoolArray) -> FloatArray:
    result = np.zeros(len(values))
    if chosen.any():
        result[chosen] = values[chosen] - values[chosen].mean()
    return result


def _threshold(series: IntervalSeries, min_drafts: int) -> Threshold:
    chosen = series.at_least(min_drafts)
    acceptance = series.acceptance[chosen]
    return Threshold(
        min_drafts=min_drafts,
        intervals=len(acceptance),
        share_of_intervals=len(acceptance) / len(series),
        share_of_draft_tokens=float(series.drafted[chosen].sum() / series.drafted.sum()),
        lowest=float(acceptance.min()) if len(acceptance) else None,
        highest=float(acceptance.max()) if len(acceptance) else None,
    )


def _decay(curve: Curve | None, series: IntervalSeries, n: int, confidence: float) -> DecayChoice:
    interval_s = series.interval_s()
    if curve is None or interval_s is None:
        reason = (
            "intervals have no one length"
            if interval_s is None
            else f"too short: {n} line{' qualifies' if n == 1 else 's qualify'}"
        )
        return DecayChoice(None, None, None, reason)
    return fit_decay(curve.lags_s, curve.sums.values, curve.pairs, interval_s, n, confidence)


def _regression(blocks: Blocks, series: IntervalSeries, main: BoolArray, confidence: float) -> Regression | None:
    chosen = main & np.isfinite(series.running)
    # Cells without an interval leave no gap: each one that is left follows the one before.
    cell = np.unique(blocks.cell_of_interval()[chosen], return_inverse=True)[1]
    lags = blocks.length / blocks.cell_size * chosen.mean()
    return regression_on_running(series.acceptance[chosen], series.running[chosen], cell, lags, confidence)


def _fifths_equality(joints: dict[str, Joint]) -> tuple[EqualityTest, ...]:
    first = "fifth_1.chance_1"
    if first not in joints:
        return (EqualityTest(None, None, None, NO_POSITIONS),) * FIFTHS
    return tuple(equality_test_of(joints[first], f"fifth_{group}.") for group in range(1, FIFTHS + 1))


def _equal_chances(series: IntervalSeries, main: BoolArray) -> tuple[tuple[float, ...], ...] | None:
    if series.accepted_at is None or main.sum() < FIFTHS:
        return None
    shares = series.accepted_at[main].sum(axis=0) / series.drafts[main].sum()
    return expected_groups(shares, series.drafts[main], FIFTHS) if np.all(shares > 0) else None


def _overdispersion(estimates: dict[str, Estimate], series: IntervalSeries, settings: Settings) -> Overdispersion:
    positions = range(1, (series.k or 0) + 1)
    chances = tuple(estimates[f"pooled.chance_{position}"].value for position in positions)
    return overdispersion(estimates, f"t{settings.min_drafts}.", "dispersion.", chances)


def _planning(pooled: Estimate, series: IntervalSeries, settings: Settings) -> Planning | None:
    known = np.all(np.isfinite(series.drafts)) and np.all(np.isfinite(series.window_s))
    if series.accepted_at is None or not known or pooled.standard_error is None or pooled.freedom is None:
        return None
    drafts = float(series.drafts.sum())
    return planning(
        pooled.standard_error,
        pooled.freedom,
        drafts,
        float(series.window_s.sum()),
        series.accepted_at.sum(axis=0) / drafts,
        n=len(series),
        half_width=settings.half_width,
        confidence=settings.confidence,
    )
