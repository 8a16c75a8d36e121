"""An archive as a reviewer and an operator meet it: stored records and files in, Table 1, Figure 1 and the note out."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from analyse import Outputs, analyse
from collect import collect
from draftmeter.study.archive import SourceSettings, archive_of
from draftmeter.study.config import read_study

ROOT = Path(__file__).parents[2]
SNAKEMAKE = Path(sys.executable).with_name("snakemake")
SHIPPED = ROOT / "config" / "archive.yaml"
RECORDS = ROOT / "config" / "archive" / "records"
TABLES = ("runs", "counters", "intervals", "requests", "checks")
PAPER = {f"table1.{kind}" for kind in ("csv", "md", "tex")}
PAPER |= {f"figure{number}.{kind}" for number in (1, 2, 3) for kind in ("svg", "pdf", "png")}
PAPER |= {f"note.{kind}" for kind in ("md", "html", "pdf")}


def snakemake(config: Path, directory: Path, without: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`snakemake` in a world where vllm and torch cannot be imported."""
    without.mkdir(exist_ok=True)
    for package in ("vllm", "torch"):
        (without / f"{package}.py").write_text("raise ImportError('an archive needs neither vllm nor torch')\n")
    command = [str(SNAKEMAKE), "--snakefile", str(ROOT / "Snakefile"), "--directory", str(directory)]
    command += ["--configfile", str(config), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(without)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)


def paper(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "results" / "paper").iterdir())}


def write(path: Path, config: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    answer = snakemake(SHIPPED, folder / "run", folder / "without")
    assert answer.returncode == 0, answer.stdout[-2000:] + answer.stderr[-4000:]
    return folder / "run"


def test_the_shipped_archive_gives_the_whole_paper(shipped: Path) -> None:
    assert set(paper(shipped)) == PAPER
    note = paper(shipped)["note.md"].decode()
    assert "## Appendix: calibration" in note and "### Speed with and without speculation" in note
    assert re.search(r"all \d+ comparisons with an exact figure lie within 4 standard errors", note)
    assert "Sizes of all runs" not in note
    checked = json.loads((shipped / "results" / "estimates" / "checked.json").read_text())
    assert checked["calibration"]["failed"] == checked["calibration"]["unknown"] == checked["checks"]["failed"] == 0
    assert json.loads((shipped / "results" / "config.json").read_text()) == yaml.safe_load(SHIPPED.read_text())


def test_its_tables_are_those_of_the_study_that_it_came_from(shipped: Path, tmp_path: Path) -> None:
    boots = sorted(RECORDS.glob("*/*/boot.json"))
    tables = {name: (tmp_path / f"{name}.parquet", tmp_path / f"{name}.csv") for name in TABLES}
    collect(boots, [], tables)
    out = Outputs(**{name: tmp_path / "out" / name for name in Outputs.__dataclass_fields__})
    study = read_study(ROOT / "config" / "config.yaml")
    known = ROOT / "config" / "archive" / "known_answer.json"
    published = ROOT / "config" / "published.yaml"
    analyse(study, {name: tables[name][0] for name in TABLES}, known, published, out)
    results = shipped / "results"
    for name in TABLES:
        assert (results / "tables" / f"{name}.csv").read_bytes() == tables[name][1].read_bytes()
    assert (results / "paper" / "table1.csv").read_bytes() == out.table1.read_bytes()
    assert (results / "estimates" / "calibration.csv").read_bytes() == out.calibration.read_bytes()


def test_a_copy_elsewhere_gives_the_same_bytes(shipped: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "copy")
    answer = snakemake(tmp_path / "copy" / "archive.yaml", tmp_path / "elsewhere" / "run", tmp_path / "without")
    assert answer.returncode == 0, answer.stderr[-4000:]
    assert paper(tmp_path / "elsewhere" / "run") == paper(shipped)


def test_a_second_run_does_nothing(shipped: Path, tmp_path: Path) -> None:
    answer = snakemake(SHIPPED, shipped, tmp_path / "without", "--dry-run")
    assert "Nothing to be done" in answer.stdout + answer.stderr


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of the production traffic, alone."""
    path = tmp_path / "nightly.log.zst"
    shutil.copy(RECORDS / "production/boot-1/attempt-1/traffic/server.log.zst", path)
    return path


def test_a_log_alone_gives_the_whole_paper(log: Path, tmp_path: Path) -> None:
    settings = SourceSettings(zone="+00:00", year=2026, log_interval_s=2.0, k=None, intervals="auto")
    config = write(tmp_path / "archive.yaml", archive_of([log], settings, label="Nights"))
    answer = snakemake(config, tmp_path / "run", tmp_path / "without")
    assert answer.returncode == 0, answer.stderr[-4000:]
    assert set(paper(tmp_path / "run")) == PAPER
    note = paper(tmp_path / "run")["note.md"].decode()
    assert "calibrat" not in note.lower() and "controlled workload" not in note.split("## The claims of the published study")[0]
    assert "Nights is counted by the lines of a log, for there are no counters." in note
    assert "| Draft tokens per step | 3 |" in note and "| Log interval (s) | 2 |" in note
    assert "The files do not say: model, precision, draft method" in note
    assert str(log) in note.replace("\\", "")


def test_a_path_that_is_missing_is_refused_before_any_rule(tmp_path: Path) -> None:
    config = write(tmp_path / "archive.yaml", archive_of([tmp_path / "gone.log"]))
    answer = snakemake(config, tmp_path / "run", tmp_path / "without")
    assert answer.returncode != 0
    assert f"sources.0.path: found no file at {tmp_path}/gone.log" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (tmp_path / "run" / "results").exists()


def test_a_file_without_statistics_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("Today nothing was drafted.\n")
    config = write(tmp_path / "archive.yaml", archive_of([tmp_path / "diary.txt"]))
    answer = snakemake(config, tmp_path / "run", tmp_path / "without", "--", "results/tables/counters.parquet")
    assert answer.returncode != 0
    assert f"error: {tmp_path}/diary.txt: nothing to be had from it" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_an_archive_has_nothing_to_measure() -> None:
    command = [str(SNAKEMAKE), "--snakefile", str(ROOT / "Snakefile"), "--configfile", str(SHIPPED), "--list-rules"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert {"measure_boot", "prepare_model", "lock_models"}.isdisjoint(answer.stdout.split())
    assert "collect" in answer.stdout.split()
