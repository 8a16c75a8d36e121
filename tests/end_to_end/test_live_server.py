"""A real vLLM server that is watched over a restart: what the record holds is what the server counted, and nothing else.

The same traffic is read three ways: by `draftmeter watch` (counters and log), by a real Prometheus server, and from the log.
"""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from draftmeter.formats.counters import Counters
from draftmeter.formats.metrics import read_strict
from draftmeter.measure.client import Client, open_session
from draftmeter.measure.progress import Progress
from draftmeter.measure.prompts import fixed_turns
from draftmeter.measure.quiet import wait_until_quiet
from draftmeter.measure.server import running_server
from draftmeter.measure.traffic import send_run
from draftmeter.record.provenance import model_revision
from draftmeter.study.config import read_study
from draftmeter.study.plan import BootPlan, RunPlan, plan_boot
from real_prometheus import prometheus
from study_run import server_processes, snakemake, write_config

pytestmark = pytest.mark.server

COMMAND = [sys.executable, "-m", "draftmeter"]
# A full-length check of `draftmeter watch` sets this to 300 seconds.
WATCH_S = float(os.environ.get("DRAFTMETER_TEST_WATCH_S", "0"))


@dataclass
class Scene:
    """What was left behind, and what the server itself said at the end of each of its two lives."""

    folder: Path
    finals: list[Counters]
    prompts: list[str]
    doctor: list[dict[str, Any]]


def draftmeter(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)


async def send(plan: BootPlan, run: RunPlan, url: str, seconds: float) -> str:
    """Send the run, again and again for `seconds`; return the server's last word when it is quiet."""
    deadline = time.monotonic() + seconds
    async with open_session(60) as session:
        client = Client(session, url, plan.model_name, run.workload)
        while True:
            await send_run(client, run, Progress("live server"), lambda row: None)
            if time.monotonic() >= deadline:
                # Two scrapes of the watch, and the line of the last log interval.
                return await wait_until_quiet(session, url, 60, settle_s=plan.server.log_interval_s + 2.5)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("live")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    study = write_config(folder, {"study/scale": 0.1, "servers/production/port": port})
    assert snakemake(folder, "--", "results/models/known-answer/model.json").returncode == 0
    plan = plan_boot(read_study(study), "production", "boot-1")
    run = next(planned for planned in plan.runs if planned.run == "pair-on")
    checkpoint, _ = model_revision(plan.model_name, folder / "results/models/known-answer/model.json")
    log, record = folder / "server.log", folder / "record"
    finals, watch, report = [], None, []
    with prometheus(folder, [port]) as history:
        try:
            for life in range(2):
                with running_server(plan, checkpoint, log) as server:
                    if watch is None:
                        command = [*COMMAND, "watch", server.url, "--log", log, "--every", "1s", "--out", record]
                        watch = subprocess.Popen(
                            [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                        )
                        time.sleep(2)
                        report = json.loads(draftmeter("doctor", server.url, "--json").stdout)
                    text = asyncio.run(send(plan, run, server.url, WATCH_S / 2))
                    finals.append(read_strict(text).rows()[0].counters)
                    assert watch.poll() is None, f"watch ended in life {life}: {watch.stdout and watch.stdout.read()}"
            now = f"{time.time():.3f}"
            answer = draftmeter(
                "read",
                "--prometheus",
                history,
                "--selector",
                '{job="vllm"}',
                "--from",
                "1h",
                "--to",
                now,
                "--out",
                folder / "history",
            )
            assert answer.returncode == 0, answer.stderr
        finally:
            if watch is not None:
                watch.send_signal(signal.SIGTERM)
                output = watch.communicate(timeout=20)[0]
                (folder / "watch.txt").write_text(output)
    assert watch.returncode == 0, output
    return Scene(folder, finals, [turn.text for turn in fixed_turns(run)], report)


def totals(finals: list[Counters]) -> dict[str, int]:
    names = ("drafts", "draft_tokens", "accepted", "generation_tokens", "prompt_tokens", "requests_finished")
    summed = {name: sum(getattr(final, name) for final in finals) for name in names}
    by_position = zip(*(final.accepted_per_position or () for final in finals), strict=True)
    return summed | {f"accepted_{k}": sum(counts) for k, counts in enumerate(by_position, start=1)}


def counted(tables: Path) -> dict[str, Any]:
    (row,) = pd.read_parquet(tables / "counters.parquet").query("engine == 'all'").to_dict("records")
    return row


def test_watched_totals_are_the_servers_own_over_a_restart(scene: Scene) -> None:
    answer = draftmeter("read", scene.folder / "record", "--out", scene.folder / "watched")
    assert answer.returncode == 0, answer.stderr
    row = counted(scene.folder / "watched")
    expected = totals(scene.finals)
    print(f"watched against the server's own counters: {row} {expected}")
    assert {name: row[name] for name in expected} == expected
    assert row["restarts"] == 1
    assert expected["drafts"] > 500
    lines = pd.read_parquet(scene.folder / "watched" / "intervals.parquet")
    assert lines.drafted.sum() == expected["draft_tokens"]
    assert lines.accepted.sum() == expected["accepted"]
    assert lines.drafts_exact.all()
    assert lines.process.nunique() == 2
    assert not server_processes(scene.folder)


def test_prometheus_history_has_the_same_totals(scene: Scene) -> None:
    row = counted(scene.folder / "history")
    expected = totals(scene.finals)
    assert {name: row[name] for name in expected} == expected
    assert row["restarts"] == 1


def test_nothing_but_statistics_is_kept(scene: Scene) -> None:
    kept = {path.name: path.read_text() for path in (scene.folder / "record").iterdir() if path.is_file()}
    assert set(kept) == {"watch.json", "scrapes.jsonl", "server.log", "log-position.json"}
    for name, text in kept.items():
        assert not any(prompt in text for prompt in scene.prompts), name
    assert all(re.search(r"Engine 000: |SpecDecoding metrics: ", line) for line in kept["server.log"].splitlines())


def test_the_log_alone_gives_the_second_life(scene: Scene) -> None:
    answer = draftmeter("report", scene.folder / "server.log", "--json", "--zone", "+00:00")
    assert answer.returncode == 0, answer.stderr
    final = scene.finals[-1]
    (source,) = json.loads(answer.stdout)["sources"]
    found = [source["figures"][name]["value"] for name in ("drafts", "draft_tokens", "accepted")]
    assert found == [final.drafts, final.draft_tokens, final.accepted]
    assert source["counted_by"] == "lines"


def test_doctor_sees_what_the_live_server_offers(scene: Scene) -> None:
    (server,) = scene.doctor
    text = json.dumps(server)
    assert "known-answer" in text
    assert "0.32.0" in text
    assert server["study_possible"] is True


def test_a_watched_record_becomes_table_figure_and_note(scene: Scene) -> None:
    answer = draftmeter("read", scene.folder / "record", "--out", scene.folder / "study")
    assert answer.returncode == 0, answer.stderr
    config = scene.folder / "study" / "archive.yaml"
    assert yaml.safe_load(config.read_text())["sources"]
    run = subprocess.run(
        [
            str(Path(sys.executable).with_name("snakemake")),
            "--configfile",
            str(config),
            "--directory",
            str(scene.folder / "study"),
        ],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    note = (scene.folder / "study/results/paper/note.md").read_text()
    assert f"{totals(scene.finals)['draft_tokens']:,}" in note
    assert (scene.folder / "study/results/paper/figure1.pdf").stat().st_size > 1000
