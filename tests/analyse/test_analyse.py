"""The whole analysis on a made-up study: complete, repeatable, and clear about bad input."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analyse import Outputs, analyse, paths
from check_results import check_results
from draftmeter.analyse.calibration import KnownAnswer
from draftmeter.analyse.estimates import estimate
from draftmeter.analyse.facts import AnalysisError
from draftmeter.analyse.tables import Tables, check_tables
from draftmeter.facts import PRODUCTION_INTERVALS, Findings, Structure
from draftmeter.stats.ratios import ratio_of_sums
from draftmeter.study.schema import Study
from made_up_study import LINES, K, MadeUp, make_up, small_study

STUDY = small_study()
PRODUCTION = STUDY.report.production
CONTROLLED = STUDY.report.controlled
ROW_QUANTITIES = [
    "drafts", "draft_tokens", "accepted", "requests", "accepted_over_drafted",
    "accepted_over_checked", *(f"share_through_{k}" for k in range(1, K + 1)), *(f"chance_{k}" for k in range(1, K + 1)),
    *(f"rise_{k}" for k in range(2, K + 1)), "chance_slope", "equal_chances_p",
    "tokens_per_step", *(f"tokens_per_step_at_{k}" for k in range(1, K)), "emitted_tokens_per_step", "emitted_minus_verified",
    "tokens_per_decode_step",
    *(f"formula_{rate}" for rate in ("first_position", "checked", "accepted_over_drafted")),
    *(f"formula_{rate}_error" for rate in ("first_position", "checked", "accepted_over_drafted", "last_terms")),
    "mean_prompt_tokens", "mean_reply_tokens", "request_weighted_acceptance", "other_clients_share",
    *(f"{name}_third_{number}" for name in ("prompt", "cached") for number in (1, 2, 3)),
]  # fmt: skip
SPREAD = [
    "min_drafts", "qualifying", "share_of_lines", "share_of_draft_tokens", "p10", "p90", "min", "max", "sd_pp",
    "sampling_sd_pp", "variance_ratio", "tokens_per_step_p10", "tokens_per_step_p90", "tokens_per_step_spread",
    *(f"step_rate_correlation_{running}" for running in (1, 2, 3)),
]  # fmt: skip
OF_INTERVALS = [
    "lines", "hours_with_lines", "hours_of_counters", "lines_vs_counters_gap", "most_running",
    *(f"step_rate_{name}" for name in ("p10", "p90", "p90_over_p10", "correlation_lowest", "correlation_highest")),
    *(f"autocorrelation_{seconds}s" for seconds in (2, 6, 60, 120)),
    *(f"decay_{name}" for name in ("components", "white_share", "aic_difference")),
    *(f"decay_{name}_{what}" for name in ("fast", "slow") for what in ("s", "weight")),
    *(f"running_{number}" for number in range(6)), "running_6plus",
    "load_range_pp", "idle_minus_loaded_pp", "load_slope_pp", "explained_by_load", "explained_by_workload", "between_sd_pp",
    *(f"{name}_{k}" for name in ("dispersion", "intraclass") for k in range(1, K + 1)),
    "planning_drafts", "planning_minutes", "effective_drafts",
    *(f"fifth_{n}.{kind}_{k}" for n in range(1, 6) for kind in ("chance", "equal_chance") for k in range(1, K + 1)),
    *(f"fifth_{n}.{name}" for n in range(1, 6) for name in ("rise_2", "rise_3", "chance_slope", "equal_chances_p")),
]  # fmt: skip


def outputs(folder: Path) -> Outputs:
    folder.mkdir(exist_ok=True)
    names = ["table1", "figure1_intervals", "figure1_fifths", "figure2", "figure3", "calibration"]
    return Outputs(facts=folder / "facts.json", **{name: folder / f"{name}.csv" for name in names})


def run(made_up: MadeUp, folder: Path, out: Outputs) -> dict:
    tables, known = made_up.write(folder)
    analyse(made_up.study, tables, known, None, out)
    return json.loads(out.facts.read_text())


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, Outputs, MadeUp]:
    folder = tmp_path_factory.mktemp("study")
    made_up, out = make_up(STUDY), outputs(folder / "out")
    return run(made_up, folder, out), out, made_up


def test_facts_are_complete(analysed: tuple[dict, Outputs, MadeUp]) -> None:
    content, _, _ = analysed
    assert set(content) == {
        *("study", "setup", "facts", "labels", "structure", "findings", "differences"),
        *("table1", "claims", "comparison", "calibration", "checks"),
    }
    # Acceptance set by construction is never compared with what was published.
    assert content["claims"] == content["comparison"] == []
    facts = content["facts"]
    for workload in [PRODUCTION, *CONTROLLED]:
        assert {f"{workload}.{quantity}" for quantity in ROW_QUANTITIES} <= set(facts)
    for config in STUDY.runs.values():
        if config.streams is not None:
            assert f"{config.workload}.streams_{config.streams}.tokens_per_step" in facts
    expected = [*OF_INTERVALS, *SPREAD, *(f"t20.{name}" for name in SPREAD), *(f"t200.{name}" for name in SPREAD)]
    assert {key for key in facts if key.startswith("production_intervals.")} == {
        f"production_intervals.{name}" for name in expected
    }
    for key, fact in facts.items():
        assert list(fact) == ["value", "low", "high", "method", "n", "n_unit", "unit", "definition", "unknown"], key
        assert fact["value"] is not None or fact["unknown"], key
        assert (fact["low"] is None) == (fact["high"] is None), key
        if fact["low"] is not None:
            assert fact["low"] <= fact["value"] <= fact["high"], key


def test_the_structure_names_every_subject_and_its_parts_in_order(analysed: tuple[dict, Outputs, MadeUp]) -> None:
    content, _, _ = analysed
    structure = Structure.model_validate(content["structure"])
    assert {key.rpartition(".")[0] for key in content["facts"]} == set(structure.subjects)
    for workload in [PRODUCTION, *CONTROLLED]:
        assert structure.subjects[workload].k == K
        streams = sorted({run.streams for run in STUDY.runs.values() if run.workload == workload and run.streams})
        assert structure.parts(workload, "streams") == [f"{workload}.streams_{number}" for number in streams]
    assert structure.parts(PRODUCTION_INTERVALS, "threshold") == [f"{PRODUCTION_INTERVALS}.t{number}" for number in (20, 200)]
    assert [structure.subjects[name].number for name in structure.parts(PRODUCTION_INTERVALS, "fifth")] == [1, 2, 3, 4, 5]
    for one in (*structure.lags, *structure.running):
        assert f"{PRODUCTION_INTERVALS}.{one.quantity}" in content["facts"]
    assert [lag.seconds for lag in structure.lags] == sorted(lag.seconds for lag in structure.lags)
    assert [(mean.requests, mean.or_more) for mean in structure.running] == [(number, number == 6) for number in range(7)]


def test_findings_follow_from_where_intervals_lie(analysed: tuple[dict, Outputs, MadeUp]) -> None:
    content, _, _ = analysed
    findings, facts = Findings.model_validate(content["findings"]), content["facts"]
    assert findings.variation == "above" and facts[f"{PRODUCTION_INTERVALS}.variance_ratio"]["low"] > 1
    assert len(findings.positions_in_fifths) == 5
    assert set(findings.streams) == {key.rpartition(".")[0] for key in facts if key.endswith(".streams_slope")}
    assert set(findings.speedups) == {key.rpartition(".")[0] for key in facts if key.endswith(".speedup")}
    assert findings.margins.p == round(1 - STUDY.analysis.confidence, 12)


def test_estimates_recover_the_planted_truth(analysed: tuple[dict, Outputs, MadeUp]) -> None:
    content, _, made_up = analysed
    facts = content["facts"]
    for workload in CONTROLLED:
        requests = made_up.requests[made_up.requests["workload"] == workload]
        fact = facts[f"{workload}.accepted_over_drafted"]
        prompts = requests.groupby("prompt_sha256")[["accepted_tokens", "draft_tokens"]].sum()
        plain = ratio_of_sums(prompts["accepted_tokens"], prompts["draft_tokens"], STUDY.analysis.confidence)
        assert fact["value"] == pytest.approx(plain.value)
        assert (fact["low"], fact["high"]) == pytest.approx((plain.low, plain.high))
        assert (fact["n"], fact["n_unit"]) == (len(prompts), "prompts")
        assert fact["method"].endswith("linearised, own requests in clusters by prompt")
        step, shares = facts[f"{workload}.tokens_per_step"]["value"], [
            facts[f"{workload}.share_through_{k}"]["value"] for k in range(1, K + 1)
        ]  # fmt: skip
        assert step == pytest.approx(1 + sum(shares))
        # Made-up replies are not cut: what the steps emit is what the verifier counts.
        assert facts[f"{workload}.emitted_tokens_per_step"]["value"] == pytest.approx(step)
        formula = facts[f"{workload}.formula_first_position"]["value"]
        assert formula == pytest.approx(1 + sum(shares[0] ** k for k in range(1, K + 1)))
        assert facts[f"{workload}.formula_first_position_error"]["value"] == pytest.approx(formula / step - 1)
        assert facts[f"{workload}.emitted_minus_verified"]["value"] == pytest.approx(0, abs=1e-11)
        assert facts[f"{workload}.tokens_per_step_at_2"]["value"] == pytest.approx(1 + shares[0] + shares[1])
        rises = [100 * (facts[f"{workload}.chance_{k}"]["value"] - facts[f"{workload}.chance_{k - 1}"]["value"]) for k in (2, 3)]
        assert [facts[f"{workload}.rise_{k}"]["value"] for k in (2, 3)] == pytest.approx(rises)
        assert facts[f"{workload}.mean_prompt_tokens"]["value"] == pytest.approx(requests["prompt_tokens"].mean())
        assert facts[f"{workload}.mean_reply_tokens"]["value"] == pytest.approx(requests["reply_tokens"].mean())
        by_request = (requests["accepted_tokens"] / requests["draft_tokens"])[requests["draft_tokens"] > 0].mean()
        assert facts[f"{workload}.request_weighted_acceptance"]["value"] == pytest.approx(by_request)
        assert facts[f"{workload}.other_clients_share"]["value"] == 0


def test_production_clusters_are_sessions(analysed: tuple[dict, Outputs, MadeUp]) -> None:
    content, _, made_up = analysed
    requests = made_up.requests[made_up.requests["workload"] == PRODUCTION]
    fact = content["facts"][f"{PRODUCTION}.share_through_1"]
    assert (fact["n"], fact["n_unit"]) == (requests["session_id"].nunique(), "sessions")
    assert fact["method"].endswith("linearised, own requests in clusters by session")


def test_a_prompt_sent_at_several_numbers_of_streams_is_one_cluster(analysed: tuple[dict, Outputs, MadeUp]) -> None:
    content, _, made_up = analysed
    runs = made_up.counters.groupby("workload")["run"].nunique()
    workload = next(name for name in CONTROLLED if runs[name] > 1)
    requests = made_up.requests[made_up.requests["workload"] == workload]
    whole = content["facts"][f"{workload}.share_through_2"]
    assert whole["n"] == requests["prompt_sha256"].nunique() < len(requests)
    by_run = requests.groupby("run")
    for run, config in STUDY.runs.items():
        if config.workload == workload:
            part = content["facts"][f"{workload}.streams_{config.streams}.share_through_2"]
            assert (part["n"], part["n_unit"]) == (len(by_run.get_group(run)), "prompts")


def test_interval_facts(analysed: tuple[dict, Outputs, MadeUp]) -> None:
    content, out, made_up = analysed
    facts = {key.removeprefix("production_intervals."): fact for key, fact in content["facts"].items()}
    lines = made_up.intervals
    chosen = lines[lines["drafts"] >= STUDY.analysis.min_drafts]
    acceptance = chosen["accepted"] / chosen["drafted"]
    assert facts["lines"]["value"] == LINES and facts["qualifying"]["value"] == len(chosen)
    assert facts["share_of_draft_tokens"]["value"] == pytest.approx(chosen["drafted"].sum() / lines["drafted"].sum())
    assert facts["p10"]["value"] == pytest.approx(np.percentile(acceptance, 10))
    assert facts["sd_pp"]["value"] == pytest.approx(100 * acceptance.std())
    ratio = facts["variance_ratio"]
    assert ratio["value"] == pytest.approx((facts["sd_pp"]["value"] / facts["sampling_sd_pp"]["value"]) ** 2)
    assert 1 < ratio["low"] < ratio["value"] < ratio["high"]
    assert "stationary bootstraps" in ratio["method"] and "degrees of freedom" in ratio["method"]
    assert facts["min"]["low"] is None and facts["min"]["unknown"] is None
    assert 0 < facts["autocorrelation_2s"]["value"] < 0.6
    assert facts["hours_of_counters"]["value"] == pytest.approx(400 / 3600) and facts["most_running"]["value"] == 3
    assert facts["hours_with_lines"]["value"] == pytest.approx(lines["window_s"].sum() / 3600)
    counted = made_up.counters.loc[made_up.counters["workload"] == PRODUCTION, "draft_tokens"].sum()
    assert facts["lines_vs_counters_gap"]["value"] == pytest.approx(lines["drafted"].sum() / counted - 1)
    assert facts["fifth_1.chance_1"]["value"] < facts["fifth_1.equal_chance_1"]["value"]
    assert facts["fifth_5.chance_1"]["value"] > facts["fifth_5.equal_chance_1"]["value"]
    assert facts["fifth_1.equal_chance_1"]["low"] is None and "closed form" in facts["fifth_1.equal_chance_1"]["method"]
    assert facts["fifth_1.rise_2"]["value"] == pytest.approx(
        100 * (facts["fifth_1.chance_2"]["value"] - facts["fifth_1.chance_1"]["value"])
    )
    rows = rows_of(out.figure1_intervals)
    assert [float(row["acceptance"]) for row in rows] == pytest.approx(acceptance.tolist())


def test_tables_for_the_paper(analysed: tuple[dict, Outputs, MadeUp]) -> None:
    content, out, _ = analysed
    facts = content["facts"]
    table1 = rows_of(out.table1)
    assert [row["workload"] for row in table1] == [PRODUCTION, *CONTROLLED]
    assert [row["role"] for row in table1] == ["production"] + ["controlled"] * len(CONTROLLED)
    for row in table1:
        assert float(row["tokens_per_step"]) == facts[f"{row['workload']}.tokens_per_step"]["value"]
        assert row["drafts"] == str(int(facts[f"{row['workload']}.drafts"]["value"]))
    for row in content["table1"]:
        assert row["drafts"] == facts[f"{row['workload']}.drafts"]["value"]
        assert row["formula_first_position_error"] in facts
    fifths = rows_of(out.figure1_fifths)
    assert list(fifths[0]) == ["fifth", "position", "chance", "low", "high", "equal_chances"]
    assert [(row["fifth"], row["position"]) for row in fifths] == [(str(n), str(k)) for n in range(1, 6) for k in (1, 2, 3)]
    assert float(fifths[4]["chance"]) == facts["production_intervals.fifth_2.chance_2"]["value"]
    assert len(rows_of(out.calibration)) == len(content["calibration"]) > 0


def test_setup_and_checks(analysed: tuple[dict, Outputs, MadeUp]) -> None:
    content, _, made_up = analysed
    assert [row["server"] for row in content["setup"]] == sorted(STUDY.servers)
    row = content["setup"][0]
    assert (row["k"], row["starts"], row["attempts"]) == (K, 1, [])
    assert row["corrections"] == ["made_up_correction"]
    assert content["study"]["z_limit"] == STUDY.analysis.z_limit
    assert row["hardware"] == "Made-up CPU, 2 cores, 8 GiB"
    count = len(made_up.counters)
    assert content["checks"] == {
        "accepted against requests": {"ok": count, "failed": 0, "unknown": 0, "max_abs_residual": 0, "unit": "tokens"},
        "lines against counters": {"ok": 0, "failed": 0, "unknown": count, "max_abs_residual": None, "unit": "tokens"},
    }


def test_same_input_same_bytes(analysed: tuple[dict, Outputs, MadeUp], tmp_path: Path) -> None:
    _, first, made_up = analysed
    shuffled = MadeUp(**{**vars(made_up), "requests": made_up.requests.sample(frac=1, random_state=1)})
    for again, name in ((made_up, "again"), (shuffled, "shuffled")):
        (tmp_path / name).mkdir()
        second = outputs(tmp_path / name / "out")
        run(again, tmp_path / name, second)
        for path, other in zip(vars(first).values(), vars(second).values(), strict=True):
            assert path.read_bytes() == other.read_bytes()


def test_checked_is_written_only_when_everything_passes(analysed: tuple[dict, Outputs, MadeUp], tmp_path: Path) -> None:
    _, out, made_up = analysed
    checked, checks = tmp_path / "checked.json", tmp_path / "checks.parquet"
    made_up.checks.to_parquet(checks)
    check_results(out.calibration, checks, checked)
    first = checked.read_bytes()
    check_results(out.calibration, checks, checked)
    assert checked.read_bytes() == first
    checked.unlink()
    made_up.checks.assign(status="failed", found=1.0).to_parquet(checks)
    with pytest.raises(ValueError, match="cross-checks failed"):
        check_results(out.calibration, checks, checked)
    assert not checked.exists()


def facts_of(made_up: MadeUp, tmp_path: Path) -> dict:
    return run(made_up, tmp_path, outputs(tmp_path / "out"))["facts"]


def test_other_clients_leave_the_value_and_take_the_interval(tmp_path: Path) -> None:
    made_up = make_up(STUDY)
    requests = made_up.requests
    workload = CONTROLLED[0]
    mine = requests.index[requests["workload"] == workload]
    made_up.requests = requests.drop(mine[: len(mine) // 2])
    fact = facts_of(made_up, tmp_path)[f"{workload}.tokens_per_step"]
    assert fact["value"] is not None and fact["low"] is None
    assert "of the server's drafts" in fact["unknown"]


def test_few_or_incomplete_lines_are_unknown_with_a_reason(tmp_path: Path) -> None:
    made_up = make_up(STUDY)
    made_up.intervals = made_up.intervals.head(20).astype({"accepted_2": "Int64"})
    made_up.intervals.loc[3, "accepted_2"] = pd.NA
    facts = facts_of(made_up, tmp_path)
    assert facts["production_intervals.p10"]["value"] is not None
    assert facts["production_intervals.p10"]["unknown"].startswith("too short")
    for name in ("variance_ratio", "sampling_sd_pp", "fifth_1.chance_1", "fifth_5.equal_chance_3"):
        fact = facts[f"production_intervals.{name}"]
        assert fact["value"] is None and fact["unknown"] == "a line gives no acceptance by position"
    assert facts["production_intervals.autocorrelation_120s"]["unknown"] == "no line to make it of"
    assert facts["production_intervals.decay_fast_s"]["value"] is None


@pytest.mark.parametrize("lines", [0, 1, 4])
def test_almost_no_lines(lines: int, tmp_path: Path) -> None:
    made_up = make_up(STUDY)
    busy = made_up.intervals[made_up.intervals["drafts"] >= STUDY.analysis.min_drafts]
    made_up.intervals = busy.head(lines)
    facts = facts_of(made_up, tmp_path)
    assert facts["production_intervals.qualifying"]["value"] == lines
    assert facts["production_intervals.fifth_1.chance_1"]["unknown"]
    assert (facts["production_intervals.p90"]["value"] is None) == (lines == 0)
    assert (facts["production_intervals.sd_pp"]["value"] is None) == (lines < 2)
    if lines == 1:
        reason = "too short: 1 intervals with at least 100 drafts, at least 3 are needed"
        assert facts["production_intervals.autocorrelation_2s"]["unknown"] == reason
    positions = "a line gives no acceptance by position"
    assert positions not in {fact["unknown"] for key, fact in facts.items() if key.startswith("production_intervals.")}


def test_series_of_two_boots_are_not_joined(tmp_path: Path) -> None:
    config = STUDY.model_dump(mode="json")
    server = next(name for name, s in STUDY.servers.items() if any(STUDY.runs[r].workload == PRODUCTION for r in s.runs))
    config["servers"][server]["boots"] = 2
    study = Study.model_validate(config)
    facts = facts_of(make_up(study), tmp_path)
    qualifying = facts["production_intervals.qualifying"]["value"]
    assert facts["production_intervals.lines"]["value"] == 2 * LINES
    # Both boots have the same time stamps: joined, lines of one would pair with lines of the other.
    assert facts["production_intervals.autocorrelation_2s"]["n"] < qualifying


@pytest.mark.parametrize("table", ["counters", "intervals", "requests"])
def test_missing_position_column_is_a_clear_error(table: str, tmp_path: Path) -> None:
    made_up = make_up(STUDY)
    setattr(made_up, table, getattr(made_up, table).drop(columns="accepted_3"))
    with pytest.raises(AnalysisError, match=rf"table {table}: column\(s\) accepted_3 missing \(K = 3\)"):
        run(made_up, tmp_path, outputs(tmp_path / "out"))
    assert not (tmp_path / "out" / "facts.json").exists()


def tables_of(made_up: MadeUp) -> Tables:
    return Tables(made_up.counters, made_up.intervals, made_up.requests, made_up.checks, made_up.runs)


def test_attempts_are_never_pooled() -> None:
    made_up = make_up(STUDY)
    again = made_up.counters.head(1).assign(attempt=2)
    with pytest.raises(AnalysisError, match=r"has 2 rows \(attempts \[1, 2\]\)"):
        check_tables(Tables(pd.concat([made_up.counters, again]), *tables_of(made_up).all()[1:]))
    strangers = pd.concat([made_up.intervals, made_up.intervals.head(1).assign(attempt=2)])
    with pytest.raises(AnalysisError, match="attempt-2"):
        check_tables(Tables(made_up.counters, strangers, made_up.requests, made_up.checks, made_up.runs))
    with pytest.raises(AnalysisError, match="table runs: found no row of "):
        check_tables(Tables(*tables_of(made_up).all()[:-1], made_up.runs.iloc[1:]))
    with pytest.raises(AnalysisError, match=r"table runs: column\(s\) hardware missing"):
        check_tables(Tables(*tables_of(made_up).all()[:-1], made_up.runs.drop(columns="hardware")))


def test_records_that_do_not_fit_the_study() -> None:
    made_up = make_up(STUDY)
    with pytest.raises(AnalysisError, match="without a known_answer"):
        estimate(STUDY, tables_of(made_up), None, None)
    with pytest.raises(AnalysisError, match="not in the config"):
        unknown = made_up.counters.assign(workload="other")
        estimate(STUDY, Tables(unknown, *tables_of(made_up).all()[1:]), _no_answers(), None)
    with pytest.raises(AnalysisError, match=f"no record of workload '{CONTROLLED[0]}'"):
        fewer = made_up.counters[made_up.counters["workload"] != CONTROLLED[0]]
        estimate(STUDY, Tables(fewer, *tables_of(made_up).all()[1:]), _no_answers(), None)
    with pytest.raises(AnalysisError, match=r"K = \[3, 4\]"):
        mixed = made_up.counters.assign(k=[4 if n % 2 else 3 for n in range(len(made_up.counters))])
        _ = Tables(mixed, *tables_of(made_up).all()[1:]).k


def _no_answers() -> KnownAnswer:
    return KnownAnswer("known_answer.json", {})


def test_counter_that_is_missing_in_a_record(tmp_path: Path) -> None:
    made_up = make_up(STUDY)
    made_up.counters = made_up.counters.astype({"generation_tokens": "Int64", "accepted": "Int64"})
    made_up.counters.loc[made_up.counters["workload"] == CONTROLLED[0], "generation_tokens"] = pd.NA
    fact = facts_of(made_up, tmp_path)[f"{CONTROLLED[0]}.emitted_tokens_per_step"]
    assert fact["value"] is None and "generated tokens" in fact["unknown"]
    made_up.counters.loc[0, "accepted"] = pd.NA
    (tmp_path / "second").mkdir()
    facts = facts_of(made_up, tmp_path / "second")
    workload = made_up.counters.loc[0, "workload"]
    for quantity in ("accepted", "accepted_over_drafted", "tokens_per_step"):
        assert facts[f"{workload}.{quantity}"]["unknown"] == "a record lacks the counter of accepted tokens"
    assert facts[f"{workload}.share_through_1"]["value"] is not None


@pytest.mark.parametrize(
    ("workload", "column", "value", "reason"),
    [
        (CONTROLLED[0], "accepted_2", -7, "counter accepted_2 fell by 7 during "),
        (CONTROLLED[0], "generation_tokens", -1, "counter generation_tokens fell by 1 during "),
        (PRODUCTION, "draft_tokens", -(10**9), "counter draft_tokens fell by 1e"),
        (PRODUCTION, "accepted_3", 10**9, "nor rise along the draft"),
    ],
)
def test_impossible_counters_are_unknown_facts_and_the_checks_get_their_say(
    workload: str, column: str, value: int, reason: str, tmp_path: Path
) -> None:
    made_up = make_up(STUDY)
    record = made_up.counters.index[made_up.counters["workload"] == workload][0]
    made_up.counters.loc[record, column] = value
    facts = facts_of(made_up, tmp_path)
    for quantity in ROW_QUANTITIES:
        fact = facts[f"{workload}.{quantity}"]
        assert (fact["value"], fact["low"], fact["high"]) == (None, None, None)
        assert reason in fact["unknown"] and fact["unknown"].endswith("; see the failed cross-checks")
    other = CONTROLLED[1]
    assert all(facts[f"{other}.{quantity}"]["value"] is not None for quantity in ROW_QUANTITIES)
    assert len(rows_of(tmp_path / "out" / "calibration.csv")) > 0
    assert (facts["production_intervals.lines_vs_counters_gap"]["value"] is None) == (column == "draft_tokens")


def test_broken_files(tmp_path: Path) -> None:
    made_up = make_up(STUDY)
    tables, known = made_up.write(tmp_path)
    tables["counters"].write_text("not a table")
    with pytest.raises(AnalysisError, match=r"counters\.parquet: cannot be read"):
        analyse(STUDY, tables, known, None, outputs(tmp_path / "out"))


def test_inputs_of_a_rule() -> None:
    assert paths(None) == paths([]) == []
    assert paths("a.json") == [Path("a.json")]
    assert paths(["b.json", "a.json"]) == [Path("a.json"), Path("b.json")]


def test_no_fact_is_infinite(analysed: tuple[dict, Outputs, MadeUp]) -> None:
    values = [fact[name] for fact in analysed[0]["facts"].values() for name in ("value", "low", "high")]
    assert all(value is None or math.isfinite(value) for value in values)
