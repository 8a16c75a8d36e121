"""Load: means and their range, regression, and what groups explain."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS

from chance import CERTAIN, fits
from draftmeter.stats.blocks import plan_blocks
from draftmeter.stats.load import LoadError, explained_share, range_of_means, regression_on_running, running_group
from draftmeter.stats.resample import Joint, joint_estimates
from draftmeter.stats.sums import difference_names, mean_sums

NAMES = ("1", "2", "3")


def autoregressive(rng: np.random.Generator, n: int, kept: float) -> np.ndarray:
    values = np.empty(n)
    values[0] = rng.normal()
    for i, noise in enumerate(rng.normal(size=n - 1) * np.sqrt(1 - kept**2), start=1):
        values[i] = kept * values[i - 1] + noise
    return values


def means(x: np.ndarray, groups: np.ndarray, seed: int = 0, resamples: int = 500, confidence: float = 0.95) -> Joint:
    # Twenty blocks or more, however long the memory of these lines seems by luck: they remember a few lines at most.
    blocks = plan_blocks(np.ones(len(x)))
    part = mean_sums(blocks, x, groups, NAMES, np.ones(len(x), dtype=bool))
    return joint_estimates(blocks, [part], confidence, resamples, seed)[0]


def test_running_is_grouped_with_six_or_more_together() -> None:
    assert running_group([0, 1, 5, 6, 13, np.nan]).tolist() == [0, 1, 5, 6, 6, -1]


def test_means_by_group_and_their_differences() -> None:
    x, groups = np.array([1.0, 2, 3, 5, 9]), np.array([0, 0, 1, 2, -1])
    joint = means(x, groups)
    values = {name: one.value for name, one in joint.estimates.items()}
    assert values == pytest.approx({"1": 1.5, "2": 3, "3": 5, "2 - 1": 1.5, "3 - 1": 3.5, "3 - 2": 2})
    assert list(joint.estimates) == [*NAMES, *difference_names(NAMES)]
    assert joint.estimates["1"].n == 2 and joint.estimates["2 - 1"].n == 1


def test_the_range_of_equal_means_may_be_nothing_and_of_unequal_ones_not() -> None:
    rng = np.random.default_rng(1)
    groups = rng.integers(0, 3, 3000)
    x = 0.66 + 0.07 * autoregressive(rng, 3000, 0.5)
    flat = range_of_means(means(x, groups, confidence=CERTAIN).estimates, NAMES, CERTAIN).estimate
    # Each mean has a standard error of 0.002.
    assert flat.low == 0 and flat.value < flat.high and flat.value < 0.02
    steep = range_of_means(means(x + 0.05 * groups, groups, confidence=CERTAIN).estimates, NAMES, CERTAIN)
    assert 0.02 < steep.estimate.low < 0.1 < steep.estimate.high and steep.means == NAMES
    few = np.where(np.arange(3000) < 6, 2, groups % 2)
    known = range_of_means(means(x, few).estimates, NAMES, 0.95)
    assert known.left_out == ("3",) and known.means == ("1", "2")
    alone = range_of_means(means(x[:40], np.zeros(40, dtype=int)).estimates, NAMES, 0.95)
    assert alone.estimate.value is None and "needs two" in alone.estimate.unknown


def test_range_covers_the_truth() -> None:
    rng = np.random.default_rng(2)
    hits = 0
    for number in range(150):
        groups = rng.integers(0, 3, 800)
        x = 0.07 * autoregressive(rng, 800, 0.5) + np.array([0.0, 0.01, 0.03])[groups]
        found = range_of_means(means(x, groups, number, 200).estimates, NAMES, 0.95).estimate
        hits += found.low <= 0.03 <= found.high
    assert fits(hits, 150, least=0.95)


def test_share_explained_by_groups() -> None:
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 3, 4000)
    effect = np.array([-0.06, 0.0, 0.06])[groups]
    x = 0.66 + 0.07 * rng.normal(size=4000) + effect
    variance = 0.07**2 + effect.var()
    # A third of the variance is the effect's.
    found = explained_share(means(x, groups, confidence=CERTAIN), NAMES, variance, CERTAIN)
    assert 0 < found.low <= effect.var() / variance <= found.high < 1
    nothing = explained_share(means(x - effect, groups, confidence=CERTAIN), NAMES, 0.07**2, CERTAIN)
    assert nothing.low == 0 and nothing.high < effect.var() / variance
    assert "no variance" in explained_share(means(x, groups), NAMES, 0.0, 0.95).unknown
    few = explained_share(means(x[:60], groups[:60] * 0), NAMES, variance, 0.95)
    assert few.value is None and "at least two" in few.unknown


def test_regression_has_the_errors_of_statsmodels() -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(0, 7, 2000)
    y = 0.66 - 0.001 * x + 0.07 * autoregressive(rng, 2000, 0.6)
    found = regression_on_running(y, x, np.arange(2000), 20, 0.95)
    fit = OLS(y, np.column_stack([np.ones(2000), x])).fit(cov_type="HAC", cov_kwds={"maxlags": 20})
    half = stats.t.ppf(0.975, 1.5 * 2000 / 20) * fit.bse[1]
    assert (found.slope.value, found.slope.high - found.slope.value) == pytest.approx((fit.params[1], half), rel=1e-3)
    assert found.slope.low < found.slope.value < found.slope.high and found.lags == 20 and found.slope.n == 2000


def test_regression_covers_the_slope_where_running_and_acceptance_remember() -> None:
    # Of 600 intervals 93% held the slope, of those by least squares 58%.
    rng = np.random.default_rng(5)
    hits = naive = 0
    for _ in range(300):
        x = np.rint(3 + 1.5 * autoregressive(rng, 1000, 0.9))
        y = 0.66 + 0.002 * x + 0.07 * autoregressive(rng, 1000, 0.8)
        found = regression_on_running(y, x, np.arange(1000), 40, 0.95)
        hits += found.slope.low <= 0.002 <= found.slope.high
        fit = OLS(y, np.column_stack([np.ones(1000), x])).fit()
        naive += fit.conf_int()[1][0] <= 0.002 <= fit.conf_int()[1][1]
    assert fits(hits, 300, least=0.9) and not fits(naive, 300, least=0.9)


def test_regressions_that_cannot_be_made() -> None:
    assert regression_on_running([0.5] * 9, [2] * 9, np.arange(9), 2, 0.95) is None
    assert regression_on_running([0.5] * 9, np.arange(9), np.arange(9), 2, 0.95) is None
    assert regression_on_running([], [], [], 2, 0.95) is None
    with pytest.raises(LoadError, match="consecutive"):
        regression_on_running([0.5, 0.6, 0.7], [1, 2, 3], [0, 2, 3], 1, 0.95)
    with pytest.raises(LoadError, match="one known value a line"):
        regression_on_running([0.5, np.nan], [1, 2], [0, 1], 1, 0.95)
