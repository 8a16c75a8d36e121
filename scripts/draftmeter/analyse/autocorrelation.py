"""The memory of acceptance: its correlation with itself some intervals later."""

import numpy as np

from draftmeter.analyse.facts import AnalysisError, rounded
from draftmeter.analyse.lines import Intervals, block_method, described, memory
from draftmeter.facts import Fact
from draftmeter.plan import derive_seed
from draftmeter.stats.intervals import autocorrelation, lagged_pairs, pearson
from draftmeter.stats.uncertainty import automatic_block_length, block_intervals
from draftmeter.study import Analysis

# In intervals; at ten seconds each, the lags of the published study: 10 s, 30 s, 5 min, 10 min.
LAGS = (1, 3, 30, 60)


def autocorrelation_facts(chosen: Intervals, analysis: Analysis, seed: int) -> dict[str, Fact]:
    """Facts by lag, over pairs of the qualifying intervals `chosen`; a gap in the log leaves its pairs out."""
    windows = sorted(set(chosen.window_s.tolist()))
    if len(windows) > 1:
        raise AnalysisError(f"table intervals: found windows of {windows} s in one study; lags need one log interval")
    facts = {}
    for lag in LAGS:
        definition = f"correlation of acceptance with itself {lag} interval(s) later"
        if not windows:
            facts[f"autocorrelation_{lag}"] = described(None, chosen, "correlation", definition, "no interval qualifies")
            continue
        definition += f" ({lag * windows[0]:g} s), over pairs of qualifying intervals"
        facts[f"autocorrelation_{lag}"] = _autocorrelation(chosen, lag, windows[0], definition, analysis, seed)
    return facts


def _autocorrelation(chosen: Intervals, lag: int, window_s: float, definition: str, analysis: Analysis, seed: int) -> Fact:
    found = autocorrelation(chosen.end, chosen.series, chosen.acceptance, lag * window_s, window_s)
    low = high = None
    unknown, method = found.unknown, ""
    if found.value is not None:
        earlier, later = lagged_pairs(chosen.end, chosen.series, lag * window_s, window_s)
        x, y = chosen.acceptance[earlier], chosen.acceptance[later]
        products = (x - x.mean()) * (y - y.mean())
        series = [products[chosen.series[earlier] == number] for number in np.unique(chosen.series[earlier])]
        blocks = block_intervals(
            series,
            lambda pairs: np.array([pearson(x[pairs], y[pairs])]),
            analysis.confidence,
            analysis.resamples,
            derive_seed(seed, "analyse", "autocorrelation", lag),
            # Products forget faster than acceptance does, and blocks of their memory alone would tear its swings apart.
            least_length=automatic_block_length(memory(chosen)) or 1,
        )
        low, high = (None if end is None else max(-1.0, min(1.0, end)) for end in (blocks.low[0], blocks.high[0]))
        unknown, method = blocks.unknown[0], block_method(blocks, analysis.confidence, "pairs")
    return Fact(
        value=rounded(found.value),
        low=rounded(low),
        high=rounded(high),
        method=chosen.source + method,
        n=found.pairs,
        n_unit="pairs of intervals",
        unit="correlation",
        definition=definition,
        unknown=unknown,
    )
