"""One boot against a stand-in server: what it leaves, and what each kind of failure says and leaves."""

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from draftmeter.measure import server as server_module
from draftmeter.measure.boot import measure_boot
from draftmeter.measure.client import ClientError
from draftmeter.measure.prompts import PromptError
from draftmeter.measure.server import ServerError
from draftmeter.models.prepare import prepare_model
from draftmeter.record.provenance import redacted, redacted_environment
from draftmeter.record.run import RecordError, read_boot, read_record, read_requests
from draftmeter.strict import write_json
from draftmeter.study.config import parse_study
from draftmeter.study.plan import BootPlan, plan_boot
from draftmeter.study.schema import FolderModel, PromptFile
from interrupts import hears_ctrl_c

TESTS = Path(__file__).parents[1]
CONFIG = TESTS.parent / "config" / "calibration.yaml"


def plan(mode: str, **changes: Any) -> BootPlan:
    """Two short runs on a stand-in server."""
    config = yaml.safe_load(CONFIG.read_text())
    server = config["servers"]["production"]
    server |= {"command": ["{python}", str(TESTS / "worlds" / "stand_in_server.py"), mode], "arguments": {}, "environment": {}}
    server |= {
        "log_interval_s": 0.3,
        "start_timeout_s": 60.0,
        "quiet_timeout_s": 2.0,
        "runs": ["pair-off", "evaluation"],
    }
    server |= changes
    config["workloads"]["evaluation"]["set_size"] = 8
    config["runs"]["evaluation"]["passes"] = 2
    config["workloads"]["pair-off"]["set_size"] = 12
    # A study reports session traffic and a controlled workload; the boot of this test leaves both out.
    server["runs"] = [*server["runs"], "traffic"]
    config["servers"]["controlled"]["runs"] = ["reasoning-1"]
    config["report"]["controlled"] = ["reasoning"]
    whole = plan_boot(parse_study(config), "production", "boot-1")
    return whole.model_copy(update={"runs": [run for run in whole.runs if run.run != "traffic"]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model" / "checkpoint").mkdir(parents=True)
    write_json(tmp_path / "model" / "model.json", {"path": "checkpoint", "source": "known_answer", "revision": "r"})
    return tmp_path


def measure(what: BootPlan, folder: Path) -> Path:
    boot_json = folder / "records" / "boot.json"
    measure_boot(what, folder / "model" / "model.json", boot_json, folder / "logs")
    return boot_json


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def runs(pid: int) -> bool:
    """Whether the process still runs; one that has ended and waits for its parent's notice does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_good_boot_leaves_whole_records_and_no_process(folder: Path) -> None:
    boot_json = measure(plan("good"), folder)
    boot = read_boot(boot_json)
    assert [run.path for run in boot.runs] == ["attempt-1/pair-off", "attempt-1/evaluation"]
    for run in boot.runs:
        record = read_record(boot_json.parent / run.path)
        rows = read_requests(boot_json.parent / run.path)
        assert record.requests == len(rows) and record.errors == 0 and record.engine_version == "0.0.0"
        assert all(
            row.drafts == 6 and row.reply_tokens == len(row.per_step_accepted or []) + 1 + (row.accepted_tokens or 0)
            for row in rows
        )
        assert (boot_json.parent / run.path / "server.log").read_text().count("SpecDecoding metrics") >= 1
        text = "".join(path.read_text() for path in (boot_json.parent / run.path).iterdir())
        assert "think of" not in text, "a prompt was stored"
    assert not children()


def test_a_second_job_boots_nothing_and_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = measure(plan("good"), folder).read_bytes()
    monkeypatch.setattr("draftmeter.measure.boot.running_server", None)
    assert measure(plan("good"), folder).read_bytes() == before


def test_a_server_that_exits_is_reported_with_its_last_words(folder: Path) -> None:
    with pytest.raises(ServerError, match=r"exited with code 7 before it was healthy(.|\n)*planted reason"):
        measure(plan("exits"), folder)
    assert not (folder / "records" / "boot.json").exists()


def test_a_server_that_is_never_healthy_is_given_up_and_ended(folder: Path) -> None:
    with pytest.raises(ServerError, match=r"not healthy after 3 s \(start_timeout_s\)"):
        measure(plan("never_healthy", start_timeout_s=3.0), folder)
    assert not children()


def test_a_taken_port_is_named(folder: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ServerError, match=rf"servers.production.port: {port} is taken"):
            measure(plan("good", port=port), folder)


def test_a_command_that_does_not_exist_is_named(folder: Path) -> None:
    with pytest.raises(ServerError, match="cannot run 'no-such-vllm': No such file"):
        measure(plan("good", command=["no-such-vllm"]), folder)


def test_a_server_that_dies_keeps_finished_runs_and_a_rerun_adds_the_missing(folder: Path) -> None:
    with pytest.raises(ServerError, match=r"died during run evaluation: exited with code 3(.|\n)*planted death"):
        measure(plan("dies_after_20"), folder)
    records = folder / "records"
    assert not (records / "boot.json").exists()
    assert read_record(records / "attempt-1" / "pair-off").requests == 12
    with pytest.raises(RecordError, match="has no end"):
        read_record(records / "attempt-1" / "evaluation.partial")
    kept = (records / "attempt-1" / "pair-off" / "record.json").read_bytes()
    # Alone on its boot, the second run has too few requests to reach the planted death.
    boot = read_boot(measure(plan("dies_after_20"), folder))
    assert [(run.run, run.attempt) for run in boot.runs] == [("pair-off", 1), ("evaluation", 2)]
    assert (records / "attempt-1" / "pair-off" / "record.json").read_bytes() == kept
    assert not (records / "attempt-2" / "pair-off").exists()


def test_a_rerun_boots_again_for_what_is_missing_only(folder: Path) -> None:
    boot_json = measure(plan("good"), folder)
    (boot_json.parent / "attempt-1" / "evaluation").rename(boot_json.parent / "attempt-1" / "evaluation.partial")
    boot = read_boot(measure(plan("good"), folder))
    assert [(run.run, run.attempt) for run in boot.runs] == [("pair-off", 1), ("evaluation", 2)]


def test_a_busy_server_is_not_measured(folder: Path) -> None:
    with pytest.raises(ClientError, match="still busy after 2 s without requests of ours"):
        measure(plan("always_busy"), folder)
    assert not children()


def test_refused_requests_end_the_run_with_the_servers_own_words(folder: Path) -> None:
    with pytest.raises(
        ClientError, match=r"16 of 16 requests failed; the first, evaluation-0001-00000: HTTP 400: no such template"
    ):
        measure(plan("refuses", runs=["evaluation"]), folder)
    assert not (folder / "records" / "attempt-1" / "evaluation").exists()


def test_another_model_under_the_same_name_is_measured_again(folder: Path) -> None:
    measure(plan("good", runs=["evaluation"]), folder)
    write_json(folder / "model" / "model.json", {"path": "checkpoint", "source": "known_answer", "revision": "another"})
    assert [run.attempt for run in read_boot(measure(plan("good", runs=["evaluation"]), folder)).runs] == [2]


def test_a_folder_whose_files_have_changed_is_refused(folder: Path) -> None:
    checkpoint = folder / "model" / "checkpoint"
    (checkpoint / "config.json").write_text("{}")
    prepare_model("mine", FolderModel(source="folder", path=str(checkpoint)), folder / "model" / "model.json")
    (checkpoint / "config.json").write_text("{ }")
    with pytest.raises(ValueError, match=r"have changed since; delete .*model\.json to measure the new ones"):
        measure(plan("good"), folder)


def test_prompts_that_cannot_be_had_are_named_before_a_server_starts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("draftmeter.measure.boot.running_server", None)
    what = plan("good", runs=["evaluation"])
    prompts = PromptFile(kind="file", path="nowhere.jsonl", sha256="unresolved")
    with pytest.raises(PromptError, match=r"prompts nowhere\.jsonl: sha256 is unresolved"):
        measure(what.model_copy(update={"runs": [what.runs[0].model_copy(update={"prompts": prompts})]}), folder)
    assert not (folder / "records").exists()


def test_a_stubborn_server_and_its_runaway_child_are_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "STOP_WAIT_S", 0.5)
    seen: set[int] = set()

    def note(*arguments: Any) -> Any:
        seen.update(process.pid for process in children())
        return real(*arguments)

    real = server_module._end_group
    monkeypatch.setattr(server_module, "_end_group", note)
    measure(plan("stubborn"), folder)
    assert len(seen) == 2
    assert not [pid for pid in seen if runs(pid)]


def test_vllm_variables_of_the_shell_do_not_reach_the_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_PLUGINS", "none")
    measure(plan("good", runs=["evaluation"]), folder)
    log = next((folder / "logs").glob("*.server.log")).read_text()
    assert "'VLLM_LOG_STATS_INTERVAL'" in log and "VLLM_PLUGINS" not in log


def test_a_stream_that_cannot_be_read_is_a_failed_request(folder: Path) -> None:
    with pytest.raises(ClientError, match=r"16 of 16 requests failed; .* the stream broke off: JSONDecodeError"):
        measure(plan("garbled", runs=["evaluation"]), folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_mid_run_leaves_no_process(folder: Path, number: signal.Signals) -> None:
    (folder / "plan.json").write_text(plan("slow", quiet_timeout_s=60.0).model_dump_json())
    code = (
        "import json, sys; from pathlib import Path; from draftmeter.study.plan import BootPlan;"
        "from draftmeter.measure.boot import measure_boot; f = Path(sys.argv[1]);"
        "measure_boot(BootPlan.model_validate(json.loads((f / 'plan.json').read_text())),"
        " f / 'model' / 'model.json', f / 'records' / 'boot.json', f / 'logs')"
    )
    command = [sys.executable, "-c", code, str(folder)]
    job = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=hears_ctrl_c)
    assert job.stderr is not None
    for line in job.stderr:
        if "pair-off: starts" in line:
            break
    time.sleep(1.5)  # requests are in flight now
    family = [process.pid for process in psutil.Process(job.pid).children(recursive=True)]
    assert family
    job.send_signal(number)
    try:
        job.communicate(timeout=30)
    finally:
        job.kill()  # a job that does not end fails this test, and must not outlive it
    assert job.returncode != 0
    assert not [pid for pid in family if runs(pid)]
    assert not (folder / "records" / "boot.json").exists()


def test_secrets_are_not_recorded() -> None:
    command = [
        "x",
        "--api-key",
        "hunter2",
        "--enable-prompt-tokens-details",
        "--max-num-batched-tokens",
        "5",
        "--hf-token=hunter2",
        "-e",
        "MY_SECRET=hunter2",
    ]
    assert redacted(command) == [
        "x",
        "--api-key",
        "<redacted>",
        "--enable-prompt-tokens-details",
        "--max-num-batched-tokens",
        "5",
        "--hf-token=<redacted>",
        "-e",
        "MY_SECRET=<redacted>",
    ]
    assert redacted_environment({"HF_TOKEN": "hunter2", "TZ": "UTC"}) == {"HF_TOKEN": "<redacted>", "TZ": "UTC"}


def test_records_are_json_that_names_what_was_run(folder: Path) -> None:
    boot_json = measure(plan("good", runs=["evaluation"]), folder)
    described = json.loads((boot_json.parent / "attempt-1" / "evaluation" / "record.json").read_text())
    for key in (
        "fingerprint",
        "server_arguments",
        "model",
        "packages",
        "git_commit",
        "prompts_sha256",
        "sampling",
        "time_zone",
    ):
        assert described[key], key
