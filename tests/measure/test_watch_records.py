"""The record of a watch: continued, refused, locked, cut short by a kill."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftmeter.measure.watch.recording import locked
from draftmeter.record.watched import ScrapeRow, WatchedError, read_scrapes, read_watched
from watch_scene import EVERY_S, HISTOGRAM, FakeServer, Watch, fake_server, histogram, rows


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with fake_server() as fake:
        yield fake


def test_another_session_continues_the_record(server: FakeServer, tmp_path: Path) -> None:
    Watch(tmp_path, server.url).run_while(server.draft)
    server.draft(2)
    Watch(tmp_path, f"{server.url}/metrics", every_s=None).run_while(server.draft)
    assert histogram(tmp_path) == server.truth == [4 * count for count in HISTOGRAM]
    record = read_watched(tmp_path)
    assert [session.ended_by for session in record.sessions] == ["SIGTERM", "SIGTERM"]
    assert record.every_s == EVERY_S


def test_k_that_changes_is_null_with_a_note(server: FakeServer, tmp_path: Path) -> None:
    watch_ = Watch(tmp_path, server.url, for_s=0.1)
    watch_.run()
    assert read_watched(tmp_path).k == 3
    server.state.histogram = [1, 1, 0]
    watch_.run()
    watch_.run()
    record = read_watched(tmp_path)
    assert record.k is None
    assert len([note for note in record.notes if "K changed from 3 to 2" in note]) == 1


def test_a_record_of_something_else_is_refused_untouched(server: FakeServer, tmp_path: Path) -> None:
    out = tmp_path / "record"
    Watch(out, server.url, for_s=0.1, zone="+01:00").run()
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(WatchedError, match=rf"is a record of {server.url}, not of {server.url}/other; give another folder"):
        Watch(out, f"{server.url}/other").run()
    with pytest.raises(WatchedError, match=r"--every: .* has a scrape every 0.1 s; leave --every out"):
        Watch(out, server.url, every_s=5.0).run()
    with pytest.raises(WatchedError, match=r"--zone: .* has \+01:00, not \+02:00"):
        Watch(out, server.url, zone="+02:00").run()
    assert before == {path.name: path.read_bytes() for path in out.iterdir()}


def test_a_place_that_is_no_record_is_refused_untouched(server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WatchedError, match=r"--out: .*file is a file; expected a folder"):
        Watch(tmp_path / "file", server.url).run()
    with pytest.raises(WatchedError, match=r"--out: .* holds other files and no watch\.json"):
        Watch(tmp_path, server.url).run()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "watch.json").write_text('{"schema_version": 2}')
    with pytest.raises(WatchedError, match=r"watch\.json: not the watch\.json of a .* record: schema_version: .* should be 1$"):
        Watch(tmp_path / "broken", server.url).run()
    (tmp_path / "broken" / "server.log").touch()
    with pytest.raises(WatchedError, match=r"--log: .*server\.log lies in the record"):
        Watch(tmp_path / "broken", server.url, log=tmp_path / "broken" / "server.log").run()
    assert len(server.asked) == 0


def test_a_record_that_another_watch_writes_is_refused(server: FakeServer, tmp_path: Path) -> None:
    with locked(tmp_path):
        message = f"{tmp_path}: process {os.getpid()} is writing this record; end it first, or give another --out"
        with pytest.raises(WatchedError, match=re.escape(message)):
            Watch(tmp_path, server.url).run()
    Watch(tmp_path, server.url, for_s=0.1).run()
    (tmp_path / "watch.lock").write_text(f"{os.getpid()}\n")  # left behind by a kill: nobody holds it
    Watch(tmp_path, server.url, for_s=0.1).run()
    assert len(read_watched(tmp_path).sessions) == 2


def test_a_last_row_that_a_kill_cut_short_is_ignored_and_removed(server: FakeServer, tmp_path: Path) -> None:
    Watch(tmp_path, server.url, for_s=0.1).run()
    whole = rows(tmp_path)
    with (tmp_path / "scrapes.jsonl").open("a") as file:
        file.write('{"t":1796000000.0,"text":"vllm:generation_tok')
    assert rows(tmp_path) == whole
    Watch(tmp_path, server.url, for_s=0.1).run()
    found = rows(tmp_path)
    assert found[: len(whole)] == whole and len(found) > len(whole)


@pytest.mark.parametrize(
    "line", ['{"t":1.0}', '{"t":1.0,"text":"","error":""}', '{"t":1.0,"text":"","more":1}', "[]", "", "\0\0"]
)
def test_a_row_that_is_none_is_an_error_with_its_line(tmp_path: Path, line: str) -> None:
    whole = ScrapeRow(t=1.5, error="no answer")
    (tmp_path / "scrapes.jsonl").write_text(f"{whole.line()}{line}\n{whole.line()}")
    found = read_scrapes(tmp_path)
    assert next(found) == whole
    with pytest.raises(WatchedError, match=r"scrapes\.jsonl, line 2: not a row of a scrape: "):
        next(found)
