"""A share over clusters: the plain interval of Wilson, its coverage where requests of a prompt are alike, and bad input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from chance import fits
from draftmeter.stats.ratios import RatiosError, share_over_clusters


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_single_requests_give_the_plain_interval_of_wilson(hits: list[bool]) -> None:
    found = share_over_clusters(hits, np.ones(len(hits)), 0.95).estimate
    low, high = proportion_confint(sum(hits), len(hits), 0.05, method="wilson")
    assert (found.value, found.low, found.high) == pytest.approx((np.mean(hits), low, high), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)).map(lambda two: (min(two), two[1])), min_size=1, max_size=30))
def test_an_interval_holds_its_share_and_stays_inside(clusters: list[tuple[int, int]]) -> None:
    hits, counts = np.transpose(clusters)
    share = share_over_clusters(hits, counts, 0.95)
    found = share.estimate
    assert 0 <= found.low <= found.value + 1e-12 and found.value - 1e-12 <= found.high <= 1
    assert 0 < share.effective <= counts.sum()


def test_where_all_are_alike_each_cluster_counts_once() -> None:
    found = share_over_clusters([8.0] * 10, [8.0] * 10, 0.95)
    assert (found.estimate.value, found.estimate.high, found.effective) == pytest.approx((1.0, 1.0, 10.0))
    assert found.estimate.low == pytest.approx(proportion_confint(10, 10, 0.05, method="wilson")[0])


def test_it_covers_the_truth_where_requests_of_a_prompt_are_alike() -> None:
    rng = np.random.default_rng(3)
    covered, plain = 0, 0
    for _ in range(2000):
        # A chance of its own for each of 60 prompts, 0.3 on average, and six requests of each.
        hits = rng.binomial(6, rng.beta(0.6, 1.4, size=60))
        found = share_over_clusters(hits, np.full(60, 6), 0.95).estimate
        covered += found.low <= 0.3 <= found.high
        low, high = proportion_confint(hits.sum(), 360, 0.05, method="wilson")
        plain += low <= 0.3 <= high
    assert fits(covered, 2000, least=0.94, most=0.96)
    assert plain / 2000 < 0.85


@pytest.mark.parametrize(("hits", "counts"), [([1], [0]), ([2], [1]), ([-1], [1]), ([], []), ([1, 1], [1])])
def test_counts_that_are_no_share_are_refused(hits: list[float], counts: list[float]) -> None:
    with pytest.raises(RatiosError, match="0 <= hits <= counts"):
        share_over_clusters(hits, counts, 0.95)
