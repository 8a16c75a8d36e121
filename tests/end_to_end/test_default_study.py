"""The default study, a tenth of its size, on a real vLLM server: from nothing to the paper, and what must hold afterwards."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from study_run import paper_bytes, remove, server_processes, snakemake

pytestmark = pytest.mark.server


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
    assert (calibration.status != "failed").all()
    assert (calibration.status == "ok").sum() >= 40


def test_the_three_sources_agree_exactly(study: Path) -> None:
    checks = table(study, "checks")
    # A short run leaves too few lines for their spacing.
    assert set(checks[checks.check != "spacing of lines is the log interval"].status) == {"ok"}
    assert "failed" not in set(checks.status)
    for source in ("counters against requests", "lines against counters"):
        residuals = checks[checks.check.str.startswith(source)].residual
        assert len(residuals) >= 2 * 13 and (residuals == 0).all()


def test_the_correction_is_in_every_record_and_no_prompt_is(study: Path) -> None:
    records = sorted((study / "results" / "records").glob("*/*/attempt-1/*/record.json"))
    assert len(records) == 13
    for path in records:
        assert json.loads(path.read_text())["corrections"] == ["cpu_sampling_expand"]
        kept = "".join(file.read_text() for file in path.parent.iterdir())
        assert "long essay" not in kept and "odd one out" not in kept


def test_the_note_says_first_what_it_is(study: Path) -> None:
    note = (study / "results" / "paper" / "note.md").read_text()
    first = note.split("## Abstract", 1)[1].strip().split(".")[0]
    assert "calibration" in first and "set by construction" in re.sub(r"\s+", " ", first)
    assert "acceptance set by construction" in (study / "results" / "paper" / "table1.md").read_text()
    assert "acceptance set by construction" in (study / "results" / "paper" / "figure1.svg").read_text()
    assert "published" not in note.lower() and "AVELIN" not in note


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
