"""All drafts together: every rate that follows from their counts, with confidence intervals.

From clusters of requests, or from blocks of intervals.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats  # type: ignore[import-untyped]

from draftmeter.stats.acceptance import CountsError, FloatArray, along_the_draft, names_along_the_draft
from draftmeter.stats.blocks import Blocks, acceptance_blocks
from draftmeter.stats.estimate import Estimate, t_estimate
from draftmeter.stats.intervals import IntervalSeries, IntervalsError
from draftmeter.stats.ratios import Clusters, clusters_of, linearised, scatter
from draftmeter.stats.resample import FRACTION, PLAIN, Joint, Resampling, Sums

RATES = ("first_position", "checked", "accepted_over_drafted")
# Of the differences that stand for derivatives, relative to the totals.
STEP = 1e-6


@dataclass(frozen=True)
class EqualityTest:
    """Wald test of "no rise at any position", with the F distribution of Hotelling's T^2."""

    f: float | None
    freedom: tuple[int, float] | None
    p_value: float | None
    unknown: str | None


@dataclass(frozen=True)
class Pooled:
    """Estimates by name, and whether the chance is equal at all positions.

    The names are those of :func:`pooled_names`, and from blocks also `tokens_per_step_at_1` ..
    `_(K-1)`.
    """

    estimates: dict[str, Estimate]
    equality: EqualityTest


def pooled_names(k: int) -> tuple[str, ...]:
    """What :func:`pooled_values` gives, in its order; without positions, k = 0, the first two."""
    names = ["accepted_over_drafted", "tokens_per_step"]
    if k:
        names += ["accepted_over_checked", *(f"share_through_{position}" for position in range(1, k + 1))]
        names += names_along_the_draft(k)
        names += [f"formula_{rate}" for rate in RATES] + [f"formula_{rate}_error" for rate in RATES]
        names += ["formula_last_terms_error"] if k > 1 else []
    return tuple(names)


def pooled_values(sums: FloatArray, eligible_at: FloatArray | None = None) -> FloatArray:
    """Every rate from sums of counts: shape (r, 4 + K) to (r, names).

    The sums are of drafted, accepted, accepted (where drafts are known), drafts and accepted_1..K.
    The chance at k is accepted_k / eligible_k, and accepted over checked is sum_k accepted_k /
    sum_k eligible_k: a token is checked if all before it were accepted. `eligible_at` (r, K) are
    the drafts that hold a token at k with all before it accepted; without it every draft is taken
    as full, and eligible_k = accepted_(k-1).

    Formulas are 1 + a + ... + a^K for the rate a (Leviathan et al. 2023, eq. 1); their errors are
    relative to 1 + the shares through 1..K, and that of the last terms, for the first-position
    rate, is of a^2 + ... + a^K against the shares through 2..K.
    """
    drafted, accepted, accepted_known, drafts = sums[:, :4].T
    result = [accepted / drafted, 1 + accepted_known / drafts]
    k = sums.shape[1] - 4
    if k:
        at, eligible = sums[:, 4:], sums[:, 3:-1] if eligible_at is None else eligible_at
        shares = at / drafts[:, None]
        total = shares.sum(axis=1)
        checked = at.sum(axis=1) / eligible.sum(axis=1)
        result += [checked, *shares.T, *along_the_draft(at / eligible).T]
        formulas = [sum((a**power for power in range(1, k + 1)), np.ones(len(sums))) for a in (shares[:, 0], checked, result[0])]
        result += formulas + [formula / (1 + total) - 1 for formula in formulas]
        result += [(formulas[0] - 1 - shares[:, 0]) / shares[:, 1:].sum(axis=1) - 1] if k > 1 else []
    return np.column_stack(result)


def pooled_by_cluster(
    drafts: ArrayLike,
    drafted: ArrayLike,
    accepted_at: ArrayLike,
    confidence: float,
    clusters: Clusters | None = None,
    eligible_at: ArrayLike | None = None,
) -> Pooled:
    """From rows (requests), in `clusters`; without these each row is one.

    Shapes: drafts and draft tokens (n,), drafts accepted through 1..K (n, K), and `eligible_at`,
    that of :func:`pooled_values`, (n, K). Value +- t * standard error; covariance and degrees of
    freedom are those of :func:`draftmeter.stats.ratios.scatter`, for the derivatives of each rate
    along a row's counts (linearisation). Rows without a draft count.
    """
    d, tokens, at = (np.asarray(column, dtype=np.float64) for column in (drafts, drafted, accepted_at))
    eligible = None if eligible_at is None else np.asarray(eligible_at, dtype=np.float64)
    alike = clusters_of(np.arange(len(d))) if clusters is None else clusters
    _check(d, tokens, at, eligible, alike)
    n, k = alike.number, at.shape[1]
    accepted = at.sum(axis=1)
    columns = np.column_stack([tokens, accepted, accepted, d, at, *([] if eligible is None else [eligible])])
    totals = columns.sum(axis=0)

    def values_of(sums: FloatArray) -> FloatArray:
        return pooled_values(sums[:, : 4 + k], None if eligible is None else sums[:, 4 + k :])

    with np.errstate(divide="ignore", invalid="ignore"):
        values = values_of(totals[None])[0]
        steps = STEP * totals * np.eye(len(totals))
        slopes = (values_of(totals + steps) - values_of(totals - steps)) / (2 * STEP * totals[:, None])
    lacking = alike.lacking
    found = None if lacking else scatter(columns @ np.where(np.isfinite(slopes), slopes, 0.0), alike)
    names = pooled_names(k)
    estimates = {}
    for index, (name, value, known) in enumerate(zip(names, values, np.isfinite(slopes).all(axis=0), strict=True)):
        if not np.isfinite(value):
            estimates[name] = Estimate(None, None, None, n, "no draft was made, or none was accepted before a position")
        elif found is None or not known:
            estimates[name] = Estimate(float(value), None, None, n, lacking or "no interval: nothing was accepted")
        else:
            error, freedom = float(np.sqrt(found.covariance[index, index])), float(found.freedom[index])
            estimates[name] = t_estimate(float(value), error, freedom, confidence, n, linearised(confidence))
    rises = [index for index, name in enumerate(names) if name.startswith("rise_")]
    unknown = next((estimates[names[index]].unknown for index in rises if estimates[names[index]].unknown), None)
    if found is None or unknown:
        return Pooled(estimates, EqualityTest(None, None, None, unknown or lacking))
    freedom = float(found.freedom[rises].min(initial=np.inf))
    return Pooled(estimates, equality_test(values[rises], found.covariance[np.ix_(rises, rises)], freedom))


def pooled_by_blocks(series: IntervalSeries, min_drafts: int, confidence: float, resamples: int, seed: int) -> Pooled:
    """From intervals (at least one), by resampling blocks of them.

    Their blocks remember as the acceptance of those with at least `min_drafts` drafts does.
    """
    if len(series) == 0:
        raise IntervalsError("found no line with a draft token; pooled figures need at least one")
    together = Resampling(acceptance_blocks(series, series.at_least(min_drafts)), confidence, resamples, seed)
    together.add([], partial(pooled_sums, series=series, prefix=""))
    if series.k is not None and series.k > 1:
        together.add([], partial(_shorter_draft_sums, series=series))
    estimates, joints = together.estimated()
    return Pooled(estimates, equality_test_of(joints["accepted_over_drafted"]))


def pooled_sums(blocks: Blocks, series: IntervalSeries, prefix: str) -> Sums:
    """The rates of :func:`pooled_names` over all drafts of all intervals.

    Drafts are those of the intervals that say them; without positions there are only the rates that
    need none.
    """
    known = np.isfinite(series.drafts)
    columns = [series.drafted, series.accepted, np.where(known, series.accepted, 0.0), np.where(known, series.drafts, 0.0)]
    if series.accepted_at is not None:
        columns += list(np.where(known[:, None], series.accepted_at, 0.0).T)
    by_cell = np.hstack([blocks.sums(column) for column in columns])
    names = pooled_names(len(columns) - 4)
    scales = tuple(FRACTION if _is_fraction(name) else PLAIN for name in names)
    presence = np.repeat(blocks.sums(np.ones(len(series))), len(names), axis=1)
    return Sums.of(tuple(prefix + name for name in names), scales, by_cell, pooled_values, presence)


def equality_test(rises: FloatArray, covariance: FloatArray, freedom: float) -> EqualityTest:
    """T^2 = r' C^-1 r of the rises r (shape (q,)) with covariance C from f degrees of freedom.

    (f - q + 1) / (f q) T^2 has the F distribution with q and f - q + 1 degrees of freedom if no
    rise is there.
    """
    q = len(rises)
    if q == 0:
        return EqualityTest(None, None, None, "drafts of one token have one position")
    second = freedom - q + 1
    if second <= 0 or not np.all(np.isfinite(covariance)):
        return EqualityTest(None, None, None, f"too short: {freedom:.0f} degrees of freedom for {q} rises")
    if np.linalg.matrix_rank(covariance) < q:
        return EqualityTest(None, None, None, "the rises do not vary on their own")
    f = max(float(rises @ np.linalg.solve(covariance, rises)), 0.0) * second / (freedom * q)
    return EqualityTest(f, (q, second), float(stats.f.sf(f, q, second)), None)


def equality_test_of(joint: Joint, prefix: str = "") -> EqualityTest:
    """The same test from resampled blocks, for the rises `<prefix>rise_<position>`."""
    names = list(joint.estimates)
    index = [number for number, name in enumerate(names) if name.startswith(f"{prefix}rise_")]
    if not index:
        return EqualityTest(None, None, None, "drafts of one token have one position, or positions are unknown")
    found = [joint.estimates[names[number]] for number in index]
    unknown = next((one.unknown for one in found if one.unknown), None)
    if unknown:
        return EqualityTest(None, None, None, unknown)
    values = np.array([one.value for one in found], dtype=np.float64)
    return equality_test(values, joint.covariance[np.ix_(index, index)], float(joint.freedom[index].min()))


def _shorter_draft_sums(blocks: Blocks, series: IntervalSeries) -> Sums:
    """`tokens_per_step_at_k` for k = 1..K-1: 1 + the shares through 1..k.

    Over the intervals that say their drafts.
    """
    assert series.accepted_at is not None
    known = np.isfinite(series.drafts)
    counts = np.column_stack([series.drafts, series.accepted_at[:, :-1]])
    names = tuple(f"tokens_per_step_at_{k}" for k in range(1, counts.shape[1]))

    def function(resampled: FloatArray) -> FloatArray:
        return np.asarray(1 + np.cumsum(resampled[:, 1:], axis=1) / resampled[:, :1], dtype=np.float64)

    by_cell = blocks.sums(np.where(known[:, None], counts, 0.0))
    presence = np.repeat(blocks.sums(known.astype(np.float64)), len(names), axis=1)
    return Sums.of(names, (PLAIN,) * len(names), by_cell, function, presence)


def _is_fraction(name: str) -> bool:
    return name.startswith(("accepted_", "share_")) or (name.startswith("chance_") and name != "chance_slope")


def _check(d: FloatArray, tokens: FloatArray, at: FloatArray, eligible: FloatArray | None, clusters: Clusters) -> None:
    if at.ndim != 2 or d.shape != at.shape[:1] or tokens.shape != d.shape or at.shape[1] < 1 or len(clusters) != len(d):
        raise CountsError(
            f"found drafts {d.shape}, drafted {tokens.shape}, accepted by position {at.shape}, {len(clusters)} rows in clusters; "
            "needs (n,), (n,), (n, K) and n"
        )
    through = np.column_stack([tokens, d, at])
    if not np.all(np.isfinite(through)) or np.any(through < 0) or np.any(np.diff(through, axis=1) > 0):
        raise CountsError("found a request whose counts are unknown, negative, or rise along the draft")
    if eligible is not None and (eligible.shape != at.shape or not np.all((at <= eligible) & (eligible <= through[:, 1:-1]))):
        raise CountsError("found a request without accepted_k <= eligible_k <= accepted_(k-1), the tokens that were checked")
