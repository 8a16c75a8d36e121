"""The default study, a tenth of its size, on a real vLLM server: from nothing to the paper, and what must hold afterwards."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml

from study_run import ROOT, paper_bytes, remove, server_processes, snakemake

pytestmark = pytest.mark.server

CONFIG = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
RUNS = [(server, run) for server, settings in CONFIG["servers"].items() for run in settings["runs"]]
SPECULATING = [(server, run) for server, run in RUNS if CONFIG["servers"][server]["speculative"]]


def table(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_parquet(folder / "results" / "tables" / f"{name}.parquet")


def test_the_paper_is_there(study: Path) -> None:
    expected = {f"table1.{kind}" for kind in ("csv", "md", "tex")}
    expected |= {f"figure{number}.{kind}" for number in (1, 2, 3) for kind in ("svg", "pdf", "png")}
    expected |= {f"note.{kind}" for kind in ("md", "html", "pdf")}
    assert set(paper_bytes(study)) == expected


def test_every_share_is_the_exact_one(study: Path) -> None:
    checked = json.loads((study / "results" / "estimates" / "checked.json").read_text())
    assert checked
    calibration = pd.read_csv(study / "results" / "estimates" / "calibration.csv")
    assert set(calibration.server) == {"calibration"}
    assert (calibration.status != "failed").all()
    assert (calibration.status == "ok").sum() >= 24


def test_the_three_sources_agree_exactly(study: Path) -> None:
    checks = table(study, "checks")
    # A short run leaves too few lines for their spacing.
    assert set(checks[checks.check != "spacing of lines is the log interval"].status) == {"ok"}
    assert "failed" not in set(checks.status)
    for source in ("counters against requests", "lines against counters"):
        residuals = checks[checks.check.str.startswith(source)].residual
        assert len(residuals) >= 2 * len(SPECULATING) and (residuals == 0).all()


def test_the_correction_is_in_every_record_and_no_prompt_is(study: Path) -> None:
    records = sorted((study / "results" / "records").glob("*/*/attempt-1/*/record.json"))
    assert len(records) == len(RUNS)
    for path in records:
        assert json.loads(path.read_text())["corrections"] == ["cpu_sampling_expand"]
        kept = "".join(file.read_text() for file in path.parent.iterdir())
        assert "Go on with this" not in kept and "odd one out" not in kept


def test_nothing_but_the_calibration_is_said_to_be_known(study: Path) -> None:
    note = re.sub(r"\s+", " ", (study / "results" / "paper" / "note.md").read_text())
    assert "set by construction" not in note.split("## Abstract", 1)[1].split("##", 1)[0]
    assert "set by construction" not in (study / "results" / "paper" / "table1.md").read_text()
    assert "**Calibration.** Shares are fractions of drafts." in note
    table1 = pd.read_csv(study / "results" / "estimates" / "table1.csv")
    assert list(table1.workload) == ["traffic", *CONFIG["report"]["controlled"]]


def test_speculation_is_compared_with_none_over_the_same_requests(study: Path) -> None:
    facts = json.loads((study / "results" / "estimates" / "facts.json").read_text())["facts"]
    for workload in ("code", "prose", "evaluation", "reasoning", "synthetic"):
        for streams in (1, 8):
            speedup = facts[f"{workload}.streams_{streams}.speedup"]
            assert speedup["value"] > 0
            # A machine that is held up by others leaves no interval, and says so.
            disturbed = "stood still" in (speedup["unknown"] or "")
            assert disturbed or speedup["low"] < speedup["value"] < speedup["high"]


def test_at_temperature_0_speculation_changes_no_reply(study: Path) -> None:
    facts = json.loads((study / "results" / "estimates" / "facts.json").read_text())["facts"]
    # Ties of floating point may differ: one reply in eight requests is let pass.
    assert facts["greedy.same_replies"]["value"] >= 0.85


def test_answers_are_scored(study: Path) -> None:
    requests = table(study, "requests")
    questions = requests[requests.workload.isin(["evaluation", "reasoning"])]
    assert set(questions.score) <= {0.0, 1.0} and len(questions) > 40
    assert requests[requests.workload == "code"].score.isna().all()


def test_no_server_is_left(study: Path) -> None:
    assert not server_processes(study)


def test_a_second_run_does_nothing(study: Path) -> None:
    answer = snakemake(study)
    assert answer.returncode == 0
    assert "Nothing to be done" in answer.stdout + answer.stderr


def test_the_paper_is_rebuilt_byte_for_byte(study: Path) -> None:
    before = paper_bytes(study)
    remove(study, "paper", "estimates", "tables")
    answer = snakemake(study)
    assert answer.returncode == 0, answer.stderr
    assert "measure_boot" not in answer.stdout + answer.stderr
    assert paper_bytes(study) == before
