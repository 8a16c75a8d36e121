"""The facts of one workload, or of one part of it: what its drafts were worth.

A value comes from the server's counters, summed over the records: they are the truth for the
server. Where there are none it comes from the sums of its log lines. Its interval comes from our
own requests in clusters, or from the blocks of the workload's intervals where no own request is
known, and is given only where these hold nearly all of the server's drafts.

A counter that fell, or counts that contradict each other, make every fact of the workload unknown:
the cross-checks of the collect step have failed and say where, and the analysis has to get that
far. So do records that cannot be added up, for they may hold the same drafts.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from draftmeter.analyse.confidence import Confidence, confidence_in
from draftmeter.analyse.counts import COUNTED, Counts, IntervalSeries, Part, counts_of_row, counts_of_series, in_words, pooled
from draftmeter.analyse.facts import fact
from draftmeter.analyse.quantities import COUNTS, Quantity, Value, catalogue_of, measured
from draftmeter.analyse.requests import Requests, request_facts, requests_of
from draftmeter.analyse.tables import Tables, numbers, run_labels
from draftmeter.facts import Fact
from draftmeter.study.plan import derive_seed
from draftmeter.study.schema import Analysis

BOUND = "no interval: it is a bound"


def workload_facts(subject: str, tables: Tables, cluster: str, analysis: Analysis, seed: int) -> dict[str, Fact]:
    """All facts of `subject` from the rows of `tables`, keyed `<subject>.<quantity>`.

    `cluster` is "prompts", for the same prompt is sent at several numbers of streams, or "sessions"
    where the requests of one session are alike (production traffic).
    """
    k = tables.k
    requests = requests_of(tables, k, cluster)
    counts, reason = counts_of_workload(tables, k)
    if reason is None:
        counts = with_short_drafts(counts, requests)
    known = confidence_in(counts, requests, tables, k, analysis, derive_seed(seed, "analyse", "pooled", subject))
    facts = {quantity.name: _fact(quantity, measured(quantity, counts), counts, known) for quantity in catalogue_of(counts)}
    slope = facts.get("chance_slope")
    facts |= _equality(counts, known, k, None if slope is None or slope.value is not None else slope.unknown)
    facts |= request_facts(requests, tables, analysis.confidence)
    if reason is not None:
        unknown = {"value": None, "low": None, "high": None, "unknown": reason}
        facts = {quantity: one.model_copy(update=unknown) for quantity, one in facts.items()}
    return {f"{subject}.{quantity}": one for quantity, one in facts.items()}


def counts_of_workload(tables: Tables, k: int) -> tuple[Counts, str | None]:
    """The records added up, K = `k` (0: unknown); or counts of which nothing is known, and why.

    Where some records have counters, those that are counted by log lines are left out: they may be
    of the same drafts.
    """
    nothing = Counts.none(tables.counted_by, k or None, len(tables.totals))
    result = pooled(_parts(tables, k))
    if isinstance(result, str):
        return nothing, result
    counts, _ = result
    if counts.contradiction is not None:
        return nothing, f"{counts.contradiction}; see the failed cross-checks"
    return counts, None


def with_short_drafts(counts: Counts, requests: Requests) -> Counts:
    """The counts with what was really drafted, where own requests with steps hold every draft."""
    if requests.eligible_at is None or counts.accepted_at is None or counts.drafts is None:
        return counts
    counted = [counts.drafts, counts.draft_tokens, *counts.accepted_at]
    own = [requests.columns["drafts"].sum(), requests.columns["draft_tokens"].sum(), *requests.accepted_at.sum(axis=0)]
    eligible = requests.eligible_at.sum(axis=0)
    full = np.array_equal(eligible, [counts.drafts, *counts.accepted_at[:-1]])
    return counts if counted != own or full else replace(counts, eligible_at=tuple(map(float, eligible)))


def _parts(tables: Tables, k: int) -> list[Part]:
    """The records that make up the totals, with their intervals where these count the drafts."""
    by_lines = tables.counted_by == "lines"
    rows = tables.totals
    labels = run_labels(tables.intervals)
    fields = (*COUNTED, "accepted_of_drafts", "drafted_of_drafts", "accepted_at")
    unknown = {name: f"a record lacks the counter of {in_words(name)}" for name in fields}
    parts = []
    for label, values in zip(run_labels(rows), rows.to_dict("records"), strict=True):
        row = {str(name): None if pd.isna(value) else value for name, value in values.items()}
        series = None
        if by_lines:
            own = tables.intervals[labels == label]
            series = IntervalSeries.of(partial(numbers, own), k)
            counts = counts_of_series(series, k or None, row.get("seconds"))
        else:
            counts = counts_of_row(row, k or None, unknown, name=label)
        # A row of counters without an end is one reading: it holds all since the server's start.
        since_start = not by_lines and row.get("end") is None and row.get("restarts") is None
        parts.append(Part.of_row(str(row.get("source") or label), row, counts, series, since_start=since_start))
    return parts


def _fact(quantity: Quantity, one: Value, counts: Counts, known: Confidence) -> Fact:
    """The value with the interval that the estimates bring; a count is exact, and has none."""
    counted = quantity.name in COUNTS
    low = high = None
    unknown = one.unknown
    if one.value is not None and quantity.bound:
        unknown = BOUND
    elif one.value is not None and not counted:
        low, high, unknown = known.around(quantity.name, one.value / quantity.factor)
        low, high = (None if end is None else quantity.factor * end for end in (low, high))
    return fact(
        one.value,
        low=low,
        high=high,
        unit=quantity.unit,
        definition=quantity.definition,
        method=counts.source if low is None else f"{counts.source}; {known.method(quantity.name)}",
        n=counts.records if counted else known.n,
        n_unit="records" if counted else known.n_unit,
        unknown=unknown,
    )


def _equality(counts: Counts, known: Confidence, k: int, no_chances: str | None) -> dict[str, Fact]:
    """The test that all chances are equal; `no_chances` says why some chance is unknown, if one is."""
    if k == 1:
        return {}
    test = known.equality
    method = ""
    if test.freedom is not None and no_chances is None:
        method = f"Wald test, F with {test.freedom[0]} and {test.freedom[1]:.0f} degrees of freedom, {known.words}"
    return {
        "equal_chances_p": fact(
            None if no_chances else test.p_value,
            unit="p value",
            definition="of the test that the chance of acceptance is the same at all positions",
            method=method or counts.source,
            n=known.n,
            n_unit=known.n_unit,
            unknown=no_chances or test.unknown,
        )
    }
