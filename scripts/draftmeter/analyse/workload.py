"""The facts of one workload, or of one part of it: what its drafts were worth.

A value comes from the server's counters, summed over the records: they are the truth for the server. Where there are none it
comes from the sums of its log lines. Its interval comes from our own requests in clusters, or from the blocks of the workload's
intervals where no own request is known, and is given only where these hold nearly all of the server's drafts.

A counter that fell, or counts that contradict each other, make every figure of the workload unknown: the cross-checks
of the collect step have failed and say where, and the analysis has to get that far.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from draftmeter.analyse.clusters import requests_of
from draftmeter.analyse.confidence import Confidence, confidence_in
from draftmeter.analyse.facts import PERCENT, POINTS, count_fact, fact
from draftmeter.analyse.requests import request_facts
from draftmeter.analyse.tables import Tables
from draftmeter.analyse.totals import Totals, totals_of, with_short_drafts
from draftmeter.facts import Fact
from draftmeter.stats.acceptance import (
    CountsError,
    accepted_over_drafted,
    chance_at,
    emitted_tokens_per_step,
    shorter_drafts,
    tokens_per_step,
)
from draftmeter.stats.pooled import pooled_names, pooled_values
from draftmeter.study.plan import derive_seed
from draftmeter.study.schema import Analysis

FloatArray = NDArray[np.float64]

NO_DRAFT = "no draft was made, or none was accepted before this position"
NOT_COUNTED = "generated tokens, finished requests or drafts were not counted"
FORMULA_RATES = {
    "first_position": "the share through 1",
    "checked": "accepted over checked tokens",
    "accepted_over_drafted": "accepted over drafted tokens",
}


@dataclass(frozen=True)
class _Figure:
    """A figure that follows from drafts alone: its name in the facts and in the statistics, what it is, and in which unit."""

    quantity: str
    name: str
    unit: str
    definition: str
    factor: float = 1.0


def workload_facts(subject: str, tables: Tables, cluster: str, analysis: Analysis, seed: int) -> dict[str, Fact]:
    """All facts of `subject` from the rows of `tables`, keyed `<subject>.<quantity>`.

    `cluster` is "prompts", for the same prompt is sent at several numbers of streams, or "sessions" where the requests
    of one session are alike (production traffic).
    """
    k = tables.k
    requests = requests_of(tables, k, cluster)

    def facts_from(totals: Totals) -> dict[str, Fact]:
        known = confidence_in(totals, requests, tables, k, analysis, derive_seed(seed, "analyse", "pooled", subject))
        return (
            _counts(totals)
            | _of_drafts(totals, known, k)
            | _equality(totals, known, k)
            | _beyond_drafts(totals, known)
            | request_facts(requests, tables, analysis.confidence)
        )

    try:
        facts = facts_from(with_short_drafts(_consistent(totals_of(tables, k)), requests))
    except CountsError as error:
        unknown = {"value": None, "low": None, "high": None, "unknown": f"{error}; see the failed cross-checks"}
        nothing = facts_from(Totals.none(len(tables.totals), k))
        facts = {quantity: one.model_copy(update=unknown) for quantity, one in nothing.items()}
    return {f"{subject}.{quantity}": one for quantity, one in facts.items()}


def _consistent(totals: Totals) -> Totals:
    """The totals themselves; raise :class:`CountsError` where no server can have produced them."""
    if totals.accepted is not None and totals.draft_tokens is not None:
        accepted_over_drafted(totals.accepted, totals.draft_tokens)
    if totals.drafts is not None and totals.accepted_of_drafts is not None:
        tokens_per_step(totals.drafts, totals.accepted_of_drafts)
    if totals.drafts is not None and totals.accepted_at is not None:
        chance_at(totals.drafts, totals.accepted_at)
    return totals


def _counts(totals: Totals) -> dict[str, Fact]:
    def count(value: float | None, definition: str) -> Fact:
        unknown = None if value is not None else totals.lacking
        return count_fact(value, definition, totals.source, totals.records, "records", unknown)

    return {
        "drafts": count(totals.drafts, "drafts verified"),
        "draft_tokens": count(totals.draft_tokens, "tokens drafted"),
        "accepted": count(totals.accepted, "draft tokens accepted"),
        "requests": count(totals.requests_finished, "requests that the server finished"),
    }


def _figures(k: int, note: str, by_steps: bool) -> list[_Figure]:
    """In the order of the facts. Without positions (k = 0) those of them that need none are there, for their reason.

    `note` tells of short drafts; `by_steps`: whether requests say what was really drafted, so that chances need no note.
    """
    positions = range(1, k + 1)
    before = ["all drafts", *(f"drafts accepted through position {position}" for position in positions)]
    checked = note
    if by_steps:
        before = [f"those of {drafts} that hold a token there, by the steps of own requests" for drafts in before]
        checked = ""
    terms = " + ".join(["1", "a", *(f"a^{power}" for power in positions[1:])]) if k else "1 + a + ... + a^K"
    figures = [
        _Figure("accepted_over_drafted", "accepted_over_drafted", "fraction", "accepted draft tokens over all draft tokens"),
        _Figure(
            "accepted_over_checked",
            "accepted_over_checked",
            "fraction",
            "accepted draft tokens over accepted and rejected ones; a draft not accepted to its end holds one rejection"
            + checked,
        ),
    ]
    for position in positions:
        definition = f"drafts accepted through position {position}, over all drafts{note}"
        figures.append(_Figure(f"share_through_{position}", f"share_through_{position}", "fraction", definition))
    for position in positions:
        definition = f"drafts accepted through position {position}, over {before[position - 1]}{checked}"
        figures.append(_Figure(f"chance_{position}", f"chance_{position}", "fraction", definition))
    for position in positions[1:]:
        definition = f"chance at position {position} less that at {position - 1}"
        figures.append(_Figure(f"rise_{position}", f"rise_{position}", POINTS, definition, PERCENT))
    if k > 1:
        definition = "slope of the chance along the draft, by least squares, for each further position"
        figures.append(_Figure("chance_slope", "chance_slope", POINTS, definition, PERCENT))
    definition = "1 + accepted draft tokens per draft, as the verifier counts"
    figures.append(_Figure("tokens_per_step", "tokens_per_step", "tokens", definition))
    for shorter in positions[:-1]:
        shares = " + ".join(["1", *(f"s{position}" for position in range(1, shorter + 1))])
        definition = (
            f"{shares}, s the shares through a position: tokens per step with drafts of {shorter}, if nothing else changed"
        )
        figures.append(_Figure(f"tokens_per_step_at_{shorter}", f"tokens_per_step_at_{shorter}", "tokens", definition))
    for rate, meaning in FORMULA_RATES.items():
        definition = f"{terms} with a {meaning}"
        figures.append(_Figure(f"formula_{rate}", f"formula_{rate}", "tokens", definition))
        definition = f"({terms}) over the measured tokens per step, less 1; a {meaning}"
        figures.append(_Figure(f"formula_{rate}_error", f"formula_{rate}_error", "relative", definition))
    if k > 1:
        definition = f"({terms.removeprefix('1 + a + ')}) over the shares through 2 to {k}, less 1; a the share through 1"
        figures.append(_Figure("formula_last_terms_error", "formula_last_terms_error", "relative", definition))
    return figures


def _of_drafts(totals: Totals, known: Confidence, k: int) -> dict[str, Fact]:
    drafts, drafted, at = totals.drafts, totals.drafted_of_drafts, totals.accepted_at
    note = ""
    if drafts and drafted is not None and drafted < k * drafts:
        note = f"; drafts held {drafted / drafts:.4g} of {k} tokens on average, and what a short one lacks counts as not accepted"
    counts = [totals.draft_tokens, totals.accepted, totals.accepted_of_drafts, drafts, *([None] * k if at is None else at)]
    sums = np.array([math.nan if count is None else count for count in counts], dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = pooled_values(sums[None], None if totals.eligible_at is None else totals.eligible_at[None])
    values = dict(zip(pooled_names(k), pooled[0].tolist(), strict=True))
    if k and at is not None and drafts:
        steps = shorter_drafts(at / drafts)
        values |= {f"tokens_per_step_at_{shorter}": steps[shorter - 1] for shorter in range(1, k)}
    facts = {}
    for figure in _figures(k, note, by_steps=totals.eligible_at is not None):
        value = values.get(figure.name, math.nan)
        if math.isfinite(value):
            facts[figure.quantity] = _known(figure, value, totals.source, known)
        else:
            lacks = _lacks(figure.name, totals)
            facts[figure.quantity] = _known(figure, None, totals.source, known, totals.lacking if lacks else NO_DRAFT)
    return facts


def _lacks(name: str, totals: Totals) -> bool:
    """Whether a total that the figure needs is not known."""
    of_tokens = (totals.draft_tokens, totals.accepted)
    if name == "accepted_over_drafted":
        return None in of_tokens
    if name == "tokens_per_step":
        return totals.drafts is None or totals.accepted_of_drafts is None
    no_positions = totals.drafts is None or totals.accepted_at is None
    return no_positions or (name.endswith("accepted_over_drafted") and None in of_tokens)


def _known(figure: _Figure, value: float | None, source: str, known: Confidence, unknown: str | None = None) -> Fact:
    """The value of `source` with the interval around it that the estimates bring."""
    low = high = None
    if value is not None:
        low, high, unknown = known.around(figure.name, value)
    value, low, high = (None if end is None else figure.factor * end for end in (value, low, high))
    return fact(
        value,
        low=low,
        high=high,
        unit=figure.unit,
        definition=figure.definition,
        method=source if low is None else f"{source}; {known.method(figure.name)}",
        n=known.n,
        n_unit=known.n_unit,
        unknown=unknown,
    )


def _equality(totals: Totals, known: Confidence, k: int) -> dict[str, Fact]:
    if k == 1:
        return {}
    test = known.equality
    method = ""
    if test.freedom is not None:
        method = f"Wald test, F with {test.freedom[0]} and {test.freedom[1]:.0f} degrees of freedom, {known.words}"
    return {
        "equal_chances_p": fact(
            test.p_value,
            unit="p value",
            definition="of the test that the chance of acceptance is the same at all positions",
            method=method or totals.source,
            n=known.n,
            n_unit=known.n_unit,
            unknown=test.unknown,
        )
    }


def _beyond_drafts(totals: Totals, known: Confidence) -> dict[str, Fact]:
    """What takes tokens or requests beside the drafts."""
    drafts, generated, finished = totals.drafts, totals.generation_tokens, totals.requests_finished
    emitted = verified = None
    lacking = NOT_COUNTED
    if drafts is not None and generated is not None and finished is not None:
        emitted = emitted_tokens_per_step(drafts, generated, finished).value
        lacking = "no draft was made"
        if totals.accepted_of_drafts is not None:
            verified = tokens_per_step(drafts, totals.accepted_of_drafts).value
    per_request = {
        "mean_prompt_tokens": (totals.prompt_tokens, "prompt tokens of a finished request, on average"),
        "mean_reply_tokens": (generated, "generated tokens of a finished request, on average"),
    }
    text = "generated tokens less one a finished request, which its prefill makes, per draft"
    figure = _Figure("emitted_tokens_per_step", "emitted_tokens_per_step", "tokens", text)
    facts = {figure.quantity: _known(figure, emitted, totals.source, known, lacking)}
    text = "emitted tokens per step less those that the verifier counts: what was cut off at the ends of replies"
    figure = _Figure("emitted_minus_verified", "emitted_minus_verified", "tokens", text)
    difference = None if emitted is None or verified is None else emitted - verified
    facts[figure.quantity] = _known(figure, difference, totals.source, known, lacking)
    for name, (tokens, text) in per_request.items():
        value = tokens / finished if tokens is not None and finished else None
        lacking = totals.lacking if tokens is None or finished is None else "no request was finished"
        facts[name] = _known(_Figure(name, name, "tokens", text), value, totals.source, known, lacking)
    return facts
