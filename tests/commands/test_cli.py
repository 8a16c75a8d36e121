"""The command line: exit codes, one line for each error, help with an example, a short start."""

import io
import json
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

from draftmeter.cli import COMMANDS, main
from draftmeter.commands import read
from draftmeter.study.config import read_config
from made_up_files import log_text
from made_up_server import ServerState, exposition

SETTINGS = ["--zone", "+01:00", "--year", "2026", "--log-interval", "10s"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text(log_text())
    return path


def test_read_says_what_it_wrote(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", str(log), "--out", str(tmp_path / "out"), *SETTINGS]) == 0
    out = capsys.readouterr().out
    first, second = out.splitlines()
    assert first == f"{tmp_path}/out: intervals 4, counters 1, requests 0 rows, from 1 source; see {tmp_path}/out/reading.json"
    assert second.endswith(f"snakemake --configfile {tmp_path}/out/archive.yaml --directory {tmp_path}/out")
    (source,) = read_config(tmp_path / "out/archive.yaml").sources
    assert (source.path, source.settings.zone) == (str(log), "+01:00")
    described = json.loads((tmp_path / "out/reading.json").read_text())
    assert described["settings"] == {"zone": "+01:00", "year": 2026, "log_interval_s": 10.0, "k": None, "intervals": "auto"}


def test_refused_records_are_one_line_on_standard_error(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = log_text()
    damaged = whole[: whole.index("Drafted: 300 tokens") + 3] + "\n" + whole[whole.index("Avg Draft acceptance rate") :]
    log.write_text(damaged)
    assert main(["read", str(log), "--out", str(tmp_path / "out"), *SETTINGS]) == 0
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith(f"draftmeter read: {log}: 1 records refused, the first at byte ") and rest == []
    (file,) = json.loads((tmp_path / "out/reading.json").read_text())["files"]
    assert file["refused_count"] == 1 and file["refused"][0]["offset"] > 0 and file["refused"][0]["reason"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(exposition(ServerState([1, 2, 3, 4])).encode())))
    assert main(["report", "-", "--json"]) == 0
    (source,) = json.loads(capsys.readouterr().out)["sources"]
    assert (source["source"], source["figures"]["drafts"]["value"]) == ("-", 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["read", "nowhere", "--out", "out"], "read: nowhere: no such file or folder"),
        (["read", "--out", "out"], "read: no PATH given; give files or folders, - for standard input, or --prometheus URL"),
        (["read", "log", "--out", "log"], "read: --out: log is a file; expected a folder, or a name that is not there yet"),
        (["read", "log", "--out", "out", "--step", "15s"], "read: --step goes with --prometheus URL"),
        (["read", "log", "--out", "out", "--prometheus", "http://p"], "read: found both a PATH and --prometheus; read them"),
        (
            ["read", "--out", "out", "--prometheus", "http://p", "--to", "now"],
            "read: --prometheus needs --selector, --from as well",
        ),
        (
            ["read", "--out", "out", "--prometheus", "http://p", "--selector", "{}", "--to", "now", "--from", "yesterday"],
            "read: time: found 'yesterday'; expected one with its zone",
        ),
        (["report", "nowhere"], "report: nowhere: no such file or folder"),
        (["doctor", "nowhere"], "doctor: nowhere: no such file or folder"),
    ],
)
def test_unusable_input_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log").write_text(log_text())
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith(f"draftmeter {message}") and captured.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--zone", "Europe/Berlin", "expected an UTC offset such as +01:00"),
        ("--zone", "+25:00", "expected an UTC offset such as +01:00"),
        ("--year", "26", "expected a year such as 2026"),
        ("--log-interval", "ten", "expected a duration above 0"),
        ("--k", "0", "expected a whole number above 0"),
        ("--intervals", "both", "invalid choice"),
    ],
)
def test_a_wrong_setting_names_what_would_be_right(
    option: str, value: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["read", "log", "--out", "out", f"{option}={value}"])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert message in error and option in error


def test_a_history_becomes_records_and_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple] = []

    def fetch(url: str, selector: str, start: float, end: float, step: float | None, out: Path) -> list[Path]:
        asked.append((url, selector, round(end - start), step))
        from made_up_files import write_watched_record  # noqa: PLC0415

        return [write_watched_record(out / name) for name in ("one", "two")]

    monkeypatch.setattr("draftmeter.measure.prometheus_history.fetch_history", fetch)
    monkeypatch.chdir(tmp_path)
    arguments = ["--prometheus", "http://p:9090", "--selector", '{job="vllm"}', "--from", "2h", "--to", "1h", "--step", "15s"]
    assert main(["read", *arguments, "--out", "out"]) == 0
    assert asked == [("http://p:9090", '{job="vllm"}', 3600, 15.0)]
    files = json.loads((tmp_path / "out/reading.json").read_text())["files"]
    assert [(file["source"], file["intervals"]) for file in files] == [("out/records/one", 4), ("out/records/two", 4)]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"example:\n  draftmeter {command} " in capsys.readouterr().out


def test_version_and_a_missing_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0 and capsys.readouterr().out == f"draftmeter {version('draftmeter')}\n"
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2


def test_ctrl_c_is_no_traceback(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(read, "run", interrupted)
    monkeypatch.setitem(COMMANDS, "read", COMMANDS["read"]._replace(module=read))
    assert main(["read", str(log), "--out", "out"]) == 130


def test_the_command_as_a_process_imports_only_what_it_needs(log: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from draftmeter.cli import main; status = main();"
        "print(sorted({'pandas', 'matplotlib', 'aiohttp', 'scipy', 'rich'} & set(sys.modules)), status)"
    )
    command = [sys.executable, "-c", code, "read", str(log), "--out", str(tmp_path / "out"), *SETTINGS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] 0"
    module = [sys.executable, "-m", "draftmeter", "report", str(tmp_path / "out")]
    done = subprocess.run(module, capture_output=True, text=True, check=True)
    assert any(
        line.split() == ["intervals", "4,", "1", "of", "them", "with", "enough", "drafts"] for line in done.stdout.splitlines()
    )


def test_sigterm_leaves_nothing_half_written(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "draftmeter", "read", "-", "--out", str(tmp_path / "out")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(log_text())
        process.stdin.flush()
        deadline = time.monotonic() + 30
        while not (tmp_path / "out").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert [path.name for path in (tmp_path / "out").iterdir()] == [f".writing-{process.pid}"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 128 + signal.SIGTERM
    assert not (tmp_path / "out").exists()


def test_a_reader_that_has_seen_enough_is_no_error(log: Path) -> None:
    command = f"{sys.executable} -m draftmeter report {log} --json | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "{\n", "")
