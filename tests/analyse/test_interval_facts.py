"""Facts of intervals against the statistics that they come from, the curves for the figures, and categories of requests."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from chance import CERTAIN
from draftmeter.analyse.figure_tables import curve_rows, time_rows
from draftmeter.analyse.interval_estimates import IntervalEstimates, interval_estimates
from draftmeter.analyse.interval_facts import fifth_facts, interval_facts
from draftmeter.analyse.interval_series import WorkloadIntervals, categories_of, workload_intervals
from draftmeter.facts import Fact
from draftmeter.stats.simulate import PUBLISHED_LIKE, Decay, Load
from simulated_study import STARTED, Planted, config, tables_of

# A busy server: every interval holds drafts enough to tell two time scales apart.
SERVER = replace(PUBLISHED_LIKE, decays=(Decay(0.5, 11.0), Decay(0.35, 300.0)), load=Load(0.5, 5))
# Luck moves no truth out of intervals of this confidence.
ANALYSIS = config(resamples=300, confidence=CERTAIN).analysis


@pytest.fixture(scope="module")
def log() -> WorkloadIntervals:
    return workload_intervals(
        tables_of(Planted(SERVER, slots=6000, long_enough=True), seed=2).of_workload("traffic").intervals, 3
    )


@pytest.fixture(scope="module")
def found(log: WorkloadIntervals) -> IntervalEstimates:
    return interval_estimates(log, 500, [100, 1000], ANALYSIS, 7)


@pytest.fixture(scope="module")
def facts(found: IntervalEstimates) -> dict[str, Fact]:
    return interval_facts(found, 3, fifth_facts(found, 3), None, [100, 1000])


def test_estimates_are_those_of_the_statistics_in_the_units_of_the_note(found: IntervalEstimates, facts: dict[str, Fact]) -> None:
    assert found.survey is not None
    estimates = found.survey.estimates
    same = {"p10": "t500.p10", "t100.variance_ratio": "t100.variance_ratio", "running_2": "running.2", "running_0": "running.0",
            "autocorrelation_300s": "autocorrelation.300", "fifth_3.chance_2": "fifth_3.chance_2",
            "t1000.tokens_per_step_p90": "t1000.tokens_per_step_p90", "step_rate_p10": "step_rate.p10"}  # fmt: skip
    for quantity, name in same.items():
        one, fact = estimates[name], facts[quantity]
        assert (fact.value, fact.low, fact.high) == pytest.approx((one.value, one.low, one.high)), quantity
        assert one.method in fact.method
    points = {"sd_pp": "t500.sd", "fifth_5.rise_3": "fifth_5.rise_3", "fifth_1.chance_slope": "fifth_1.chance_slope"}
    for quantity, name in points.items():
        one, fact = estimates[name], facts[quantity]
        assert (fact.value, fact.low, fact.high) == pytest.approx((100 * one.value, 100 * one.low, 100 * one.high)), quantity
        assert fact.unit == "percentage points"
    ratio, spread = estimates["t500.tokens_per_step_p90_over_p10"], facts["tokens_per_step_spread"]
    assert (spread.value, spread.low, spread.high) == pytest.approx((ratio.value - 1, ratio.low - 1, ratio.high - 1))
    idle = estimates["running.some - running.none"]
    one = facts["idle_minus_loaded_pp"]
    assert (one.value, one.low, one.high) == pytest.approx((-100 * idle.value, -100 * idle.high, -100 * idle.low))
    plan = found.survey.planning
    assert plan is not None
    one = facts["planning_minutes"]
    assert (one.value, one.low, one.high) == pytest.approx((plan.minutes.value, plan.minutes.low, plan.minutes.high))
    assert facts["effective_drafts"].value == pytest.approx(plan.effective_drafts)
    split = found.survey.overdispersion
    assert facts["between_sd_pp"].value == pytest.approx(100 * split.acceptance.value)
    assert facts["dispersion_2"].low == pytest.approx(100 * split.positions[1].low)
    assert facts["intraclass_2"].low < split.intraclass[1] < facts["intraclass_2"].high
    fit = found.survey.regression
    assert fit is not None
    assert (facts["load_slope_pp"].low, facts["load_slope_pp"].high) == pytest.approx((100 * fit.slope.low, 100 * fit.slope.high))
    assert "Newey and West" in facts["load_slope_pp"].method
    assert facts["fifth_2.equal_chances_p"].value == pytest.approx(found.survey.equality_in_fifths[1].p_value)
    assert facts["fifth_4.equal_chance_1"].value == pytest.approx(found.survey.equal_chances[3][0])


def test_planted_truth_is_inside_the_intervals(facts: dict[str, Fact]) -> None:
    planted = {"between_sd_pp": 7.49, "load_slope_pp": 0.0, "idle_minus_loaded_pp": 0.0, "explained_by_load": 0.0}
    missed = [name for name, truth in planted.items() if not facts[name].low <= truth <= facts[name].high]
    assert not missed
    assert facts["decay_components"].value == 2
    assert facts["decay_fast_s"].value < 40 < facts["decay_slow_s"].value
    assert facts["decay_aic_difference"].value > 0
    assert facts["load_range_pp"].low == 0


def test_one_time_scale_has_no_slow_part() -> None:
    # The criterion takes two in one traffic of twenty: this is of the first in which it does not.
    planted = Planted(replace(SERVER, decays=(Decay(0.7, 30.0),)), slots=5000, long_enough=True)
    for seed in range(20):
        found = interval_estimates(workload_intervals(tables_of(planted, seed).intervals, 3), 500, [], ANALYSIS, 7)
        facts = interval_facts(found, 3, fifth_facts(found, 3), None, [])
        if facts["decay_components"].value == 1:
            break
    assert facts["decay_components"].value == 1 and facts["decay_aic_difference"].value < 0
    assert facts["decay_fast_s"].low < 30 < facts["decay_fast_s"].high
    assert facts["decay_slow_s"].value is None and facts["decay_slow_s"].unknown == "one time scale describes the decay as well"


def test_the_curve_has_every_lag_with_pairs_and_the_fit(found: IntervalEstimates, facts: dict[str, Fact]) -> None:
    rows = list(curve_rows(found))
    assert [row["lag_s"] for row in rows] == sorted(row["lag_s"] for row in rows)
    assert rows[0]["lag_s"] == 10 and rows[-1]["lag_s"] == 1800
    by_lag = {row["lag_s"]: row for row in rows}
    for lag in (10, 30, 300, 600):
        fact = facts[f"autocorrelation_{lag}s"]
        row = by_lag[lag]
        assert (row["correlation"], row["low"], row["high"], row["pairs"]) == (fact.value, fact.low, fact.high, fact.n)
        assert fact.n_unit == "pairs of intervals"
    fitted = [row["fitted"] for row in rows]
    assert fitted == sorted(fitted, reverse=True)
    assert fitted[0] == pytest.approx(rows[0]["correlation"], abs=0.1)


def test_intervals_over_time() -> None:
    log = workload_intervals(tables_of(Planted(SERVER, slots=1000), seed=2).of_workload("traffic").intervals, 3)
    rows = list(time_rows(log, 500))
    table = log.table
    assert len(rows) == len(table) and rows[0].keys() >= {"hours", "acceptance", "drafts", "running", "series", "boot"}
    assert [row["hours"] for row in rows] == pytest.approx(((table["end"] - table["start"].min()) / 3600).tolist())
    assert [row["drafts"] for row in rows] == table["drafts"].tolist()
    assert [row["qualifies"] for row in rows] == (table["drafts"] >= 500).astype(int).tolist()
    assert {row["series"] for row in rows} == {row["boot"] for row in rows} == {0}


def test_how_long_the_pieces_of_a_picture_are_is_said_where_there_are_some(found: IntervalEstimates) -> None:
    tables = tables_of(Planted(SERVER, slots=1000), seed=2).of_workload("traffic")
    one = interval_facts(found, 3, [], tables, [])["piece_s"]
    assert (one.value, one.unit, one.low, one.unknown) == (300.0, "s", None, None)
    short = interval_estimates(workload_intervals(tables.intervals, 3), 500, [], ANALYSIS, 7)
    assert "piece_s" not in interval_facts(short, 3, [], tables, [])


def requests_of(rows: list[tuple[str, float, float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [{"category": category, "t_first": STARTED + first, "t_last": STARTED + last} for category, first, last in rows]
    )


def test_the_category_of_an_interval_is_the_one_answered_longest(log: WorkloadIntervals) -> None:
    ends = log.table["end"].to_numpy() - STARTED
    last = float(ends.max())
    # One request of each kind from start to end, and a second one of the first kind in the second half.
    halves = requests_of([("a", -10.0, last), ("b", -10.0, last), ("b", -10.0, last / 2), ("a", last / 2, last)])
    found = categories_of(log, halves)
    assert found is not None
    middle = np.abs(ends - last / 2) <= 10
    assert set(found[(ends < last / 2) & ~middle]) == {"b"} and set(found[(ends > last / 2) & ~middle]) == {"a"}
    assert categories_of(log, requests_of([("a", -10.0, last)])) is None
    assert categories_of(log, requests_of([("a", -10.0, 0.0), ("b", -10.0, last / 2)])) is None  # half of them know nothing
    few = categories_of(log, requests_of([("a", -10.0, last), ("b", -10.0, 0.95 * last)]))
    assert few is not None and "" not in few
    gap = categories_of(log, requests_of([("a", -10.0, 0.95 * last), ("b", -10.0, 0.5 * last)]))
    assert gap is not None and set(gap[ends > 0.95 * last + 10]) == {""}


def test_what_categories_explain(log: WorkloadIntervals) -> None:
    lines = log.lines
    assert lines is not None
    high = lines.acceptance > np.median(lines.acceptance[lines.at_least(500)])
    labels = np.where(high, "easy", "hard")
    found = interval_estimates(log, 500, [], ANALYSIS, 7, labels)
    fact = interval_facts(found, 3, [], None, [])["explained_by_workload"]
    assert 0 < fact.low < fact.value <= fact.high and fact.value > 0.4
    plain = interval_estimates(log, 500, [], ANALYSIS, 7)
    assert "explained_by_workload" not in interval_facts(plain, 3, [], None, [])
