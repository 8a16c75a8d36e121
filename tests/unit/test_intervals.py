"""Interval statistics: planted truth, and relations between the figures of the reproduced study (Akinin 2026)."""

import numpy as np
import pytest

from draftmeter.stats.acceptance import CountsError
from draftmeter.stats.intervals import (
    IntervalsError,
    accepted_variance,
    autocorrelation,
    equal_chances,
    groups_by_acceptance,
    hours_covered,
    lagged_pairs,
    qualifying,
    sampling_sd,
    spread,
    variance_ratio,
)

SHARES = np.array([0.799, 0.646, 0.533])  # its production server's shares through 1..3


def simulate(rng: np.random.Generator, drafts: np.ndarray, chances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Accepted by position (n, K) and acceptance (n,) for chances of shape (n, K) or (K,)."""
    chances = np.broadcast_to(chances, (len(drafts), chances.shape[-1]))
    at, before = np.empty(chances.shape), drafts
    for position in range(chances.shape[1]):
        before = rng.binomial(before, chances[:, position])
        at[:, position] = before
    return at, at.sum(axis=1) / (chances.shape[1] * drafts)


def test_published_variance_of_accepted_tokens() -> None:
    assert accepted_variance(SHARES) == pytest.approx(1.4895, abs=5e-5)


def test_variance_of_accepted_tokens_is_that_of_the_distribution() -> None:
    probabilities = -np.diff([1, *SHARES, 0])
    values = np.arange(4)
    mean = values @ probabilities
    assert accepted_variance(SHARES) == pytest.approx(((values - mean) ** 2) @ probabilities)


def test_published_sampling_sd_lies_between_its_bounds() -> None:
    # 3,558 intervals with 91% of 13.7e6 draft tokens, each of 500 drafts or more; printed 1.3 points. The mean of 1/n
    # is at least one over the mean of n, and at most 1/500.
    mean_drafts = 0.91 * 13.7e6 / 3 / 3558
    least = sampling_sd(SHARES, np.full(3558, mean_drafts))
    most = sampling_sd(SHARES, np.full(3558, 500.0))
    assert least == pytest.approx(np.sqrt(1.4895) / (3 * np.sqrt(mean_drafts)), rel=1e-4)
    assert 100 * least <= 1.35 and 100 * most >= 1.25


def test_published_variance_ratio() -> None:
    assert variance_ratio(7.6, 1.3) == pytest.approx(34.2, abs=0.05)
    assert variance_ratio(7.55, 1.35) <= 34.5 and variance_ratio(7.65, 1.25) >= 33.5
    assert variance_ratio(0.1, 0.0) is None


def test_published_hours_with_a_draft_line() -> None:
    assert hours_covered(np.full(5677, 10.0)) == pytest.approx(15.77, abs=0.005)


def test_qualifying_and_unknown_drafts() -> None:
    assert qualifying([99, 100, 101, np.nan], 100).tolist() == [False, True, True, False]


def test_spread_by_hand() -> None:
    result = spread(np.arange(11) / 10)
    assert (result.p10, result.p90, result.lowest, result.highest) == pytest.approx((0.1, 0.9, 0.0, 1.0))
    assert result.sd == pytest.approx(np.std(np.arange(11) / 10, ddof=1))
    assert spread([0.5]).sd is None
    with pytest.raises(IntervalsError, match="at least one"):
        spread([])


def test_equal_chances_give_a_variance_ratio_of_one() -> None:
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(40):
        drafts = rng.integers(100, 2000, 300)
        at, acceptance = simulate(rng, drafts, np.array([0.8, 0.8, 0.85]))
        sampling = sampling_sd(at.sum(axis=0) / drafts.sum(), drafts)
        ratios.append(variance_ratio(spread(acceptance).sd, sampling))
    assert np.mean(ratios) == pytest.approx(1, abs=0.05)


def test_planted_spread_between_intervals_is_found() -> None:
    rng = np.random.default_rng(1)
    drafts = rng.integers(500, 1500, 4000)
    first = rng.uniform(0.6, 0.9, 4000)
    at, acceptance = simulate(rng, drafts, np.column_stack([first] * 3))
    # Acceptance of an interval is (a + a^2 + a^3) / 3 plus sampling noise.
    true_sd = np.std((first + first**2 + first**3) / 3, ddof=1)
    sampling = sampling_sd(at.sum(axis=0) / drafts.sum(), drafts)
    ratio = variance_ratio(spread(acceptance).sd, sampling)
    assert ratio == pytest.approx(1 + (true_sd / sampling) ** 2, rel=0.05)


def test_autocorrelation_recovers_planted_memory_across_gaps() -> None:
    rng = np.random.default_rng(2)
    n, phi = 20_000, 0.7
    noise = rng.normal(size=n) * np.sqrt(1 - phi**2)
    x = np.empty(n)
    x[0] = noise[0]
    for i in range(1, n):
        x[i] = phi * x[i - 1] + noise[i]
    keep = rng.random(n) < 0.6
    times = 1e9 + 10.0 * np.arange(n) + rng.uniform(-2, 2, n)
    for lag in (1, 3, 10):
        found = autocorrelation(times[keep], np.zeros(keep.sum()), x[keep], 10 * lag, 10)
        assert found.value == pytest.approx(phi**lag, abs=0.03)
        assert found.pairs == pytest.approx(0.36 * n, rel=0.05)


def test_pairs_respect_gaps_and_series() -> None:
    times = np.array([0.0, 10, 20, 60, 70, 10, 20])
    series = np.array([0, 0, 0, 0, 0, 1, 1])
    earlier, later = lagged_pairs(times, series, 10, 10)
    assert sorted(zip(earlier.tolist(), later.tolist(), strict=True)) == [(0, 1), (1, 2), (3, 4), (5, 6)]
    # Half an interval off still counts, more does not.
    assert len(lagged_pairs(np.array([0.0, 15.0]), np.zeros(2), 10, 10)[0]) == 1
    assert len(lagged_pairs(np.array([0.0, 15.1]), np.zeros(2), 10, 10)[0]) == 0
    # An interval is never paired with itself, and order in the table does not matter.
    assert len(lagged_pairs(np.array([0.0]), np.zeros(1), 4, 10)[0]) == 0
    assert lagged_pairs(np.array([10.0, 0.0]), np.zeros(2), 10, 10)[0].tolist() == [1]


def test_autocorrelation_unknown() -> None:
    few = autocorrelation([0.0, 10], [0, 0], [0.1, 0.2], 10, 10)
    assert few.value is None and few.pairs == 1 and few.unknown.startswith("too short")
    flat = autocorrelation(10.0 * np.arange(9), np.zeros(9), np.full(9, 0.5), 10, 10)
    assert flat.value is None and "vary" in flat.unknown
    empty = autocorrelation([], [], [], 10, 10)
    assert empty.value is None and empty.pairs == 0


def test_groups_pool_drafts_of_equal_counts_of_intervals() -> None:
    acceptance = np.array([0.5, 0.1, 0.9, 0.3, 0.7, 0.2])
    drafts = np.array([10.0, 20, 30, 40, 50, 60])
    at = np.column_stack([drafts / 2, drafts / 5])
    groups = groups_by_acceptance(acceptance, drafts, at, groups=3)
    assert [group.drafts for group in groups] == [80, 50, 80]  # intervals 1, 5; 3, 0; 4, 2
    assert [group.intervals for group in groups] == [2, 2, 2]
    assert groups[0].chances == pytest.approx((0.5, 0.4))
    with pytest.raises(IntervalsError, match="5 groups need"):
        groups_by_acceptance(acceptance[:4], drafts[:4], at[:4])
    with pytest.raises(CountsError, match="nor rise"):
        groups_by_acceptance(acceptance, drafts, at[:, ::-1], groups=3)


def test_groups_recover_planted_chances() -> None:
    rng = np.random.default_rng(3)
    levels = np.repeat([0.5, 0.6, 0.7, 0.8, 0.9], 40)
    rng.shuffle(levels)
    drafts = rng.integers(1500, 2500, 200)
    at, acceptance = simulate(rng, drafts, np.column_stack([levels, levels + 0.02, levels + 0.04]))
    for group, level in zip(groups_by_acceptance(acceptance, drafts, at), [0.5, 0.6, 0.7, 0.8, 0.9], strict=True):
        assert group.chances == pytest.approx((level, level + 0.02, level + 0.04), abs=0.015)


def test_selection_alone_spreads_equal_chances_and_the_simulation_says_by_how_much() -> None:
    rng = np.random.default_rng(4)
    drafts = rng.integers(100, 400, 150)
    chances = np.array([0.7, 0.75, 0.8])
    shares = np.cumprod(chances)
    observed = []
    for _ in range(60):
        at, acceptance = simulate(rng, drafts, chances)
        observed.append([group.chances for group in groups_by_acceptance(acceptance, drafts, at)])
    expected = equal_chances(shares, drafts, seed=5, replications=200)
    assert np.asarray(expected.chances) == pytest.approx(np.mean(observed, axis=0), abs=0.004)
    assert expected.chances[0][0] < 0.68
    assert expected.chances[4][0] > 0.72
    assert np.all(np.asarray(expected.monte_carlo_error) < 0.002)
    assert expected.replications == 200
    assert expected == equal_chances(shares, drafts, seed=5, replications=200)
    assert expected != equal_chances(shares, drafts, seed=6, replications=200)


def test_equal_chances_refuses_what_it_cannot_simulate() -> None:
    with pytest.raises(IntervalsError, match="shares above 0"):
        equal_chances([0.5, 0.0], np.full(10, 100), 0, 10)
    with pytest.raises(IntervalsError, match="whole numbers"):
        equal_chances([0.5], np.full(10, 100.5), 0, 10)
    with pytest.raises(IntervalsError, match="at least one interval"):
        sampling_sd(SHARES, [])
