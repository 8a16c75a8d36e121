"""Intervals: textbook values, what must be refused, and coverage by simulation."""

import numpy as np
import pytest
from scipy import stats

from draftmeter.stats.uncertainty import (
    FEWEST_BLOCKS,
    UncertaintyError,
    automatic_block_length,
    block_intervals,
    ratio_of_sums,
    smooth_function_of_ratios,
    standard_error,
)


def test_ratio_by_hand() -> None:
    y, x = np.array([1.0, 2.0, 6.0]), np.array([2.0, 4.0, 6.0])
    result = ratio_of_sums(y, x, 0.95)
    residuals = y - 0.75 * x  # -0.5, -1, 1.5
    error = np.sqrt(3 / 2 * (residuals**2).sum()) / 12
    assert result.value == 0.75
    assert result.standard_error == pytest.approx(error)
    assert result.high - result.value == pytest.approx(stats.t.ppf(0.975, 2) * error)
    assert result.clusters == 3 and result.unknown is None


def test_equal_denominators_give_the_t_interval_of_the_mean() -> None:
    y = np.random.default_rng(0).normal(5, 1, 30)
    result = ratio_of_sums(y, np.ones(30), 0.9)
    low, high = stats.t.interval(0.9, 29, y.mean(), stats.sem(y))
    assert (result.low, result.high) == pytest.approx((low, high))


def test_too_few_clusters_or_no_denominator_is_unknown() -> None:
    one = ratio_of_sums([3.0], [4.0], 0.95)
    assert one.value == 0.75 and one.low is None and one.standard_error is None
    assert "1 cluster" in one.unknown
    none = ratio_of_sums([0.0, 0.0], [0.0, 0.0], 0.95)
    assert none.value is None and "denominator" in none.unknown


def test_bad_input_is_refused() -> None:
    with pytest.raises(UncertaintyError, match="unknown total"):
        ratio_of_sums([1.0, np.nan], [2.0, 2.0], 0.95)
    with pytest.raises(UncertaintyError, match="needs"):
        ratio_of_sums([1.0, 2.0], [2.0], 0.95)
    with pytest.raises(UncertaintyError, match="confidence"):
        ratio_of_sums([1.0, 2.0], [2.0, 2.0], 95)
    with pytest.raises(UncertaintyError, match="empty"):
        block_intervals([[]], lambda i: np.array([float(len(i))]), 0.95, 100, 1)


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

    values, errors = np.array([estimate() for _ in range(400)]).T
    assert errors.mean() == pytest.approx(values.std(ddof=1), rel=0.1)


def test_clusters_cover_where_single_drafts_would_not() -> None:
    # Requests differ in their chance: 95% intervals by request must cover in 92 to 98% of 600 (3 standard errors).
    rng = np.random.default_rng(2)
    hits = naive = 0
    for _ in range(600):
        drafts = rng.geometric(1 / 40, 60)
        accepted = rng.binomial(drafts, rng.beta(6, 4, 60))
        result = ratio_of_sums(accepted, drafts, 0.95)
        hits += result.low <= 0.6 <= result.high
        half = 1.96 * np.sqrt(result.value * (1 - result.value) / drafts.sum())
        naive += abs(result.value - 0.6) <= half
    assert 0.92 <= hits / 600 <= 0.98
    assert naive / 600 < 0.6


def autoregressive(rng: np.random.Generator, n: int, phi: float) -> np.ndarray:
    noise = rng.normal(size=n) * np.sqrt(1 - phi**2)
    values = np.empty(n)
    values[0] = rng.normal()
    for i in range(1, n):
        values[i] = phi * values[i - 1] + noise[i]
    return values


def memory(x: np.ndarray) -> np.ndarray:
    return np.column_stack([x, (x - x.mean()) ** 2])


@pytest.mark.parametrize(("phi", "least"), [(0.0, 0.88), (0.5, 0.84)])
def test_blocks_cover_percentiles_and_log_sd(phi: float, least: float) -> None:
    # 120 series of 300: three standard errors of a 95% coverage are 0.06; with memory the intervals are known to be
    # somewhat short (see block_intervals), and this bounds by how much.
    rng = np.random.default_rng(3)
    truth = np.array([stats.norm.ppf(0.1), stats.norm.ppf(0.9), 0.0])
    hits, known = np.zeros(3), 0
    for number in range(120):
        x = autoregressive(rng, 300, phi)

        def statistics(i: np.ndarray, x: np.ndarray = x) -> np.ndarray:
            return np.array([*np.percentile(x[i], [10, 90]), np.log(x[i].std(ddof=1))])

        result = block_intervals([memory(x)], statistics, 0.95, 200, number)
        if result.unknown[0] is None:
            known += 1
            hits += [low <= true <= high for low, high, true in zip(result.low, result.high, truth, strict=True)]
    assert known > 100
    assert np.all(hits / known >= least)


def test_blocks_are_wider_than_independent_intervals_when_there_is_memory() -> None:
    x = autoregressive(np.random.default_rng(4), 2000, 0.8)
    result = block_intervals([x], lambda i: np.array([x[i].mean()]), 0.95, 300, 0)
    independent = 1.96 * x.std() / np.sqrt(2000)
    assert result.block_length > 5
    assert 2 < (result.high[0] - result.low[0]) / 2 / independent < 4.5  # 3 in theory


def test_too_short_is_unknown_not_narrow() -> None:
    mean = lambda i: np.array([float(np.mean(i))])  # noqa: E731
    few = block_intervals([np.arange(10.0)], mean, 0.95, 200, 0)
    assert few.low == (None,) and few.unknown[0].startswith("too short: 10 intervals")
    x = np.cumsum(np.random.default_rng(5).normal(size=100))
    drifting = block_intervals([x], lambda i: np.array([x[i].mean()]), 0.95, 200, 0)
    assert drifting.low == (None,) and drifting.unknown[0].startswith("too short: ")
    assert drifting.effective_blocks < FEWEST_BLOCKS


def test_a_least_block_length_holds_unless_the_series_asks_for_more() -> None:
    x = autoregressive(np.random.default_rng(8), 400, 0.5)
    own = automatic_block_length([x])
    assert own is not None and 1 < own < 15
    found = [block_intervals([x], lambda i: np.array([x[i].mean()]), 0.95, 100, 0, least) for least in (1, own - 1, 15, 21)]
    assert [result.block_length for result in found] == [own, own, 15, 21]
    assert found[3].low == (None,) and found[3].unknown[0].startswith("too short: 19.0 effective blocks")
    assert automatic_block_length([x[:19]]) is None
    assert automatic_block_length([np.ones(50)]) == 1


def test_blocks_never_join_two_series() -> None:
    # A series of zeros and one of ones: each resample keeps the length of both.
    first, second = np.zeros(60), np.ones(40)
    x = np.concatenate([first, second])
    result = block_intervals([first, second], lambda i: np.array([x[i].mean()]), 0.95, 100, 0)
    assert (*result.low, *result.high) == pytest.approx((0.4, 0.4))


def test_same_seed_same_interval_and_undefined_resamples_are_said() -> None:
    x = np.random.default_rng(6).normal(size=200)
    mean = lambda i: np.array([x[i].mean(), np.nan if 0 in i else 1.0])  # noqa: E731
    one, two = (block_intervals([x], mean, 0.95, 100, 7) for _ in range(2))
    assert one == two
    assert one != block_intervals([x], mean, 0.95, 100, 8)
    assert one.low[0] is not None
    assert one.low[1] is None and "undefined" in one.unknown[1]


def test_standard_error_of_residuals() -> None:
    assert standard_error([1.0, -1.0], 4) == pytest.approx(0.5)
