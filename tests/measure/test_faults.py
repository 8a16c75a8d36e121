"""Faults of a run, each against a real small server: what it costs, what is said, what is left."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from test_boot import TESTS, children, folder, measure, plan

from draftmeter.formats.log import is_statistics_line
from draftmeter.measure import partial_record, prompts
from draftmeter.measure.client import ClientError, RunClock
from draftmeter.measure.partial_record import NotWritten
from draftmeter.measure.progress import Progress
from draftmeter.measure.prompts import Turn
from draftmeter.measure.server import PortTaken, ServerError, reserved_port, running_server
from draftmeter.measure.traffic import send_run
from draftmeter.record import provenance
from draftmeter.record.run import RecordError, RequestRow, read_boot, read_record, read_requests, read_started
from draftmeter.study.config import read_study
from draftmeter.study.plan import BootPlan, plan_boot

__all__ = ["folder"]


def one_run(mode: str, *, passes: int = 5, **changes: Any) -> BootPlan:
    """`passes` times 8 requests on a stand-in server."""
    what = plan(mode, runs=["evaluation"], **changes)
    return what.model_copy(update={"runs": [what.runs[0].model_copy(update={"passes": passes})]})


def partial(folder: Path, attempt: int = 1) -> Path:
    return folder / "records" / f"attempt-{attempt}" / "evaluation.partial"


def finished(folder: Path, attempt: int = 1) -> Path:
    return folder / "records" / f"attempt-{attempt}" / "evaluation"


@pytest.fixture(autouse=True)
def _no_long_wait_for_an_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("draftmeter.measure.run.DYING_S", 1.0)


def assert_broken(folder: Path) -> None:
    """No process is left; the partial record is there and is no measurement."""
    assert not children() and not finished(folder).exists() and not (folder / "records" / "boot.json").exists()
    assert read_started(partial(folder)).end is None
    with pytest.raises(RecordError, match="has no end"):
        read_record(partial(folder))


def assert_measured_anew(folder: Path) -> None:
    """A rerun on a good server measures the run as another attempt; what broke stays as it is."""
    assert_broken(folder)
    before = {path.name: path.read_bytes() for path in partial(folder).iterdir()}
    boot = read_boot(measure(one_run("good"), folder))
    assert [(run.run, run.attempt) for run in boot.runs] == [("evaluation", 2)]
    assert {path.name: path.read_bytes() for path in partial(folder).iterdir()} == before


REQUEST_FAULTS = {
    "status-400": r"HTTP 400: planted refusal",
    "status-429": r"HTTP 429: planted refusal",
    "status-500": r"HTTP 500: planted refusal",
    "reset": r"not answered: (connection reset by peer|the answer broke off)",
    "empty": r"the stream ended before its last chunk",
    "done": r"the stream holds no reply",
    "cut": r"the stream broke off: (connection reset by peer|the answer broke off)",
    "strange_counts": r"the server's counts of it are not of their shape: acceptance_histogram\.0",
}


@pytest.mark.parametrize("fault", REQUEST_FAULTS)
def test_a_request_that_fails_costs_itself(folder: Path, fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    measure(one_run(f"{fault}@20", max_failed_share=0.05), folder)
    record, rows = read_record(finished(folder)), read_requests(finished(folder))
    failed = [row for row in rows if row.error is not None]
    assert (record.requests, record.errors, len(rows), len(failed)) == (40, 2, 40, 2)
    for row in failed:
        assert row.t_sent >= row.t_due and row.drafts is None and row.acceptance_histogram is None
    pattern = rf"of which 2 failed; the first, evaluation-\S+: {REQUEST_FAULTS[fault]}"
    assert re.search(pattern, capsys.readouterr().err)
    assert [row.request_id for row in rows] == sorted(row.request_id for row in rows)


@pytest.mark.parametrize("fault", REQUEST_FAULTS)
def test_too_many_failed_requests_fail_the_run(folder: Path, fault: str) -> None:
    with pytest.raises(ClientError, match=rf"run evaluation: 2 of 40 requests failed; the first, .*: {REQUEST_FAULTS[fault]}"):
        measure(one_run(f"{fault}@20"), folder)
    assert len(read_requests(partial(folder), whole=False)) == 40
    assert_broken(folder)


@pytest.mark.parametrize("fault", ["no_metrics", "null_metrics"])
def test_missing_metrics_of_a_request_are_unknown_and_no_failure(folder: Path, fault: str) -> None:
    measure(one_run(f"{fault}@20"), folder)
    rows = read_requests(finished(folder))
    assert [row.error for row in rows] == [None] * 40
    assert sum(row.drafts is None and row.acceptance_histogram is None and row.reply_tokens is not None for row in rows) == 2


def test_a_server_that_answers_nothing_any_more_is_given_up(folder: Path) -> None:
    """Not after all of a long run: twenty in a row are enough, three of each of eight streams."""
    with pytest.raises(ClientError, match="run evaluation: given up: 24 of 24 requests failed"):
        measure(one_run("refuses", passes=50, max_failed_share=1.0), folder)


METRICS_FAULTS = {
    "status-500": r"HTTP 500 Internal Server Error",
    "garbage": r"no metric of vLLM is in this text",
    "binary": r"the answer is no UTF-8 text",
    "slow": r"no whole answer within",
}


@pytest.mark.parametrize("fault", METRICS_FAULTS)
def test_metrics_that_fail_for_a_while_are_asked_again(
    folder: Path, fault: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("draftmeter.measure.quiet.SCRAPE_TIMEOUT_S", 0.5)
    measure(one_run(f"metrics-{fault}@3", passes=1, quiet_timeout_s=20.0), folder)
    assert read_record(finished(folder)).errors == 0
    said = capsys.readouterr().err
    assert METRICS_FAULTS[fault] in said and "tried again for up to" in said


@pytest.mark.parametrize("fault", METRICS_FAULTS)
def test_metrics_that_fail_for_ever_end_the_run(folder: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("draftmeter.measure.quiet.SCRAPE_TIMEOUT_S", 0.5)
    says = rf"run evaluation: \S+/metrics could not be read for 2 s \(quiet_timeout_s\): {METRICS_FAULTS[fault]}"
    with pytest.raises(ClientError, match=says):
        measure(one_run(f"metrics-{fault}@1000", passes=1), folder)
    assert_broken(folder)


def test_a_server_killed_in_mid_run_is_named_with_its_ending(folder: Path) -> None:
    with pytest.raises(ServerError, match="server production/boot-1 died during run evaluation: ended by signal SIGKILL"):
        measure(one_run("killed_at_20"), folder)
    assert len([row for row in read_requests(partial(folder)) if row.error is None]) >= 11
    assert_measured_anew(folder)


def test_a_server_that_hangs_in_mid_run_is_given_up(folder: Path) -> None:
    with pytest.raises(ClientError, match=r"nothing came for 1 s \(quiet_timeout_s\)"):
        measure(one_run("hangs_at_20", quiet_timeout_s=1.0), folder)
    assert len([row for row in read_requests(partial(folder)) if row.error is None]) >= 11
    assert_measured_anew(folder)


def test_other_clients_above_their_share_fail_a_run_with_passes(folder: Path) -> None:
    with pytest.raises(ClientError, match=r"other clients sent 4 requests and got \d+ tokens .*Stop the other traffic"):
        measure(one_run("others@10", quiet_timeout_s=20.0), folder)
    assert (partial(folder) / "metrics-after.prom").exists()
    assert_measured_anew(folder)


def test_other_clients_below_their_share_are_recorded_and_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure(one_run("others@10", max_other_clients_share=0.5, quiet_timeout_s=20.0), folder)
    others = read_record(finished(folder)).other_clients
    assert others is not None and others.requests == 4 and 0.05 < others.share < 0.2
    assert "other clients sent 4 requests" in capsys.readouterr().err


def short_session_traffic(mode: str, duration_s: float = 4.0, **changes: Any) -> BootPlan:
    """Sessions with a request a few times a second."""
    what = plan(mode, **changes)
    sessions = {"sessions_per_minute": 120.0, "turns": [1, 3], "think_time_s": [0.01, 0.05], "max_running": 4}
    study = read_study(TESTS.parent / "config" / "calibration.yaml")
    run = next(run for run in plan_boot(study, "production", "boot-1").runs if run.run == "traffic")
    assert run.workload.sessions is not None
    workload = run.workload.model_copy(update={"sessions": run.workload.sessions.model_copy(update=sessions)})
    return what.model_copy(
        update={"runs": [run.model_copy(update={"run": "evaluation", "workload": workload, "duration_s": duration_s})]}
    )


def test_other_clients_of_session_traffic_are_only_recorded(folder: Path) -> None:
    measure(short_session_traffic("others@2", quiet_timeout_s=20.0), folder)
    others = read_record(finished(folder)).other_clients
    assert others is not None and others.share > 0.2


def test_a_failed_turn_costs_itself_and_its_session_goes_on(folder: Path) -> None:
    measure(short_session_traffic("status-429@3", max_failed_share=0.5, quiet_timeout_s=20.0), folder)
    rows = read_requests(finished(folder))
    failed = [row for row in rows if row.error is not None]
    assert failed and read_record(finished(folder)).errors == len(failed)
    later = {(row.session_id, row.turn) for row in rows}
    assert any((row.session_id, row.turn + 1) in later for row in failed)


def test_a_taken_port_is_given_up_for_another(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure(one_run(f"address_taken@{folder / 'planted'}", passes=1), folder)
    assert read_record(finished(folder)).errors == 0
    assert "another program took the server's port; it starts again on another one" in capsys.readouterr().err


def test_a_taken_port_that_the_config_names_is_an_error(folder: Path) -> None:
    with reserved_port(None) as port:
        pass
    with pytest.raises(ServerError, match=r"exited with code 1 before it was healthy(.|\n)*Address already in use"):
        measure(one_run(f"address_taken@{folder / 'planted'}", port=port), folder)
    assert not children()


def test_a_port_that_another_boot_has_reserved_is_named(folder: Path) -> None:
    with reserved_port(None) as port:
        with pytest.raises(PortTaken, match="reserved by another boot"), reserved_port(port):
            pass
        with pytest.raises(ServerError, match=rf"servers.production.port: {port} is reserved by another boot"):
            measure(one_run("good", port=port), folder)
    with reserved_port(port) as again:
        assert again == port


def test_ports_that_are_reserved_at_once_differ() -> None:
    with ExitStack() as held:
        ports = [held.enter_context(reserved_port(None)) for _ in range(50)]
        assert len(set(ports)) == 50


def test_two_boots_at_once_have_ports_and_temporary_folders_of_their_own(folder: Path) -> None:
    what = one_run("good")
    with (
        running_server(what, "m", folder / "logs" / "one.log") as one,
        running_server(what, "m", folder / "logs" / "two.log") as two,
    ):
        assert one.url != two.url
        folders = [Path(server.environment["TMPDIR"]) for server in (one, two)]
        assert folders[0] != folders[1] and all(path.is_dir() for path in folders)
        assert one.environment["TORCHINDUCTOR_CACHE_DIR"] == two.environment["TORCHINDUCTOR_CACHE_DIR"]
    assert not any(path.exists() for path in folders) and not children()


def test_a_full_disk_in_mid_run_is_named_and_what_was_measured_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real error of a full device, from the twentieth row on."""
    real, written = partial_record.append_whole, []

    def append(file: int, text: str) -> None:
        written.append(text)
        if len(written) < 20:
            return real(file, text)
        with Path("/dev/full").open("w") as full:
            return real(full.fileno(), text)

    with monkeypatch.context() as patched:
        patched.setattr(partial_record, "append_whole", append)
        with pytest.raises(NotWritten, match=r"evaluation\.partial: cannot be written: no space left on device; make room there"):
            measure(one_run("good"), folder)
    assert 10 <= len(read_requests(partial(folder), whole=False)) < 20
    assert_measured_anew(folder)


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 64 KiB at the place of the records."""
    records = folder / "records"
    records.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs the right to mount a tmpfs")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(records)], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs: {mounted.stderr.decode().strip()}")
    yield records
    subprocess.run(["umount", str(records)], check=True)


def test_a_small_disk_is_named(folder: Path, small_disk: Path) -> None:
    with pytest.raises(NotWritten, match=r"cannot be written: no space left on device; make room there and start again"):
        measure(one_run("good"), folder)
    assert not children()


def test_a_read_only_folder_is_named_before_a_server_starts(
    folder: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("draftmeter.measure.boot.running_server", None)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(
        NotWritten, match=r"attempt-1: cannot be written: read-only file system; make it writable and start again"
    ):
        measure(one_run("good"), folder)


def test_a_record_grows_while_the_run_goes_on(folder: Path) -> None:
    what, seen = one_run("good", passes=60), []

    def look() -> None:
        while not (folder / "records" / "boot.json").exists() and len(seen) < 2000:
            path = partial(folder)
            if (path / "metrics-before.prom").exists() and (path / "requests.jsonl").exists():
                lines = (path / "server.log").read_text().splitlines()
                described = json.loads((path / "record.json").read_text())
                seen.append((len(read_requests(path, whole=False)), len(lines), described["end"]))
                assert all(map(is_statistics_line, lines))
            time.sleep(0.02)

    looking = threading.Thread(target=look)
    looking.start()
    measure(what, folder)
    looking.join()
    rows, lines, ends = zip(*seen, strict=True)
    assert set(ends) == {None}
    assert list(rows) == sorted(rows) and len({count for count in rows if 0 < count < 480}) >= 5
    assert any(count > 0 for count in lines)
    assert len(read_requests(finished(folder))) == 480


def test_the_first_request_of_a_long_run_is_sent_before_the_other_sessions_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    config = TESTS.parent / "config" / "h200.yaml"
    run = next(run for run in plan_boot(read_study(config), "production", "boot-1").runs if run.duration_s)
    assert run.workload.sessions is not None
    often = run.workload.sessions.model_copy(update={"sessions_per_minute": 600.0})
    run = run.model_copy(update={"workload": run.workload.model_copy(update={"sessions": often})})
    made: list[str] = []
    real = prompts._random_text
    monkeypatch.setattr(prompts, "_random_text", lambda *arguments: made.append("") or real(*arguments))

    class First(Exception):
        pass

    class Sends:
        clock = RunClock()

        async def send(self, turn: Turn, messages: list[dict[str, str]], due: float) -> tuple[RequestRow, str]:
            raise First

    with pytest.raises(First):
        asyncio.run(send_run(Sends(), run, Progress("a long run"), lambda row: None))  # type: ignore[arg-type]
    assert 0 < len(made) <= 4 * 24


class SetBack:
    """A wall clock that somebody sets back by an hour after the first look at it."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return time.time() - (3600 if self.looks >= 2 else 0)


def test_a_clock_that_steps_back_in_mid_run_spoils_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("draftmeter.measure.run.RunClock", lambda: RunClock(wall=SetBack()))
    began = time.time()
    measure(one_run("good"), folder)
    ended = time.time()
    record = read_record(finished(folder))
    assert record.clock_step_s == pytest.approx(-3600, abs=1)
    assert "the machine's clock was set by -3600" in capsys.readouterr().err
    assert record.end is not None
    assert began - 1 <= record.start.timestamp() <= record.end.timestamp() <= ended + 1
    for row in read_requests(finished(folder)):
        assert row.t_first is not None and row.t_last is not None
        assert began - 1 <= row.t_due <= row.t_sent <= row.t_first <= row.t_last <= ended + 1
        assert row.chunk_times == sorted(row.chunk_times) and 0 <= row.chunk_times[0] <= row.chunk_times[-1] < 60


def test_a_run_clock_follows_the_monotonic_clock() -> None:
    wall, monotonic = iter([1000.0, 400.0]), iter([5.0, 6.5, 8.0])
    clock = RunClock(lambda: next(wall), lambda: next(monotonic))
    assert clock.now() == 1001.5
    assert clock.step_s() == 400.0 - 1003.0


NVIDIA_SMI = """#!/bin/sh
echo "NVIDIA H200, GPU-aaaa-1, 143771, 570.86"
echo "NVIDIA H200, GPU-bbbb-2, 143771, 570.86"
echo "NVIDIA L4, GPU-cccc-3, [N/A], 570.86"
"""


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        (None, ["GPU-aaaa-1", "GPU-bbbb-2", "GPU-cccc-3"]),
        ("", []),
        ("2,0", ["GPU-cccc-3", "GPU-aaaa-1"]),
        ("GPU-bbbb", ["GPU-bbbb-2"]),
        ("1,-1,0", ["GPU-bbbb-2"]),
        ("MIG-dddd", ["MIG-dddd"]),
    ],
)
def test_only_gpus_that_the_server_can_use_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, uuids: list[str]
) -> None:
    (tmp_path / "nvidia-smi").write_text(NVIDIA_SMI)
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    found, driver = provenance.gpus(visible)
    assert [gpu.uuid for gpu in found] == uuids and driver == "570.86"
    assert all(gpu.memory_mib == (143771 if "H200" in gpu.name else None) for gpu in found)


def test_a_record_says_where_it_was_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = folder / "model" / "checkpoint"
    (checkpoint / "chat_template.jinja").write_text("{{ messages }}")
    (checkpoint / "tokenizer.json").write_text("{}")
    for name, value in {"CUDA_VISIBLE_DEVICES": "3", "SLURM_JOB_ID": "77", "APPTAINER_CONTAINER": "/images/one.sif"}.items():
        monkeypatch.setenv(name, value)
    measure(one_run("good", passes=1, environment={"CUDA_VISIBLE_DEVICES": "0"}), folder)
    record = read_record(finished(folder))
    assert (record.cuda_visible_devices, record.slurm_job_id, record.container) == ("0", "77", "/images/one.sif")
    assert record.gpus is not None and record.gpu == [gpu.name for gpu in record.gpus]
    assert record.tokenizer_sha256 is not None and record.draft_model is None
    inside = folder / "inside"
    inside.mkdir()
    (inside / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    assert record.chat_template_sha256 == provenance.chat_template_sha256(inside)
    (inside / "tokenizer_config.json").write_text("no JSON")
    assert provenance.chat_template_sha256(inside) is None
