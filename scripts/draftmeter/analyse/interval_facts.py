"""The facts of the production server's intervals: their number, spread, memory, load, dispersion
and fifths by acceptance."""

from dataclasses import dataclass

import numpy as np

from draftmeter.analyse.facts import PERCENT, POINTS, count_fact, fact
from draftmeter.analyse.interval_estimates import NO_RUNNING, UNKNOWN_INTERVAL, IntervalEstimates, rule
from draftmeter.analyse.interval_series import NO_LINE, NO_POSITION, WorkloadIntervals, piece_s
from draftmeter.analyse.tables import Tables, known, numbers
from draftmeter.facts import Fact, Lag, RunningMean
from draftmeter.stats.beyond_chance import Planning
from draftmeter.stats.estimate import Estimate
from draftmeter.stats.interval_statistics import FIFTHS, IDLE, RUNNING, STEP_RATE_RUNNING, IntervalStatistics
from draftmeter.stats.intervals import FEWEST_PAIRS, hours_covered
from draftmeter.stats.load import MOST_RUNNING
from draftmeter.stats.memory import DecayFit
from draftmeter.stats.runs import relative_gap

NO_COUNTERS = "there are no counters; the lines are all there is"
# name: unit, factor, what is subtracted, definition
SPREAD = {
    "p10": ("fraction", 1.0, 0.0, "10th percentile of acceptance over {rule}, unweighted"),
    "p90": ("fraction", 1.0, 0.0, "90th percentile of acceptance over {rule}, unweighted"),
    "sd": (POINTS, PERCENT, 0.0, "standard deviation of acceptance over {rule}, unweighted"),
    "sampling_sd": (POINTS, PERCENT, 0.0, "standard deviation over {rule} if every draft had their pooled chances"),
    "variance_ratio": ("ratio", 1.0, 0.0, "(standard deviation / sampling standard deviation)^2 over {rule}"),
    "tokens_per_step_p10": ("tokens", 1.0, 0.0, "10th percentile of tokens per step over {rule}, unweighted"),
    "tokens_per_step_p90": ("tokens", 1.0, 0.0, "90th percentile of tokens per step over {rule}, unweighted"),
    "tokens_per_step_p90_over_p10": (
        "relative",
        1.0,
        1.0,
        "90th percentile of tokens per step over the 10th, less 1, over {rule}",
    ),
}
SPREAD_NAMES = {"sd": "sd_pp", "sampling_sd": "sampling_sd_pp", "tokens_per_step_p90_over_p10": "tokens_per_step_spread"}
AT_END = "at the interval's end"
RUNNING_MEANS = [
    RunningMean(requests=number, or_more=number == MOST_RUNNING, quantity=f"running_{number}{'plus' * (number == MOST_RUNNING)}")
    for number in range(MOST_RUNNING + 1)
]
MOMENTS = "method of moments: the variance less that of sampling"
# In intervals; at ten seconds each, the lags of the published study: 10 s, 30 s, 5 min, 10 min.
LAGS = (1, 3, 30, 60)
USUAL_INTERVAL_S = 10.0
CORRELATION = "autocorrelation."
ONE_SCALE = "one time scale describes the decay as well"
ORDER_OF_FIFTHS = f"of {FIFTHS} (1 lowest)"


@dataclass(frozen=True)
class Fifth:
    """One fifth: by position the chance and the one that equal chances give, and how the chance changes along the draft."""

    number: int
    chances: list[Fact]
    equal: list[Fact]
    change: dict[str, Fact]

    def facts(self) -> dict[str, Fact]:
        """All facts, by quantity."""
        name = f"fifth_{self.number}"
        facts = {f"{name}.chance_{position}": one for position, one in enumerate(self.chances, start=1)}
        facts |= {f"{name}.equal_chance_{position}": one for position, one in enumerate(self.equal, start=1)}
        return facts | {f"{name}.{quantity}": one for quantity, one in self.change.items()}


def interval_facts(
    estimates: IntervalEstimates, k: int, fifths: list[Fifth], tables: Tables | None, sensitivity: list[int]
) -> dict[str, Fact]:
    """Counts, spread at each threshold, memory, load, dispersion and the `fifths`, by quantity; K = `k` positions.

    `tables` are those of the workload; None for intervals that are not those of its log, and are not counted against it.
    """
    facts = _counts(estimates.log, tables)
    by_threshold = {threshold: _at_threshold(estimates, threshold) for threshold in (estimates.min_drafts, *sensitivity)}
    facts |= by_threshold[estimates.min_drafts]
    facts |= _step_rates(estimates)
    facts |= _memory(estimates)
    facts |= _load(estimates)
    facts |= _dispersion(estimates, k)
    for one in fifths:
        facts |= one.facts()
    for threshold in sensitivity:
        facts |= {f"t{threshold}.{quantity}": one for quantity, one in by_threshold[threshold].items()}
    correlations = [
        of_threshold[f"step_rate_correlation_{running}"]
        for of_threshold in by_threshold.values()
        for running in STEP_RATE_RUNNING
    ]
    return facts | _extremes_of_correlation(estimates, correlations)


def _counts(log: WorkloadIntervals, tables: Tables | None) -> dict[str, Fact]:
    n = len(log)
    running = known(numbers(log.table, "running"))
    timed = bool(np.isfinite(log.windows_s).all())
    facts = {
        "lines": count_fact(
            n, "intervals with drafts: statistics lines of a log, or differences of counters", log.kind, n, "lines"
        ),
        "hours_with_lines": _described(
            hours_covered(log.windows_s) if timed and n else None,
            log,
            "h",
            "time that the lines cover, each counted as its nominal window",
            None if timed else UNKNOWN_INTERVAL,
        ),
        "most_running": count_fact(
            float(running.max()) if len(running) else None,
            "most requests running at the end of an interval",
            log.kind,
            len(running),
            "lines",
            None if len(running) else NO_RUNNING if n else NO_LINE,
        ),
    }
    if tables is None:
        return facts
    length = piece_s(log)
    if length is not None:
        definition = "length of the pieces of time that stand for so many intervals in a picture of acceptance over time"
        facts["piece_s"] = _described(length, log, "s", definition, None)
    return facts | {"hours_of_counters": _hours_of_counters(tables), "lines_vs_counters_gap": _gap(log, tables)}


def _hours_of_counters(tables: Tables) -> Fact:
    seconds = numbers(tables.totals, "seconds")
    unknown: str | None = None
    if tables.counted_by == "lines":
        unknown = NO_COUNTERS
    elif np.isnan(seconds).any():
        unknown = f"how long the counters were watched is unknown in {int(np.isnan(seconds).sum())} of {len(seconds)} records"
    return fact(
        None if unknown else float(seconds.sum()) / 3600,
        unit="h",
        definition="time between the first and the last reading of the counters, over all records",
        method="server counters",
        n=len(seconds),
        n_unit="records",
        unknown=unknown,
    )


def _gap(log: WorkloadIntervals, tables: Tables) -> Fact:
    definition = "draft tokens of all lines over those of the counters, less 1"
    if tables.counted_by == "lines":
        return _described(None, log, "relative", definition, NO_COUNTERS)
    counted = float(numbers(tables.totals, "draft_tokens").sum())
    value = relative_gap(float(numbers(log.table, "drafted").sum()), counted) if counted > 0 else None
    return _described(value, log, "relative", definition, None if counted > 0 else "the counters hold no draft token")


def _described(value: float | None, log: WorkloadIntervals, unit: str, definition: str, unknown: str | None) -> Fact:
    """A description of the lines themselves: no estimate of anything else, so without an interval."""
    unknown = NO_LINE if value is None and unknown is None else unknown
    return fact(value, unit=unit, definition=definition, method=log.source, n=len(log), n_unit="intervals", unknown=unknown)


def _at_threshold(estimates: IntervalEstimates, min_drafts: int) -> dict[str, Fact]:
    log, text, unknown = estimates.log, rule(min_drafts), estimates.why_none_at(min_drafts)
    prefix = f"t{min_drafts}."
    threshold = None
    if estimates.survey is not None:
        threshold = next(one for one in estimates.survey.thresholds if one.min_drafts == min_drafts)
    lines = 0 if threshold is None else threshold.intervals
    names = ("share_of_intervals", "share_of_draft_tokens", "lowest", "highest")
    share, of_tokens, lowest, highest = (None if threshold is None else getattr(threshold, name) for name in names)
    facts = {
        "min_drafts": count_fact(min_drafts, "fewest drafts of an interval that qualifies", "setting", len(log), "lines"),
        "qualifying": count_fact(lines, text, log.kind, len(log), "lines"),
        "share_of_lines": _described(share, log, "fraction", f"{text}, over all lines", None),
        "share_of_draft_tokens": _described(
            of_tokens,
            log,
            "fraction",
            f"draft tokens in {text}, over those in all lines",
            None,
        ),
        "min": estimates.plain(lowest, "fraction", f"lowest acceptance of {text}", unknown, n=lines),
        "max": estimates.plain(highest, "fraction", f"highest acceptance of {text}", unknown, n=lines),
    }
    for name, (unit, factor, less, definition) in SPREAD.items():
        facts[SPREAD_NAMES.get(name, name)] = estimates.estimate(
            prefix + name, unit, definition.format(rule=text), factor=factor, less=less, unknown=unknown
        )
    for running in STEP_RATE_RUNNING:
        name = f"step_rate_correlation_{running}"
        requests = "one request" if running == 1 else f"{running} requests"
        definition = f"correlation of tokens per step with drafts per second, over {text} and {requests} running at their end"
        facts[name] = estimates.estimate(prefix + name, "correlation", definition, unknown=unknown or _no_rate(log))
    return facts


def _no_rate(log: WorkloadIntervals) -> str | None:
    return None if np.isfinite(log.windows_s).any() else UNKNOWN_INTERVAL


def _step_rates(estimates: IntervalEstimates) -> dict[str, Fact]:
    text = f"drafts per second of the window, over {estimates.rule} and one request running at their end"
    kinds = {
        "p10": ("drafts per second", f"10th percentile of {text}"),
        "p90": ("drafts per second", f"90th percentile of {text}"),
        "p90_over_p10": ("ratio", f"90th percentile over the 10th of {text}"),
    }
    return {
        f"step_rate_{name}": estimates.estimate(f"step_rate.{name}", unit, definition, unknown=_no_rate(estimates.log))
        for name, (unit, definition) in kinds.items()
    }


def _extremes_of_correlation(estimates: IntervalEstimates, correlations: list[Fact]) -> dict[str, Fact]:
    """Of the correlations that have an interval: those of a few lines reach any value. Extremes have none themselves."""
    values = [one.value for one in correlations if one.value is not None and one.low is not None]
    unknown = None if values else f"none of {len(correlations)} correlations has an interval"
    what = f"of {len(values)} correlations of tokens per step with drafts per second, at all thresholds and one to three running"
    return {
        f"step_rate_correlation_{name}": estimates.plain(
            choose(values) if values else None, "correlation", f"{name} {what}", unknown
        )
        for name, choose in (("lowest", min), ("highest", max))
    }


def _load(estimates: IntervalEstimates) -> dict[str, Fact]:
    """Means, range, idle against loaded, slope, and the part of the variance that load explains, and the mix of requests."""
    no_running = None
    if estimates.log.lines is not None and np.isnan(estimates.log.lines.running).all():
        no_running = NO_RUNNING
    facts = {}
    for name, mean in zip(RUNNING, RUNNING_MEANS, strict=True):
        more = " or more" if mean.or_more else ""
        requests = f"{mean.requests}{more} request{'' if mean.requests == 1 else 's'}"
        definition = f"mean acceptance over {estimates.rule} and {requests} running {AT_END}, unweighted"
        facts[mean.quantity] = estimates.estimate(name, "fraction", definition, unknown=no_running)
    definition = (
        f"largest less smallest mean acceptance over {estimates.rule}, by 1 to {MOST_RUNNING} or more requests running {AT_END}"
    )
    facts["load_range_pp"] = estimates.made(lambda survey: _range(estimates, survey, definition), POINTS, definition, no_running)
    none, some = IDLE
    definition = f"mean acceptance over {estimates.rule} with no request running {AT_END}, less that with some"
    facts["idle_minus_loaded_pp"] = estimates.estimate(
        f"{some} - {none}", POINTS, definition, factor=-PERCENT, unknown=no_running
    )
    definition = f"slope of acceptance over {estimates.rule} for each further request running {AT_END}, by least squares"
    facts["load_slope_pp"] = estimates.made(lambda survey: _slope(estimates, survey, definition), POINTS, definition, no_running)
    definition = f"part of the true variance of acceptance between {estimates.rule} that goes with requests running {AT_END}"
    facts["explained_by_load"] = estimates.made(
        lambda survey: _explained(estimates, survey.explained_by_running, definition), "fraction", definition, no_running
    )
    if estimates.survey is not None and estimates.survey.explained_by_workload is not None:
        explained = estimates.survey.explained_by_workload
        definition = (
            f"part of the true variance of acceptance between {estimates.rule} that goes with the category of their requests"
        )
        facts["explained_by_workload"] = _explained(estimates, explained, definition)
    return facts


def _range(estimates: IntervalEstimates, survey: IntervalStatistics, definition: str) -> Fact:
    """Of the means that have an interval; where there are not two, the value is that of all means, and has none."""
    ranged = survey.running_range.estimate
    if ranged.value is None:
        means = [one.value for one in (survey.estimates[name] for name in RUNNING[1:]) if one.value is not None]
        value = PERCENT * (max(means) - min(means)) if len(means) > 1 else None
        return estimates.plain(value, POINTS, definition, ranged.unknown)
    left_out = [name.removeprefix("running.") for name in survey.running_range.left_out]
    if left_out:
        definition += f"; the means with {', '.join(left_out)} running have no interval, and are left out"
    ends = tuple(None if end is None else PERCENT * end for end in (ranged.low, ranged.high))
    return estimates.plain(PERCENT * ranged.value, POINTS, definition, ranged.unknown, (ends[0], ends[1]), ranged.method)


def _slope(estimates: IntervalEstimates, survey: IntervalStatistics, definition: str) -> Fact:
    fit = survey.regression
    if fit is None:
        return estimates.plain(None, POINTS, definition, "the number of running requests does not vary over these intervals")
    slope = fit.slope.without_interval(estimates.too_short) if estimates.too_short else fit.slope
    value, low, high = (None if end is None else PERCENT * end for end in (slope.value, slope.low, slope.high))
    return estimates.plain(value, POINTS, definition, slope.unknown, (low, high), slope.method)


def _explained(estimates: IntervalEstimates, explained: Estimate, definition: str) -> Fact:
    ends = (explained.low, explained.high)
    return estimates.plain(explained.value, "fraction", definition, explained.unknown, ends, explained.method)


def _dispersion(estimates: IntervalEstimates, k: int) -> dict[str, Fact]:
    """True variation of acceptance and of the chance at each of K = `k` positions; the planning number."""
    survey, reason = estimates.survey, estimates.why_none
    definition = f"standard deviation of true acceptance between {estimates.rule}"
    every = None if survey is None or reason else survey.overdispersion
    overall = None if every is None else every.acceptance
    facts = {"between_sd_pp": _variation(estimates, overall, definition, MOMENTS, reason)}
    for position in range(1, k + 1):
        one = every.positions[position - 1] if every and every.positions else None
        what = f"of the true chance at position {position} between {estimates.rule}"
        text = f"standard deviation {what}"
        model = f"beta-binomial model of drafts accepted there, given acceptance before; {MOMENTS}"
        facts[f"dispersion_{position}"] = _variation(estimates, one, text, model, reason)
        intraclass = every.intraclass[position - 1] if every and every.intraclass else None
        facts[f"intraclass_{position}"] = _intraclass(
            estimates, one, intraclass, f"variance {what}, over chance (1 - chance)", reason
        )
    return facts | _planning(estimates)


def _variation(estimates: IntervalEstimates, one: Estimate | None, definition: str, method: str, reason: str | None) -> Fact:
    if one is None or one.value is None:
        return estimates.plain(None, POINTS, definition, reason or (one and one.unknown) or NO_POSITION)
    low, high = (None if end is None else PERCENT * end for end in (one.low, one.high))
    return estimates.plain(
        PERCENT * one.value, POINTS, definition, one.unknown, (low, high), _with_interval(estimates, method, low)
    )


def _intraclass(
    estimates: IntervalEstimates, one: Estimate | None, value: float | None, definition: str, reason: str | None
) -> Fact:
    """Its interval is that of the standard deviation, on its own scale."""
    if one is None or value is None:
        return estimates.plain(None, "fraction", definition, reason or (one and one.unknown) or "the chance is 0 or 1")
    ends: tuple[float | None, float | None] = (None, None)
    if one.value and one.low is not None and one.high is not None:
        ends = (value * (one.low / one.value) ** 2, value * (one.high / one.value) ** 2)
    unknown = one.unknown if ends[0] is None else None
    unknown = "no interval: no variation beyond sampling was found" if ends[0] is None and unknown is None else unknown
    return estimates.plain(value, "fraction", definition, unknown, ends, _with_interval(estimates, MOMENTS, ends[0]))


def _with_interval(estimates: IntervalEstimates, method: str, low: float | None) -> str:
    return method if low is None else f"{method}; {estimates.confidence:.0%} interval from resampled blocks"


def _planning(estimates: IntervalEstimates) -> dict[str, Fact]:
    plan = None if estimates.survey is None else estimates.survey.planning
    reason = _why_no_plan(estimates, plan)
    aim = "to know accepted over drafted to one percentage point either way, on traffic like this"
    method = (
        "standard error of accepted over drafted over all lines, from resampled blocks; "
        f"{estimates.confidence:.0%} interval from its degrees of freedom"
    )
    drafts = minutes = effective = None
    if plan is not None and reason is None:
        drafts, minutes, effective = plan.drafts, plan.minutes, plan.effective_drafts
    rows = {
        "planning_drafts": (drafts, "count", f"drafts needed {aim}"),
        "planning_minutes": (minutes, "min", f"minutes needed {aim}"),
    }
    facts = {}
    for name, (needed, unit, definition) in rows.items():
        value, low, high = (None, None, None) if needed is None else (needed.value, needed.low, needed.high)
        facts[name] = estimates.plain(value, unit, definition, reason, (low, high), method if needed else "", len(estimates.log))
    text = "independent drafts that would tell accepted over drafted as well as those of all lines do"
    facts["effective_drafts"] = estimates.plain(effective, "count", text, reason, n=len(estimates.log))
    return facts


def _why_no_plan(estimates: IntervalEstimates, plan: Planning | None) -> str | None:
    if plan is not None:
        return None
    if estimates.survey is None or estimates.log.lines is None:
        return estimates.log.unknown
    pooled = estimates.survey.estimates["pooled.accepted_over_drafted"]
    if pooled.unknown:
        return pooled.unknown
    if estimates.log.lines.accepted_at is None:
        return NO_POSITION
    return UNKNOWN_INTERVAL if estimates.log.window_s is None else "some lines do not say their drafts"


def _memory(estimates: IntervalEstimates) -> dict[str, Fact]:
    """By lag, over pairs of qualifying intervals, named by seconds (of ten-second intervals where their length is unknown)."""
    reason = why_no_memory(estimates)
    facts = {}
    for lag, named in zip(LAGS, lags_of(estimates), strict=True):
        seconds = f"{named.seconds:g}"
        definition = f"correlation of acceptance with itself {lag} interval{'s' if lag > 1 else ''} later"
        if reason is None:
            definition += f" ({seconds} s), over pairs of qualifying intervals"
        one = estimates.estimate(f"{CORRELATION}{seconds}", "correlation", definition, unknown=reason)
        facts[named.quantity] = one.model_copy(update={"n_unit": "pairs of intervals"} if reason is None else {})
    return facts | _decay(estimates, reason)


def lags_of(estimates: IntervalEstimates) -> list[Lag]:
    """The lags that have a fact, in seconds (of ten-second intervals where their length is unknown), from the shortest."""
    lags_s = [lag * (estimates.log.window_s or USUAL_INTERVAL_S) for lag in LAGS]
    return [Lag(seconds=lag_s, quantity=f"autocorrelation_{lag_s:g}s") for lag_s in lags_s]


def why_no_memory(estimates: IntervalEstimates) -> str | None:
    """Why no correlation of acceptance with itself can be made; None where one can."""
    if estimates.why_none:
        return estimates.why_none
    assert estimates.log.lines is not None
    chosen = estimates.log.lines.at_least(estimates.min_drafts)
    untimed = int((~estimates.log.timed[chosen]).sum())
    if untimed:
        return f"the log shows no time for {untimed} of {int(chosen.sum())} qualifying intervals"
    if estimates.log.window_s is None:
        windows = np.unique(estimates.log.windows_s)
        if np.isnan(windows).any():
            return UNKNOWN_INTERVAL
        return f"intervals of {', '.join(f'{window:g}' for window in windows)} s are mixed; lags need one length"
    if estimates.survey is not None and not estimates.survey.pairs:
        return f"too short: {int(chosen.sum())} {estimates.rule}, at least {FEWEST_PAIRS} are needed"
    return None


def chosen_decay(survey: IntervalStatistics) -> DecayFit | None:
    """The fit with one time scale or with two, whichever describes the memory better; None where there is none."""
    decay = survey.decay
    return None if decay.chosen is None else (decay.one, decay.two)[decay.chosen - 1]


def _decay(estimates: IntervalEstimates, reason: str | None) -> dict[str, Fact]:
    """A fit to a few blocks of memory finds any times: where the series is too short, nothing is said of them."""
    fit = None if estimates.survey is None else chosen_decay(estimates.survey)
    reason = reason or estimates.too_short
    if reason is None and estimates.survey is not None:
        reason = estimates.survey.decay.unknown
    method = "generalised least squares of exponential decays and a white rest to the autocorrelations"
    facts = {}
    values: dict[str, float | None] = dict.fromkeys(("components", "white_share", "aic_difference"))
    if reason is None and estimates.survey is not None and fit is not None:
        decay = estimates.survey.decay
        assert decay.one is not None and decay.two is not None
        values = {
            "components": float(len(fit.components)),
            "white_share": fit.white,
            "aic_difference": decay.one.aic - decay.two.aic,
        }
    definitions = {
        "components": ("count", "time scales of the decay of the autocorrelation, one or two, by the smaller AIC"),
        "white_share": ("fraction", "part of the variance of acceptance that is forgotten within one interval"),
        "aic_difference": ("AIC", "AIC of the fit with one time scale less that of the fit with two: above 0, two are better"),
    }
    for name, (unit, definition) in definitions.items():
        facts[f"decay_{name}"] = estimates.plain(values[name], unit, definition, reason, method=method)
    components = () if fit is None or reason else fit.components
    for number, name in enumerate(("fast", "slow")):
        time, weight = f"time in which the {name} part of the memory falls to 1/e", f"part of the variance with the {name} memory"
        if number >= len(components):
            facts[f"decay_{name}_s"] = estimates.plain(None, "s", time, reason or ONE_SCALE, method=method)
            facts[f"decay_{name}_weight"] = estimates.plain(None, "fraction", weight, reason or ONE_SCALE, method=method)
            continue
        quantities = (
            (f"decay_{name}_s", components[number].time_s, "s", time),
            (f"decay_{name}_weight", components[number].weight, "fraction", weight),
        )
        for key, one, unit, definition in quantities:
            made_by = "; ".join(filter(None, (method, one.method)))
            facts[key] = estimates.plain(one.value, unit, definition, one.unknown, (one.low, one.high), made_by)
    return facts


def fifth_facts(estimates: IntervalEstimates, k: int) -> list[Fifth]:
    """The fifths of the qualifying intervals, K = `k` positions."""
    return [_fifth(estimates, number, k) for number in range(1, FIFTHS + 1)]


def _fifth(estimates: IntervalEstimates, number: int, k: int) -> Fifth:
    group = f"pooled over fifth {number} {ORDER_OF_FIFTHS} of the {estimates.rule}, by acceptance"
    positions = range(1, k + 1)
    definitions = [f"chance at position {position}, {group}" for position in positions]
    reason = _no_fifth(estimates)

    def estimate(name: str, unit: str, definition: str, factor: float = 1.0) -> Fact:
        return estimates.estimate(f"fifth_{number}.{name}", unit, definition, factor=factor, unknown=reason)

    chances = [estimate(f"chance_{position}", "fraction", text) for position, text in zip(positions, definitions, strict=True)]
    change = {
        f"rise_{position}": estimate(
            f"rise_{position}", POINTS, f"chance at position {position} less that at {position - 1}, {group}", PERCENT
        )
        for position in positions[1:]
    }
    if k > 1:
        text = f"slope of the chance along the draft, by least squares, for each further position, {group}"
        change["chance_slope"] = estimate("chance_slope", POINTS, text, PERCENT)
        change["equal_chances_p"] = _equality(estimates, number, group, reason)
    equal = [_equal(estimates, number, position, text, reason) for position, text in zip(positions, definitions, strict=True)]
    return Fifth(number, chances, equal, change)


def _no_fifth(estimates: IntervalEstimates) -> str | None:
    if estimates.why_none:
        return estimates.why_none
    if estimates.log.lines is None or estimates.log.lines.accepted_at is None:
        return NO_POSITION
    lines = 0 if estimates.survey is None else estimates.survey.thresholds[0].intervals
    return f"{lines} {estimates.rule}; five groups need at least five" if lines < FIFTHS else None


def _equality(estimates: IntervalEstimates, number: int, group: str, reason: str | None) -> Fact:
    definition = f"of the test that the chance of acceptance is the same at all positions, {group}"
    if estimates.survey is None or reason:
        return estimates.plain(None, "p value", definition, reason)
    test = estimates.survey.equality_in_fifths[number - 1]
    method = ""
    if test.freedom is not None:
        first, second = test.freedom
        method = f"Wald test, F with {first} and {second:.0f} degrees of freedom, covariance from resampled blocks"
    return estimates.plain(test.p_value, "p value", definition, test.unknown, method=method)


def _equal(estimates: IntervalEstimates, number: int, position: int, definition: str, reason: str | None) -> Fact:
    definition += ", if every draft had the pooled chances"
    chances = None if estimates.survey is None else estimates.survey.equal_chances
    if reason or chances is None:
        return estimates.plain(None, "fraction", definition, reason or "no draft was accepted through the last position")
    method = "the same selection of the same intervals in closed form, acceptance of an interval taken as normal"
    return estimates.plain(chances[number - 1][position - 1], "fraction", definition, method=method)
