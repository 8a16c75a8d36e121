"""One session of a watch, in this process: what is asked, what is stored, and that it adds up to what the server counted."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from draftmeter.formats.metrics import read_metrics
from draftmeter.measure.watch.watching import Grid, ServerUnusable
from draftmeter.record.watched import read_watched
from watch_scene import (
    EVERY_S,
    HISTOGRAM,
    PAGE,
    SECRET,
    FakeServer,
    Watch,
    counted,
    fake_server,
    histogram,
    logged,
    rows,
    wait_until,
)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with fake_server() as fake:
        yield fake


def test_counters_of_the_record_are_the_servers(server: FakeServer, tmp_path: Path) -> None:
    server.draft(5)
    watch_ = Watch(tmp_path, server.url)

    def traffic() -> None:
        for _ in range(4):
            server.draft(2)
            server.wait_for_scrapes(1)
        server.draft()  # just before the end: only the last scrape sees it

    shown = watch_.run_while(traffic)
    assert histogram(tmp_path) == [9 * count for count in HISTOGRAM]
    record = read_watched(tmp_path)
    assert (record.url, record.every_s, record.k, record.models) == (server.url, EVERY_S, 3, ["made-up"])
    assert (record.engine_version, record.log, record.time_zone, record.notes) == ("0.32.0", None, None, [])
    assert [session.ended_by for session in record.sessions] == ["SIGTERM"]
    assert "restarts 0" in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scrapes.jsonl", "watch.json"]


def test_only_what_is_used_is_kept_and_only_get_requests_are_made(server: FakeServer, tmp_path: Path) -> None:
    Watch(tmp_path, server.url).run_while(lambda: server.wait_for_scrapes(2))
    text = rows(tmp_path)[-1].text
    assert text is not None
    assert "something_else" in server.answered[-1] and "something_else" not in text
    assert "# HELP" in server.answered[-1] and "# HELP" not in text
    assert read_metrics(text).engines == read_metrics(server.answered[-1]).engines
    asked = [(method, path) for method, path, _ in server.asked]
    assert set(asked) == {("GET", "/metrics"), ("GET", "/version")}
    assert asked.count(("GET", "/version")) == 1


def test_ends_at_the_time_given_with_a_last_scrape(server: FakeServer, tmp_path: Path) -> None:
    Watch(tmp_path, server.url, every_s=30.0, for_s=0.3).run()
    assert len(rows(tmp_path)) == 2
    (session,) = read_watched(tmp_path).sessions
    assert session.ended_by == "time" and session.end is not None
    assert 0.3 <= (session.end - session.start).total_seconds() < 3


def test_restarts_of_the_server_are_survived_and_added_up(server: FakeServer, tmp_path: Path) -> None:
    def restart() -> None:
        server.draft(5)
        server.wait_for_scrapes(2)
        server.stop()
        wait_until(lambda: rows(tmp_path)[-1].error is not None)
        server.version = "0.33.0"
        server.start()
        server.draft(2)
        server.wait_for_scrapes(2)

    shown = Watch(tmp_path, server.url).run_while(restart)
    assert histogram(tmp_path) == [7 * count for count in HISTOGRAM] == server.truth
    assert len(counted(tmp_path).restarts) == 1
    assert {row.error for row in rows(tmp_path)} - {None} == {"connection refused"}
    record = read_watched(tmp_path)
    assert record.engine_version == "0.33.0"
    assert len([note for note in record.notes if "version changed from 0.32.0 to 0.33.0" in note]) == 1
    assert "note: " in shown


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ({"status": 500}, "HTTP 500 Internal Server Error"),
        ({"status": 401}, "HTTP 401 Unauthorized: the server wants another key or none"),
        ({"status": 301}, "HTTP 301 Moved Permanently: the server's /metrics is at another address"),
        ({"answer": PAGE}, "the answer holds no metric of vLLM; expected a vLLM server"),
        ({"answer": ""}, "the answer holds no metric of vLLM; expected a vLLM server"),
        ({"answer": 'vllm:generation_tokens_total{engine="0"} 5.0\nvllm:gen'}, "the answer was cut short: it has no line feed"),
        ({"breaks_off": True}, "the answer broke off"),
        ({"garbles": True}, "the answer is no HTTP or broke off (BadStatusLine)"),
    ],
)
def test_a_server_in_trouble_is_an_error_row_and_watching_goes_on(
    server: FakeServer, tmp_path: Path, trouble: dict[str, object], reason: str
) -> None:
    before = {name: getattr(server, name) for name in trouble}

    def go_wrong() -> None:
        for values in (trouble, before):
            for name, value in values.items():
                setattr(server, name, value)
            server.wait_for_scrapes(2)

    Watch(tmp_path, server.url).run_while(go_wrong)
    found = rows(tmp_path)
    errors = [row.error for row in found if row.error is not None]
    assert errors and all(error.startswith(reason) for error in errors)
    assert found[0].text is not None and found[-1].text is not None


def test_a_slow_server_is_skipped_and_never_bunched(server: FakeServer, tmp_path: Path) -> None:
    def slow_down() -> None:
        server.delay_s = 0.25
        server.wait_for_scrapes(4)

    shown = Watch(tmp_path, server.url).run_while(slow_down)
    times = [row.t for row in rows(tmp_path)[1:]]
    assert min(later - earlier for earlier, later in pairwise(times)) > 0.2
    assert all(row.error is None for row in rows(tmp_path))
    assert "skipped" in shown


def test_a_server_that_drips_is_given_up(server: FakeServer, tmp_path: Path) -> None:
    def drip() -> None:
        server.drips = True
        wait_until(lambda: rows(tmp_path)[-1].error is not None)
        server.drips = False

    Watch(tmp_path, server.url).run_while(drip)
    assert "no whole answer within 1 s" in {row.error for row in rows(tmp_path)}


def test_a_grid_does_not_drift_and_leaves_out_what_is_late() -> None:
    grid = Grid(start=100.0, pace_s=10.0)
    assert grid.next == 100.0
    assert grid.move_past(100.2) == 0
    assert grid.next == 110.0
    assert grid.move_past(131.0) == 2
    assert grid.next == 140.0
    assert grid.move_past(140.0) == 0
    assert grid.next == 150.0


def test_without_a_server_it_begins_only_if_told_to_wait(server: FakeServer, tmp_path: Path) -> None:
    server.stop()
    out = tmp_path / "record"
    with pytest.raises(ServerUnusable, match="connection refused; start the server, or add --wait"):
        Watch(out, server.url).run()
    assert not out.exists()

    def start() -> None:
        server.start()
        server.wait_for_scrapes(1)
        server.draft(3)
        server.wait_for_scrapes(1)

    shown = Watch(out, server.url, wait=True).run_while(start)
    assert f"waiting for {server.url}: connection refused" in shown
    assert (rows(out)[0].error, rows(out)[-1].error) == ("connection refused", None)
    assert read_watched(out).k == 3


@pytest.mark.parametrize("trouble", [{"answer": PAGE}, {"status": 403}, {"status": 404}])
def test_another_kind_of_server_is_refused_even_with_wait(server: FakeServer, tmp_path: Path, trouble: dict[str, object]) -> None:
    for name, value in trouble.items():
        setattr(server, name, value)
    with pytest.raises(ServerUnusable, match=r"/metrics: (the answer holds no metric of vLLM|HTTP 40[34])"):
        Watch(tmp_path / "record", server.url, wait=True).run()
    assert not (tmp_path / "record").exists()


def test_a_server_without_speculation_is_watched_with_a_note(server: FakeServer, tmp_path: Path) -> None:
    server.answer = 'vllm:generation_tokens_total{engine="0",model_name="m"} 5.0\n'
    shown = Watch(tmp_path, server.url, for_s=0.2).run()
    assert "note: speculation is off" in shown
    record = read_watched(tmp_path)
    assert record.k is None and any("speculation is off" in note for note in record.notes)


def test_no_secret_is_written(server: FakeServer, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.touch()
    url = server.url.replace("http://", f"http://operator:{SECRET}@") + "/metrics/"
    shown = Watch(tmp_path / "a", url, for_s=0.1, log=log).run()
    shown += Watch(tmp_path / "b", server.url, key=SECRET, for_s=0.1, log=log).run()
    sent = {headers.get("Authorization", "") for _, _, headers in server.asked}
    assert f"Bearer {SECRET}" in sent and any(value.startswith("Basic ") for value in sent)
    stored = "".join(path.read_text() for name in "ab" for path in (tmp_path / name).iterdir())
    for value in [SECRET, "operator", *(value.split()[-1] for value in sent if value)]:
        assert value not in stored + shown
    assert read_watched(tmp_path / "a").url == server.url


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "vllm.log"
    path.write_text("the log before\n" * 50)
    return path


def write_lines(log: Path, record: Path, count: int) -> None:
    """So many statistics lines, each when the one before was stored."""
    for number in range(1, count + 1):
        with log.open("a") as file:
            file.write(f"a prompt\n{logged(number)}\n")
        wait_until(lambda: f"Drafted: {30 * number} " in (record / "server.log").read_text())  # noqa: B023


@pytest.mark.parametrize(
    ("given", "zone", "zone_from"), [(None, "+00:00", "measured"), ("+00:00", "+00:00", "--zone"), ("+05:30", "+05:30", "--zone")]
)
def test_the_zone_of_the_log_is_measured(
    server: FakeServer, log: Path, tmp_path: Path, given: str | None, zone: str, zone_from: str
) -> None:
    out = tmp_path / "record"
    watch_ = Watch(out, server.url, log=log, zone=given)
    watch_.run_while(lambda: write_lines(log, out, 4))
    record = read_watched(out)
    assert (record.log, record.time_zone, record.time_zone_from) == ("vllm.log", zone, zone_from)
    notes = [note for note in record.notes if "the log's new lines are stamped at UTC+00:00, not at +05:30" in note]
    assert len(notes) == (1 if given == "+05:30" else 0)
    assert len((out / "server.log").read_text().splitlines()) == 4


def test_a_log_that_was_replaced_in_between_is_noted(server: FakeServer, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "record"
    Watch(out, server.url, log=log, for_s=0.1).run()
    log.unlink()
    log.write_text(f"another log\n{logged(3)}\n")
    Watch(out, server.url, log=log, for_s=0.1).run()
    assert "Drafted: 90 " in (out / "server.log").read_text()
    assert [note for note in read_watched(out).notes if "the rest of it was not found; lines may be missing" in note]
