"""Confidence intervals of a workload, from own requests in clusters or from blocks of intervals."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from draftmeter.analyse.counts import Counts, by_draft
from draftmeter.analyse.interval_series import workload_intervals
from draftmeter.analyse.requests import Requests
from draftmeter.analyse.tables import Tables, by_position, numbers
from draftmeter.stats.acceptance import CountsError
from draftmeter.stats.estimate import Estimate
from draftmeter.stats.pooled import EqualityTest, pooled_by_blocks, pooled_by_cluster
from draftmeter.stats.ratios import ratio_of_sums
from draftmeter.study.schema import Analysis

FloatArray = NDArray[np.float64]

# What holds less of the server's drafts than this says too little about the rest.
LEAST_COVER = 0.99


@dataclass(frozen=True)
class Confidence:
    """Estimates that bring intervals for a workload's quantities; or, in `unknown`, why none do."""

    n: int
    n_unit: str
    estimates: Mapping[str, Estimate]
    """By the names of :func:`draftmeter.stats.pooled.pooled_names`, and some more."""
    equality: EqualityTest
    unknown: str | None
    words: str = ""
    """What the estimates rest on."""
    lacking: str = ""
    """Why a quantity that is not among the estimates has no interval."""

    def around(self, name: str, value: float) -> tuple[float | None, float | None, str | None]:
        """The interval of the quantity `name`, moved to its `value`; or None, None and why."""
        if self.unknown is not None:
            return None, None, self.unknown
        found = self.estimates.get(name)
        if found is None or found.value is None or found.low is None or found.high is None:
            return None, None, self.lacking if found is None else found.unknown
        return value - (found.value - found.low), value + (found.high - found.value), None

    def method(self, name: str) -> str:
        """How the interval of the quantity `name`, which has one, was made, in words."""
        return f"{self.estimates[name].method}, {self.words}"


def confidence_in(counts: Counts, requests: Requests, tables: Tables, k: int, analysis: Analysis, seed: int) -> Confidence:
    """From own requests where there are any, else from the blocks of the workload's intervals."""
    if requests.rows:
        return _by_cluster(counts, requests, k, analysis.confidence)
    return _by_block(counts, tables, k, analysis, seed)


def _none(n: int, unit: str, reason: str) -> Confidence:
    return Confidence(n, unit, {}, EqualityTest(None, None, None, reason), reason)


def _by_cluster(counts: Counts, requests: Requests, k: int, confidence: float) -> Confidence:
    n, unit, columns = requests.clusters.number, requests.unit, requests.columns
    cover = float(columns["drafts"].sum()) / counts.drafts if counts.drafts else 0.0
    if abs(cover - 1) > 1 - LEAST_COVER:
        return _none(n, unit, f"no interval: own requests with acceptance hold {cover:.1%} of the server's drafts")
    if k == 0:
        return _none(n, unit, "no interval: how many tokens a draft holds is not known")
    try:
        pooled = pooled_by_cluster(
            columns["drafts"],
            columns["draft_tokens"],
            requests.accepted_at,
            confidence,
            requests.clusters,
            None if counts.eligible_at is None else requests.eligible_at,
        )
    except CountsError as error:
        return _none(n, unit, f"no interval: own requests contradict themselves: {error}")
    return Confidence(
        n=n,
        n_unit=unit,
        estimates=pooled.estimates | _more(requests, confidence),
        equality=pooled.equality,
        unknown=None,
        words=_words(f"own requests {requests.words}", cover),
        lacking="no interval: own requests do not show it",
    )


def _more(requests: Requests, confidence: float) -> dict[str, Estimate]:
    """Quantities that are no rates of drafts alone."""
    columns, at = requests.columns, requests.accepted_at
    drafts, replies = columns["drafts"], np.ones(len(requests.clusters))
    emitted, verified = columns["reply_tokens"] - replies, drafts + columns["accepted_tokens"]
    ratios = {
        "emitted_tokens_per_step": (emitted, drafts, "a request does not say its reply tokens"),
        "emitted_minus_verified": (emitted - verified, drafts, "a request does not say its reply tokens"),
        "mean_prompt_tokens": (columns["prompt_tokens"], replies, "a request does not say its prompt tokens"),
        "mean_reply_tokens": (columns["reply_tokens"], replies, "a request does not say its reply tokens"),
    }
    for shorter in range(1, at.shape[1]):
        ratios[f"tokens_per_step_at_{shorter}"] = (drafts + at[:, :shorter].sum(axis=1), drafts, "")
    found = {}
    for name, (y, x, lacking) in ratios.items():
        if np.isnan(y).any():
            found[name] = Estimate(None, None, None, requests.clusters.number, f"no interval: {lacking}")
        else:
            found[name] = ratio_of_sums(y, x, confidence, requests.clusters)
    return found


def _by_block(counts: Counts, tables: Tables, k: int, analysis: Analysis, seed: int) -> Confidence:
    chosen = tables.intervals[numbers(tables.intervals, "drafted") > 0]
    used = by_draft(numbers(chosen, "drafts"), by_position(chosen, k), k)
    log = workload_intervals(chosen[used] if used.any() else chosen, k)
    if log.lines is None:
        return _none(0, "intervals", f"no interval: no own request is known, and of its intervals {log.unknown}")
    counted = counts.drafts if used.any() else counts.draft_tokens
    held = log.lines.drafts if used.any() else log.lines.drafted
    cover = float(held.sum()) / counted if counted else 0.0
    if abs(cover - 1) > 1 - LEAST_COVER:
        return _none(
            len(log), "intervals", f"no interval: no own request is known, and the intervals hold {cover:.1%} of the drafts"
        )
    found = pooled_by_blocks(log.lines, analysis.min_drafts, analysis.confidence, analysis.resamples, seed)
    estimates = dict(found.estimates)
    of_tokens = float(log.lines.drafted.sum()) / counts.draft_tokens if counts.draft_tokens else 0.0
    if abs(of_tokens - 1) > 1 - LEAST_COVER:
        reason = f"no interval: the lines that show their drafts hold {of_tokens:.1%} of the draft tokens"
        estimates["accepted_over_drafted"] = estimates["accepted_over_drafted"].without_interval(reason)
    return Confidence(
        n=len(log),
        n_unit="intervals",
        estimates=estimates,
        equality=found.equality,
        unknown=None,
        words=_words(f"from the blocks of its {log.kind}, for no own request is known", cover),
        lacking="no interval: no own request is known, and the intervals do not show it",
    )


def _words(text: str, cover: float) -> str:
    return text + ("" if cover == 1 else f", which hold {cover:.2%} of the drafts")
