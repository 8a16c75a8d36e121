"""The facts of one workload, or of one part of it: what its drafts were worth, from counters and requests.

The value comes from the server's counters, summed over the records: they are the truth for the server. Its interval
comes from our own requests in clusters, and is given only where these hold nearly all of the server's drafts.

A counter that fell, or counts that contradict each other, make every figure of the workload unknown: the cross-checks
of the collect step have failed and say where, and the analysis has to get that far.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from draftmeter.analyse.facts import AnalysisError, count_fact, rounded, within_unit
from draftmeter.analyse.tables import Tables, by_position, numbers, position_columns, run_labels
from draftmeter.facts import Fact
from draftmeter.stats.acceptance import (
    CountsError,
    Ratio,
    accepted_over_drafted,
    chance_at,
    emitted_tokens_per_step,
    formula_error,
    geometric_formula,
    share_through,
    tokens_per_step,
)
from draftmeter.stats.uncertainty import Estimate, ratio_of_sums, smooth_function_of_ratios

FloatArray = NDArray[np.float64]

# Own requests that hold less of the server's drafts than this say too little about the drafts of the others.
LEAST_COVER = 0.99


@dataclass(frozen=True)
class Totals:
    """Counters summed over records; a total is None where a record lacks the counter. `accepted_at` has shape (K,)."""

    records: int
    drafts: float
    draft_tokens: float
    accepted: float
    accepted_at: FloatArray
    generation_tokens: float | None
    requests_finished: float | None


@dataclass(frozen=True)
class Clusters:
    """Own requests summed by cluster (a prompt, or a session), shapes (n,) and (n, K); or why there is no interval."""

    unit: str
    n: int
    drafts: FloatArray
    draft_tokens: FloatArray
    accepted: FloatArray
    accepted_at: FloatArray
    tokens_of_steps: FloatArray
    """Reply tokens less the first of each reply; nan where a request does not say."""
    cover: float
    unknown: str | None


def workload_facts(subject: str, tables: Tables, cluster: str, confidence: float) -> dict[str, Fact]:
    """All facts of `subject` from the rows of `tables`, keyed `<subject>.<quantity>`.

    `cluster` is "prompts", for the same prompt is sent at several numbers of streams, or "sessions" where the requests
    of one session are alike (production traffic).
    """
    k = tables.k
    try:
        facts = _facts(_totals(subject, tables, k), tables, k, cluster, confidence)
    except CountsError as error:
        nothing = Totals(len(tables.counters), 0, 0, 0, np.zeros(k), None, None)
        unknown = {"value": None, "low": None, "high": None, "unknown": f"{error}; see the failed cross-checks"}
        facts = {
            quantity: fact.model_copy(update=unknown)
            for quantity, fact in _facts(nothing, tables, k, cluster, confidence).items()
        }
    return {f"{subject}.{quantity}": fact for quantity, fact in facts.items()}


def _facts(totals: Totals, tables: Tables, k: int, cluster: str, confidence: float) -> dict[str, Fact]:
    clusters = _clusters(tables, k, cluster, totals.drafts)
    return _counts(totals) | _ratios(totals, clusters, k, confidence) | _formula(totals, clusters, k, confidence)


def _totals(subject: str, tables: Tables, k: int) -> Totals:
    def total(column: str) -> float | None:
        values = numbers(tables.counters, column)
        if (values < 0).any():
            record = run_labels(tables.counters).iloc[int(np.nanargmin(values))]
            raise CountsError(f"counter {column} fell by {-np.nanmin(values):g} during {record}")
        return None if np.isnan(values).any() else float(values.sum())

    def needed(column: str) -> float:
        value = total(column)
        if value is None:
            lacking = int(np.isnan(numbers(tables.counters, column)).argmax())
            record = run_labels(tables.counters).iloc[lacking]
            raise AnalysisError(f"{subject}: counter {column} is missing in record {record}")
        return value

    return Totals(
        records=len(tables.counters),
        drafts=needed("drafts"),
        draft_tokens=needed("draft_tokens"),
        accepted=needed("accepted"),
        accepted_at=np.array([needed(column) for column in position_columns(k)]),
        generation_tokens=total("generation_tokens"),
        requests_finished=total("requests_finished"),
    )


def _clusters(tables: Tables, k: int, cluster: str, counted: float) -> Clusters:
    requests = tables.requests
    columns = {name: numbers(requests, name) for name in ("drafts", "draft_tokens", "accepted_tokens")}
    accepted_at = by_position(requests, k)
    known = np.isfinite(np.column_stack([*columns.values(), accepted_at])).all(axis=1)
    if cluster == "sessions":
        labels = (run_labels(requests) + "/" + requests["session_id"].astype(str)).to_numpy(dtype=str)
    else:
        labels = requests["prompt_sha256"].to_numpy(dtype=str)
    names, position = np.unique(labels[known], return_inverse=True)

    def summed(values: FloatArray) -> FloatArray:
        return np.bincount(position, weights=values[known], minlength=len(names)).astype(np.float64)

    drafts = summed(columns["drafts"])
    cover = float(drafts.sum()) / counted if counted else 0.0
    unknown = None
    if len(requests) == 0:
        unknown = "no interval: no request rows, so no clusters"
    elif abs(cover - 1) > 1 - LEAST_COVER:
        unknown = f"no interval: own requests with acceptance hold {cover:.1%} of the server's drafts"
    return Clusters(
        unit=cluster,
        n=len(names),
        drafts=drafts,
        draft_tokens=summed(columns["draft_tokens"]),
        accepted=summed(columns["accepted_tokens"]),
        accepted_at=np.column_stack([summed(accepted_at[:, position]) for position in range(k)]),
        tokens_of_steps=summed(numbers(requests, "reply_tokens") - 1),
        cover=cover,
        unknown=unknown,
    )


def _counts(totals: Totals) -> dict[str, Fact]:
    def count(value: float | None, definition: str) -> Fact:
        unknown = None if value is not None else "a record lacks this counter"
        return count_fact(value, definition, "server counters, after minus before", totals.records, "records", unknown)

    return {
        "drafts": count(totals.drafts, "drafts verified"),
        "draft_tokens": count(totals.draft_tokens, "tokens drafted"),
        "accepted": count(totals.accepted, "draft tokens accepted"),
        "requests": count(totals.requests_finished, "requests that the server finished"),
    }


def _ratios(totals: Totals, clusters: Clusters, k: int, confidence: float) -> dict[str, Fact]:
    def fact(ratio: Ratio, y: FloatArray, x: FloatArray, unit: str, definition: str) -> Fact:
        return _fact(ratio.value, clusters, lambda: ratio_of_sums(y, x, confidence), confidence, unit, definition)

    short = totals.draft_tokens < k * totals.drafts
    note = f"; drafts held {totals.draft_tokens / totals.drafts:.4g} of {k} tokens on average" if short else ""
    at = clusters.accepted_at
    before = np.column_stack([clusters.drafts, at[:, :-1]])
    facts = {
        "accepted_over_drafted": fact(
            accepted_over_drafted(totals.accepted, totals.draft_tokens),
            clusters.accepted,
            clusters.draft_tokens,
            "fraction",
            "accepted draft tokens over all draft tokens",
        )
    }
    for position, ratio in enumerate(share_through(totals.drafts, totals.accepted_at)):
        definition = f"drafts accepted through position {position + 1}, over all drafts{note}"
        facts[f"share_through_{position + 1}"] = fact(ratio, at[:, position], clusters.drafts, "fraction", definition)
    for position, ratio in enumerate(chance_at(totals.drafts, totals.accepted_at)):
        base = f"drafts accepted through position {position}" if position else "all drafts"
        definition = f"drafts accepted through position {position + 1}, over {base}{note}"
        facts[f"chance_{position + 1}"] = fact(ratio, at[:, position], before[:, position], "fraction", definition)
    facts["tokens_per_step"] = fact(
        tokens_per_step(totals.drafts, totals.accepted),
        clusters.drafts + clusters.accepted,
        clusters.drafts,
        "tokens",
        "1 + accepted draft tokens per draft, as the verifier counts",
    )
    facts["emitted_tokens_per_step"] = _emitted(totals, clusters, confidence)
    return facts


def _emitted(totals: Totals, clusters: Clusters, confidence: float) -> Fact:
    value, unknown = None, "a record lacks the counter of generated tokens or of finished requests"
    if totals.generation_tokens is not None and totals.requests_finished is not None:
        value = emitted_tokens_per_step(totals.drafts, totals.generation_tokens, totals.requests_finished).value
        unknown = "no draft was made"

    def estimate() -> Estimate:
        if np.isnan(clusters.tokens_of_steps).any():
            return Estimate(None, None, None, None, clusters.n, "no interval: a request does not say its reply tokens")
        return ratio_of_sums(clusters.tokens_of_steps, clusters.drafts, confidence)

    definition = "generated tokens less one a finished request, which its prefill makes, per draft"
    return _fact(value, clusters, estimate, confidence, "tokens", definition, unknown)


def _formula(totals: Totals, clusters: Clusters, k: int, confidence: float) -> dict[str, Fact]:
    terms = " + ".join(["1", "a", *(f"a^{power}" for power in range(2, k + 1))])
    shares = np.array([ratio.value for ratio in share_through(totals.drafts, totals.accepted_at)], dtype=np.float64)
    known = totals.drafts > 0
    result = formula_error(float(shares[0]), shares) if known else None

    def slope(a: float) -> float:
        return float(sum(power * a ** (power - 1) for power in range(1, k + 1)))

    def value_gradient(s: FloatArray) -> FloatArray:
        return np.array([slope(float(s[0])), *[0.0] * (k - 1)])

    def error_gradient(s: FloatArray) -> FloatArray:
        measured = 1 + float(s.sum())
        return value_gradient(s) / measured - geometric_formula(float(s[0]), k) / measured**2

    def estimate(function: Callable[[FloatArray], float], gradient: Callable[[FloatArray], FloatArray]) -> Callable[[], Estimate]:
        return lambda: smooth_function_of_ratios(clusters.accepted_at, clusters.drafts, function, gradient, confidence)

    return {
        "formula_first_position": _fact(
            None if result is None else result.formula,
            clusters,
            estimate(lambda s: geometric_formula(float(s[0]), k), value_gradient),
            confidence,
            "tokens",
            f"{terms} with a the share through 1",
        ),
        "formula_error": _fact(
            None if result is None else result.error,
            clusters,
            estimate(lambda s: formula_error(float(s[0]), s).error, error_gradient),
            confidence,
            "relative",
            f"({terms}) over the measured tokens per step, less 1; a the share through 1",
        ),
    }


def _fact(
    value: float | None,
    clusters: Clusters,
    estimate: Callable[[], Estimate],
    confidence: float,
    unit: str,
    definition: str,
    unknown: str = "no draft was made, or none was accepted before this position",
) -> Fact:
    """The counters' value with the half-width of the requests' interval around it."""
    low = high = None
    reason: str | None = unknown
    if value is not None:
        reason = clusters.unknown
        found = estimate() if reason is None else None
        if found is not None and found.low is not None and found.high is not None:
            half_width = (found.high - found.low) / 2
            low, high = value - half_width, value + half_width
        elif found is not None:
            reason = found.unknown
    if unit == "fraction":
        low, high = within_unit(low, high)
    method = "server counters"
    if low is not None:
        method += f"; {confidence:.0%} t interval, linearised, own requests in clusters by {clusters.unit.removesuffix('s')}"
        method += "" if clusters.cover == 1 else f", which hold {clusters.cover:.2%} of the drafts"
    return Fact(
        value=rounded(value),
        low=rounded(low),
        high=rounded(high),
        method=method,
        n=clusters.n,
        n_unit=clusters.unit,
        unit=unit,
        definition=definition,
        unknown=reason,
    )
