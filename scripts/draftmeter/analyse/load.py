"""Acceptance and load: means by requests running at an interval's end, their range, and the slope over them."""

import numpy as np

from draftmeter.analyse.facts import PERCENT, POINTS
from draftmeter.analyse.surveyed import NO_RUNNING, Surveyed
from draftmeter.facts import Fact
from draftmeter.stats.estimate import Estimate
from draftmeter.stats.interval_statistics import IDLE, RUNNING, IntervalStatistics
from draftmeter.stats.load import MOST_RUNNING

END = "at the interval's end"


def load_facts(found: Surveyed) -> dict[str, Fact]:
    """Means, range, idle against loaded, slope, and the part of the variance that load explains, and the mix of requests."""
    no_running = None
    if found.log.lines is not None and np.isnan(found.log.lines.running).all():
        no_running = NO_RUNNING
    facts = {}
    for number, name in enumerate(RUNNING):
        more = " or more" if number == MOST_RUNNING else ""
        requests = f"{number}{more} request{'' if number == 1 else 's'}"
        definition = f"mean acceptance over {found.rule} and {requests} running {END}, unweighted"
        facts[f"running_{number}{'plus' if more else ''}"] = found.estimate(name, "fraction", definition, unknown=no_running)
    definition = f"largest less smallest mean acceptance over {found.rule}, by 1 to {MOST_RUNNING} or more requests running {END}"
    facts["load_range_pp"] = found.made(lambda survey: _range(found, survey, definition), POINTS, definition, no_running)
    none, some = IDLE
    definition = f"mean acceptance over {found.rule} with no request running {END}, less that with some"
    facts["idle_minus_loaded_pp"] = found.estimate(f"{some} - {none}", POINTS, definition, factor=-PERCENT, unknown=no_running)
    definition = f"slope of acceptance over {found.rule} for each further request running {END}, by least squares"
    facts["load_slope_pp"] = found.made(lambda survey: _slope(found, survey, definition), POINTS, definition, no_running)
    definition = f"part of the true variance of acceptance between {found.rule} that goes with requests running {END}"
    facts["explained_by_load"] = found.made(
        lambda survey: _explained(found, survey.explained_by_running, definition), "fraction", definition, no_running
    )
    if found.survey is not None and found.survey.explained_by_workload is not None:
        explained = found.survey.explained_by_workload
        definition = f"part of the true variance of acceptance between {found.rule} that goes with the category of their requests"
        facts["explained_by_workload"] = _explained(found, explained, definition)
    return facts


def _range(found: Surveyed, survey: IntervalStatistics, definition: str) -> Fact:
    """Of the means that have an interval; where there are not two, the value is that of all means, and has none."""
    ranged = survey.running_range.estimate
    if ranged.value is None:
        means = [one.value for one in (survey.estimates[name] for name in RUNNING[1:]) if one.value is not None]
        value = PERCENT * (max(means) - min(means)) if len(means) > 1 else None
        return found.plain(value, POINTS, definition, ranged.unknown)
    left_out = [name.removeprefix("running.") for name in survey.running_range.left_out]
    if left_out:
        definition += f"; the means with {', '.join(left_out)} running have no interval, and are left out"
    ends = tuple(None if end is None else PERCENT * end for end in (ranged.low, ranged.high))
    return found.plain(PERCENT * ranged.value, POINTS, definition, ranged.unknown, (ends[0], ends[1]), ranged.method)


def _slope(found: Surveyed, survey: IntervalStatistics, definition: str) -> Fact:
    fit = survey.regression
    if fit is None:
        return found.plain(None, POINTS, definition, "the number of running requests does not vary over these intervals")
    slope = fit.slope.without_interval(found.too_short) if found.too_short else fit.slope
    value, low, high = (None if end is None else PERCENT * end for end in (slope.value, slope.low, slope.high))
    return found.plain(value, POINTS, definition, slope.unknown, (low, high), slope.method)


def _explained(found: Surveyed, explained: Estimate, definition: str) -> Fact:
    ends = (explained.low, explained.high)
    return found.plain(explained.value, "fraction", definition, explained.unknown, ends, explained.method)
