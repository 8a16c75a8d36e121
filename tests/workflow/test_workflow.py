"""The workflow as a user meets it: dry runs, profiles, refusals. Nothing is measured here."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from draftmeter.study.archive import Archive
from draftmeter.study.config import read_study
from draftmeter.study.schema import Study
from study_run import write_config

ROOT = Path(__file__).parents[2]
SNAKEMAKE = Path(sys.executable).with_name("snakemake")


def snakemake(*arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    command = [str(SNAKEMAKE), "--snakefile", str(ROOT / "Snakefile"), "--directory", str(directory), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def dry_run(config: Path, directory: Path, *arguments: str) -> str:
    answer = snakemake("--configfile", str(config), "--dry-run", *arguments, directory=directory)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout + answer.stderr


@pytest.mark.parametrize(("name", "boots"), [("config.yaml", 4), ("calibration.yaml", 2), ("h200.yaml", 2)])
def test_a_dry_run_plans_every_stage(name: str, boots: int, tmp_path: Path) -> None:
    planned = dry_run(ROOT / "config" / name, tmp_path)
    for rule in ("prepare_model", "collect", "analyse", "plot_figure1", "render_note", "check_results", "all"):
        assert re.search(rf"^{rule}\s+\d", planned, re.MULTILINE), rule
    assert re.search(rf"^measure_boot\s+{boots}$", planned, re.MULTILINE)


def test_the_slurm_profile_gives_each_boot_its_resources(tmp_path: Path) -> None:
    planned = dry_run(
        ROOT / "config" / "h200.yaml", tmp_path, "--workflow-profile", str(ROOT / "profiles" / "slurm"), "--cores", "16"
    )
    jobs = re.findall(r"^rule measure_boot:\n(?: .*\n)+", planned, re.MULTILINE)
    assert len(jobs) == 2
    for job in jobs:
        assert "threads: 8" in job
        for resource in ("gpu=1", "gpu_model=h200", "mem_mb=128000", "slurm_partition=main"):
            assert resource in job, job
    runtimes = {int(re.search(r"runtime=(\d+)", job).group(1)) for job in jobs}  # type: ignore[union-attr]
    assert runtimes == {1920, 480}


def test_the_default_profile_has_one_gpu_and_one_measurement_at_a_time() -> None:
    profile = yaml.safe_load((ROOT / "profiles" / "default" / "profile.yaml").read_text())
    assert profile["resources"] == {"gpu": 1, "measurement": 1}


def test_a_wrong_key_is_refused_before_any_rule(tmp_path: Path) -> None:
    config = write_config(tmp_path, {"servers/production/log_intervals": 3})
    answer = snakemake("--configfile", str(config), directory=tmp_path)
    assert answer.returncode != 0
    assert "servers.production.log_intervals: unknown key" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (tmp_path / "results").exists()


def test_a_model_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    config = yaml.safe_load((ROOT / "config" / "h200.yaml").read_text())
    config["models"]["production"] = {"source": "folder", "path": str(tmp_path / "no-model")}
    path = tmp_path / "folder.yaml"
    path.write_text(yaml.safe_dump(config))
    answer = snakemake("--configfile", str(path), "--", "results/models/production/model.json", directory=tmp_path)
    assert answer.returncode != 0
    assert f"models.production.path: {tmp_path}/no-model has no config.json" in answer.stderr


def test_an_unresolved_revision_is_refused(tmp_path: Path) -> None:
    target = "results/models/production/model.json"
    answer = snakemake("--configfile", str(ROOT / "config" / "h200.yaml"), "--", target, directory=tmp_path)
    assert answer.returncode != 0
    assert "models.production.revision: unresolved; a run measures one exact checkpoint" in answer.stderr
    assert not (tmp_path / target).exists()


def test_the_known_answer_model_and_its_answers_are_made_by_the_workflow(tmp_path: Path) -> None:
    targets = [f"results/models/known-answer/{name}.json" for name in ("model", "known_answer")]
    answer = snakemake("--configfile", str(ROOT / "config" / "config.yaml"), "--", *targets, directory=tmp_path)
    assert answer.returncode == 0, answer.stderr
    model, answers = (json.loads((tmp_path / target).read_text()) for target in targets)
    assert (tmp_path / "results" / "models" / "known-answer" / model["path"] / "model.safetensors").is_file()
    assert {setting["category"] for setting in answers["settings"]} == set("ABCDEF")


def test_a_study_is_its_own_file_and_nothing_of_the_default(tmp_path: Path) -> None:
    config = ROOT / "config" / "h200.yaml"
    answer = snakemake("--configfile", str(config), "--", "results/config.json", directory=tmp_path)
    assert answer.returncode == 0, answer.stderr
    used = json.loads((tmp_path / "results" / "config.json").read_text())
    assert used == read_study(config).model_dump(mode="json")


def test_every_key_of_the_config_is_explained() -> None:
    """config/README.md names each key of the models; a key that is added without a word fails here."""
    text = (ROOT / "config" / "README.md").read_text()
    schemas = [Study.model_json_schema(), Archive.model_json_schema()]
    keys = {key for schema in schemas for part in [schema, *schema["$defs"].values()] for key in part.get("properties", {})}
    assert not {key for key in keys - {"source", "kind"} if f"`{key}`" not in text and f"## {key}" not in text}


def test_the_rule_of_the_note_names_every_file_of_the_paper() -> None:
    rules = (ROOT / "workflow" / "rules" / "render.smk").read_text()
    named = set(re.findall(r'^    "(.+)",$', rules[rules.index("PAPER = [") : rules.index("]\n")], flags=re.MULTILINE))
    assert named == {path.relative_to(ROOT / "paper").as_posix() for path in (ROOT / "paper").rglob("*.*") if path.is_file()}


def test_the_workflow_works_as_a_module_of_another(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(
        f"""
configfile: "{ROOT / "config" / "archive.yaml"}"


module draftmeter:
    snakefile:
        "{ROOT / "workflow" / "Snakefile"}"
    config:
        config


use rule * from draftmeter
"""
    )
    command = [str(SNAKEMAKE), "--directory", str(tmp_path), "--snakefile", str(tmp_path / "Snakefile"), "--dry-run", "all"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "render_note" in answer.stdout


def test_a_key_on_the_command_line_changes_the_default_study_and_keeps_its_rest(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config", ignore=shutil.ignore_patterns("archive"))
    answer = snakemake("--config", "unheard=of", directory=tmp_path)
    assert answer.returncode != 0
    assert "unheard: unknown key" in answer.stderr and "found neither servers" not in answer.stderr
