"""All drafts together: every rate that follows from their counts, for many resamples at once, or with intervals by cluster."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats  # type: ignore[import-untyped]

from draftmeter.stats.acceptance import CountsError
from draftmeter.stats.clusters import Clusters, clusters_of, scatter
from draftmeter.stats.positions import EqualityTest, along_the_draft, equality_test, names_along_the_draft
from draftmeter.stats.uncertainty import Estimate

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
        names += ["accepted_over_checked", *(f"share_through_{position}" for position in range(1, k + 1))]
        names += names_along_the_draft(k)
        names += [f"formula_{rate}" for rate in RATES] + [f"formula_{rate}_error" for rate in RATES]
        names += ["formula_last_terms_error"] if k > 1 else []
    return tuple(names)


def pooled_values(sums: FloatArray, eligible_at: FloatArray | None = None) -> FloatArray:
    """From sums of drafted, accepted, accepted (where drafts are known), drafts and accepted_1..K; (r, 4 + K) to (r, names).

    The chance at k is accepted_k / eligible_k, and accepted over checked is sum_k accepted_k / sum_k eligible_k: a token is
    checked if all before it were accepted. `eligible_at` (r, K) are the drafts that hold a token at k with all before it
    accepted; without it every draft is taken as full, and eligible_k = accepted_(k-1).
    Formulas are 1 + a + ... + a^K for the rate a (Leviathan et al. 2023, eq. 1); their errors are relative to 1 + the shares
    through 1..K, and that of the last terms, for the first-position rate, is of a^2 + ... + a^K against the shares through 2..K.
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
) -> ByCluster:
    """From rows (requests): their drafts and draft tokens (n,), drafts accepted through 1..K (n, K), and what is eligible (n, K).

    Value +- t * standard error; covariance and degrees of freedom are those of :func:`draftmeter.stats.clusters.scatter` over
    `clusters` of rows (without: each row is one), for the derivatives of the figures along a row's counts (linearisation).
    Rows without a draft count. `eligible_at` is that of :func:`pooled_values`.
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
            estimates[name] = Estimate(None, None, None, None, n, "no draft was made, or none was accepted before a position")
        elif found is None or not known:
            estimates[name] = Estimate(float(value), None, None, None, n, lacking or "no interval: nothing was accepted")
        else:
            error = float(np.sqrt(found.covariance[index, index]))
            half = float(stats.t.ppf((1 + confidence) / 2, found.freedom[index])) * error
            estimates[name] = Estimate(float(value), error, float(value) - half, float(value) + half, n, None)
    rises = [index for index, name in enumerate(names) if name.startswith("rise_")]
    unknown = next((estimates[names[index]].unknown for index in rises if estimates[names[index]].unknown), None)
    if found is None or unknown:
        return ByCluster(estimates, EqualityTest(None, None, None, unknown or lacking))
    freedom = float(found.freedom[rises].min(initial=np.inf))
    return ByCluster(estimates, equality_test(values[rises], found.covariance[np.ix_(rises, rises)], freedom))


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
