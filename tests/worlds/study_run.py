"""Run a scaled-down default study with Snakemake in a folder of its own, beside the sources."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import yaml

ROOT = Path(__file__).parents[2]
SNAKEMAKE = Path(sys.executable).with_name("snakemake")


def write_config(folder: Path, change: dict[str, Any], name: str = "calibration.yaml") -> Path:
    """A shipped config with some keys changed, or dropped for None (their path in it, separated by slashes)."""
    config = yaml.safe_load((ROOT / "config" / name).read_text())
    for part in (*config["models"].values(), *config["prompts"].values()):
        if "path" in part:
            part["path"] = str(ROOT / part["path"])
    for path, value in change.items():
        *parents, last = path.split("/")
        where = config
        for key in parents:
            where = where[key]
        if value is None:
            del where[last]
        else:
            where[last] = value
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def snakemake(
    folder: Path, *arguments: str, snakemake_at: Path = SNAKEMAKE, root: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """`snakemake` with the config of `folder`, results in `folder`; its output goes to `folder`/snakemake.log as well."""
    command = [str(snakemake_at), "--snakefile", str(root / "Snakefile"), "--directory", str(folder)]
    command += ["--configfile", str(folder / "study.yaml"), *arguments]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=1500, check=False)
    (folder / "snakemake.log").write_text(answer.stdout + answer.stderr)
    return answer


def server_processes(folder: Path) -> list[psutil.Process]:
    """Processes that serve the model of `folder`, wherever they hang in the tree."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if "vllm" in line.lower() and process.pid != psutil.Process().pid and _cwd(process) == folder:
            found.append(process)
    return found


def _cwd(process: psutil.Process) -> Path | None:
    try:
        return Path(process.cwd())
    except psutil.Error:
        return None


def paper_bytes(folder: Path) -> dict[str, bytes]:
    """Every file of the paper by name."""
    return {path.name: path.read_bytes() for path in sorted((folder / "results" / "paper").iterdir())}


def remove(folder: Path, *names: str) -> None:
    """Delete folders of results."""
    for name in names:
        shutil.rmtree(folder / "results" / name)
