"""The headline figures of one source, or of several together: what an operator wants to know first.

Input are counts (a row of the table counters, or sums over log lines) and the source's intervals. A figure that cannot
be known is null, and `unknown` says why.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftmeter.stats.acceptance import (
    CountsError,
    Ratio,
    accepted_over_drafted,
    chance_at,
    emitted_tokens_per_step,
    share_through,
    tokens_per_step,
)
from draftmeter.stats.intervals import hours_covered, qualifying, spread

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

UNCHANGED = "if the draft policy is unchanged"
NO_DRAFT = "no draft was made"
NOT_IN_LOG = "log lines do not show it"


@dataclass(frozen=True)
class Figure:
    """One number with its unit and meaning; `unknown` is the reason where the value is null."""

    value: float | None
    unit: str
    definition: str
    unknown: str | None = None


@dataclass(frozen=True)
class Counts:
    """Counts of one source; a null is unknown, and `unknown` says why, by the field's name.

    `counted_by` is "counters" or "lines": a log can miss intervals, and sums over its lines are no counters.
    `accepted_at` has K entries. `accepted_of_drafts` are the accepted tokens of `drafts`: not all of `accepted` where some
    intervals do not show their drafts. `notes` are what the reader must know of these counts.
    """

    counted_by: str
    k: int | None
    drafts: float | None
    draft_tokens: float | None
    accepted: float | None
    accepted_of_drafts: float | None
    accepted_at: tuple[float, ...] | None
    generation_tokens: float | None = None
    requests_finished: float | None = None
    seconds: float | None = None
    restarts: int | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Lines:
    """The intervals of one source, shapes (n,) and (n, K); an unknown number is nan.

    `exact`: neither the drafts nor the accepted tokens by position are estimates. `counters`: the intervals are differences
    of counters, not log lines.
    """

    drafts: FloatArray
    exact: BoolArray
    drafted: FloatArray
    accepted: FloatArray
    accepted_at: FloatArray
    window_s: FloatArray
    counters: bool = False


def headline(counts: Counts, lines: Lines | None, min_drafts: int) -> dict[str, Figure]:
    """All headline figures of one source. `lines` is null where the source has no intervals at all."""
    return _counted(counts) | _ratios(counts) | _shorter(counts) | _of_lines(counts, lines, min_drafts)


def counts_of_lines(lines: Lines, k: int | None, seconds: float | None, unknown: Mapping[str, str]) -> Counts:
    """What a log adds up to. Everything by draft is over the intervals that show their drafts; a note says so."""
    known = np.isfinite(lines.drafts) & np.isfinite(lines.accepted_at).all(axis=1)
    some = k is not None and bool(known.any())
    notes = []
    if some and not known.all():
        share = float(lines.drafted[~known].sum() / lines.drafted.sum())
        notes.append(
            f"{int((~known).sum())} of {len(known)} intervals, with {share:.2%} of the draft tokens, do not show their drafts: "
            "they are left out of everything by draft or by position"
        )
    if some and not lines.exact[known].all():
        notes.append(
            f"in {int((~lines.exact & known).sum())} of {len(known)} intervals, drafts or accepted tokens by position are "
            "estimates from rounded figures"
        )
    why = dict.fromkeys(("drafts", "accepted_at", "accepted_of_drafts"), "no interval shows its drafts")
    return Counts(
        counted_by="lines",
        k=k,
        drafts=float(lines.drafts[known].sum()) if some else None,
        draft_tokens=float(lines.drafted.sum()),
        accepted=float(lines.accepted.sum()),
        accepted_of_drafts=float(lines.accepted[known].sum()) if some else None,
        accepted_at=tuple(map(float, lines.accepted_at[known].sum(axis=0))) if some else None,
        seconds=seconds,
        unknown={"generation_tokens": NOT_IN_LOG, "requests_finished": NOT_IN_LOG, "restarts": NOT_IN_LOG} | why | dict(unknown),
        notes=tuple(notes),
    )


def as_data(figures: Mapping[str, Figure]) -> dict[str, dict[str, Any]]:
    """The figures as plain data for JSON."""
    return {
        name: {"value": figure.value, "unit": figure.unit, "definition": figure.definition, "unknown": figure.unknown}
        for name, figure in figures.items()
    }


def _counted(counts: Counts) -> dict[str, Figure]:
    source = "counters" if counts.counted_by == "counters" else "sums over log lines"

    def figure(name: str, unit: str, definition: str) -> Figure:
        value = getattr(counts, name)
        reason = None if value is not None else counts.unknown.get(name, "the source does not show it")
        return Figure(value, unit, f"{definition}; {source}", reason)

    return {
        "k": Figure(counts.k, "tokens", "draft tokens per step", None if counts.k else counts.unknown.get("k", "not shown")),
        "drafts": figure("drafts", "count", "drafts verified"),
        "draft_tokens": figure("draft_tokens", "count", "tokens drafted"),
        "accepted": figure("accepted", "count", "draft tokens accepted"),
        "seconds": figure("seconds", "s", "time that the counts cover"),
        "restarts": figure("restarts", "count", "restarts of the server within that time"),
    }


def _ratios(counts: Counts) -> dict[str, Figure]:
    figures = {
        "accepted_over_drafted": _ratio(
            lambda: accepted_over_drafted(_known(counts, "accepted"), _known(counts, "draft_tokens")),
            "fraction",
            "accepted draft tokens over all draft tokens",
        )
    }
    for position in range(1, (counts.k or 0) + 1):
        base = f"drafts accepted through position {position - 1}" if position > 1 else "all drafts"
        figures[f"share_through_{position}"] = _position(counts, share_through, position, "over all drafts")
        figures[f"chance_{position}"] = _position(counts, chance_at, position, f"over {base}")
    figures["tokens_per_step"] = _ratio(
        lambda: tokens_per_step(_known(counts, "drafts"), _known(counts, "accepted_of_drafts")),
        "tokens",
        "1 + accepted draft tokens per draft, as the verifier counts",
    )
    figures["emitted_tokens_per_step"] = _ratio(
        lambda: emitted_tokens_per_step(
            _known(counts, "drafts"), _known(counts, "generation_tokens"), _known(counts, "requests_finished")
        ),
        "tokens",
        "generated tokens less one a finished request, which its prefill makes, per draft",
    )
    return figures


def _position(counts: Counts, function: Callable[..., tuple[Ratio, ...]], position: int, over: str) -> Figure:
    return _ratio(
        lambda: function(_known(counts, "drafts"), _positions(counts))[position - 1],
        "fraction",
        f"drafts accepted through position {position}, {over}",
    )


def _shorter(counts: Counts) -> dict[str, Figure]:
    """Tokens per step at every shorter draft, 1 + s1 + ... + sK'."""
    figures: dict[str, Figure] = {}
    for shorter in range(1, counts.k or 0):
        terms = " + ".join(["1", *(f"s{position}" for position in range(1, shorter + 1))])
        figures[f"tokens_per_step_at_{shorter}"] = _ratio(
            partial(_first_shares, counts, shorter),
            "tokens",
            f"{terms}: tokens per step with drafts of {shorter}, {UNCHANGED}",
        )
    return figures


def _first_shares(counts: Counts, shorter: int) -> Ratio:
    shares = share_through(_known(counts, "drafts"), _positions(counts))
    drafts = shares[0].denominator
    numerator = drafts + sum(share.numerator for share in shares[:shorter])
    return Ratio(numerator / drafts if drafts else None, numerator, drafts)


def _of_lines(counts: Counts, lines: Lines | None, min_drafts: int) -> dict[str, Figure]:
    what = "differences of counters" if lines is not None and lines.counters else "log lines"
    if lines is None or len(lines.drafted) == 0:
        none = Figure(0, "count", f"intervals with drafts, from {what}")
        names = ("qualifying", "intervals_estimated", "hours", "p10", "p90", "lines_against_counters")
        return {"intervals": none} | {name: Figure(None, "", "", "the source has no intervals") for name in names}
    chosen = qualifying(lines.drafts, min_drafts) & (lines.drafted > 0)
    rule = f"intervals with at least {min_drafts} drafts"
    unknown = np.isnan(lines.drafts)
    figures = {
        "intervals": Figure(len(lines.drafted), "count", f"intervals with drafts, from {what}"),
        "qualifying": Figure(int(chosen.sum()), "count", rule + _left_out(int(unknown.sum()))),
        "intervals_estimated": Figure(
            int((~lines.exact & ~unknown).sum()),
            "count",
            "intervals whose drafts or positions are estimates from rounded figures",
        ),
        "hours": _hours(lines),
    }
    acceptance = lines.accepted[chosen] / lines.drafted[chosen]
    summary = spread(acceptance) if len(acceptance) else None
    percentiles = {"p10": summary.p10, "p90": summary.p90} if summary else {"p10": None, "p90": None}
    for name, value in percentiles.items():
        definition = f"{name[1:]}th percentile of accepted over drafted over {rule}, unweighted"
        figures[name] = Figure(value, "fraction", definition, None if summary else f"no {rule}")
    figures["lines_against_counters"] = _against_counters(counts, lines)
    return figures


def _left_out(unknown: int) -> str:
    return f"; {unknown} whose number of drafts is unknown do not count" if unknown else ""


def _hours(lines: Lines) -> Figure:
    definition = "time that the intervals cover, each counted as its nominal window"
    lacking = int(np.isnan(lines.window_s).sum())
    if lacking:
        return Figure(None, "h", definition, f"{lacking} intervals have no known window length")
    return Figure(hours_covered(lines.window_s), "h", definition)


def _against_counters(counts: Counts, lines: Lines) -> Figure:
    definition = "draft tokens of all log lines over those of the counters, less 1"
    reason = None
    if lines.counters:
        reason = "the intervals are differences of the same counters"
    elif counts.counted_by != "counters" or not counts.draft_tokens:
        reason = "there are no counters to compare the lines with"
    if reason is not None or not counts.draft_tokens:
        return Figure(None, "relative", definition, reason)
    return Figure(float(lines.drafted.sum()) / counts.draft_tokens - 1, "relative", definition)


class _Unknown(Exception):
    """A count that a figure needs is not known; the message is the reason."""


def _known(counts: Counts, name: str) -> float:
    value = getattr(counts, name)
    if value is None:
        raise _Unknown(counts.unknown.get(name, f"the source does not show {name.replace('_', ' ')}"))
    return float(value)


def _positions(counts: Counts) -> tuple[float, ...]:
    if counts.accepted_at is None:
        raise _Unknown(counts.unknown.get("accepted_at", "the source does not show acceptance by position"))
    return counts.accepted_at


def _ratio(make: Callable[[], Ratio], unit: str, definition: str) -> Figure:
    try:
        value, reason = make().value, NO_DRAFT
    except (_Unknown, CountsError) as error:
        value, reason = None, str(error)
    return Figure(value, unit, definition, None if value is not None else reason)
