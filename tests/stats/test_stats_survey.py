"""Everything at once: planted truth comes back, and what the lines do not say is unknown."""

import re
from dataclasses import replace

import numpy as np
import pytest

from chance import CERTAIN
from draftmeter.stats.beyond_chance import expected_groups, overdispersion, planning
from draftmeter.stats.estimate import Estimate
from draftmeter.stats.interval_statistics import IntervalStatistics, Settings, interval_statistics
from draftmeter.stats.intervals import (
    IntervalsError,
    groups_by_acceptance,
    interval_series,
    sampling_sd,
    spread,
    variance_ratio,
)
from draftmeter.stats.simulate import PUBLISHED_LIKE, Load, Steps, Traffic, simulate
from simulated_study import as_lines, long_traffic

SETTINGS = Settings(resamples=300)
# Luck moves no truth out of these intervals.
SURE = Settings(resamples=300, confidence=CERTAIN)


@pytest.fixture(scope="module")
def traffic() -> Traffic:
    return long_traffic(PUBLISHED_LIKE, 10_404, np.random.default_rng(0))


@pytest.fixture(scope="module")
def found(traffic: Traffic) -> IntervalStatistics:
    return interval_statistics(as_lines(traffic), SURE)


def test_figures_are_those_of_the_definitions(traffic: Traffic, found: IntervalStatistics) -> None:
    chosen = traffic.drafts >= 500
    x, at, n = traffic.accepted[chosen] / traffic.drafted[chosen], traffic.accepted_at[chosen], traffic.drafts[chosen]
    summary, sampling = spread(x), sampling_sd(at.sum(axis=0) / n.sum(), n)
    value = {name: one.value for name, one in found.estimates.items()}
    expected = (summary.p10, summary.p90, summary.sd, sampling, variance_ratio(summary.sd, sampling))
    assert [value[f"t500.{name}"] for name in ("p10", "p90", "sd", "sampling_sd", "variance_ratio")] == pytest.approx(expected)
    steps = 1 + traffic.accepted[chosen] / n
    assert value["t500.tokens_per_step_p90_over_p10"] == pytest.approx(np.divide(*np.percentile(steps, [90, 10])))
    one = chosen & (traffic.running == 1)
    rate = traffic.drafts / 10
    assert value["step_rate.p90_over_p10"] == pytest.approx(np.divide(*np.percentile(rate[one], [90, 10])))
    tokens = 1 + traffic.accepted / traffic.drafts
    assert value["t500.step_rate_correlation_1"] == pytest.approx(np.corrcoef(tokens[one], rate[one])[0, 1])
    assert value["running.2"] == pytest.approx((traffic.accepted / traffic.drafted)[chosen & (traffic.running == 2)].mean())
    first = found.thresholds[0]
    assert (first.min_drafts, first.intervals) == (500, chosen.sum())
    assert first.share_of_intervals == pytest.approx(chosen.mean())
    assert first.share_of_draft_tokens == pytest.approx(n.sum() / traffic.drafts.sum())
    assert (first.lowest, first.highest) == (summary.lowest, summary.highest)
    assert [threshold.min_drafts for threshold in found.thresholds] == [500, 100, 1000]


def test_planted_truth_is_inside_the_intervals(found: IntervalStatistics) -> None:
    planted = {
        "pooled.chance_1": 0.7987,
        "pooled.chance_2": 0.8094,
        "pooled.chance_3": 0.8252,
        "pooled.rise_2": 0.0107,
        "pooled.rise_3": 0.0158,
        "running.2 - running.1": 0.0,
        "running.some - running.none": 0.0,
        "autocorrelation.300": 0.97 * 0.33 * np.exp(-1),
        "t500.step_rate_correlation_1": 0.0,
    }
    missed = [name for name, truth in planted.items() if not found.estimates[name].low <= truth <= found.estimates[name].high]
    assert not missed
    assert found.overdispersion.acceptance.low <= 0.0749 <= found.overdispersion.acceptance.high
    assert found.regression.slope.low <= 0 <= found.regression.slope.high
    assert found.equality.p_value < 1e-6
    assert all(test.p_value < 1e-3 for test in found.equality_in_fifths)
    assert found.decay.chosen == 2
    assert found.running_range.estimate.low == 0
    assert found.explained_by_running.low == 0 and found.explained_by_running.high < 0.2
    assert found.planning.drafts.low < found.planning.drafts.value < found.planning.drafts.high


def test_every_figure_has_an_interval_or_a_reason(found: IntervalStatistics) -> None:
    for name, one in found.estimates.items():
        assert (one.low is None) == (one.unknown is not None), name
        assert (one.low is None) == (one.method == ""), name
        if one.low is not None:
            assert one.low <= one.value <= one.high, name
    assert found.estimates["running.6+"].unknown is not None
    assert found.pairs["autocorrelation.10"] > 1000


def test_planted_load_effects_are_found() -> None:
    steeper = replace(PUBLISHED_LIKE, load_effect=-0.06, load=Load(0.5, 5), steps=Steps(per_s=80))
    found = interval_statistics(as_lines(long_traffic(steeper, 15_000, np.random.default_rng(1))), SETTINGS)
    assert found.regression.slope.high < 0
    assert found.running_range.estimate.low > 0.01
    assert found.explained_by_running.low > 0.01


def test_workloads_explain_what_they_explain() -> None:
    one, two = (
        simulate(replace(PUBLISHED_LIKE, chances=chances, decays=()), 4000, np.random.default_rng(2))
        for chances in ((0.7, 0.7, 0.7), (0.8, 0.8, 0.8))
    )
    both = as_lines(
        Traffic(
            np.concatenate([one.end, one.end[-1] + 10 + two.end]),
            *(
                np.concatenate([getattr(one, name), getattr(two, name)])
                for name in ("drafts", "accepted_at", "running", "chances")
            ),
        )
    )
    found = interval_statistics(both, SETTINGS, workload=np.repeat(["low", "high"], [len(one.end), len(two.end)]))
    # Two workloads one after the other are one long memory: nothing else is known about the whole, which is right.
    assert found.estimates["workload.high"].value - found.estimates["workload.low"].value == pytest.approx(0.139, abs=0.01)
    assert found.explained_by_workload is not None


def test_boots_are_the_top_level() -> None:
    whole = as_lines(long_traffic(replace(PUBLISHED_LIKE, decays=()), 6000, np.random.default_rng(2)))
    boot = np.repeat(["a", "b", "c", "d"], -(-len(whole) // 4))[: len(whole)]
    columns = {name: getattr(whole, name) for name in ("end", "drafts", "accepted", "drafted", "accepted_at", "running")}
    found = interval_statistics(interval_series(**columns, window_s=10.0, boot=boot, series=boot), SETTINGS)
    assert "4 boots as the top level" in found.estimates["pooled.chance_1"].method


def test_lines_that_say_less() -> None:
    short = long_traffic(replace(PUBLISHED_LIKE, decays=()), 3000, np.random.default_rng(4))
    found = interval_statistics(as_lines(short, accepted_at=None, running=None, window_s=np.nan), SETTINGS)
    assert found.estimates["t500.sd"].low is not None
    assert found.estimates["t500.variance_ratio"].unknown == "a line gives no acceptance by position"
    assert "how many requests" in found.estimates["running.1"].unknown
    assert "how many requests" in found.estimates["step_rate.p10"].unknown
    assert found.decay.chosen is None and "no one length" in found.decay.unknown
    assert found.equality.p_value is None and found.equal_chances is None and found.regression is None
    assert found.overdispersion.acceptance.value is None and found.planning is None
    assert found.equality_in_fifths[0].unknown == "a line gives no acceptance by position"


def test_unknown_drafts_leave_the_tokens(traffic: Traffic) -> None:
    short = Traffic(*(getattr(traffic, name)[:1500] for name in Traffic.__dataclass_fields__))
    drafts = short.drafts.copy()
    drafts[::10] = np.nan
    found = interval_statistics(as_lines(short, drafts=drafts), SETTINGS)
    assert found.estimates["pooled.accepted_over_drafted"].value == pytest.approx(short.accepted.sum() / short.drafted.sum())
    assert found.thresholds[0].intervals == (drafts >= 500).sum()


def test_a_handful_of_lines_is_too_short_and_none_is_refused(traffic: Traffic) -> None:
    for count in (1, 3, 12):
        few = Traffic(*(getattr(traffic, name)[:count] for name in Traffic.__dataclass_fields__))
        found = interval_statistics(as_lines(few), Settings(resamples=50, min_drafts=1, sensitivity=(10**6,)))
        assert all(one.low is None and one.unknown for one in found.estimates.values())
        assert found.estimates["pooled.accepted_over_drafted"].value is not None
        assert found.estimates[f"t{10**6}.p10"].unknown == "no line holds 1000000 drafts"
        reasons = [one.unknown for one in found.estimates.values()] + [found.decay.unknown]
        assert not [reason for reason in reasons if re.search(r"\b1 (lines|lags)\b", reason or "")]
    with pytest.raises(IntervalsError, match="at least one"):
        interval_statistics(interval_series([], [], [], [], window_s=10), SETTINGS)


@pytest.mark.parametrize("wrong", [{"confidence": 95}, {"resamples": 1}, {"half_width": 0}, {"min_drafts": 0}, {"until_s": -1}])
def test_settings_that_make_no_sense_are_refused(wrong: dict) -> None:
    with pytest.raises(IntervalsError, match="needs"):
        Settings(**wrong)


def test_the_same_seed_gives_the_same_statistics() -> None:
    short = as_lines(long_traffic(replace(PUBLISHED_LIKE, decays=()), 2000, np.random.default_rng(7)))
    one, two, other = (interval_statistics(short, Settings(resamples=50, seed=seed)).estimates for seed in (1, 1, 2))
    assert one == two and one != other


def test_equal_chances_in_closed_form_agree_with_the_simulation() -> None:
    rng = np.random.default_rng(3)
    shares, drafts = [0.8, 0.65, 0.53], rng.integers(100, 1500, 400)
    simulated = []
    for _ in range(400):
        accepted_at = np.cumsum(rng.multinomial(drafts, -np.diff([1, *shares, 0]))[:, :0:-1], axis=1)[:, ::-1]
        groups = groups_by_acceptance(accepted_at.sum(axis=1) / (3 * drafts), drafts, accepted_at)
        simulated.append([group.chances for group in groups])
    assert np.array(expected_groups(shares, drafts)) == pytest.approx(np.mean(simulated, axis=0), abs=0.0015)
    # Selection alone lifts and lowers all positions, and moves the rise along the draft as well.
    lowest, highest = expected_groups(shares, drafts)[0], expected_groups(shares, drafts)[-1]
    assert lowest[0] < 0.795 and highest[0] > 0.805
    assert lowest[1] - lowest[0] > highest[1] - highest[0]
    assert expected_groups([1.0, 1.0], [10.0] * 9)[0] == (1.0, 1.0)


def test_overdispersion_of_beta_binomial_counts_is_recovered() -> None:
    server = replace(PUBLISHED_LIKE, decays=(), between_sd=0.05)
    traffic = long_traffic(server, 6000, np.random.default_rng(5))
    found = interval_statistics(as_lines(traffic), SURE).overdispersion
    assert found.acceptance.low <= 0.05 <= found.acceptance.high
    for position, (one, intraclass) in enumerate(zip(found.positions, found.intraclass, strict=True)):
        truth = traffic.chances[traffic.drafts >= 500, position].std()
        assert one.low <= truth <= one.high
        mean = traffic.chances[:, position].mean()
        assert intraclass == pytest.approx(truth**2 / (mean * (1 - mean)), rel=0.15)
    equal = interval_statistics(as_lines(long_traffic(replace(server, between_sd=0.0), 20_000, np.random.default_rng(6))), SURE)
    assert equal.overdispersion.acceptance.low == 0
    sd, true = equal.estimates["t500.sd"].value, equal.estimates["t500.true_variance"].value
    # Five standard errors of a variance of 6,000 intervals.
    assert sd**2 - true == pytest.approx(sd**2, rel=0.1)


def estimate_of(value: float | None, low: float | None, high: float | None, unknown: str | None = None) -> Estimate:
    return Estimate(value, low, high, 9, unknown)


def test_overdispersion_below_sampling_is_none() -> None:
    estimates = {
        "s.sd": estimate_of(0.010, 0.009, 0.011),
        "s.true_variance": estimate_of(-0.00001, None, None),
        "d.variance_1": estimate_of(0.0001, None, None, "too short"),
        "d.binomial_1": estimate_of(0.0002, None, None),
    }
    found = overdispersion(estimates, "s.", "d.", (0.8,))
    assert found.acceptance.value == 0 and found.acceptance.low == 0
    assert found.positions[0].value == 0 and found.positions[0].low is None and found.positions[0].unknown == "too short"


def test_planning_numbers() -> None:
    # Independent drafts: V = 0.21 for one token accepted in 7 of 10; +-1 point needs (1.96 / 0.01)^2 * 0.21 = 8,067 drafts.
    error = float(np.sqrt(0.21 / 1000))
    found = planning(error, 1e6, 1000, 600, [0.7], n=9)
    assert found.drafts.value == pytest.approx(8067, rel=0.001)
    assert found.minutes.value == pytest.approx(80.67, rel=0.001) and found.effective_drafts == pytest.approx(1000)
    wider = planning(2 * error, 12, 1000, 600, [0.7], n=9)
    assert wider.drafts.value == pytest.approx(4 * found.drafts.value) and wider.effective_drafts == pytest.approx(250)
    assert wider.drafts.low < wider.drafts.value < wider.drafts.high
    assert planning(0.0, 10, 1000, 600, [1.0], n=9) is None
