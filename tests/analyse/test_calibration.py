"""Measured against exact: what passes, what fails, and what cannot be said."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from chance import ERRORS
from draftmeter.analyse.calibration import COLUMNS, calibrate, read_known_answer
from draftmeter.analyse.checked import CheckFailed, check_rows, judge, read_calibration
from draftmeter.analyse.facts import AnalysisError
from draftmeter.analyse.tables import Tables, write_csv
from draftmeter.facts import CalibrationRow
from made_up_study import K, MadeUp, known_answer, make_up, mean_drafts, shares_of, small_study

STUDY = small_study()
CONTROLLED = STUDY.report.controlled[0]
RUN = next(name for name, run in STUDY.runs.items() if run.workload == CONTROLLED)


def tables_of(made_up: MadeUp) -> Tables:
    return Tables(made_up.counters, made_up.intervals, made_up.requests, made_up.checks, made_up.runs)


def known_of(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "known_answer.json"
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def made_up() -> MadeUp:
    return make_up(STUDY)


def calibrated(made_up: MadeUp, tmp_path: Path) -> list[CalibrationRow]:
    known = read_known_answer(known_of(tmp_path, made_up.known_answer))
    return calibrate(STUDY, tables_of(made_up), known)


def rows_of(rows: list[CalibrationRow], subject: str) -> list[CalibrationRow]:
    return [row for row in rows if row.subject == subject]


def test_right_server_passes_and_every_subject_is_there(made_up: MadeUp, tmp_path: Path) -> None:
    rows = calibrated(made_up, tmp_path)
    assert {row.status for row in rows} == {"ok"}
    production = STUDY.report.production
    groups = {f"{run}: {c}" for run, config in STUDY.runs.items() if config.workload == production
              for c in STUDY.workloads[production].categories}  # fmt: skip
    controlled = {run for server in STUDY.servers.values() for run in server.runs
                  if STUDY.runs[run].workload != production}  # fmt: skip
    assert {row.subject for row in rows} == groups | controlled
    assert len(rows) == (K + 2) * len(groups | controlled)
    assert sum(row.drafts for row in rows) == (K + 2) * made_up.counters["drafts"].sum()


def test_row_of_one_setting_by_hand(made_up: MadeUp, tmp_path: Path) -> None:
    run = next(name for name, run in STUDY.runs.items() if _one_setting(run.workload))
    requests = made_up.requests[made_up.requests["run"] == run]
    drafts, shares = requests["drafts"].sum(), shares_of(STUDY, requests["category"].iloc[0])
    *through, step, emitted = rows_of(calibrated(made_up, tmp_path), run)
    for position, row in enumerate(through, start=1):
        share = shares[position - 1]
        assert row.quantity == f"share through {position}"
        assert row.exact == pytest.approx(share)
        assert row.measured == pytest.approx(requests[f"accepted_{position}"].sum() / drafts)
        # Drafts of the made-up server are independent, their number is a Poisson variable: the variance of
        # accepted - share * drafts is E[drafts] * share * (1 - share).
        expected_drafts = len(requests) * mean_drafts(STUDY.workloads[STUDY.runs[run].workload].sampling.max_tokens[0])
        assert row.standard_error == pytest.approx(np.sqrt(expected_drafts * share * (1 - share)) / drafts)
        assert row.z == pytest.approx((row.measured - row.exact) / row.standard_error)
    assert (step.quantity, emitted.quantity) == ("tokens per step", "emitted tokens per step")
    assert step.exact == emitted.exact == pytest.approx(1 + shares.sum())
    assert step.measured == pytest.approx(1 + requests["accepted_tokens"].sum() / drafts)
    assert emitted.measured == pytest.approx((requests["reply_tokens"] - 1).sum() / drafts)


def _one_setting(name: str) -> bool:
    workload = STUDY.workloads[name]
    return not workload.sessions and len(workload.categories) == len(workload.sampling.max_tokens) == 1


def test_wrong_server_fails(made_up: MadeUp, tmp_path: Path) -> None:
    made_up.requests["accepted_3"] = made_up.requests["accepted_3"] // 4
    rows = calibrated(made_up, tmp_path)
    failed = {row.quantity for row in rows if row.status == "failed"}
    assert failed >= {"share through 3"}
    assert all(abs(row.z) > STUDY.analysis.z_limit for row in rows if row.status == "failed")
    assert all(row.status == "ok" for row in rows if row.quantity == "share through 1")


def test_z_is_a_standard_normal_variable_for_a_mixed_run(tmp_path: Path) -> None:
    # One run of two groups far apart and few requests: neither may blunt or sharpen the comparison.
    config = STUDY.model_dump(mode="json")
    categories = sorted(next(iter(config["models"].values()))["groups"])
    means = {c: shares_of(STUDY, c).sum() for c in categories}
    config["workloads"][CONTROLLED]["categories"] = [min(means, key=means.get), max(means, key=means.get)]
    study = STUDY.model_validate(config)
    known = read_known_answer(known_of(tmp_path, known_answer(study)))
    z = []
    for seed in range(60):
        made_up = make_up(study, seed)
        one = Tables(made_up.counters, made_up.intervals, made_up.requests, made_up.checks, made_up.runs)
        one = one.of_runs(made_up.counters[made_up.counters["run"] == RUN])
        z.append([row.z for row in calibrate(study, one, known)])
    # The spread and the mean of 60 values, with five standard errors of both.
    assert np.std(z, axis=0) == pytest.approx(np.ones(len(z[0])), abs=ERRORS / np.sqrt(2 * 60))
    assert np.mean(z, axis=0) == pytest.approx(np.zeros(len(z[0])), abs=ERRORS / np.sqrt(60))


def test_error_or_missing_metrics_make_the_row_unknown(made_up: MadeUp, tmp_path: Path) -> None:
    first = made_up.requests.index[made_up.requests["run"] == RUN][0]
    columns = ["drafts", "accepted_1", "accepted_2", "accepted_3"]
    made_up.requests = made_up.requests.astype(dict.fromkeys(columns, "Int64"))
    made_up.requests.loc[first, columns] = pd.NA
    for row in rows_of(calibrated(made_up, tmp_path), RUN):
        assert (row.status, row.z, row.measured) == ("unknown", None, None)
        assert row.exact is not None and row.reason == "0 requests ended in an error, 1 more carry no acceptance"
    made_up.requests.loc[first, "error"] = "timed out"
    reasons = {row.reason for row in rows_of(calibrated(made_up, tmp_path), RUN)}
    assert reasons == {"1 requests ended in an error, 0 more carry no acceptance"}


def test_too_few_drafts_are_unknown(made_up: MadeUp, tmp_path: Path) -> None:
    requests = made_up.requests
    made_up.requests = requests[(requests["run"] != RUN) | (requests["request_id"] < "request-0002")]
    rows = rows_of(calibrated(made_up, tmp_path), RUN)
    assert {row.status for row in rows} == {"unknown"} and all("at least 100" in row.reason for row in rows)
    assert all(row.measured is not None for row in rows)


def test_group_without_requests_is_a_row(made_up: MadeUp, tmp_path: Path) -> None:
    production = STUDY.report.production
    gone = STUDY.workloads[production].categories[0]
    requests = made_up.requests
    made_up.requests = requests[(requests["workload"] != production) | (requests["category"] != gone)]
    run = next(name for name, run in STUDY.runs.items() if run.workload == production)
    rows = rows_of(calibrated(made_up, tmp_path), f"{run}: {gone}")
    assert [row.reason for row in rows] == ["no request"] * (K + 2)


def test_missing_entry_and_malformed_file_are_clear_errors(made_up: MadeUp, tmp_path: Path) -> None:
    missing = made_up.known_answer["settings"][-1]
    decides = ("category", "temperature", "top_p", "top_k", "max_tokens")
    made_up.known_answer["settings"] = [
        entry for entry in made_up.known_answer["settings"] if any(entry[key] != missing[key] for key in decides)
    ]
    with pytest.raises(AnalysisError, match=f"no entry for category {missing['category']}.*max_tokens"):
        calibrated(made_up, tmp_path)
    made_up.known_answer["settings"] = [{**entry, "accepted": [1.0]} for entry in known_answer(STUDY)["settings"]]
    with pytest.raises(AnalysisError, match="has 1 positions; the records have K = 3"):
        calibrated(made_up, tmp_path)
    with pytest.raises(AnalysisError, match=r"not a known_answer\.json"):
        read_known_answer(known_of(tmp_path, {"groups": []}))
    with pytest.raises(AnalysisError, match=r"not a known_answer\.json"):
        read_known_answer(tmp_path / "nowhere.json")


def test_several_boots_are_compared_one_by_one(tmp_path: Path) -> None:
    config = STUDY.model_dump(mode="json")
    server = next(name for name, server in STUDY.servers.items() if RUN in server.runs)
    config["servers"][server]["boots"] = 2
    study = STUDY.model_validate(config)
    made_up = make_up(study)
    known = read_known_answer(known_of(tmp_path, made_up.known_answer))
    subjects = {row.subject for row in calibrate(study, tables_of(made_up), known) if row.run == RUN}
    assert subjects == {f"{RUN}, boot-1", f"{RUN}, boot-2"}


def test_verdict(made_up: MadeUp, tmp_path: Path) -> None:
    rows = calibrated(made_up, tmp_path)
    path, checks = tmp_path / "calibration.csv", tmp_path / "checks.parquet"
    write_csv(path, COLUMNS, [row.model_dump(mode="json") for row in rows])
    made_up.checks.to_parquet(checks)
    assert read_calibration(path) == rows
    verdict = judge(rows, check_rows(checks))
    assert verdict["calibration"]["ok"] == len(rows) and verdict["calibration"]["failed"] == 0
    assert 0 < verdict["calibration"]["max_abs_z"] <= STUDY.analysis.z_limit
    assert verdict["checks"]["unknown"] == len(verdict["checks"]["unknown_rows"]) == len(made_up.counters)
    assert verdict["checks"]["unknown_rows"][0]["reason"] == "the log has no line of this run"


def test_verdict_names_what_failed(made_up: MadeUp, tmp_path: Path) -> None:
    made_up.requests["accepted_3"] //= 4
    checks = made_up.checks.copy()
    checks.loc[0, ["status", "found", "residual", "reason"]] = ["failed", 7.0, 2.0, "found 7, expected 5"]
    checks.to_parquet(tmp_path / "checks.parquet")
    with pytest.raises(CheckFailed) as failure:
        judge(calibrated(made_up, tmp_path), check_rows(tmp_path / "checks.parquet"))
    text = str(failure.value)
    assert "share through 3" in text and "share through 1" not in text and RUN in text
    line = next(line for line in text.splitlines() if "accepted against requests" in line)
    assert "attempt-1" in line and line.split()[-3:] == ["5", "7", "tokens"]


def test_unknown_fails_only_where_nothing_could_be_checked(made_up: MadeUp, tmp_path: Path) -> None:
    rows = [row.model_copy(update={"status": "unknown", "z": None, "reason": "no metrics"})
            for row in calibrated(made_up, tmp_path)]  # fmt: skip
    made_up.checks.to_parquet(tmp_path / "checks.parquet")
    checks = check_rows(tmp_path / "checks.parquet")
    with pytest.raises(CheckFailed, match=f"calibration: none of the {len(rows)} rows could be checked: no metrics"):
        judge(rows, checks)
    with pytest.raises(CheckFailed, match="nothing to check"):
        judge([], [])
    assert judge([], checks)["calibration"]["max_abs_z"] is None  # a served model has no exact figures


def test_one_request_without_acceptance_fails_the_study(made_up: MadeUp, tmp_path: Path) -> None:
    first = made_up.requests.index[made_up.requests["run"] == RUN][0]
    made_up.requests = made_up.requests.astype({"drafts": "Int64"})
    made_up.requests.loc[first, "drafts"] = pd.NA
    with pytest.raises(CheckFailed, match=f"not compared with the exact figures: {RUN}: 0 requests ended in an error, 1 more"):
        judge(calibrated(made_up, tmp_path), [])


def test_calibration_csv_of_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calibration.csv"
    path.write_text("server,z\nproduction,1\n")
    with pytest.raises(AnalysisError, match="found columns"):
        read_calibration(path)
    path.write_text(",".join(COLUMNS) + "\n" + ",".join(["s", "r", "s", "q", "1", "1", "x", "1", "1", "1", "ok", ""]) + "\n")
    with pytest.raises(AnalysisError, match="line 2"):
        read_calibration(path)
