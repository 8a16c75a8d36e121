"""How requests differ: equal weights, and groups by a property."""

import numpy as np
import pytest

from chance import fits
from draftmeter.stats.ratios import by_groups, clusters_of, mean_of_requests, summed_by


def test_every_request_has_equal_weight() -> None:
    found = mean_of_requests([10, 1, 0], [20, 10, 0], clusters_of(["a", "b", "c"]), 0.95)
    assert found.value == pytest.approx(0.3) and found.n == 2  # the request without a draft is left out
    assert mean_of_requests([10], [20], clusters_of(["a"]), 0.95).low is None


def test_the_mean_of_requests_covers_the_truth() -> None:
    # Long requests are accepted less: 0.8 for 10 tokens, 0.6 for 90, half of each; two of a kind are one cluster.
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(300):
        long = np.repeat(rng.random(100) < 0.5, 2)
        drafted = np.where(long, 90, 10)
        accepted = rng.binomial(drafted, np.where(long, 0.6, 0.8))
        found = mean_of_requests(accepted, drafted, clusters_of(np.arange(200) // 2), 0.95)
        hits += found.low <= 0.7 <= found.high
    assert fits(hits, 300, least=0.93, most=0.97)


def test_groups_of_requests_by_a_property() -> None:
    lengths = np.array([5.0, 10, 10, 20, 40, 80, np.nan, 160])
    accepted = np.array([1.0, 2, 3, 4, 5, 6, 7, 8])
    groups = by_groups(accepted, np.full(8, 10.0), clusters_of(np.arange(8)), lengths, 0.95)
    assert [(group.lowest, group.highest, group.requests) for group in groups] == [
        (5, 10, 3),
        (20, 20, 1),
        (40, 80, 2),
        (160, 160, 1),
    ]
    assert groups[0].acceptance.value == pytest.approx(0.2)
    assert groups[1].acceptance.low is None
    assert by_groups([1.0], [2.0], clusters_of([0]), [np.nan], 0.95) == ()


def test_sums_by_label() -> None:
    a, b = summed_by(["x", "y", "x"], [1, 2, 3], [10, 20, 30])
    assert a.tolist() == [4, 2] and b.tolist() == [40, 20]
