"""Percentiles and groups from histograms agree with those of the lines they were made of."""

import numpy as np
import pytest

from draftmeter.stats.blocks import plan_blocks
from draftmeter.stats.intervals import groups_by_acceptance, interval_series
from draftmeter.stats.resample import FRACTION, LOG
from draftmeter.stats.sums import Bins, bins_of, group_sums, percentile_sums


@pytest.mark.parametrize("n", [3, 50, 199, 2000, 300_000])
def test_percentiles_of_a_histogram_are_near_those_of_the_values(n: int) -> None:
    x = np.random.default_rng(n).gamma(3, 1, n)
    bins = bins_of(x, np.ones(n, dtype=bool))
    counts = np.bincount(bins.codes, minlength=bins.number)[None].astype(float)
    for fraction in (0.1, 0.5, 0.9):
        below = (x <= bins.percentile(counts, fraction)[0]).mean()
        assert below == pytest.approx(fraction, abs=0.006 + 1 / n)


def is_near(bins: Bins, found: float, exact: float) -> bool:
    """Whether both are in one bin or in neighbours: the percentile of lines lies between two of them, perhaps of two bins."""
    at, wanted = (int(np.searchsorted(bins.edges, one)) for one in (found, exact))
    return abs(at - wanted) <= 1


def test_percentiles_follow_the_lines_that_are_drawn() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=4000)
    bins = bins_of(x, np.ones(4000, dtype=bool))
    for _ in range(20):
        drawn = rng.integers(0, 4000, 4000)
        counts = np.bincount(bins.codes[drawn], minlength=bins.number)[None].astype(float)
        found = [bins.percentile(counts, fraction)[0] for fraction in (0.1, 0.9)]
        assert all(is_near(bins, *two) for two in zip(found, np.percentile(x[drawn], [10, 90]), strict=True))


def test_lines_that_do_not_take_part_are_in_no_bin() -> None:
    x = np.array([5.0, 1.0, 3.0, 2.0])
    bins = bins_of(x, np.array([True, False, True, True]))
    assert bins.codes[1] == -1 and sorted(bins.codes[[0, 2, 3]]) == [0, 0, 1]
    assert (bins.edges[0], bins.edges[-1]) == (2.0, 5.0)


def test_equal_values_have_one_bin_and_their_percentile() -> None:
    bins = bins_of(np.full(30, 0.7), np.ones(30, dtype=bool))
    assert bins.number == 1
    assert bins.percentile(np.array([[30.0]]), 0.9)[0] == pytest.approx(0.7)


def test_percentile_part_has_the_exact_values() -> None:
    x = np.random.default_rng(1).uniform(1, 4, 900)
    chosen = x > 1.5
    blocks = plan_blocks(x)
    part = percentile_sums(blocks, x, chosen, ("a", "b", "c"), LOG)
    low, high = np.percentile(x[chosen], [10, 90])
    assert part.values == pytest.approx((low, high, high / low))
    found = part.function(part.by_cell.sum(axis=0)[None])[0]
    bins = bins_of(x, chosen)
    assert is_near(bins, found[0], low) and is_near(bins, found[1], high) and found[2] == pytest.approx(found[1] / found[0])
    assert part.scales == (LOG, LOG, LOG) and part.presence.sum(axis=0) == pytest.approx([chosen.sum()] * 3)
    assert percentile_sums(blocks, x, chosen, ("a", "b"), FRACTION).names == ("a", "b")


def test_groups_part_agrees_with_groups_of_the_lines() -> None:
    rng = np.random.default_rng(2)
    drafts = rng.integers(300, 900, 3000)
    chance = rng.beta(40, 10, 3000)
    at, before = np.empty((3000, 2)), drafts
    for position in range(2):
        before = rng.binomial(before, chance)
        at[:, position] = before
    acceptance = at.sum(axis=1) / (2 * drafts)
    chosen = drafts >= 500
    blocks = plan_blocks(acceptance)
    series = interval_series(np.arange(3000), drafts, at.sum(axis=1), 2 * drafts, window_s=1, accepted_at=at)
    part = group_sums(blocks, series, chosen, "fifth_")
    exact = groups_by_acceptance(acceptance[chosen], drafts[chosen], at[chosen])
    found = dict(zip(part.names, part.values, strict=True))
    resampled = dict(zip(part.names, part.function(part.by_cell.sum(axis=0)[None])[0], strict=True))
    for number, group in enumerate(exact, start=1):
        assert (found[f"fifth_{number}.chance_1"], found[f"fifth_{number}.chance_2"]) == pytest.approx(group.chances)
        assert found[f"fifth_{number}.rise_2"] == pytest.approx(group.chances[1] - group.chances[0])
        assert found[f"fifth_{number}.chance_slope"] == pytest.approx(group.chances[1] - group.chances[0])
        assert resampled[f"fifth_{number}.chance_1"] == pytest.approx(group.chances[0], abs=5e-4)
