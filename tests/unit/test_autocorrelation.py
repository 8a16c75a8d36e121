"""Correlation of acceptance with itself: right where an interval is given, none where the series is too short for one."""

import re

import numpy as np
import pytest
from made_up_study import small_study

from draftmeter.analyse.autocorrelation import LAGS, autocorrelation_facts
from draftmeter.analyse.lines import Intervals, memory
from draftmeter.stats.uncertainty import automatic_block_length

ANALYSIS = small_study().analysis
WINDOW_S = 10.0


def intervals(acceptance: np.ndarray) -> Intervals:
    """One unbroken series of intervals with 1000 drafts of one token each."""
    n = len(acceptance)
    return Intervals(
        rows=[{}] * n,
        series=np.zeros(n, dtype=np.int64),
        end=1.8e9 + WINDOW_S * np.arange(n),
        drafts=np.full(n, 1000.0),
        drafted=np.full(n, 1000.0),
        accepted=1000 * acceptance,
        accepted_at=1000 * acceptance[:, None],
        exact=np.ones(n, dtype=bool),
        window_s=np.full(n, WINDOW_S),
        k=1,
    )


def autoregressive(rng: np.random.Generator, n: int, phi: float) -> np.ndarray:
    values = [rng.normal()]
    for noise in rng.normal(size=n - 1):
        values.append(phi * values[-1] + np.sqrt(1 - phi**2) * noise)
    return 0.6 + 0.05 * np.array(values)


@pytest.mark.parametrize(("phi", "least", "most"), [(0.9, 0, 2), (0.5, 30, 40)])
def test_an_interval_covers_or_is_not_given(phi: float, least: int, most: int) -> None:
    # 40 series of 150: 0.84 of them is three standard errors below 95% right, "too short" being right too. Blocks of the
    # products alone would give an interval in a quarter of the series with a correlation of 0.9, and miss with a third.
    right, known = dict.fromkeys(LAGS, 0), dict.fromkeys(LAGS, 0)
    for number in range(40):
        series = intervals(autoregressive(np.random.default_rng(number), 150, phi))
        facts = autocorrelation_facts(series, ANALYSIS, number)
        for lag in LAGS:
            fact = facts[f"autocorrelation_{lag}"]
            assert fact.value is not None
            if fact.low is None or fact.high is None:
                assert fact.unknown is not None and fact.unknown.startswith("too short: ")
                right[lag] += 1
            else:
                known[lag] += 1
                right[lag] += fact.low <= phi**lag <= fact.high
    assert min(right.values()) >= 0.84 * 40
    assert known[1] >= least
    assert max(known.values()) <= most


def test_blocks_are_at_least_as_long_as_those_of_acceptance_itself() -> None:
    series = intervals(autoregressive(np.random.default_rng(1), 3000, 0.9))
    least = automatic_block_length(memory(series))
    assert least is not None and least > 20
    for fact in autocorrelation_facts(series, ANALYSIS, 0).values():
        found = re.search(r"in blocks of (\d+) pairs", fact.method)
        assert found is not None and int(found[1]) >= least
