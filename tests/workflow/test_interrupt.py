"""Ctrl-C during a study: the whole tree ends, and nothing half-measured is taken for whole. On a stand-in server."""

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil

from interrupts import hears_ctrl_c
from study_run import ROOT, SNAKEMAKE, write_config

BOOT = "results/records/production/boot-1/boot.json"


def test_ctrl_c_ends_the_server_and_keeps_nothing_half(tmp_path: Path) -> None:
    stand_in = ["{python}", str(ROOT / "tests" / "worlds" / "stand_in_server.py"), "slow"]
    server = "servers/production"
    write_config(tmp_path, {f"{server}/command": stand_in, f"{server}/arguments": {}, f"{server}/environment": {}})
    command = [str(SNAKEMAKE), "--snakefile", str(ROOT / "Snakefile"), "--directory", str(tmp_path)]
    command += ["--configfile", str(tmp_path / "study.yaml"), "--", BOOT]
    study = subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hears_ctrl_c
    )
    assert study.stderr is not None
    for line in study.stderr:
        if "pair-off: starts" in line:
            break
    time.sleep(1.5)  # requests are in flight now
    family = psutil.Process(study.pid).children(recursive=True)
    assert any("stand_in_server.py" in " ".join(process.cmdline()) for process in family)
    os.killpg(study.pid, signal.SIGINT)  # as a terminal does
    try:
        study.communicate(timeout=60)
    finally:
        study.kill()  # a study that does not end fails this test, and must not outlive it
    assert study.returncode != 0
    assert not [process for process in family if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    assert not (tmp_path / BOOT).exists()
    assert [path.name for path in (tmp_path / BOOT).parent.glob("attempt-1/*")] == ["pair-off.partial"]
