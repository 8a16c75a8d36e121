"""The catalogue of quantities: what is made of counts, its name, its unit and its formula.

The facts of a workload and `draftmeter report` both follow it. The names are the keys of facts.json
(behind the workload's name) and of `draftmeter report --json`. Nothing here knows confidence
intervals.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from draftmeter.analyse.counts import SOURCES, Counts, FloatArray, IntervalSeries, Unknown
from draftmeter.stats.acceptance import CountsError, accepted_over_drafted, shorter_drafts, tokens_per_step
from draftmeter.stats.intervals import hours_covered, qualifying, spread
from draftmeter.units import PERCENT, POINTS, is_signed

NO_DRAFT = "no draft was made"
NO_INTERVAL = "the source has no intervals"
FORMULA_RATES = {
    "first_position": "the share through 1",
    "checked": "accepted over checked tokens",
    "accepted_over_drafted": "accepted over drafted tokens",
}
COUNTS = ("drafts", "draft_tokens", "accepted", "requests")


@dataclass(frozen=True)
class Quantity:
    """One quantity: `of` makes it of counts whose `needs` are known, or raises :class:`Unknown`.

    `of` gives a share where the unit is percentage points; `factor` makes one of the other.
    """

    name: str
    unit: str
    definition: str
    needs: tuple[str, ...]
    of: Callable[[Counts], float] = field(compare=False, repr=False)
    factor: float = 1.0
    bound: bool = False
    """Whether it is an upper bound and no estimate, so that it has no confidence interval."""

    @property
    def signed(self) -> bool:
        """Whether its sign is half of what it says, and is printed for positive values too."""
        return is_signed(self.name, self.unit)


@dataclass(frozen=True)
class Value:
    """A quantity with its value in its unit; None is unknown, and `unknown` says why."""

    name: str
    unit: str
    definition: str
    value: float | None
    unknown: str | None = None


def catalogue(k: int, held: float | None = None, *, by_steps: bool = False) -> list[Quantity]:
    """The quantities of drafts of up to `k` tokens (0: unknown), in the order of the facts.

    `held` are the tokens that drafts held on average, where some held fewer than K; `by_steps`:
    whether requests say which drafts hold a token at each position, so that chances need no note of
    short drafts.
    """
    return [*_counted(), *_of_drafts(k, held, by_steps), *_of_tokens()]


def catalogue_of(counts: Counts) -> list[Quantity]:
    """The catalogue for these counts, up to the largest K where there are several."""
    k, drafts, drafted = counts.k, counts.drafts, counts.drafted_of_drafts
    held = drafted / drafts if k and drafts and drafted is not None and drafted < k * drafts else None
    return catalogue(k or counts.longest or 0, held, by_steps=counts.eligible_at is not None)


def values_of(counts: Counts) -> dict[str, Value]:
    """Every quantity of the catalogue, by name; of contradictory counts none has a value."""
    return {quantity.name: measured(quantity, counts) for quantity in catalogue_of(counts)}


def measured(quantity: Quantity, counts: Counts) -> Value:
    """The value of one quantity, or why it is unknown."""
    describe = partial(Value, quantity.name, quantity.unit, quantity.definition)
    if counts.contradiction is not None:
        return describe(None, counts.contradiction)
    try:
        for name in quantity.needs:
            if getattr(counts, name) is None:
                raise Unknown(counts.reason(name))
        return describe(quantity.factor * quantity.of(counts))
    except (Unknown, CountsError) as error:
        return describe(None, str(error))


def values_of_reading(counts: Counts) -> dict[str, Value]:
    """What the source says of its counts: K, the time that they cover, restarts within it."""
    quantities = (
        ("k", "tokens", "draft tokens per step"),
        ("seconds", "s", "time that the counts cover"),
        ("restarts", "count", "restarts of the server within that time"),
    )
    found = {name: (getattr(counts, name), unit, text) for name, unit, text in quantities}
    return {
        name: Value(name, unit, text, value, counts.reason(name) if value is None else None)
        for name, (value, unit, text) in found.items()
    }


def values_of_intervals(counts: Counts, series: IntervalSeries | None, min_drafts: int) -> dict[str, Value]:
    """How many intervals there are and qualify, and how acceptance varies over them."""
    what = "differences of counters" if series is not None and series.counters else "log lines"
    rule = f"intervals with at least {min_drafts} drafts"
    n = 0 if series is None else len(series)
    values: dict[str, float | None] = {"intervals": n}
    unknown: dict[str, str] = {}
    lacking = 0
    if series is not None and n:
        lacking = int(np.isnan(series.drafts).sum())
        chosen = qualifying(series.drafts, min_drafts) & (series.drafted > 0)
        acceptance = series.accepted[chosen] / series.drafted[chosen]
        summary = spread(acceptance) if len(acceptance) else None
        values["qualifying"] = int(chosen.sum())
        values["intervals_estimated"] = int((~series.exact & ~np.isnan(series.drafts)).sum())
        values["p10"], values["p90"] = (summary.p10, summary.p90) if summary else (None, None)
        unknown |= dict.fromkeys(("p10", "p90"), f"no {rule}")
        windows = int(np.isnan(series.window_s).sum())
        values["hours"] = None if windows else hours_covered(series.window_s)
        unknown["hours"] = f"{windows} intervals have no known window length"
        values["lines_against_counters"], unknown["lines_against_counters"] = _against_counters(counts, series)
    left_out = f"; {lacking} whose number of drafts is unknown do not count" if lacking else ""
    quantities = (
        ("intervals", "count", f"intervals with drafts, from {what}"),
        ("qualifying", "count", rule + left_out),
        ("intervals_estimated", "count", "intervals whose drafts or positions are estimates from rounded figures"),
        ("hours", "h", "time that the intervals cover, each counted as its nominal window"),
        ("p10", "fraction", f"10th percentile of accepted over drafted over {rule}, unweighted"),
        ("p90", "fraction", f"90th percentile of accepted over drafted over {rule}, unweighted"),
        ("lines_against_counters", "relative", "draft tokens of all log lines over those of the counters, less 1"),
    )
    return {
        name: Value(name, unit, text, value, unknown.get(name, NO_INTERVAL) if value is None else None)
        for name, unit, text in quantities
        for value in [values.get(name)]
    }


def as_data(values: Mapping[str, Value], counts: Counts) -> dict[str, dict[str, Any]]:
    """Values as plain data for JSON; what is counted, and no ratio, says what counted it."""
    source = SOURCES[counts.counted_by]
    counted = {*COUNTS, "seconds", "restarts"}
    return {
        name: {
            "value": int(one.value) if one.unit == "count" and one.value is not None else one.value,
            "unit": one.unit,
            "definition": f"{one.definition}; {source}" if name in counted else one.definition,
            "unknown": one.unknown,
        }
        for name, one in values.items()
    }


def _counted() -> list[Quantity]:
    def count(name: str, field_name: str, definition: str) -> Quantity:
        return Quantity(name, "count", definition, (field_name,), lambda counts: counts.need(field_name))

    return [
        count("drafts", "drafts", "drafts verified"),
        count("draft_tokens", "draft_tokens", "tokens drafted"),
        count("accepted", "accepted", "draft tokens accepted"),
        count("requests", "requests_finished", "requests that the server finished"),
    ]


def _of_drafts(k: int, held: float | None, by_steps: bool) -> list[Quantity]:
    positions = range(1, k + 1)
    placed = ("drafts", "accepted_at")
    note = checked = ""
    if held is not None:
        note = f"; drafts held {held:.4g} of {k} tokens on average, and what a short one lacks counts as not accepted"
    before = ["all drafts", *(f"drafts accepted through position {position}" for position in positions)]
    if by_steps:
        before = [f"those of {drafts} that hold a token there, by the steps of own requests" for drafts in before]
    else:
        checked = note
    terms = " + ".join(["1", "a", *(f"a^{power}" for power in positions[1:])]) if k else "1 + a + ... + a^K"

    definition = "accepted draft tokens over all draft tokens"
    tokens = ("accepted", "draft_tokens")
    found = [Quantity("accepted_over_drafted", "fraction", definition, tokens, _accepted_over_drafted)]
    definition = "accepted draft tokens over accepted and rejected ones; a draft not accepted to its end holds one rejection"
    found.append(Quantity("accepted_over_checked", "fraction", definition + checked, placed, _accepted_over_checked))
    for position in positions:
        definition = f"drafts accepted through position {position}, over all drafts{note}"
        found.append(Quantity(f"share_through_{position}", "fraction", definition, placed, partial(_share, position=position)))
    for position in positions:
        definition = f"drafts accepted through position {position}, over {before[position - 1]}{checked}"
        found.append(Quantity(f"chance_{position}", "fraction", definition, placed, partial(_chance, position=position)))
    for position in positions[1:]:
        definition = f"chance at position {position} less that at {position - 1}"
        found.append(Quantity(f"rise_{position}", POINTS, definition, placed, partial(_rise, position=position), PERCENT))
    if k > 1:
        definition = "slope of the chance along the draft, by least squares, for each further position"
        found.append(Quantity("chance_slope", POINTS, definition, placed, _chance_slope, PERCENT))
    definition = "1 + accepted draft tokens per draft, as the verifier counts"
    found.append(Quantity("tokens_per_step", "tokens", definition, ("drafts", "accepted_of_drafts"), _verified))
    for shorter in positions[:-1]:
        shares = " + ".join(["1", *(f"s{position}" for position in range(1, shorter + 1))])
        definition = (
            f"{shares}, s the shares through a position: tokens per step with drafts of {shorter}, "
            "if the draft policy is unchanged"
        )
        found.append(
            Quantity(f"tokens_per_step_at_{shorter}", "tokens", definition, placed, partial(_with_shorter, length=shorter))
        )
    for rate, meaning in FORMULA_RATES.items():
        needs = (*placed, *tokens) if rate == "accepted_over_drafted" else placed
        definition = f"{terms} with a {meaning}"
        found.append(Quantity(f"formula_{rate}", "tokens", definition, needs, partial(_formula, rate=rate)))
        definition = f"({terms}) over the measured tokens per step, less 1; a {meaning}"
        found.append(Quantity(f"formula_{rate}_error", "relative", definition, needs, partial(_formula_error, rate=rate)))
    if k > 1:
        definition = f"({terms.removeprefix('1 + a + ')}) over the shares through 2 to {k}, less 1; a the share through 1"
        found.append(Quantity("formula_last_terms_error", "relative", definition, placed, _last_terms_error))
    return found


def _of_tokens() -> list[Quantity]:
    """What takes generated tokens or requests beside the drafts."""
    steps = ("drafts", "accepted_of_drafts", "generation_tokens", "requests_finished")
    return [
        Quantity(
            "emitted_tokens_per_step",
            "tokens",
            "generated tokens less one a finished request, which its prefill makes, per draft",
            steps,
            _emitted,
        ),
        Quantity(
            "emitted_minus_verified",
            "tokens",
            "emitted tokens per step less those that the verifier counts: what was cut off at the ends of replies",
            steps,
            lambda counts: _emitted(counts) - _verified(counts),
        ),
        Quantity(
            "tokens_per_decode_step",
            "tokens",
            "generated tokens less one a finished request, per decode step with or without a draft; at most so many: of steps "
            "without a draft those alone are known whose tokens exceed what drafts and their accepted tokens can make up",
            steps,
            _per_decode_step,
            bound=True,
        ),
        Quantity(
            "mean_prompt_tokens",
            "tokens",
            "prompt tokens of a finished request, on average",
            ("prompt_tokens", "requests_finished"),
            partial(_per_request, tokens="prompt_tokens"),
        ),
        Quantity(
            "mean_reply_tokens",
            "tokens",
            "generated tokens of a finished request, on average",
            ("generation_tokens", "requests_finished"),
            partial(_per_request, tokens="generation_tokens"),
        ),
    ]


def _known(value: float | None, reason: str = NO_DRAFT) -> float:
    if value is None:
        raise Unknown(reason)
    return value


def _drafts(counts: Counts) -> float:
    drafts = counts.need("drafts")
    return _known(drafts or None)


def _accepted_over_drafted(counts: Counts) -> float:
    return _known(accepted_over_drafted(counts.need("accepted"), counts.need("draft_tokens")).value)


def _accepted(counts: Counts) -> float:
    """Accepted tokens of the drafts; unknown where these (recovered ones too) cannot hold so many."""
    drafts, accepted, most = counts.need("drafts"), counts.need("accepted_of_drafts"), counts.longest or counts.k
    if most and accepted > most * drafts:
        raise Unknown(f"found {accepted:.0f} accepted tokens of {drafts:.0f} drafts, which hold at most {most} each")
    return accepted


def _verified(counts: Counts) -> float:
    return _known(tokens_per_step(counts.need("drafts"), _accepted(counts)).value)


def _shares(counts: Counts) -> FloatArray:
    return np.asarray(counts.positions() / _drafts(counts), dtype=np.float64)


def _share(counts: Counts, position: int) -> float:
    return float(_shares(counts)[position - 1])


def _with_shorter(counts: Counts, length: int) -> float:
    return shorter_drafts(_shares(counts))[length - 1]


def _eligible(counts: Counts, position: int) -> float:
    """Drafts that hold a token at `position`, with all before it accepted: it was checked.

    Where no request says it, every draft is taken as full. That is certainly wrong where too few
    tokens were drafted for so many: each draft holds one token at least, and one that holds a token
    at k holds k - 1 more than the first.
    """
    if counts.eligible_at is not None:
        return counts.eligible_at[position - 1]
    if position == 1:
        return _drafts(counts)
    through = float(counts.positions()[position - 2])
    if counts.drafted_of_drafts is not None:
        most = (counts.drafted_of_drafts - _drafts(counts)) // (position - 1)
        if most < through:
            raise Unknown(
                f"drafts were short: at most {most:.0f} of {counts.drafts:.0f} can hold a token at position {position}, and "
                f"{through:.0f} were accepted through position {position - 1}; how many of these hold one is not known"
            )
    return through


def _chance(counts: Counts, position: int) -> float:
    of = _eligible(counts, position)
    reason = NO_DRAFT if position == 1 else f"no draft that holds a token at position {position} was accepted up to it"
    return _known(float(counts.positions()[position - 1]) / of if of else None, reason)


def _rise(counts: Counts, position: int) -> float:
    return _chance(counts, position) - _chance(counts, position - 1)


def _chance_slope(counts: Counts) -> float:
    k = len(counts.positions())
    chances = np.array([_chance(counts, position) for position in range(1, k + 1)])
    centred = np.arange(k) - (k - 1) / 2
    return float((chances * centred).sum() / (centred @ centred))


def _accepted_over_checked(counts: Counts) -> float:
    at = counts.positions()
    checked = sum(_eligible(counts, position) for position in range(1, len(at) + 1))
    return _known(float(at.sum()) / checked if checked else None)


def _formula(counts: Counts, rate: str) -> float:
    makers: dict[str, Callable[[Counts], float]] = {
        "first_position": partial(_share, position=1),
        "checked": _accepted_over_checked,
        "accepted_over_drafted": _accepted_over_drafted,
    }
    a = makers[rate](counts)
    return sum((a**power for power in range(1, len(counts.positions()) + 1)), 1.0)


def _formula_error(counts: Counts, rate: str) -> float:
    return float(_formula(counts, rate) / (1 + _shares(counts).sum()) - 1)


def _last_terms_error(counts: Counts) -> float:
    shares = _shares(counts)
    later = float(shares[1:].sum())
    last = _formula(counts, "first_position") - 1 - float(shares[0])
    return _known(last / later - 1 if later else None, "no draft was accepted through position 2")


def _decoded(counts: Counts) -> float:
    """Generated tokens less the first one of each finished request, which comes from its prompt."""
    generated, finished = counts.need("generation_tokens"), counts.need("requests_finished")
    if finished > generated:
        raise Unknown(f"found {generated:.0f} generated tokens of {finished:.0f} finished requests, some of which made none")
    return generated - finished


def _beyond_drafts(counts: Counts) -> float:
    """Decoded tokens more than drafting steps can make: their accepted tokens and one each."""
    return max(_decoded(counts) - counts.need("drafts") - _accepted(counts), 0.0)


def _emitted(counts: Counts) -> float:
    """Unknown where drafting steps cannot have made all tokens: others would be taken for theirs.

    No tolerance for requests that still ran at either reading: how many first tokens that makes is
    not known.
    """
    decoded, drafts = _decoded(counts), _drafts(counts)
    if _beyond_drafts(counts):
        generated = counts.need("generation_tokens")
        others = generated - drafts - _accepted(counts)
        raise Unknown(
            f"{others:.0f} of {generated:.0f} generated tokens came from steps without a draft, or are a prompt's first token"
        )
    return decoded / drafts


def _per_decode_step(counts: Counts) -> float:
    steps = counts.need("drafts") + _beyond_drafts(counts)
    return _known(_decoded(counts) / steps if steps else None, "no decode step was made")


def _per_request(counts: Counts, tokens: str) -> float:
    finished = counts.need("requests_finished")
    return _known(counts.need(tokens) / finished if finished else None, "no request was finished")


def _against_counters(counts: Counts, series: IntervalSeries) -> tuple[float | None, str]:
    if series.counters:
        return None, "the intervals are differences of the same counters"
    if counts.counted_by != "counters" or not counts.draft_tokens:
        return None, "there are no counters to compare the lines with"
    return float(series.drafted.sum()) / counts.draft_tokens - 1, ""
