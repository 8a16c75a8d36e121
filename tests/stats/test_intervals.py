"""Interval statistics: planted truth, and relations between the figures of the reproduced study (Akinin 2026)."""

import numpy as np
import pytest

from draftmeter.stats.acceptance import CountsError, accepted_variance
from draftmeter.stats.intervals import (
    IntervalsError,
    groups_by_acceptance,
    hours_covered,
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
    for _ in range(100):
        drafts = rng.integers(100, 2000, 300)
        at, acceptance = simulate(rng, drafts, np.array([0.8, 0.8, 0.85]))
        sampling = sampling_sd(at.sum(axis=0) / drafts.sum(), drafts)
        ratios.append(variance_ratio(spread(acceptance).sd, sampling))
    # Six standard errors of the mean of a hundred variances of 300 intervals.
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
    drafts = rng.integers(3500, 4500, 200)
    at, acceptance = simulate(rng, drafts, np.column_stack([levels, levels + 0.02, levels + 0.04]))
    for group, level in zip(groups_by_acceptance(acceptance, drafts, at), [0.5, 0.6, 0.7, 0.8, 0.9], strict=True):
        # Six standard errors: 40,000 drafts or more of each group came to the last position.
        assert group.chances == pytest.approx((level, level + 0.02, level + 0.04), abs=0.015)


def test_the_sampling_sd_needs_an_interval() -> None:
    with pytest.raises(IntervalsError, match="at least one interval"):
        sampling_sd(SHARES, [])
