"""How much acceptance varies beyond the luck of drafts, and what that asks of whoever wants to know it."""

from draftmeter.analyse.facts import PERCENT, POINTS
from draftmeter.analyse.lines import NO_POSITION
from draftmeter.analyse.surveyed import UNKNOWN_INTERVAL, Surveyed
from draftmeter.facts import Fact
from draftmeter.stats.beyond_chance import Planning
from draftmeter.stats.estimate import Estimate

MOMENTS = "method of moments: the variance less that of sampling"


def dispersion_facts(found: Surveyed, k: int) -> dict[str, Fact]:
    """True variation of acceptance and of the chance at each of K = `k` positions; the planning number."""
    survey, reason = found.survey, found.why_none
    definition = f"standard deviation of true acceptance between {found.rule}"
    every = None if survey is None or reason else survey.overdispersion
    overall = None if every is None else every.acceptance
    facts = {"between_sd_pp": _variation(found, overall, definition, MOMENTS, reason)}
    for position in range(1, k + 1):
        one = every.positions[position - 1] if every and every.positions else None
        what = f"of the true chance at position {position} between {found.rule}"
        text = f"standard deviation {what}"
        model = f"beta-binomial model of drafts accepted there, given acceptance before; {MOMENTS}"
        facts[f"dispersion_{position}"] = _variation(found, one, text, model, reason)
        intraclass = every.intraclass[position - 1] if every and every.intraclass else None
        facts[f"intraclass_{position}"] = _intraclass(
            found, one, intraclass, f"variance {what}, over chance (1 - chance)", reason
        )
    return facts | _planning(found)


def _variation(found: Surveyed, one: Estimate | None, definition: str, method: str, reason: str | None) -> Fact:
    if one is None or one.value is None:
        return found.plain(None, POINTS, definition, reason or (one and one.unknown) or NO_POSITION)
    low, high = (None if end is None else PERCENT * end for end in (one.low, one.high))
    return found.plain(PERCENT * one.value, POINTS, definition, one.unknown, (low, high), _with_interval(found, method, low))


def _intraclass(found: Surveyed, one: Estimate | None, value: float | None, definition: str, reason: str | None) -> Fact:
    """Its interval is that of the standard deviation, on its own scale."""
    if one is None or value is None:
        return found.plain(None, "fraction", definition, reason or (one and one.unknown) or "the chance is 0 or 1")
    ends: tuple[float | None, float | None] = (None, None)
    if one.value and one.low is not None and one.high is not None:
        ends = (value * (one.low / one.value) ** 2, value * (one.high / one.value) ** 2)
    unknown = one.unknown if ends[0] is None else None
    unknown = "no interval: no variation beyond sampling was found" if ends[0] is None and unknown is None else unknown
    return found.plain(value, "fraction", definition, unknown, ends, _with_interval(found, MOMENTS, ends[0]))


def _with_interval(found: Surveyed, method: str, low: float | None) -> str:
    return method if low is None else f"{method}; {found.confidence:.0%} interval from resampled blocks"


def _planning(found: Surveyed) -> dict[str, Fact]:
    plan = None if found.survey is None else found.survey.planning
    reason = _why_no_plan(found, plan)
    aim = "to know accepted over drafted to one percentage point either way, on traffic like this"
    method = (
        "standard error of accepted over drafted over all lines, from resampled blocks; "
        f"{found.confidence:.0%} interval from its degrees of freedom"
    )
    drafts = minutes = effective = None
    if plan is not None and reason is None:
        drafts, minutes, effective = plan.drafts, plan.minutes, plan.effective_drafts
    rows = {
        "planning_drafts": (drafts, "count", f"drafts needed {aim}"),
        "planning_minutes": (minutes, "min", f"minutes needed {aim}"),
    }
    facts = {}
    for name, (known, unit, definition) in rows.items():
        value, low, high = (None, None, None) if known is None else (known.value, known.low, known.high)
        facts[name] = found.plain(value, unit, definition, reason, (low, high), method if known else "", len(found.log))
    text = "independent drafts that would tell accepted over drafted as well as those of all lines do"
    facts["effective_drafts"] = found.plain(effective, "count", text, reason, n=len(found.log))
    return facts


def _why_no_plan(found: Surveyed, plan: Planning | None) -> str | None:
    if plan is not None:
        return None
    if found.survey is None or found.log.lines is None:
        return found.log.unknown
    pooled = found.survey.estimates["pooled.accepted_over_drafted"]
    if pooled.unknown:
        return pooled.unknown
    if found.log.lines.accepted_at is None:
        return NO_POSITION
    return UNKNOWN_INTERVAL if found.log.window_s is None else "some lines do not say their drafts"
