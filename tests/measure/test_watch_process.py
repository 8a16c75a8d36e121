"""`draftmeter watch` as a process: what ends it, what a kill leaves, what a log full of secrets leaves in the record."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftmeter.cli import main
from draftmeter.record.watched import read_scrapes, read_watched
from interrupts import hears_ctrl_c
from made_up_server import engine_line
from watch_scene import HISTOGRAM, PAGE, SECRET, FakeServer, fake_server, histogram, logged, wait_until

COMMAND = [sys.executable, "-m", "draftmeter", "watch"]
PROMPT = "my password is hunter2"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with fake_server() as fake:
        yield fake


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "vllm.log"
    path.write_text(logged(1) + "\n")
    return path


class Watch:
    """A process that watches; it never outlives the test."""

    def __init__(self, server: FakeServer, record: Path, *more: str, key: str | None = None) -> None:
        self.record = record
        command = [*COMMAND, server.url, "--every", "0.1s", "--out", str(record), *more]
        environment = {**os.environ, **({} if key is None else {"DRAFTMETER_API_KEY": key})}
        before = sum(1 for _ in read_scrapes(record))
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, preexec_fn=hears_ctrl_c
        )
        wait_until(lambda: self.process.poll() is not None or sum(1 for _ in read_scrapes(record)) > before)

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def wait_for_line(self, text: str) -> None:
        wait_until(lambda: text in (self.record / "server.log").read_text())

    def end(self, number: signal.Signals) -> str:
        self.process.send_signal(number)
        shown, _ = self.process.communicate(timeout=10)
        return shown


def stored(record: Path) -> str:
    return "".join(path.read_text() for path in sorted(record.iterdir()))


def accepted_of(text: str) -> list[int]:
    """The number of each line that :func:`watch_scene.logged` made, in order."""
    return [int(line.split("Drafted: ")[1].split()[0]) // 30 for line in text.splitlines() if "SpecDecoding" in line]


@pytest.mark.parametrize(
    ("number", "ended_by"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGHUP")]
)
def test_a_signal_ends_it_with_a_whole_record(
    server: FakeServer, log: Path, tmp_path: Path, number: signal.Signals, ended_by: str
) -> None:
    record = tmp_path / "record"
    with Watch(server, record, "--log", str(log)) as watch:
        server.draft(3)
        with log.open("a") as file:
            file.write(logged(2) + "\n")
        shown = watch.end(number)
        assert watch.process.returncode == 0
    assert histogram(record) == [3 * count for count in HISTOGRAM]
    assert accepted_of((record / "server.log").read_text()) == [2]
    (session,) = read_watched(record).sessions
    assert session.end is not None and session.ended_by == ended_by
    assert "accepted 53.3%" in shown.splitlines()[-1]
    assert "Traceback" not in shown


def test_a_kill_leaves_a_record_that_the_next_watch_continues(server: FakeServer, log: Path, tmp_path: Path) -> None:
    record = tmp_path / "record"
    with Watch(server, record, "--log", str(log)) as watch, log.open("a", buffering=1) as file:
        server.draft(3)
        file.write(logged(2) + "\n")
        watch.wait_for_line("Drafted: 60 ")
        server.wait_for_scrapes(2)
        watch.end(signal.SIGKILL)
        assert histogram(record) == [3 * count for count in HISTOGRAM]
        (session,) = read_watched(record).sessions
        assert (session.end, session.ended_by) == (None, None)
        server.draft(4)
        file.write(logged(3) + "\n")
        with Watch(server, record, "--log", str(log)) as next_watch:
            server.draft(5)
            file.write(logged(4) + "\n")
            next_watch.end(signal.SIGTERM)
            assert next_watch.process.returncode == 0
    assert histogram(record) == [12 * count for count in HISTOGRAM]
    assert accepted_of((record / "server.log").read_text()) == [2, 3, 4]
    assert [session.ended_by for session in read_watched(record).sessions] == [None, "SIGTERM"]


def test_prompts_replies_and_keys_are_never_stored(server: FakeServer, log: Path, tmp_path: Path) -> None:
    record = tmp_path / "record"
    stamp = time.strftime("%m-%d %H:%M:%S", time.gmtime())
    request = f"(APIServer pid=71) INFO {stamp} [logger.py:39] Received request cmpl-1: prompt: "
    planted = [
        f"{request}'{PROMPT}', params: SamplingParams(...)",
        f"{request}'{PROMPT} SpecDecoding metrics: Accepted: {PROMPT} tokens, Drafted: 5 tokens'",
        f"{request}'{PROMPT}\\n{logged(7)} {PROMPT}'",
        f"{logged(8)}, {PROMPT}",
        f"{logged(9)}, note: {PROMPT}",
        f'{{"prompt": "{PROMPT}", "key": "{SECRET}"}}',
        f"Authorization: Bearer {SECRET}",
        f"{PROMPT} {engine_line(stamp)} {PROMPT}",
        PROMPT,
    ]
    with Watch(server, record, "--log", str(log), key=SECRET) as watch:
        with log.open("a") as file:
            file.write("\n".join([*planted, engine_line(stamp), logged(2)]) + "\n")
        watch.wait_for_line("Drafted: 60 ")
        shown = watch.end(signal.SIGTERM)
    assert ("Authorization", f"Bearer {SECRET}") in server.asked[0][2].items()
    for secret in (SECRET, "hunter2", "my password"):
        assert secret not in stored(record) + shown
    assert accepted_of((record / "server.log").read_text())[-1:] == [2]


def test_ignores_ctrl_c_where_its_shell_told_it_to(server: FakeServer, tmp_path: Path) -> None:
    record = tmp_path / "record"
    script = f"{' '.join(COMMAND)} {server.url} --every 0.1s --out {record} & echo $!; wait"
    with subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        pid = int(shell.stdout.readline())
        wait_until(lambda: len(list(read_scrapes(record))) > 0)
        os.kill(pid, signal.SIGINT)
        server.wait_for_scrapes(3)
        os.kill(pid, signal.SIGTERM)
    assert [session.ended_by for session in read_watched(record).sessions] == ["SIGTERM"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["localhost:8000"], "URL: found 'localhost:8000'; expected a scheme and a host, such as http://localhost:8000"),
        (
            ["http://127.0.0.1:9"],
            "http://127.0.0.1:9/metrics: connection refused; start the server, or add --wait",
        ),
        (["{url}", "--for", "soon"], "argument --for: found 'soon'; expected a duration above 0 with its unit"),
        (["{url}", "--every", "10"], "argument --every: found '10'; expected a duration above 0 with its unit"),
        (["{url}", "--zone", "CET"], "argument --zone: found 'CET'; expected an UTC offset"),
        (["{url}", "--log", "{here}/none.log"], "--log: {here}/none.log does not exist; expected the file that"),
        (["{url}", "--out", "{here}/file"], "--out: {here}/file is a file; expected a folder"),
        (["{page}"], "{page}/metrics: the answer holds no metric of vLLM; expected a vLLM server"),
        ([], "the following arguments are required: URL"),
    ],
)
def test_input_that_cannot_be_used_is_said_in_one_line(
    server: FakeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (tmp_path / "file").touch()
    with fake_server() as page:
        page.answer = PAGE
        places = {"url": server.url, "page": page.url, "here": tmp_path}
        given = ["--out", str(tmp_path / "record"), *(argument.format(**places) for argument in arguments)]
        try:
            code = main(["watch", *given])
        except SystemExit as refused:
            code = int(refused.code or 0)
    assert code == 2
    said = capsys.readouterr()
    assert said.err.splitlines()[-1].startswith("draftmeter watch: ")
    assert message.format(**places) in said.err.splitlines()[-1]
    assert said.out == ""
    assert not (tmp_path / "record").exists()


def test_a_record_that_cannot_be_written_is_said_in_one_line(server: FakeServer, tmp_path: Path) -> None:
    record = tmp_path / "record"
    with Watch(server, record) as watch:
        limit = f"import resource; resource.prlimit({watch.process.pid}, resource.RLIMIT_FSIZE, (1, 1))"
        subprocess.run([sys.executable, "-c", limit], check=True)
        shown, _ = watch.process.communicate(timeout=10)
    assert watch.process.returncode == 1
    assert f"draftmeter watch: the record in {record} cannot be written: " in shown
    assert "Traceback" not in shown
