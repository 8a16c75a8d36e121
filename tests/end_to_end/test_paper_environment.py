"""The reviewer's path: the paper from records alone, in an environment without vllm and torch."""

import shutil
import subprocess
from pathlib import Path

import pytest

from study_run import ROOT, paper_bytes, remove, snakemake

pytestmark = pytest.mark.server


def test_the_paper_needs_neither_vllm_nor_torch(study: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    archive = tmp_path / "archive"
    install = ["make", "paper", f"VENV={environment}", f"STORED={archive}"]
    subprocess.run(install, cwd=ROOT, check=True, timeout=900)
    for package in ("vllm", "torch"):
        answer = subprocess.run([environment / "bin" / "python", "-c", f"import {package}"], capture_output=True, check=False)
        assert b"ModuleNotFoundError" in answer.stderr
    folder = tmp_path / "copy"
    shutil.copytree(study, folder, ignore=shutil.ignore_patterns(".snakemake"))
    remove(folder, "models", "tables", "estimates", "paper", "logs")
    answer = snakemake(folder, snakemake_at=environment / "bin" / "snakemake")
    assert answer.returncode == 0, answer.stderr
    assert "server starts" not in answer.stderr
    assert paper_bytes(folder) == paper_bytes(study)
    assert paper_bytes(archive).keys() == paper_bytes(study).keys()
