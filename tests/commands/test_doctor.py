"""What doctor says of a live server, a config, a log, a /metrics text and records, and its exit codes."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from draftmeter.cli import main
from made_up_files import log_text, write_watched_record
from made_up_records import write_boot
from made_up_server import ServerState, exposition

CONFIG = Path(__file__).parents[2] / "config"
KEY = "planted-key"
MODELS = json.dumps({"object": "list", "data": [{"id": "made-up", "max_model_len": 4096}]})
STEPS = {"per_step_accepted": [1], "per_step_drafted": [3]}
ACCEPTANCE = {"acceptance_histogram": [0, 1, 0, 0], "num_spec_steps": 1, "num_draft_tokens": 3, "num_accepted_draft_tokens": 1}
GOOD = {
    "/metrics": (200, exposition(ServerState([1, 2, 3, 4]))),
    "/version": (200, '{"version": "0.32.0"}'),
    "/v1/models": (200, MODELS),
}


@contextmanager
def server(answers: dict[str, tuple[int, str]]) -> Iterator[tuple[str, list[tuple[str, str, str | None, bytes]]]]:
    """A server with these answers by path; yields its address and what it was asked (method, path, authorization, body)."""
    asked: list[tuple[str, str, str | None, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append((self.command, self.path, self.headers.get("Authorization"), body))
            status, text = answers.get(self.path, (404, "not here"))
            self.send_response(status)
            if status in range(300, 400):
                self.send_header("Location", text)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = answer

        def log_message(self, *_: object) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{running.server_address[1]}", asked
    finally:
        running.shutdown()
        running.server_close()


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAFTMETER_API_KEY", raising=False)


def config() -> dict:
    return yaml.safe_load((CONFIG / "config.yaml").read_text())


def doctor(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[dict]]:
    code = main(["doctor", *map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_live_server_is_only_read(capsys: pytest.CaptureFixture[str]) -> None:
    with server(GOOD) as (url, asked):
        code, (found,) = doctor(capsys, f"{url}/metrics")
    assert code == 0 and found["study_possible"]
    assert (found["engine_version"], found["models"], found["k"], found["subject"]) == ("0.32.0", ["made-up"], 3, url)
    assert found["counters_by_position"] == {"there": True, "detail": "K = 3"}
    assert found["per_request_metrics"]["there"] is None and "--probe" in found["per_request_metrics"]["detail"]
    assert found["log_lines"]["there"] is None and found["problems"] == []
    assert any("differences of counters" in sentence for sentence in found["could_say"])
    assert [request[:3] for request in asked] == [("GET", path, None) for path in ("/metrics", "/version", "/v1/models")]


def test_the_key_goes_to_the_server_and_nowhere_else(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DRAFTMETER_API_KEY", KEY)
    with server(GOOD) as (elsewhere, asked_elsewhere), server(GOOD | {"/version": (302, f"{elsewhere}/version")}) as (url, asked):
        assert main(["doctor", url]) == 0
    out = capsys.readouterr()
    assert {request[2] for request in asked} == {f"Bearer {KEY}"} and asked_elsewhere == []
    assert KEY not in out.out + out.err and "/version: HTTP 302" in out.out


@pytest.mark.parametrize(
    ("reply", "there", "detail"),
    [
        ({"metrics": {"speculative_decoding": ACCEPTANCE | STEPS}}, True, "the reply had them, with every step"),
        ({"metrics": {"speculative_decoding": ACCEPTANCE}}, True, "the reply had them, but not of every step"),
        ({"metrics": None}, False, "the reply had none"),
        ({}, False, "the reply had none"),
    ],
)
def test_a_probe_sees_per_request_metrics(reply: dict, there: bool, detail: str, capsys: pytest.CaptureFixture[str]) -> None:
    with server(GOOD | {"/v1/chat/completions": (200, json.dumps(reply))}) as (url, asked):
        code, (found,) = doctor(capsys, url, "--probe")
    assert code == 0
    assert found["per_request_metrics"]["there"] is there and found["per_request_metrics"]["detail"].startswith(detail)
    method, path, _, body = asked[-1]
    assert (method, path, json.loads(body)["model"], json.loads(body)["max_tokens"]) == (
        "POST",
        "/v1/chat/completions",
        "made-up",
        24,
    )


def test_a_probe_of_a_model_without_a_chat_template(capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.dumps({"metrics": {"speculative_decoding": ACCEPTANCE}})
    with server(GOOD | {"/v1/completions": (200, answer)}) as (url, asked):
        _, (found,) = doctor(capsys, url, "--probe")
    assert found["per_request_metrics"]["there"] is True and len(asked) == 5
    with server(GOOD) as (url, _):
        _, (found,) = doctor(capsys, url, "--probe")
    assert found["per_request_metrics"] == {"there": None, "detail": "the probe failed: HTTP 404 Not Found"}


def test_a_server_that_cannot_be_measured(capsys: pytest.CaptureFixture[str]) -> None:
    text = "".join(line for line in GOOD["/metrics"][1].splitlines(keepends=True) if "spec_decode" not in line)
    with server({"/metrics": (200, text), "/version": (200, "no json")}) as (url, _):
        code, (found,) = doctor(capsys, url)
    assert code == 1 and not found["study_possible"] and found["could_say"] == []
    assert "peculation is off" in found["counters"]["detail"]
    assert found["problems"][:2] == ["/version: the answer is no JSON", "/v1/models: HTTP 404 Not Found"]


def test_an_address_without_a_server_is_unusable(capsys: pytest.CaptureFixture[str]) -> None:
    with server({"/metrics": (401, "who are you?")}) as (url, _):
        assert main(["doctor", url]) == 2
    refused = f"draftmeter doctor: {url}/metrics: HTTP 401 Unauthorized: the server wants another key or none\n"
    assert capsys.readouterr().err == refused
    assert main(["doctor", url]) == 2
    assert capsys.readouterr().err == f"draftmeter doctor: {url}/metrics: connection refused\n"
    assert main(["doctor", "ftp://localhost"]) == 2
    assert capsys.readouterr().err.startswith("draftmeter doctor: URL: found 'ftp://localhost'")


def test_a_config_is_judged_server_by_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text((CONFIG / "config.yaml").read_text())
    code, found = doctor(capsys, path)
    assert code == 0 and [item["subject"] for item in found] == [f"{path}: {name}" for name in config()["servers"]]
    measured = [item for item in found if not item["baseline"]]
    assert len(measured) == 3 and all(item["k"] == 3 and item["per_request_metrics"]["there"] for item in measured)
    (baseline,) = (item for item in found if item["baseline"])
    assert baseline["k"] is None and baseline["study_possible"]
    assert baseline["could_not_say"] == ["Anything about acceptance: it makes no drafts."]
    assert main(["doctor", str(path)]) == 0
    assert "K                     none (speculative: null)" in capsys.readouterr().out


def test_a_config_with_open_ends_makes_no_study_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = doctor(capsys, CONFIG / "h200.yaml")
    assert code == 1
    assert any("revision: unresolved" in problem for item in found for problem in item["blocking"])


def test_a_wrong_config_says_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = config()
    wrong["surprise"] = 1
    del wrong["analysis"]["min_drafts"]
    (tmp_path / "config").write_text(yaml.safe_dump(wrong))
    code, (found,) = doctor(capsys, tmp_path / "config")
    assert code == 1
    assert found["blocking"] == [
        "the config is not usable:",
        "analysis.min_drafts: missing; every key must be given, a config is one complete file",
        "surprise: unknown key; see config/README.md for the keys there are",
    ]
    (tmp_path / "config.yaml").write_text("- a\n- list\n")
    assert main(["doctor", str(tmp_path / "config.yaml")]) == 2
    assert capsys.readouterr().err.endswith("config.yaml: found list; a config is a mapping of keys\n")


def archive(path: str) -> dict:
    stored = yaml.safe_load((CONFIG / "archive.yaml").read_text())
    stored["study"]["kind"], stored["known_answer"] = "served_model", None
    stored["sources"] = [{"path": path, "workload": "traffic", "settings": None}]
    return stored


def test_an_archive_is_judged_by_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_watched_record(tmp_path / "stored/record")
    (tmp_path / "stored/server.log").write_text(log_text())
    (tmp_path / "archive.yaml").write_text(yaml.safe_dump(archive("stored")))
    code, (found,) = doctor(capsys, tmp_path / "archive.yaml")
    assert code == 0
    assert (found["kind"], found["k"], found["engine_version"]) == ("archive of 2 sources", 3, "0.32.0")
    assert found["counters"] == {"there": True, "detail": "in 1 of 2 sources"}
    assert found["log_lines"] == {"there": True, "detail": "in 1 of 2 sources"}


def test_an_archive_of_nothing_is_no_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "archive.yaml").write_text(yaml.safe_dump(archive("stored")))
    code, (found,) = doctor(capsys, tmp_path / "archive.yaml")
    assert code == 1 and any("found no file at" in problem for problem in found["blocking"])
    (tmp_path / "stored").mkdir()
    (tmp_path / "stored/prose").write_text("hello\n")
    code, (found,) = doctor(capsys, tmp_path / "archive.yaml")
    assert code == 1 and any("neither a /metrics text nor a log" in problem for problem in found["blocking"])


def test_a_log_has_intervals_and_no_counters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "server.log").write_text(log_text())
    code, (found,) = doctor(capsys, tmp_path / "server.log", "--zone", "+00:00", "--year", "2026")
    assert code == 0
    assert (found["kind"], found["engine_version"], found["k"]) == ("vLLM log", "0.32.0", 3)
    assert found["counters"] == {"there": False, "detail": "a log holds none"}
    assert found["log_lines"]["there"] and found["log_lines"]["detail"].startswith("4 intervals")
    assert any("misses intervals" in sentence for sentence in found["could_not_say"])


def test_records_and_metrics_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_boot(tmp_path / "boot-1")
    code, found = doctor(capsys, tmp_path / "boot-1")
    assert code == 0 and [item["per_request_metrics"]["detail"] for item in found] == ["10 requests", "12 requests"]
    assert all(item["log_lines"]["there"] and item["log_interval_s"] == 2.0 for item in found)
    record = write_watched_record(tmp_path / "watched")
    code, (found_record,) = doctor(capsys, record)
    assert code == 0 and found_record["engine_version"] == "0.32.0" and found_record["log_lines"]["there"] is False
    assert any("differences of counters" in sentence for sentence in found_record["could_say"])
    (tmp_path / "dump").write_text(exposition(ServerState([1, 2, 3, 4])))
    code, (dump,) = doctor(capsys, tmp_path / "dump")
    assert code == 0 and any("Nothing about intervals" in sentence for sentence in dump["could_not_say"])


def test_unusable_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "prose").write_text("SpecDecoding is fine.\n")
    for arguments, message in {
        (str(tmp_path / "prose"),): "neither a /metrics text nor a log",
        (str(tmp_path / "nowhere"),): "no such file or folder",
        (str(tmp_path / "prose"), "--probe"): "--probe is for a live server",
    }.items():
        assert main(["doctor", *arguments]) == 2
        assert message in capsys.readouterr().err
