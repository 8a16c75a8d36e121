"""Acceptance from steps and requests: real denominators, weights, groups."""

import numpy as np
import pytest

from draftmeter.stats.acceptance import CountsError
from draftmeter.stats.steps import (
    ALL_DRAFTS,
    REALLY_DRAFTED,
    by_groups,
    chances,
    checked_over_steps,
    step_counts,
    summed_by,
    weighted_means,
)

ACCEPTED = [0, 1, 2, 1, 0, 3]
DRAFTED = [3, 3, 2, 1, 3, 3]


def test_counts_of_steps_by_hand() -> None:
    counts = step_counts(ACCEPTED, DRAFTED, 3)
    assert counts.drafts == 6
    assert counts.drafted_at == (6, 5, 4)
    assert counts.accepted_at == (4, 2, 1)
    # At 2: the drafts with two tokens and the first accepted (1, 2, 3 accepted); the one of one token was never asked.
    assert counts.eligible_at == (6, 3, 1)


def test_the_denominator_is_said() -> None:
    counts = step_counts(ACCEPTED, DRAFTED, 3)
    real = chances(counts.drafts, counts.accepted_at, counts.eligible_at)
    assert [ratio.value for ratio in real.values] == pytest.approx([4 / 6, 2 / 3, 1.0])
    assert real.denominator == REALLY_DRAFTED
    plain = chances(counts.drafts, counts.accepted_at)
    assert [ratio.value for ratio in plain.values] == pytest.approx([4 / 6, 2 / 4, 1 / 2])
    assert plain.denominator == ALL_DRAFTS
    full = step_counts([0, 2], [3, 3], 3)
    assert chances(2, full.accepted_at, full.eligible_at).denominator == ALL_DRAFTS
    assert chances(2, [0, 0], [2, 0]).values[1].value is None


def test_checked_tokens_of_short_drafts() -> None:
    # Rejections: steps 1, 2, 5; the short drafts were accepted to their end.
    assert checked_over_steps(ACCEPTED, DRAFTED).value == pytest.approx(7 / 10)
    assert checked_over_steps([], []).value is None


def test_impossible_steps_are_refused() -> None:
    with pytest.raises(CountsError, match="accepted <= drafted <= 3"):
        step_counts([4], [3], 3)
    with pytest.raises(CountsError, match="accepted <= drafted <= 3"):
        step_counts([1], [4], 3)
    with pytest.raises(CountsError, match="eligible_k"):
        chances(10, [5, 2], [10, 6])
    with pytest.raises(CountsError, match="accepted <= drafted"):
        checked_over_steps([2], [1])


def test_weights_by_step_and_by_request() -> None:
    found = weighted_means([10, 1, 0], [20, 10, 0], ["a", "b", "c"], 0.95)
    assert found.by_step.value == pytest.approx(11 / 30)
    assert found.by_request.value == pytest.approx(0.3)  # the request without a draft is left out
    assert found.difference.value == pytest.approx(0.3 - 11 / 30)
    assert weighted_means([10], [20], ["a"], 0.95).difference.low is None


def test_the_difference_of_weights_covers_the_truth() -> None:
    # Long requests are accepted less: 0.8 for 10 tokens, 0.6 for 90, half of each.
    rng = np.random.default_rng(0)
    hits, truth = 0, (0.8 + 0.6) / 2 - (0.8 * 10 + 0.6 * 90) / 100
    for _ in range(300):
        long = rng.random(200) < 0.5
        drafted = np.where(long, 90, 10)
        accepted = rng.binomial(drafted, np.where(long, 0.6, 0.8))
        found = weighted_means(accepted, drafted, np.arange(200) // 2, 0.95)
        hits += found.difference.low <= truth <= found.difference.high
    assert 0.91 <= hits / 300 <= 0.985


def test_groups_of_requests_by_a_property() -> None:
    lengths = np.array([5.0, 10, 10, 20, 40, 80, np.nan, 160])
    accepted = np.array([1.0, 2, 3, 4, 5, 6, 7, 8])
    groups = by_groups(accepted, np.full(8, 10.0), np.arange(8), lengths, 0.95)
    assert [(group.lowest, group.highest, group.requests) for group in groups] == [
        (5, 10, 3),
        (20, 20, 1),
        (40, 80, 2),
        (160, 160, 1),
    ]
    assert groups[0].acceptance.value == pytest.approx(0.2)
    assert groups[1].acceptance.low is None
    assert by_groups([1.0], [2.0], [0], [np.nan], 0.95) == ()


def test_sums_by_label() -> None:
    a, b = summed_by(["x", "y", "x"], [1, 2, 3], [10, 20, 30])
    assert a.tolist() == [4, 2] and b.tolist() == [40, 20]
