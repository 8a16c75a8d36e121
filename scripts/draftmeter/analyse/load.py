"""Acceptance and load: means by requests running at an interval's end, their range, and the slope over them."""

import numpy as np

from draftmeter.analyse.facts import PERCENT, POINTS
from draftmeter.analyse.surveyed import NO_RUNNING, Surveyed
from draftmeter.facts import Fact, RunningMean
from draftmeter.stats.figures import IDLE, RUNNING
from draftmeter.stats.load import MOST_RUNNING, Explained
from draftmeter.stats.survey import Survey

END = "at the interval's end"
RUNNING_MEANS = [
    RunningMean(requests=number, or_more=number == MOST_RUNNING, quantity=f"running_{number}{'plus' * (number == MOST_RUNNING)}")
    for number in range(MOST_RUNNING + 1)
]


def load_facts(found: Surveyed) -> dict[str, Fact]:
    """Means, range, idle against loaded, slope, and the part of the variance that load explains, and the mix of requests."""
    no_running = None
    if found.log.lines is not None and np.isnan(found.log.lines.running).all():
        no_running = NO_RUNNING
    facts = {}
    for name, mean in zip(RUNNING, RUNNING_MEANS, strict=True):
        more = " or more" if mean.or_more else ""
        requests = f"{mean.requests}{more} request{'' if mean.requests == 1 else 's'}"
        definition = f"mean acceptance over {found.rule} and {requests} running {END}, unweighted"
        facts[mean.quantity] = found.estimate(name, "fraction", definition, unknown=no_running)
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


def _range(found: Surveyed, survey: Survey, definition: str) -> Fact:
    """Of the means that have an interval; where there are not two, the value is that of all means, and has none."""
    ranged = survey.running_range
    if ranged.value is None:
        means = [one.value for one in (survey.estimates[name] for name in RUNNING[1:]) if one.value is not None]
        value = PERCENT * (max(means) - min(means)) if len(means) > 1 else None
        return found.plain(value, POINTS, definition, ranged.unknown)
    left_out = [name.removeprefix("running.") for name in ranged.left_out]
    if left_out:
        definition += f"; the means with {', '.join(left_out)} running have no interval, and are left out"
    ends = tuple(None if end is None else PERCENT * end for end in (ranged.low, ranged.high))
    one = next(survey.estimates[name] for name in ranged.means)
    method = f"{one.method}, of the differences of all pairs of means"
    return found.plain(PERCENT * ranged.value, POINTS, definition, ranged.unknown, (ends[0], ends[1]), method)


def _slope(found: Surveyed, survey: Survey, definition: str) -> Fact:
    fit = survey.regression
    if fit is None:
        return found.plain(None, POINTS, definition, "the number of running requests does not vary over these intervals")
    slope, low, high = (PERCENT * end for end in (fit.slope, fit.slope_low, fit.slope_high))
    if found.too_short:
        return found.plain(slope, POINTS, definition, found.too_short)
    method = f"{found.confidence:.0%} t interval, standard errors of Newey and West over {fit.lags} cells of lines"
    return found.plain(slope, POINTS, definition, None, (low, high), method)


def _explained(found: Surveyed, explained: Explained, definition: str) -> Fact:
    method = (
        f"{found.confidence:.0%} interval from the covariance of the means over resampled blocks, noise of the means subtracted"
    )
    ends = (explained.low, explained.high)
    return found.plain(explained.share, "fraction", definition, explained.unknown, ends, "" if explained.low is None else method)
