"""The memory of acceptance: its correlation with itself some time later, and how fast that decays."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from draftmeter.analyse.facts import rounded
from draftmeter.analyse.surveyed import UNKNOWN_INTERVAL, Surveyed
from draftmeter.facts import Fact
from draftmeter.stats.interval_statistics import IntervalStatistics
from draftmeter.stats.intervals import FEWEST_PAIRS
from draftmeter.stats.memory import DecayFit, fitted_autocorrelation

# In intervals; at ten seconds each, the lags of the published study: 10 s, 30 s, 5 min, 10 min.
LAGS = (1, 3, 30, 60)
USUAL_INTERVAL_S = 10.0
CURVE_COLUMNS = ["lag_s", "correlation", "low", "high", "pairs", "fitted"]
PREFIX = "autocorrelation."
ONE_SCALE = "one time scale describes the decay as well"


def memory_facts(found: Surveyed) -> dict[str, Fact]:
    """By lag, over pairs of qualifying intervals, named by seconds (of ten-second intervals where their length is unknown)."""
    reason = _why_unknown(found)
    window_s = found.log.window_s or USUAL_INTERVAL_S
    facts = {}
    for lag in LAGS:
        seconds = f"{lag * window_s:g}"
        definition = f"correlation of acceptance with itself {lag} interval{'s' if lag > 1 else ''} later"
        if reason is None:
            definition += f" ({seconds} s), over pairs of qualifying intervals"
        one = found.estimate(f"{PREFIX}{seconds}", "correlation", definition, unknown=reason)
        facts[f"autocorrelation_{seconds}s"] = one.model_copy(update={"n_unit": "pairs of intervals"} if reason is None else {})
    return facts | _decay(found, reason)


def curve_rows(found: Surveyed) -> Iterator[dict[str, Any]]:
    """One row for each lag that has pairs, for Figure 3, with the columns of CURVE_COLUMNS; what is unknown is empty."""
    window_s = found.log.window_s
    if _why_unknown(found) is not None or found.survey is None or window_s is None:
        return
    fit = None if found.too_short else _chosen(found.survey)
    pairs = {name: count for name, count in found.survey.pairs.items() if count}
    lags_s = [float(name.removeprefix(PREFIX)) for name in pairs]
    n = found.survey.thresholds[0].intervals
    fitted = [None] * len(lags_s) if fit is None else fitted_autocorrelation(fit, lags_s, window_s, n)
    for (name, count), lag_s, model in zip(pairs.items(), lags_s, fitted, strict=True):
        one = found.survey.estimates[name]
        yield {
            "lag_s": rounded(lag_s),
            "correlation": rounded(one.value),
            "low": rounded(one.low),
            "high": rounded(one.high),
            "pairs": count,
            "fitted": rounded(model),
        }


def _why_unknown(found: Surveyed) -> str | None:
    if found.why_none:
        return found.why_none
    assert found.log.lines is not None
    chosen = found.log.lines.at_least(found.min_drafts)
    untimed = int((~found.log.timed[chosen]).sum())
    if untimed:
        return f"the log shows no time for {untimed} of {int(chosen.sum())} qualifying intervals"
    if found.log.window_s is None:
        windows = np.unique(found.log.windows_s)
        if np.isnan(windows).any():
            return UNKNOWN_INTERVAL
        return f"intervals of {', '.join(f'{window:g}' for window in windows)} s are mixed; lags need one length"
    if found.survey is not None and not found.survey.pairs:
        return f"too short: {int(chosen.sum())} {found.rule}, at least {FEWEST_PAIRS} are needed"
    return None


def _chosen(survey: IntervalStatistics) -> DecayFit | None:
    decay = survey.decay
    return None if decay.chosen is None else (decay.one, decay.two)[decay.chosen - 1]


def _decay(found: Surveyed, reason: str | None) -> dict[str, Fact]:
    """A fit to a few blocks of memory finds any times: where the series is too short, nothing is said of them."""
    fit = None if found.survey is None else _chosen(found.survey)
    reason = reason or found.too_short
    if reason is None and found.survey is not None:
        reason = found.survey.decay.unknown
    method = "generalised least squares of exponential decays and a white rest to the autocorrelations"
    facts = {}
    values: dict[str, float | None] = dict.fromkeys(("components", "white_share", "aic_difference"))
    if reason is None and found.survey is not None and fit is not None:
        decay = found.survey.decay
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
        facts[f"decay_{name}"] = found.plain(values[name], unit, definition, reason, method=method)
    components = () if fit is None or reason else fit.components
    for number, name in enumerate(("fast", "slow")):
        time, weight = f"time in which the {name} part of the memory falls to 1/e", f"part of the variance with the {name} memory"
        if number >= len(components):
            facts[f"decay_{name}_s"] = found.plain(None, "s", time, reason or ONE_SCALE, method=method)
            facts[f"decay_{name}_weight"] = found.plain(None, "fraction", weight, reason or ONE_SCALE, method=method)
            continue
        quantities = (
            (f"decay_{name}_s", components[number].time_s, "s", time),
            (f"decay_{name}_weight", components[number].weight, "fraction", weight),
        )
        for key, one, unit, definition in quantities:
            made_by = "; ".join(filter(None, (method, one.method)))
            facts[key] = found.plain(one.value, unit, definition, one.unknown, (one.low, one.high), made_by)
    return facts
