"""Blocks in time: their length, how often cells appear, and what their sums are."""

import numpy as np
import pytest

from chance import ERRORS
from draftmeter.stats.blocks import BlocksError, memory_length, plan_blocks, resampled_cells


def autoregressive(rng: np.random.Generator, n: int, kept: float) -> np.ndarray:
    values = np.empty(n)
    values[0] = rng.normal()
    for i, noise in enumerate(rng.normal(size=n - 1) * np.sqrt(1 - kept**2), start=1):
        values[i] = kept * values[i - 1] + noise
    return values


def test_every_resample_has_as_many_cells_as_the_circle() -> None:
    for length in (1.0, 3.5, 40.0, 5000.0):
        chunks = list(resampled_cells(97, length, 300, np.random.default_rng(0)))
        appearances = np.concatenate(chunks)
        assert appearances.shape == (300, 97)
        assert np.all(appearances.sum(axis=1) == 97) and np.all(appearances >= 0)
        # Every cell is drawn as often as any other: six standard errors of a mean of 300 numbers that vary by one at most.
        assert appearances.mean(axis=0) == pytest.approx(np.ones(97), abs=0.35)


def test_blocks_have_the_length_asked_for() -> None:
    # Neighbours on the circle appear together unless a block begins between them: with probability 1 / length.
    appearances = np.concatenate(list(resampled_cells(400, 8.0, 400, np.random.default_rng(1))))
    changes = np.abs(np.diff(appearances, axis=1)).mean()
    shorter = np.abs(np.diff(np.concatenate(list(resampled_cells(400, 2.0, 400, np.random.default_rng(1)))), axis=1)).mean()
    assert changes == pytest.approx(2 * 1 / 8, rel=0.2)
    assert shorter > 2.5 * changes


def test_the_variance_of_a_mean_is_that_of_the_stationary_bootstrap() -> None:
    x = autoregressive(np.random.default_rng(2), 500, 0.7)
    deviation, n, length = x - x.mean(), 500, 25.0
    appearances = np.concatenate(list(resampled_cells(n, length, 20_000, np.random.default_rng(3))))
    found = (appearances @ deviation / n).var()
    lag = np.arange(1, n)
    covariance = np.array([deviation[: n - k] @ deviation[k:] / n for k in range(n)])
    kernel = (1 - lag / n) * (1 - 1 / length) ** lag + lag / n * (1 - 1 / length) ** (n - lag)
    expected = (covariance[0] + 2 * kernel @ covariance[1:]) / n
    assert found == pytest.approx(expected, rel=ERRORS * np.sqrt(2 / 20_000))


def test_memory_is_found_and_more_of_it_asks_for_longer_blocks() -> None:
    rng = np.random.default_rng(4)
    # One series in twenty without memory seems to have some; most of 25 do less than once in a million draws.
    white, some, much = (
        np.median([memory_length(autoregressive(rng, 2000, kept)[:, None]) for _ in range(25)]) for kept in (0.0, 0.7, 0.95)
    )
    assert white < 40 < much and some < much
    assert memory_length(np.ones((300, 1))) == 1.0
    assert memory_length(np.arange(10.0)[:, None]) == 1.0  # too few to say


def test_a_slow_component_under_white_noise_is_not_lost() -> None:
    rng = np.random.default_rng(5)
    found = [memory_length((autoregressive(rng, 2000, 0.97) + 1.7 * rng.normal(size=2000))[:, None]) for _ in range(20)]
    assert np.median(found) > 30


def test_plan_leaves_plenty_of_blocks_and_no_cell_crosses_boots() -> None:
    boot = np.repeat([3, 7, 9], [2000, 1500, 2500])
    blocks = plan_blocks(np.ones((6000, 2)), boot)
    assert blocks.n / blocks.length == pytest.approx(0.3 * np.sqrt(6000), rel=0.01)
    assert set(blocks.boots) == {0, 1, 2}
    assert np.array_equal(blocks.boots[blocks.cell_of_interval()], np.repeat([0, 1, 2], [2000, 1500, 2500]))
    assert blocks.cell_size < blocks.length / 30
    few = plan_blocks(np.ones((300, 1)))
    assert few.cells == 300 and few.length == 300 / 20


def test_a_year_of_lines_has_few_cells() -> None:
    blocks = plan_blocks(np.ones(1_000_000))
    assert blocks.cells <= 8192
    assert blocks.length / 2 > 4 * blocks.cell_size


def test_sums_and_histograms_by_cell() -> None:
    blocks = plan_blocks(np.ones(5000))
    x = np.random.default_rng(9).normal(size=5000)
    codes = np.where(x > 1, -1, (x > 0).astype(np.int64))
    cell = blocks.cell_of_interval()
    assert blocks.sums(x)[:, 0] == pytest.approx(np.bincount(cell, x))
    assert blocks.sums(np.column_stack([x, x**2])).sum(axis=0) == pytest.approx([x.sum(), (x**2).sum()])
    counts = blocks.histogram(codes, 2)
    assert counts.sum(axis=0) == pytest.approx([(x <= 0).sum(), ((x > 0) & (x <= 1)).sum()])
    weighted = blocks.histogram(codes, 2, x)
    assert weighted[5, 1] == pytest.approx(x[(cell == 5) & (codes == 1)].sum())


def test_effective_blocks_fall_where_lines_crowd() -> None:
    blocks = plan_blocks(np.ones(2400))
    everywhere = np.ones(2400)
    crowded = np.zeros(2400)
    crowded[:240] = 1
    presence = blocks.sums(np.column_stack([everywhere, crowded, np.zeros(2400)]))
    assert blocks.effective(presence, 100) == pytest.approx([24, 240**2 / (2 * 100**2 + 40**2), 0], rel=0.03)


def test_what_has_no_blocks_is_refused() -> None:
    with pytest.raises(BlocksError, match="no line"):
        plan_blocks(np.empty((0, 2)))
    with pytest.raises(BlocksError, match="not finite"):
        plan_blocks([1.0, np.nan])
    with pytest.raises(BlocksError, match="sorted"):
        plan_blocks([1.0, 2.0], [1, 0])
    with pytest.raises(BlocksError, match="made for 3"):
        plan_blocks([1.0, 2.0, 3.0]).sums(np.ones(2))
