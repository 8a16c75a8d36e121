"""All drafts together: every rate that follows from their counts, for many resamples at once, or with intervals by cluster."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats  # type: ignore[import-untyped]

from draftmeter.stats.acceptance import CountsError
from draftmeter.stats.positions import EqualityTest, along_the_draft, equality_test, names_along_the_draft
from draftmeter.stats.uncertainty import FEWEST_CLUSTERS, Estimate

FloatArray = NDArray[np.float64]

RATES = ("first_position", "checked", "accepted_over_drafted")
# Of the differences that stand for derivatives, relative to the totals.
STEP = 1e-6


@dataclass(frozen=True)
class ByCluster:
    """Estimates by name (those of :func:`pooled_names`), and whether the chance is equal at all positions."""

    estimates: dict[str, Estimate]
    equality: EqualityTest


def pooled_names(k: int) -> tuple[str, ...]:
    """What :func:`pooled_values` gives, in its order; with k = 0, positions unknown, the first two alone."""
    names = ["accepted_over_drafted", "tokens_per_step"]
    if k:
        names += ["accepted_over_checked", *(f"share_{position}" for position in range(1, k + 1))]
        names += names_along_the_draft(k)
        names += [f"formula_{rate}" for rate in RATES] + [f"formula_error_{rate}" for rate in RATES]
        names += ["formula_error_last_terms"] if k > 1 else []
    return tuple(names)


def pooled_values(sums: FloatArray) -> FloatArray:
    """From sums of drafted, accepted, accepted (where drafts are known), drafts and accepted_1..K; (r, 4 + K) to (r, names).

    Formulas are 1 + a + ... + a^K for the rate a; their errors are relative to 1 + the shares through 1..K, and that of the
    last terms, for the first-position rate, is of a^2 + ... + a^K against the shares through 2..K.
    """
    drafted, accepted, accepted_known, drafts = sums[:, :4].T
    result = [accepted / drafted, 1 + accepted_known / drafts]
    k = sums.shape[1] - 4
    if k:
        through = sums[:, 3:]
        shares = through[:, 1:] / drafts[:, None]
        total = shares.sum(axis=1)
        checked = total / (total + 1 - shares[:, -1])
        result += [checked, *shares.T, *along_the_draft(through[:, 1:] / through[:, :-1]).T]
        formulas = [sum((a**power for power in range(1, k + 1)), np.ones(len(sums))) for a in (shares[:, 0], checked, result[0])]
        result += formulas + [formula / (1 + total) - 1 for formula in formulas]
        result += [(formulas[0] - 1 - shares[:, 0]) / shares[:, 1:].sum(axis=1) - 1] if k > 1 else []
    return np.column_stack(result)


def pooled_by_cluster(drafts: ArrayLike, drafted: ArrayLike, accepted_at: ArrayLike, confidence: float) -> ByCluster:
    """From independent clusters (requests, prompts, sessions): their drafts and draft tokens (n,), drafts through 1..K (n, K).

    Value +- t * standard error with n - 1 degrees of freedom; the covariance is n / (n - 1) sum of e e', where e holds the
    derivatives of the figures along a cluster's counts (linearisation). Clusters without a draft count as clusters.
    """
    d, tokens, at = (np.asarray(column, dtype=np.float64) for column in (drafts, drafted, accepted_at))
    if at.ndim != 2 or d.shape != at.shape[:1] or tokens.shape != d.shape or at.shape[1] < 1:
        raise CountsError(f"found drafts {d.shape}, drafted {tokens.shape}, accepted by position {at.shape}; needs (n,), (n, K)")
    through = np.column_stack([tokens, d, at])
    if not np.all(np.isfinite(through)) or np.any(through < 0) or np.any(np.diff(through, axis=1) > 0):
        raise CountsError("found a cluster whose counts are unknown, negative, or rise along the draft")
    n, k = at.shape
    accepted = at.sum(axis=1)
    columns = np.column_stack([tokens, accepted, accepted, d, at])
    totals = columns.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = pooled_values(totals[None])[0]
        steps = STEP * totals * np.eye(len(totals))
        slopes = (pooled_values(totals + steps) - pooled_values(totals - steps)) / (2 * STEP * totals[:, None])
    residuals = columns @ np.where(np.isfinite(slopes), slopes, 0.0)
    covariance = n / max(n - 1, 1) * residuals.T @ residuals
    names = pooled_names(k)
    errors = np.sqrt(np.diag(covariance))
    half = float(stats.t.ppf((1 + confidence) / 2, max(n - 1, 1))) * errors
    estimates = {}
    for name, value, error, width, known in zip(names, values, errors, half, np.isfinite(slopes).all(axis=0), strict=True):
        if not np.isfinite(value):
            estimates[name] = Estimate(None, None, None, None, n, "no draft was made, or none was accepted before a position")
        elif n < FEWEST_CLUSTERS or not known:
            reason = f"no interval: {n} cluster, {FEWEST_CLUSTERS} are needed" if known else "no interval: nothing was accepted"
            estimates[name] = Estimate(float(value), None, None, None, n, reason)
        else:
            estimates[name] = Estimate(float(value), float(error), float(value - width), float(value + width), n, None)
    rises = [index for index, name in enumerate(names) if name.startswith("rise_")]
    unknown = next((estimates[names[index]].unknown for index in rises if estimates[names[index]].unknown), None)
    if unknown:
        return ByCluster(estimates, EqualityTest(None, None, None, unknown))
    return ByCluster(estimates, equality_test(values[rises], covariance[np.ix_(rises, rises)], n - 1))
