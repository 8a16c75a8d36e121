"""Acceptance from the steps of requests: what was really drafted at each position, and how requests differ."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from draftmeter.stats.acceptance import CountsError, Ratio, chance_at
from draftmeter.stats.uncertainty import Estimate, ratio_of_sums, smooth_function_of_ratios

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

ALL_DRAFTS = "drafts accepted through the position before"
REALLY_DRAFTED = "drafts accepted through the position before that hold a token there"


@dataclass(frozen=True)
class StepCounts:
    """Counts over steps, by position 1..K."""

    drafts: int
    drafted_at: tuple[int, ...]
    """Drafts that hold a token at the position."""
    eligible_at: tuple[int, ...]
    """Those of them whose tokens before it were all accepted: the tokens that were checked."""
    accepted_at: tuple[int, ...]


@dataclass(frozen=True)
class Chances:
    """Chance at each position, and in words what the denominators count."""

    values: tuple[Ratio, ...]
    denominator: str


@dataclass(frozen=True)
class WeightedMeans:
    """Acceptance with every draft token of equal weight, with every request of equal weight, and their difference."""

    by_step: Estimate
    by_request: Estimate
    difference: Estimate
    """By request less by step."""


@dataclass(frozen=True)
class GroupOfRequests:
    """Requests whose property lies between two bounds (included), and their pooled acceptance."""

    lowest: float
    highest: float
    requests: int
    acceptance: Estimate


def step_counts(accepted: ArrayLike, drafted: ArrayLike, k: int) -> StepCounts:
    """From the accepted and drafted tokens of each step, shape (n,), drafts of up to `k` tokens."""
    a, d = np.asarray(accepted, dtype=np.int64), np.asarray(drafted, dtype=np.int64)
    if a.ndim != 1 or a.shape != d.shape or np.any((a < 0) | (a > d) | (d > k)):
        raise CountsError(f"found steps of shape {a.shape} and {d.shape}; needs 0 <= accepted <= drafted <= {k} in each")
    positions = range(1, k + 1)
    return StepCounts(
        drafts=len(a),
        drafted_at=tuple(int((d >= position).sum()) for position in positions),
        eligible_at=tuple(int(((d >= position) & (a >= position - 1)).sum()) for position in positions),
        accepted_at=tuple(int((a >= position).sum()) for position in positions),
    )


def chances(drafts: float, accepted_at: ArrayLike, eligible_at: ArrayLike | None = None) -> Chances:
    """accepted_k over what was really drafted at k after acceptance before it, where `eligible_at` (K,) says so.

    Without it accepted_k / accepted_(k-1), which takes every draft as full. Says which denominator was used.
    """
    if eligible_at is None:
        return Chances(chance_at(drafts, accepted_at), ALL_DRAFTS)
    accepted, eligible = (np.asarray(column, dtype=np.float64) for column in (accepted_at, eligible_at))
    before = np.array([ratio.denominator for ratio in chance_at(drafts, accepted)])
    if eligible.shape != accepted.shape or np.any((eligible < accepted) | (eligible > before)):
        raise CountsError(
            f"found {eligible.tolist()} drafts with a token after acceptance, {accepted.tolist()} accepted; "
            "needs accepted_k <= eligible_k <= accepted_(k-1)"
        )
    ratios = (Ratio(None if e == 0 else float(a / e), float(a), float(e)) for a, e in zip(accepted, eligible, strict=True))
    return Chances(tuple(ratios), ALL_DRAFTS if np.array_equal(eligible, before) else REALLY_DRAFTED)


def checked_over_steps(accepted: ArrayLike, drafted: ArrayLike) -> Ratio:
    """accepted / (accepted + rejected) over steps, shape (n,): one rejection for each draft not accepted to its end."""
    a, d = np.asarray(accepted, dtype=np.float64), np.asarray(drafted, dtype=np.float64)
    if a.shape != d.shape or np.any((a < 0) | (a > d)):
        raise CountsError(f"found steps of shape {a.shape} and {d.shape}; needs 0 <= accepted <= drafted in each")
    total = float(a.sum())
    checked = total + float((a < d).sum())
    return Ratio(total / checked if checked else None, total, checked)


def weighted_means(accepted: ArrayLike, drafted: ArrayLike, cluster: ArrayLike, confidence: float) -> WeightedMeans:
    """Of requests with accepted and drafted tokens and a label of their cluster, shape (n,); without a draft one is left out."""
    a, d = (np.asarray(column, dtype=np.float64) for column in (accepted, drafted))
    made = d > 0
    labels = np.asarray(cluster)[made]
    rate = a[made] / d[made]
    y, x, shares, requests = summed_by(labels, a[made], d[made], rate, np.ones(len(rate)))
    by_step, by_request = ratio_of_sums(y, x, confidence), ratio_of_sums(shares, requests, confidence)
    if by_step.low is None:
        reason = by_step.unknown
        value = None if by_step.value is None or by_request.value is None else by_request.value - by_step.value
        return WeightedMeans(by_step, by_request, Estimate(value, None, None, None, by_step.clusters, reason))
    # Both means as ratios to the number of clusters, so that they share a denominator.
    difference = smooth_function_of_ratios(
        np.column_stack([y, x, shares, requests]),
        np.ones(len(y)),
        lambda r: float(r[2] / r[3] - r[0] / r[1]),
        lambda r: np.array([-1 / r[1], r[0] / r[1] ** 2, 1 / r[3], -r[2] / r[3] ** 2]),
        confidence,
    )
    return WeightedMeans(by_step, by_request, difference)


def by_groups(
    accepted: ArrayLike, drafted: ArrayLike, cluster: ArrayLike, property_: ArrayLike, confidence: float, groups: int = 4
) -> tuple[GroupOfRequests, ...]:
    """Acceptance of requests in groups of about equal numbers by a property (prompt length, cached share), shape (n,).

    Equal values of the property stay together, so that there may be fewer groups. A request whose property is nan is left out.
    """
    values = np.asarray(property_, dtype=np.float64)
    a, d, labels = np.asarray(accepted, dtype=np.float64), np.asarray(drafted, dtype=np.float64), np.asarray(cluster)
    known = np.isfinite(values)
    if not known.any():
        return ()
    cuts = np.unique(np.quantile(values[known], np.arange(1, groups) / groups, method="inverted_cdf"))
    group = np.where(known, np.searchsorted(cuts, values, side="left"), -1)
    result = []
    for number in np.unique(group[known]):
        members = group == number
        y, x = summed_by(labels[members], a[members], d[members])
        bounds = float(values[members].min()), float(values[members].max())
        result.append(GroupOfRequests(*bounds, int(members.sum()), ratio_of_sums(y, x, confidence)))
    return tuple(result)


def summed_by(labels: ArrayLike, *columns: ArrayLike) -> Sequence[FloatArray]:
    """Sums of the columns (n,) over each cluster, in the order of the sorted labels."""
    names, position = np.unique(np.asarray(labels), return_inverse=True)
    summed = (np.bincount(position, np.asarray(column, dtype=np.float64), len(names)) for column in columns)
    return [np.asarray(column, dtype=np.float64) for column in summed]
