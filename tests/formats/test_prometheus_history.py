"""Histories from a made-up Prometheus server: exact in pieces, credentials kept out, everything else refused with the cause."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.formats.families import relevant_lines
from draftmeter.formats.history import SelectorError, folder_names, matchers_of, targets_of, texts
from draftmeter.formats.metrics import read_metrics
from draftmeter.measure import prometheus_history
from draftmeter.measure.prometheus_history import AUTHORIZATION_VARIABLE, HistoryError, fetch_history, history_time
from draftmeter.record.watched import read_scrapes, read_watched

NOW = 1796000000.0
TOKENS = "vllm:generation_tokens_total"
LABELS = {"__name__": TOKENS, "engine": "0", "model_name": "m", "instance": "a:8000", "job": "vllm", "pod": "p-1"}
START = {"__name__": "process_start_time_seconds", "instance": "a:8000", "job": "vllm", "pod": "p-1"}


@dataclass
class MadeUpPrometheus:
    """Answers with these samples (labels, [(t, number)]); it ignores selectors, but asked for a start time gives only that."""

    stored: list[tuple[dict[str, str], list[tuple[float, str]]]]
    left_open: bool = False
    """Whether a range leaves its left end out, as since Prometheus 3."""
    warnings: list[str] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    most_points: int = 0

    def series(self, start: float, end: float) -> list[dict[str, str]]:
        return [labels for labels, _ in self.stored if labels["__name__"] != START["__name__"]]

    def query(self, query: str, end: float) -> dict[str, Any]:
        match = re.search(r"\[(\d+)ms\]$", query)
        assert match is not None
        start = end - int(match[1]) / 1000
        wants_start = query.startswith(START["__name__"])
        result = []
        for labels, samples in self.stored:
            inside = [[t, number] for t, number in samples if (start < t or (start == t and not self.left_open)) and t <= end]
            if inside and (labels["__name__"] == START["__name__"]) == wants_start:
                result.append({"metric": labels, "values": inside})
                self.most_points = max(self.most_points, len(inside))
        return {"resultType": "matrix", "result": result}

    def answer(self, path: str) -> tuple[int, str]:
        parts = urlsplit(path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/api/v1/series":
            data: Any = self.series(float(asked["start"]), float(asked["end"]))
        else:
            data = self.query(asked["query"], float(asked["time"]))
        return 200, json.dumps({"status": "success", "data": data, "warnings": self.warnings})


@contextmanager
def served(answer: Callable[[str], tuple[int, str]], seen: list[str | None] | None = None, location: str = "") -> Iterator[str]:
    """The place of a server that answers a path so; it notes the Authorization headers, and redirects to `location`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if seen is not None:
                seen.append(self.headers["Authorization"])
            status, body = answer(self.path)
            self.send_response(status)
            if location:
                self.send_header("Location", location + self.path)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def counting(n: int, step: float = 15.0, start: float = NOW) -> list[tuple[float, str]]:
    return [(start + step * i, str(10 * i)) for i in range(n)]


@pytest.mark.parametrize("left_open", [False, True])
@pytest.mark.parametrize("step", [None, 15.0, 60.0])
def test_pieces_join_exactly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, left_open: bool, step: float | None) -> None:
    monkeypatch.setattr(prometheus_history, "POINTS_PER_SERIES", 20)
    samples = counting(90) + counting(60, start=NOW + 90 * 15 + 4000)
    starts = [(t, "1.79e9") for t, _ in samples]
    prometheus = MadeUpPrometheus([(LABELS, samples), (START, starts)], left_open)
    with served(prometheus.answer) as place:
        (folder,) = fetch_history(f"http://{place}", "", NOW, samples[-1][0], step, tmp_path)
    rows = list(read_scrapes(folder))
    assert [row.t for row in rows] == [t for t, _ in samples]
    assert rows[7].text == f'{TOKENS}{{engine="0",model_name="m"}} 70\nprocess_start_time_seconds 1.79e9\n'
    assert read_metrics(rows[7].text).engines[0].start_time == 1.79e9
    assert read_watched(folder).every_s == (step or 15.0)
    assert prometheus.most_points <= 20 * (4 if step == 60 else 1) + 1


def test_only_the_range_is_read_and_unfinished_records_of_before_are_replaced(tmp_path: Path) -> None:
    (tmp_path / ".a_8000.unfinished").mkdir()
    (tmp_path / ".a_8000.unfinished" / "scrapes.jsonl").write_text("left over\n")
    with served(MadeUpPrometheus([(LABELS, counting(100))]).answer) as place:
        (folder,) = fetch_history(f"http://{place}", "{}", NOW + 30, NOW + 75, None, tmp_path)
    assert [row.t - NOW for row in read_scrapes(folder)] == [30, 45, 60, 75]
    assert [path.name for path in tmp_path.iterdir()] == ["a_8000"]


def test_instances_are_kept_apart_and_one_without_samples_is_left_out(tmp_path: Path) -> None:
    def labels(**others: str) -> dict[str, str]:
        return {**LABELS, **others}

    stored = [(labels(instance="a:8000"), counting(3)), (labels(instance="b:8000"), counting(3)), (labels(instance="c:8000"), [])]

    class Selective(MadeUpPrometheus):
        def query(self, query: str, end: float) -> dict[str, Any]:
            one = [(labels, samples) for labels, samples in self.stored if f'instance="{labels["instance"]}"' in query]
            return MadeUpPrometheus(one).query(query, end)

    with served(Selective(stored).answer) as place:
        folders = fetch_history(f"http://{place}", "", NOW, NOW + 60, None, tmp_path)
    assert [folder.name for folder in folders] == ["a_8000", "b_8000"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a_8000", "b_8000"]
    assert [read_watched(folder).instance for folder in folders] == ["a:8000", "b:8000"]


def test_what_prometheus_warns_of_is_noted(tmp_path: Path) -> None:
    with served(MadeUpPrometheus([(LABELS, counting(3))], warnings=["one store did not answer"]).answer) as place:
        (folder,) = fetch_history(f"http://{place}", "", NOW, NOW + 60, None, tmp_path)
    assert "the Prometheus server warned: one store did not answer" in read_watched(folder).notes


def test_credentials_are_sent_but_never_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, url, header in (("url", "http://me:s3cret@{}", "Basic bWU6czNjcmV0"), ("variable", "http://{}", "Bearer s3cret")):
        seen: list[str | None] = []
        if name == "variable":
            monkeypatch.setenv(AUTHORIZATION_VARIABLE, "Bearer s3cret")
        with served(MadeUpPrometheus([(LABELS, counting(3))]).answer, seen) as place:
            (folder,) = fetch_history(url.format(place), "", NOW, NOW + 60, None, tmp_path / name)
            assert read_watched(folder).url == f"http://{place}"
        assert set(seen) == {header}
        assert "s3cret" not in "".join(path.read_text() for path in folder.iterdir())
    with pytest.raises(HistoryError, match="only one of them") as caught:
        fetch_history("http://me:s3cret@127.0.0.1:1", "", NOW, NOW + 60, None, tmp_path)
    assert "s3cret" not in str(caught.value)
    monkeypatch.setenv(AUTHORIZATION_VARIABLE, "Bearer s3cret\n")
    with pytest.raises(HistoryError, match="unprintable") as caught:
        fetch_history("http://127.0.0.1:1", "", NOW, NOW + 60, None, tmp_path)
    assert "s3cret" not in str(caught.value)


def test_credentials_do_not_follow_a_redirection(tmp_path: Path) -> None:
    elsewhere: list[str | None] = []
    with (
        served(MadeUpPrometheus([(LABELS, counting(3))]).answer, elsewhere) as target,
        served(lambda _: (302, ""), location=f"http://{target}") as place,
    ):
        fetch_history(f"http://me:s3cret@{place}", "", NOW, NOW + 60, None, tmp_path)
    assert set(elsewhere) == {None}


OTHER_ANSWERS = {
    "not a Prometheus server": (200, "<html>Grafana</html>"),
    "did not answer as its HTTP API does": (200, '{"data": []}'),
    "HTTP 401 .*; give a name and password in the URL, or DRAFTMETER_PROMETHEUS_AUTHORIZATION": (401, "who?"),
    "HTTP 404 .*expected a Prometheus server": (404, "404 page not found"),
    "HTTP 422 .*: too many samples": (422, '{"status": "error", "errorType": "execution", "error": "too many samples"}'),
}


@pytest.mark.parametrize(("message", "answer"), OTHER_ANSWERS.items())
def test_other_answers_are_refused_with_the_cause(tmp_path: Path, message: str, answer: tuple[int, str]) -> None:
    with served(lambda _: answer) as place, pytest.raises(HistoryError, match=message):
        fetch_history(f"http://{place}", "", NOW, NOW + 60, None, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_on_the_way_leaves_nothing_behind(tmp_path: Path) -> None:
    prometheus = MadeUpPrometheus([(LABELS, counting(3))])
    with (
        served(lambda path: prometheus.answer(path) if "/series" in path else (503, "")) as place,
        pytest.raises(HistoryError, match="HTTP 503"),
    ):
        fetch_history(f"http://{place}", "", NOW, NOW + 60, None, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "selector", "span", "step", "message"),
    [
        ("http://127.0.0.1:9", "", (NOW, NOW + 60), None, "cannot be asked: .*refused"),
        ("prometheus:9090", "", (NOW, NOW + 60), None, "--prometheus: URL: found 'prometheus:9090'"),
        ("http://127.0.0.1:9", "", (NOW, NOW), None, "expected a start before the end"),
        ("http://127.0.0.1:9", "", (NOW + 60, NOW), None, "expected a start before the end"),
        ("http://127.0.0.1:9", "", (NOW, NOW + 60), 0.0, "step: found 0 s"),
        ("http://127.0.0.1:9", "rate(x[5m])", (NOW, NOW + 60), None, "selector: found"),
    ],
)
def test_unusable_questions(
    tmp_path: Path, url: str, selector: str, span: tuple[float, float], step: float | None, message: str
) -> None:
    with pytest.raises(HistoryError, match=message):
        fetch_history(url, selector, *span, step, tmp_path)


@pytest.mark.parametrize(
    ("selector", "inner"),
    [
        ("", ""),
        ("{}", ""),
        (' { job = "vllm" , } ', 'job = "vllm"'),
        ('{job="vllm",instance=~"a.*|b}"}', 'job="vllm",instance=~"a.*|b}"'),
        ('vllm:generation_tokens_total{job!="x"}', 'job!="x"'),
        ("vllm:generation_tokens_total", ""),
        ("job='vllm'", "job='vllm'"),
        ('{a="\\"",b=`"`}', 'a="\\"",b=`"`'),
    ],
)
def test_selectors(selector: str, inner: str) -> None:
    assert matchers_of(selector) == inner


@pytest.mark.parametrize(
    "selector",
    ['{job="vllm"', 'rate(a{b="c"}[5m])', 'a{b="c"}[5m]', '{a="b"} or {c="d"}', '{__name__="a"}', "{a}", '{a="b" c="d"}'],
)
def test_what_is_no_selector_is_refused(selector: str) -> None:
    with pytest.raises(SelectorError, match=r'expected labels in braces such as \{job="vllm"\}'):
        matchers_of(selector)


@pytest.mark.parametrize(
    ("text", "t"),
    [
        ("now", NOW),
        ("-24h", NOW - 86400),
        ("-90m", NOW - 5400),
        ("-1.5d", NOW - 129600),
        ("-2w", NOW - 1209600),
        ("-1h30m", NOW - 5400),
        ("1796000000", NOW),
        ("1796000000.5", NOW + 0.5),
        ("2026-11-30T00:53:20Z", NOW),
        ("2026-11-30T01:53:20+01:00", NOW),
    ],
)
def test_times(text: str, t: float) -> None:
    assert history_time(text, NOW) == t


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-30T01:53:20", "2026-11-30", "24h", "-24", "-24x"])
def test_times_without_zone_or_sense_are_refused(text: str) -> None:
    with pytest.raises(HistoryError, match="expected one with its zone"):
        history_time(text, NOW)


def test_replicas_and_pods_of_one_target_keep_what_tells_them_apart() -> None:
    series = [{**LABELS, "ReplicaId": replica, "rack": "r1"} for replica in "ab"]
    (target,) = targets_of(series)
    assert (target.instance, target.models, target.n_series) == ("a:8000", ("m",), 2)
    assert target.matchers == 'job="vllm",instance="a:8000",cluster="",prometheus="",prometheus_replica=""'
    ((t, text),) = texts([(labels, [(NOW, "5")]) for labels in series], [], target)
    assert t == NOW
    assert text == "".join(f'{TOKENS}{{ReplicaId="{replica}",engine="0",model_name="m"}} 5\n' for replica in "ab")


def test_folders_have_names_of_their_own() -> None:
    def named(*instances: tuple[str, str]) -> list[str]:
        return folder_names(targets_of([{**LABELS, "job": job, "instance": instance} for job, instance in instances]))

    assert named(("v", "http://a/b:1"), ("v", "c:2")) == ["c_2", "http_a_b_1"]
    assert named(("v", "a:1"), ("w", "a:1")) == ["v_a_1", "w_a_1"]
    assert named(("v", "a:1"), ("v", "a.1")) == ["a_1", "a_1_2"]
    assert named(("", "")) == ["target"]


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_label_comes_back_from_the_text(model: str, replica: str) -> None:
    series = [({**LABELS, "model_name": model, "r": value}, [(NOW, "5")]) for value in (replica, replica + "x")]
    (target,) = targets_of([labels for labels, _ in series])
    ((_, text),) = texts(series, [], target)
    assert relevant_lines(text) == text
    assert {reading.key.model for reading in read_metrics(text).engines} == {model}
    assert sum(reading.counters.generation_tokens or 0 for reading in read_metrics(text).engines) == 10
