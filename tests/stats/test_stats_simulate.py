"""The simulator gives what was planted."""

from dataclasses import replace

import numpy as np
import pytest

from draftmeter.stats.simulate import Decay, Load, Server, SimulationError, Steps, calibrate, latent, simulate, simulated_load

SERVER = Server(
    chances=(0.799, 0.809, 0.825),
    between_sd=0.075,
    decays=(Decay(0.5, 15), Decay(0.3, 300)),
    load=Load(requests_per_s=0.4, request_s=6),
    steps=Steps(per_s=80),
)


@pytest.mark.parametrize("chances", [(0.8,), (0.799, 0.809, 0.825), (0.9, 0.7, 0.5, 0.3), (0.6, 0.6, 0.6)])
def test_planted_chances_and_spread_are_there(chances: tuple[float, ...]) -> None:
    traffic = simulate(replace(SERVER, chances=chances, decays=()), 60_000, np.random.default_rng(0))
    through = np.concatenate([[traffic.drafts.sum()], traffic.accepted_at.sum(axis=0)])
    assert through[1:] / through[:-1] == pytest.approx(chances, abs=0.002)
    true = np.cumprod(traffic.chances, axis=1).mean(axis=1)
    assert true.std() == pytest.approx(0.075, rel=0.02)


def test_without_spread_all_chances_are_equal() -> None:
    traffic = simulate(replace(SERVER, between_sd=0.0), 100, np.random.default_rng(1))
    assert np.ptp(traffic.chances, axis=0) == pytest.approx([0, 0, 0])
    assert calibrate((0.8, 0.8), 0.0).slope == 0


def test_the_latent_value_forgets_as_planted() -> None:
    z = latent(SERVER.decays, 10.0, 400_000, np.random.default_rng(2))
    # Standard errors: of the mean 0.007, for the values of 200 s are alike, and of the correlations 0.003.
    assert (z.mean(), z.std()) == pytest.approx((0, 1), abs=0.035)
    for lag in (1, 3, 30, 90):
        expected = 0.5 * np.exp(-10 * lag / 15) + 0.3 * np.exp(-10 * lag / 300)
        assert np.corrcoef(z[:-lag], z[lag:])[0, 1] == pytest.approx(expected, abs=0.016)


def test_load_is_that_of_random_arrivals() -> None:
    mean, end = simulated_load(SERVER.load, 10.0, 40_000, np.random.default_rng(3))
    # Arrivals times mean duration: 2.4 requests run on the average, Poisson distributed at any time.
    assert mean.mean() == pytest.approx(2.4, rel=0.02) and end.mean() == pytest.approx(2.4, rel=0.02)
    assert end.var() == pytest.approx(2.4, rel=0.05)
    assert mean.var() < end.var()
    assert np.all(mean >= 0)


def test_idle_stretches_leave_gaps() -> None:
    load = Load(requests_per_s=0.4, request_s=6, busy_s=600, idle_s=1200)
    traffic = simulate(replace(SERVER, load=load), 200_000, np.random.default_rng(4))
    # A third, and the ends of what began there. Of eleven hundred turns its standard error is 0.008.
    assert len(traffic.end) / 200_000 == pytest.approx(0.34, abs=0.05)
    assert np.all(np.diff(traffic.end) > 0) and np.diff(traffic.end).max() > 600


def test_drafts_follow_load_and_their_noise_may_follow_acceptance() -> None:
    steps = Steps(per_s=80, sd_log=0.3, correlation=0.6)
    traffic = simulate(replace(SERVER, steps=steps), 40_000, np.random.default_rng(5))
    assert traffic.drafts.sum() / (40_000 * 10) == pytest.approx(80 * 2.4, rel=0.03)
    busy = traffic.running == 2
    assert np.corrcoef(traffic.drafts[busy], traffic.chances[busy, 0])[0, 1] > 0.2
    slower = simulate(replace(SERVER, steps=Steps(per_s=80, slowdown=0.5)), 40_000, np.random.default_rng(5))
    assert slower.drafts.sum() < 0.8 * traffic.drafts.sum()


def test_load_may_move_acceptance() -> None:
    traffic = simulate(replace(SERVER, load_effect=-0.1), 20_000, np.random.default_rng(6))
    few, many = (traffic.chances[chosen, 0].mean() for chosen in (traffic.running <= 1, traffic.running >= 5))
    assert many < few - 0.03


def test_the_same_generator_gives_the_same_traffic() -> None:
    one, two = (simulate(SERVER, 500, np.random.default_rng(7)) for _ in range(2))
    assert np.array_equal(one.accepted_at, two.accepted_at) and np.array_equal(one.end, two.end)
    assert np.all(one.accepted <= one.drafted) and np.all(np.diff(one.accepted_at, axis=1) <= 0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"chances": (0.8, 1.0)}, "between 0 and 1"),
        ({"chances": ()}, "one for each position"),
        ({"between_sd": 0.6}, "cannot vary that much"),
        ({"between_sd": -0.1}, "cannot vary that much"),
        ({"decays": (Decay(0.7, 10), Decay(0.4, 100))}, "sum to 1"),
        ({"decays": (Decay(0.7, 0),)}, "positive times"),
        ({"load": Load(0, 1)}, "positive rates"),
        ({"load": Load(1, 1, busy_s=10, idle_s=-1)}, "positive rates"),
        ({"steps": Steps(0)}, "positive pace"),
        ({"steps": Steps(1, correlation=2)}, "positive pace"),
    ],
)
def test_impossible_servers_are_refused(changed: dict, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        simulate(replace(SERVER, **changed), 10, np.random.default_rng(0))


def test_no_slot_is_refused() -> None:
    with pytest.raises(SimulationError, match="at least 1"):
        simulate(SERVER, 0, np.random.default_rng(0))
