"""The memory of acceptance: the curve against its definition, and decays that were planted."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import signal

from chance import fits
from draftmeter.stats.blocks import plan_blocks
from draftmeter.stats.intervals import IntervalSeries, interval_series, nearest_at_lag
from draftmeter.stats.memory import Component, autocorrelation_curve, curve_lags, fit_decay
from draftmeter.stats.simulate import PUBLISHED_LIKE, Decay, Server, simulate


def server(*decays: Decay) -> Server:
    return replace(PUBLISHED_LIKE, decays=decays)


def traffic(planted: Server, slots: int, seed: int) -> IntervalSeries:
    t = simulate(planted, slots, np.random.default_rng(seed))
    # A clock that wanders by a tenth of a second, and Unix times.
    end = 1.7e9 + t.end + np.random.default_rng(seed).normal(0, 0.1, len(t.end))
    return interval_series(end, t.drafts, t.accepted, t.drafted, window_s=10, accepted_at=t.accepted_at, running=t.running)


def test_the_curve_is_the_autocorrelation_at_each_lag() -> None:
    made = traffic(server(Decay(0.8, 60)), 3000, 0)
    chosen = made.at_least(500)
    blocks = plan_blocks(np.where(chosen, made.acceptance, 0.6))
    lags = (10.0, 30.0, 300.0, 600.0)
    curve = autocorrelation_curve(blocks, made, chosen, lags, 10.0, "r.")
    for lag, value, pairs, name in zip(lags, curve.sums.values, curve.pairs, curve.sums.names, strict=True):
        earlier, later = nearest_at_lag(made.end[chosen], lag, 10.0)
        exact = np.corrcoef(made.acceptance[chosen][earlier], made.acceptance[chosen][later])[0, 1]
        assert (value, pairs, name) == (pytest.approx(exact), len(earlier), f"r.{lag:g}")


def test_pairs_never_join_two_series() -> None:
    made = interval_series(
        [10.0, 20, 30, 40, 50, 60],
        [600.0] * 6,
        [900.0, 1000, 1100, 950, 1050, 1200],
        [1800.0] * 6,
        window_s=10,
        series=[0, 0, 0, 1, 1, 1],
    )
    every = np.ones(6, dtype=bool)
    curve = autocorrelation_curve(plan_blocks(made.acceptance), made, every, (10.0, 30.0), 10.0, "")
    assert curve.pairs == (4, 0) and np.isnan(curve.sums.values[1])


def test_pairs_respect_gaps() -> None:
    earlier, later = nearest_at_lag(np.array([0.0, 10, 20, 60, 70]), 10, 10)
    assert list(zip(earlier.tolist(), later.tolist(), strict=True)) == [(0, 1), (1, 2), (3, 4)]
    # Half an interval off still counts, more does not; and no interval is paired with itself.
    assert len(nearest_at_lag(np.array([0.0, 15.0]), 10, 10)[0]) == 1
    assert len(nearest_at_lag(np.array([0.0, 15.1]), 10, 10)[0]) == 0
    assert len(nearest_at_lag(np.array([0.0]), 4, 10)[0]) == 0
    assert len(nearest_at_lag(np.array([]), 4, 10)[0]) == 0


def test_too_few_pairs_or_no_variation_have_no_correlation() -> None:
    def curve(acceptance: list[float]) -> float:
        n = len(acceptance)
        made = interval_series(10.0 * np.arange(n), [600.0] * n, 1800 * np.array(acceptance), [1800.0] * n, window_s=10)
        blocks = plan_blocks(made.acceptance)
        return autocorrelation_curve(blocks, made, np.ones(n, dtype=bool), (10.0,), 10.0, "").sums.values[0]

    assert np.isnan(curve([0.5, 0.6, 0.7])) and np.isnan(curve([0.5] * 9))
    assert curve([0.5, 0.6, 0.7, 0.8]) == pytest.approx(1)


def test_planted_memory_is_recovered_across_gaps() -> None:
    rng = np.random.default_rng(2)
    n, phi = 100_000, 0.7
    # Normal with variance 1 from the first value on.
    noise = rng.normal(size=n) * np.sqrt(1 - phi**2)
    noise[0] /= np.sqrt(1 - phi**2)
    x = signal.lfilter([1.0], [1.0, -phi], noise)
    keep = rng.random(n) < 0.6
    times = (1e9 + 10.0 * np.arange(n) + rng.uniform(-2, 2, n))[keep]
    acceptance = (0.5 + 0.05 * x[keep]).clip(0, 1)
    made = interval_series(times, np.full(len(times), 600.0), 1800 * acceptance, np.full(len(times), 1800.0), window_s=10)
    lags = (10.0, 30.0, 100.0)
    found = autocorrelation_curve(plan_blocks(acceptance), made, np.ones(len(times), dtype=bool), lags, 10.0, "")
    for lag, value, pairs in zip(lags, found.sums.values, found.pairs, strict=True):
        # The standard error is 0.006 at most.
        assert value == pytest.approx(phi ** (lag / 10), abs=0.03) and pairs == pytest.approx(0.36 * n, rel=0.05)


def test_pairs_are_the_same_however_many_lines_are_looked_at_at_once() -> None:
    rng = np.random.default_rng(1)
    times = np.cumsum(rng.choice([10.0, 10, 20, 4, 60], 80_000) + rng.normal(0, 0.5, 80_000).clip(-2, 2))
    earlier, later = nearest_at_lag(times, 300.0, 10.0)
    wanted = times + 300
    right = np.searchsorted(times, wanted).clip(0, len(times) - 1)
    left = (right - 1).clip(0)
    nearest = np.where(np.abs(times[left] - wanted) <= np.abs(times[right] - wanted), left, right)
    close = np.abs(times[nearest] - wanted) <= 5 + 1e-6
    assert np.array_equal(earlier, np.flatnonzero(close)) and np.array_equal(later, nearest[close])


def test_lags_of_the_curve() -> None:
    lags = curve_lags(10.0)
    assert {10.0, 30.0, 300.0, 600.0, 1800.0} <= set(lags) and max(lags) == 1800
    assert list(lags) == sorted(lags) and len(lags) < 40
    assert curve_lags(2.0, 10.0) == (2.0, 4.0, 6.0, 8.0, 10.0)


def fitted(planted: Server, seed: int, slots: int = 10_404):
    made = traffic(planted, slots, seed)
    chosen = made.at_least(500)
    blocks = plan_blocks(np.where(chosen, made.acceptance, 0.6))
    curve = autocorrelation_curve(blocks, made, chosen, curve_lags(10.0), 10.0, "")
    return fit_decay(curve.lags_s, curve.sums.values, curve.pairs, 10.0, int(chosen.sum()), 0.95)


def holds(component: Component, time_s: float) -> bool:
    """Whether its interval is known and holds this time."""
    return component.time_s.low is not None and component.time_s.low <= time_s <= component.time_s.high


def test_two_planted_decays_are_found_and_told_from_one() -> None:
    # Of 60 traffics 60 showed two, and their intervals held 11 s in 93% and 300 s in 98%.
    chosen = hits = 0
    for seed in range(10):
        found = fitted(PUBLISHED_LIKE, seed)
        chosen += found.chosen == 2
        assert (found.chosen == 2) == (found.two.aic < found.one.aic)
        short, long = found.two.components
        hits += holds(short, 11)
        hits += holds(long, 300)
        assert short.weight.low <= short.weight.value <= short.weight.high
    assert fits(chosen, 10, least=0.95) and fits(hits, 20, least=0.9)


def test_one_planted_decay_is_not_made_into_two() -> None:
    chosen, hits = [], 0
    for seed in range(12):
        found = fitted(server(Decay(0.8, 60)), seed)
        chosen.append(found.chosen)
        (only,) = found.one.components
        hits += holds(only, 60)
    # Of 120 traffics 114 showed one, and its interval held 60 s in all.
    assert fits(chosen.count(1), 12, least=0.9) and fits(hits, 12, least=0.95)


def test_a_component_that_may_not_be_there_has_no_time() -> None:
    # Of 60 traffics without memory all showed one at most, and that one no more than this.
    known = []
    for seed in range(8):
        found = fitted(server(), seed)
        (only,) = found.one.components
        known.append(found.chosen == 1 and (only.weight.value < 0.2 or (only.time_s.low is None and only.time_s.high is None)))
    assert fits(sum(known), 8, least=0.95)


def test_too_few_lags_are_unknown() -> None:
    found = fit_decay([10.0, 20], [0.5, None], [100, 1], 10.0, 300, 0.95)
    assert found.chosen is None and found.one is None and "too short: 1 lag with an" in found.unknown
