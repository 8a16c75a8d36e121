"""Everything that the lines of a log say about acceptance, each figure with its interval."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from draftmeter.stats.autocorrelation import Curve, DecayChoice, fit_decay
from draftmeter.stats.blocks import plan_blocks
from draftmeter.stats.collection import Collection
from draftmeter.stats.figures import (
    FIFTHS,
    NO_POSITIONS,
    RUNNING,
    acceptance_memory,
    add_autocorrelation,
    add_pooled,
    add_positions,
    add_running,
    add_threshold,
    add_workloads,
    step_rates,
)
from draftmeter.stats.lines import Lines
from draftmeter.stats.load import Explained, RangeOfMeans, Regression, explained_share, range_of_means, regression_on_running
from draftmeter.stats.overdispersion import Overdispersion, overdispersion
from draftmeter.stats.planning import Planning, planning
from draftmeter.stats.positions import EqualityTest, equality_test_of
from draftmeter.stats.resample import BlockEstimate, Joint
from draftmeter.stats.selection import expected_groups

BoolArray = NDArray[np.bool_]

FEWEST_RESAMPLES = 2


class SurveyError(ValueError):
    """Lines that cannot be surveyed: what was found, what would be right."""


@dataclass(frozen=True)
class Settings:
    """What a survey is asked for."""

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
            raise SurveyError(
                f"found confidence {self.confidence}, {self.resamples} resamples, half width {self.half_width}; needs a "
                f"confidence between 0 and 1, at least {FEWEST_RESAMPLES} resamples, a positive half width"
            )
        thresholds = (self.min_drafts, *self.sensitivity)
        if min(thresholds) < 1 or self.until_s <= 0:
            raise SurveyError(
                f"found thresholds {thresholds}, lags to {self.until_s} s; needs at least one draft, a positive lag"
            )


@dataclass(frozen=True)
class Threshold:
    """Which lines hold at least `min_drafts` drafts; counts and extremes, so without intervals."""

    min_drafts: int
    lines: int
    share_of_lines: float
    share_of_draft_tokens: float
    lowest: float | None
    highest: float | None


@dataclass(frozen=True)
class Survey:
    """The figures. Those with resampled intervals are in `estimates`, by name.

    `pooled.`: the figures of `draftmeter.stats.pooled.pooled_names`, over all lines.
    `t<T>.` for each threshold T: mean, sd, sampling_sd, variance_ratio, true_variance, p10, p90, tokens_per_step_p10, _p90 and
    _p90_over_p10, step_rate_correlation_1..3 (with tokens per step, at one, two, three running).
    At the first threshold alone: `autocorrelation.<lag in s>`; `running.0` .. `running.6+`, `running.none`, `running.some`, and
    differences such as `running.2 - running.1`; `fifth_1.` .. `fifth_5.` with chance_k, rise_k, slope;
    `dispersion.variance_k`, `.binomial_k`; `step_rate.p10`, `.p90`, `.p90_over_p10` (at one running); `workload.<name>` and
    differences, where workloads are given.
    """

    estimates: dict[str, BlockEstimate] = field(repr=False)
    thresholds: tuple[Threshold, ...]
    pairs: dict[str, int] = field(repr=False)
    """Pairs of lines behind each autocorrelation."""
    decay: DecayChoice
    running_range: RangeOfMeans
    """Of the means at 1 to 6 or more running."""
    regression: Regression | None
    explained_by_running: Explained
    explained_by_workload: Explained | None
    equality: EqualityTest
    equality_in_fifths: tuple[EqualityTest, ...]
    equal_chances: tuple[tuple[float, ...], ...] | None
    """Chance by fifth and position that equal chances in all intervals would give."""
    overdispersion: Overdispersion
    planning: Planning | None
    lines: int
    block_length: float
    memory: float
    """Block length in lines that acceptance asks for, at least."""


def survey(lines: Lines, settings: Settings, workload: ArrayLike | None = None) -> Survey:
    """All figures of `lines` (at least one); `workload` labels each line, shape (n,), where workloads are known."""
    if len(lines) == 0:
        raise SurveyError("found no line with a draft token; a survey needs at least one")
    main = lines.at_least(settings.min_drafts)
    thresholds = tuple(dict.fromkeys((settings.min_drafts, *settings.sensitivity)))
    asked = (settings.confidence, settings.resamples, settings.seed)
    together = Collection(plan_blocks(acceptance_memory(lines, main), lines.boot), *asked)
    add_pooled(together, lines)
    for min_drafts in thresholds:
        add_threshold(together, lines, min_drafts)
    curve = add_autocorrelation(together, lines, main, settings.until_s)
    add_running(together, lines, main)
    workloads = () if workload is None else add_workloads(together, lines, main, workload)
    add_positions(together, lines, main)
    estimates, joints = together.estimated()
    estimates |= step_rates(lines, thresholds, *asked).estimated()[0]
    blocks = together.blocks
    variation = _overdispersion(estimates, lines, settings)
    true_variance = (variation.acceptance.sd or 0.0) ** 2
    return Survey(
        estimates=estimates,
        thresholds=tuple(_threshold(lines, min_drafts) for min_drafts in thresholds),
        pairs={} if curve is None else dict(zip(curve.part.names, curve.pairs, strict=True)),
        decay=_decay(curve, lines, int(main.sum()), settings.confidence),
        running_range=range_of_means(estimates, RUNNING[1:], settings.confidence),
        regression=_regression(together, lines, main, settings),
        explained_by_running=explained_share(joints[RUNNING[0]], RUNNING, true_variance, settings.confidence),
        explained_by_workload=(
            explained_share(joints[workloads[0]], workloads, true_variance, settings.confidence) if workloads else None
        ),
        equality=equality_test_of(joints["pooled.accepted_over_drafted"], "pooled."),
        equality_in_fifths=_fifths_equality(joints),
        equal_chances=_equal_chances(lines, main),
        overdispersion=variation,
        planning=_planning(estimates["pooled.accepted_over_drafted"], lines, settings),
        lines=len(lines),
        block_length=blocks.length,
        memory=blocks.memory,
    )


def _threshold(lines: Lines, min_drafts: int) -> Threshold:
    chosen = lines.at_least(min_drafts)
    acceptance = lines.acceptance[chosen]
    return Threshold(
        min_drafts=min_drafts,
        lines=len(acceptance),
        share_of_lines=len(acceptance) / len(lines),
        share_of_draft_tokens=float(lines.drafted[chosen].sum() / lines.drafted.sum()),
        lowest=float(acceptance.min()) if len(acceptance) else None,
        highest=float(acceptance.max()) if len(acceptance) else None,
    )


def _decay(curve: Curve | None, lines: Lines, n: int, confidence: float) -> DecayChoice:
    interval_s = lines.interval_s()
    if curve is None or interval_s is None:
        reason = (
            "intervals have no one length"
            if interval_s is None
            else f"too short: {n} line{' qualifies' if n == 1 else 's qualify'}"
        )
        return DecayChoice(None, None, None, reason)
    return fit_decay(curve.lags_s, curve.part.values, curve.pairs, interval_s, n, confidence)


def _regression(together: Collection, lines: Lines, main: BoolArray, settings: Settings) -> Regression | None:
    chosen = main & np.isfinite(lines.running)
    # Cells without a line leave no gap: each one that is left follows the one before.
    cell = np.unique(together.blocks.cell_of_line()[chosen], return_inverse=True)[1]
    lags = together.blocks.length / together.blocks.cell_lines * chosen.mean()
    return regression_on_running(lines.acceptance[chosen], lines.running[chosen], cell, lags, settings.confidence)


def _fifths_equality(joints: dict[str, Joint]) -> tuple[EqualityTest, ...]:
    first = "fifth_1.chance_1"
    if first not in joints:
        return (EqualityTest(None, None, None, NO_POSITIONS),) * FIFTHS
    return tuple(equality_test_of(joints[first], f"fifth_{group}.") for group in range(1, FIFTHS + 1))


def _equal_chances(lines: Lines, main: BoolArray) -> tuple[tuple[float, ...], ...] | None:
    if lines.accepted_at is None or main.sum() < FIFTHS:
        return None
    shares = lines.accepted_at[main].sum(axis=0) / lines.drafts[main].sum()
    return expected_groups(shares, lines.drafts[main], FIFTHS) if np.all(shares > 0) else None


def _overdispersion(estimates: dict[str, BlockEstimate], lines: Lines, settings: Settings) -> Overdispersion:
    positions = range(1, (lines.k or 0) + 1)
    chances = tuple(estimates[f"pooled.chance_{position}"].value for position in positions)
    return overdispersion(estimates, f"t{settings.min_drafts}.", "dispersion.", chances)


def _planning(pooled: BlockEstimate, lines: Lines, settings: Settings) -> Planning | None:
    known = lines.accepted_at is not None and np.all(np.isfinite(lines.drafts)) and np.all(np.isfinite(lines.window_s))
    if lines.accepted_at is None or not known or pooled.standard_error is None or pooled.freedom is None:
        return None
    drafts = float(lines.drafts.sum())
    return planning(
        pooled.standard_error,
        pooled.freedom,
        drafts,
        float(lines.window_s.sum()),
        lines.accepted_at.sum(axis=0) / drafts,
        half_width=settings.half_width,
        confidence=settings.confidence,
    )
