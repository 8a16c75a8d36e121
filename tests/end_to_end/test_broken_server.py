"""Proof that the instrument notices a server that samples wrongly: the same server without the correction must fail the check.

With the correction the same runs pass: test_default_study.py.
"""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from study_run import server_processes, snakemake, write_config

pytestmark = pytest.mark.server


def test_without_the_correction_the_check_fails(tmp_path: Path) -> None:
    write_config(
        tmp_path,
        {
            "study/scale": 0.1,
            "servers/production/corrections": False,
            # The fault reads memory that nobody wrote. It may hold the right numbers of the step before: glibc overwrites it.
            "servers/production/environment/MALLOC_PERTURB_": "64",
            "servers/production/runs": ["pair-off", "traffic"],
            # One boot is enough to show it.
            "servers/controlled": None,
            "report/controlled": ["pair-off"],
        },
    )
    answer = snakemake(tmp_path)
    assert answer.returncode != 0
    assert re.search(r"[1-9]\d* figures are not the exact ones", answer.stderr), answer.stderr[-4000:]
    assert not (tmp_path / "results" / "estimates" / "checked.json").exists()
    calibration = pd.read_csv(tmp_path / "results" / "estimates" / "calibration.csv")
    failed = calibration[calibration.status == "failed"]
    assert len(failed) >= 3
    assert failed.z.abs().max() > 4.5
    first = failed[failed.quantity == "share through 1"].iloc[0]
    assert re.search(rf"{first.run} +{first.subject} +share through 1 ", answer.stderr), answer.stderr[-4000:]
    assert first.measured < 0.8 * first.exact
    record = json.loads((tmp_path / "results/records/production/boot-1/attempt-1/pair-off/record.json").read_text())
    assert record["corrections"] == []
    note = (tmp_path / "results" / "paper" / "note.md").read_text()
    assert "The calibration failed" in note
    assert not server_processes(tmp_path)
