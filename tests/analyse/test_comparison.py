"""Published figures stand beside the facts that can be compared with them, and beside no others."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from draftmeter.analyse.calibration import KnownAnswer
from draftmeter.analyse.comparison import read_published
from draftmeter.analyse.estimates import Estimates, estimate
from draftmeter.analyse.facts import AnalysisError
from draftmeter.analyse.tables import Tables
from draftmeter.stats.simulate import PUBLISHED_LIKE, Decay
from made_up_study import make_up, small_study
from simulated_study import PUBLISHED, Planted, analysed, config, tables_of

SHORT = replace(PUBLISHED_LIKE, decays=(Decay(0.6, 15.0),))


def compared(estimates: Estimates) -> dict[str, dict]:
    rows = {row["key"]: row for row in estimates.facts["comparison"]}
    assert rows.keys() <= estimates.facts["facts"].keys()
    return rows


@pytest.fixture(scope="module")
def ten_seconds() -> Estimates:
    return analysed(Planted(SHORT, slots=3000, others={8: 5000}))


def test_each_printed_figure_of_production_stands_beside_its_fact(ten_seconds: Estimates) -> None:
    rows = compared(ten_seconds)
    published = yaml.safe_load(PUBLISHED.read_text())["production"]
    expected = {
        "traffic.accepted_over_drafted": published["accepted_over_drafted"],
        "traffic.share_through_3": published["share_through"][2],
        "traffic.chance_2": published["chance_at"][1],
        "traffic.formula_checked": published["formula"]["checked"]["value"],
        "traffic.formula_accepted_over_drafted_error": published["formula"]["accepted_over_drafted"]["error"],
        "traffic.formula_last_terms_error": published["formula"]["first_position"]["error_last_terms"],
        "traffic.requests": published["requests_finished"],
        "production_intervals.qualifying": published["intervals"][500]["number"],
        "production_intervals.sd_pp": published["intervals"][500]["sd_pp"],
        "production_intervals.t100.tokens_per_step_spread": published["intervals"][100]["tokens_per_step_spread"],
        "production_intervals.autocorrelation_300s": published["autocorrelation"][300],
        "production_intervals.running_0": published["mean_by_running"]["0"],
        "production_intervals.running_6plus": published["mean_by_running"]["6+"],
        "production_intervals.fifth_5.chance_3": published["fifths"]["highest"][2],
        "production_intervals.step_rate_correlation_lowest": -0.19,
        "production_intervals.step_rate_p90_over_p10": 2.3,
        "production_intervals.lines_vs_counters_gap": published["largest_gap_lines_to_counters"],
    }
    for key, value in expected.items():
        assert rows[key]["published"] == value, key
    assert rows["traffic.accepted_over_drafted"]["printed"] == "0.660"
    assert rows["traffic.drafts"]["printed"] == "4.58e+6"
    assert rows["production_intervals.lines_vs_counters_gap"]["note"] == "printed without a sign"
    assert not any(row["note"] for key, row in rows.items() if key.startswith("traffic."))


def test_every_figure_of_production_in_the_file_is_compared(ten_seconds: Estimates) -> None:
    published = read_published(PUBLISHED)
    figures = [keys for keys, _ in published.figures("production") if keys[-1] != "min_drafts"]
    beside = [key for key in compared(ten_seconds) if key.startswith(("traffic.", "production_intervals."))]
    assert len(beside) == len(figures)


def test_controlled_workloads_stand_beside_those_that_the_config_names(ten_seconds: Estimates) -> None:
    rows = compared(ten_seconds)
    assert rows["pair-on.accepted_over_drafted"]["published"] == 0.545
    assert rows["pair-off.accepted_over_drafted"]["published"] == 0.706
    assert rows["pair-off.mean_reply_tokens"]["published"] == 375
    assert rows["synthetic.accepted_over_drafted"]["published"] == 0.704
    assert rows["synthetic.under_1_percent.accepted_over_drafted"]["published"] == 0.714
    assert rows["synthetic.streams_8.accepted_over_drafted"]["published"] == 0.758
    assert rows["synthetic.streams_8.accepted_over_drafted"]["note"].startswith("all runs; the published figure is of runs with")
    assert "synthetic.streams_16.accepted_over_drafted" not in rows  # no such run here
    undisturbed = compared(analysed(Planted(SHORT, slots=500)))
    assert "synthetic.under_1_percent.accepted_over_drafted" not in undisturbed
    assert undisturbed["synthetic.streams_8.accepted_over_drafted"]["note"] == ""
    archive = config()
    report = archive.report.model_copy(update={"published": {}})
    none = compared(analysed(Planted(SHORT, slots=500), archive.model_copy(update={"report": report})))
    assert not [key for key in none if not key.startswith(("traffic.", "production_intervals."))]


@pytest.mark.parametrize("interval_s", [2.0, 5.0])
def test_shorter_intervals_are_joined_to_ten_seconds(interval_s: float) -> None:
    server = replace(SHORT, interval_s=interval_s)
    estimates = analysed(Planted(server, slots=round(10_000 / interval_s)), config(round(50 * interval_s), (10, 500)))
    facts, rows = estimates.facts["facts"], compared(estimates)
    of_intervals = {key for key in rows if key.startswith("production_intervals")}
    assert "production_intervals_10s.variance_ratio" in of_intervals
    own = {"hours_of_counters", "most_running", "lines_vs_counters_gap"}
    assert {key.rpartition(".")[2] for key in of_intervals if key.startswith("production_intervals.")} == own
    assert facts["production_intervals_10s.lines"]["method"] == "log lines, joined to 10 s"
    assert facts["production_intervals_10s.min_drafts"]["value"] == 500
    joined, short = facts["production_intervals_10s.lines"]["value"], facts["production_intervals.lines"]["value"]
    assert short / (10 / interval_s) < joined < short
    # The same drafts, at least as many in each interval.
    assert facts["production_intervals_10s.share_of_draft_tokens"]["value"] > 0.8
    claim = next(claim for claim in estimates.facts["claims"] if claim["name"] == "overdispersed")
    assert claim["facts"] == ["production_intervals_10s.variance_ratio"]
    assert f"production_intervals.autocorrelation_{interval_s:g}s" in facts


def test_intervals_that_do_not_divide_ten_seconds_are_not_compared() -> None:
    estimates = analysed(Planted(replace(SHORT, interval_s=4.0), slots=1500, long_enough=True), config(200, (50, 400)))
    keys = set(compared(estimates))
    assert not [key for key in keys if "variance_ratio" in key or "running_" in key or "autocorrelation" in key]
    assert "traffic.accepted_over_drafted" in keys
    claims = {claim["name"]: claim for claim in estimates.facts["claims"]}
    assert claims["drift_gone"]["reason"] == "the study has no such figure"
    assert claims["overdispersed"]["outcome"] == "holds"  # it needs no length


def test_another_threshold_is_not_compared() -> None:
    estimates = analysed(Planted(SHORT, slots=500), config(400, (100, 1000)))
    assert "production_intervals.p10" not in compared(estimates)


def test_another_number_of_draft_tokens_is_said() -> None:
    tables = tables_of(Planted(SHORT, slots=300), seed=1)
    two = [table.drop(columns="accepted_3", errors="ignore") for table in tables.all()]
    lines, counters = two[1], two[0]
    lines["accepted"] = lines["accepted_1"] + lines["accepted_2"]
    two[1] = lines.assign(k=2, drafted=2 * lines["drafts"])
    two[0] = counters.assign(k=2, draft_tokens=2 * counters["drafts"], accepted=counters["accepted_1"] + counters["accepted_2"])
    rows = compared(estimate(config(), Tables(*two), None, read_published(PUBLISHED)))
    assert rows["traffic.chance_2"]["note"] == "drafts of 2 tokens here, of 3 there"
    assert "traffic.chance_3" not in rows and rows["traffic.mean_reply_tokens"]["note"] == ""


def test_a_known_answer_study_is_never_compared() -> None:
    study = small_study()
    made_up = make_up(study)
    tables = Tables(made_up.counters, made_up.intervals, made_up.requests, made_up.checks, made_up.runs)
    with pytest.raises(AnalysisError, match="what was set by construction is never compared"):
        estimate(study, tables, KnownAnswer("known_answer.json", {}), read_published(PUBLISHED))


@pytest.mark.parametrize(
    ("text", "reason"),
    [(": [", "cannot be read as YAML"), ("production: {}\ncontrolled: {}\n", "no key claims"), ("", "no key production")],
)
def test_an_unusable_file_is_a_clear_error(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "published.yaml"
    path.write_text(text)
    with pytest.raises(AnalysisError, match=rf"published\.yaml: {reason}"):
        read_published(path)
    with pytest.raises(AnalysisError, match="cannot be read"):
        read_published(tmp_path / "none.yaml")


def test_a_missing_figure_is_a_clear_error() -> None:
    with pytest.raises(AnalysisError, match=r"no key production\.none"):
        list(read_published(PUBLISHED).figures("production", "none", "deeper"))
