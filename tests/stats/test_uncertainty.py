"""Intervals of ratios: textbook values, what must be refused, and coverage by simulation."""

import numpy as np
import pytest
from scipy import stats

from chance import ERRORS, fits
from draftmeter.stats.ratios import RatiosError, clusters_of, ratio_of_sums, smooth_function_of_ratios


def test_ratio_by_hand() -> None:
    y, x = np.array([1.0, 2.0, 6.0]), np.array([2.0, 4.0, 6.0])
    result = ratio_of_sums(y, x, 0.95)
    residuals = y - 0.75 * x  # -0.5, -1, 1.5
    error = np.sqrt(3 / 2 * (residuals**2).sum()) / 12
    assert result.value == 0.75
    assert result.standard_error == pytest.approx(error)
    assert result.high - result.value == pytest.approx(stats.t.ppf(0.975, 2) * error)
    assert result.n == 3 and result.unknown is None


def test_rows_of_one_cluster_count_together() -> None:
    rows = ratio_of_sums([1.0, 0.0, 2.0, 4.0, 2.0], [1.0, 1.0, 4.0, 3.0, 3.0], 0.95, clusters_of(["a", "a", "b", "c", "c"]))
    sums = ratio_of_sums([1.0, 2.0, 6.0], [2.0, 4.0, 6.0], 0.95)
    assert (rows.value, rows.n) == (sums.value, 3)
    assert (rows.low, rows.high) == pytest.approx((sums.low, sums.high))


def test_equal_denominators_give_the_t_interval_of_the_mean() -> None:
    y = np.random.default_rng(0).normal(5, 1, 30)
    result = ratio_of_sums(y, np.ones(30), 0.9)
    low, high = stats.t.interval(0.9, 29, y.mean(), stats.sem(y))
    assert (result.low, result.high) == pytest.approx((low, high))


def test_too_few_clusters_or_no_denominator_is_unknown() -> None:
    one = ratio_of_sums([3.0], [4.0], 0.95)
    assert one.value == 0.75 and one.low is None and one.standard_error is None
    assert one.unknown == "no interval: 1 cluster, 2 are needed"
    none = ratio_of_sums([0.0, 0.0], [0.0, 0.0], 0.95)
    assert none.value is None and "denominator" in none.unknown
    assert ratio_of_sums([], [], 0.95).value is None


def test_bad_input_is_refused() -> None:
    with pytest.raises(RatiosError, match="unknown total"):
        ratio_of_sums([1.0, np.nan], [2.0, 2.0], 0.95)
    with pytest.raises(RatiosError, match="needs"):
        ratio_of_sums([1.0, 2.0], [2.0], 0.95)
    with pytest.raises(RatiosError, match="3 rows in clusters"):
        ratio_of_sums([1.0, 2.0], [2.0, 2.0], 0.95, clusters_of([0, 1, 2]))
    with pytest.raises(RatiosError, match="confidence"):
        ratio_of_sums([1.0, 2.0], [2.0, 2.0], 95)


def test_gradient_of_a_product_against_simulation() -> None:
    rng = np.random.default_rng(1)

    def draw() -> tuple[np.ndarray, np.ndarray]:
        x = rng.integers(5, 40, 200).astype(float)
        first = rng.binomial(x.astype(int), 0.7)
        return np.column_stack([first, rng.binomial(first, 0.5)]), x

    def estimate() -> tuple[float, float]:
        result = smooth_function_of_ratios(
            *draw(), function=lambda r: float(r[0] * r[1]), gradient=lambda r: np.array([r[1], r[0]]), confidence=0.95
        )
        return result.value, result.standard_error

    values, errors = np.array([estimate() for _ in range(1500)]).T
    assert errors.mean() == pytest.approx(values.std(ddof=1), rel=ERRORS / np.sqrt(2 * 1500))


def test_clusters_cover_where_single_drafts_would_not() -> None:
    # Requests differ in their chance. Of 3,000 intervals by request 94.4% held the truth, of those by draft 52%.
    rng = np.random.default_rng(2)
    hits = naive = 0
    for _ in range(600):
        drafts = rng.geometric(1 / 40, 60)
        accepted = rng.binomial(drafts, rng.beta(6, 4, 60))
        result = ratio_of_sums(accepted, drafts, 0.95)
        hits += result.low <= 0.6 <= result.high
        half = 1.96 * np.sqrt(result.value * (1 - result.value) / drafts.sum())
        naive += abs(result.value - 0.6) <= half
    assert fits(hits, 600, least=0.93, most=0.97)
    assert not fits(naive, 600, least=0.8)
