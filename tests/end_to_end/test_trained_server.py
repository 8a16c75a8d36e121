"""The trained model on a real vLLM server: its counts at every step are those that the weights imply."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from draftmeter.measure.server import running_server
from draftmeter.study.config import read_study
from draftmeter.study.plan import plan_boot
from study_run import ROOT, server_processes, write_config

pytestmark = pytest.mark.server

MODEL = ROOT / "models" / "small-moe"
REQUESTS = 12


def test_the_offline_replay_counts_what_the_server_counted(tmp_path: Path) -> None:
    plan = plan_boot(read_study(write_config(tmp_path, {}, "config.yaml")), "controlled", "boot-1")
    with running_server(plan, str(MODEL / "checkpoint"), tmp_path / "server.log") as server:
        for prompts, reasoning in (("code", False), ("prose", False), ("questions", True), ("words", False)):
            command = [sys.executable, str(ROOT / "scripts" / "replay_model.py"), str(MODEL / "checkpoint"), server.url]
            command += ["--prompts", str(MODEL / "prompts" / f"{prompts}.jsonl"), "--requests", str(REQUESTS)]
            answer = subprocess.run(
                command + ["--reasoning"] * reasoning, capture_output=True, text=True, timeout=600, check=False
            )
            assert answer.returncode == 0, answer.stdout + answer.stderr
            found = json.loads(answer.stdout)
            assert found["agree"] == REQUESTS and found["steps"] > 100, (prompts, found)
    assert not server_processes(tmp_path)
