"""Stored files of a server as runs: what each gives the tables, how it is named, and what is refused."""

import gzip
import logging
from pathlib import Path

import pandas as pd
import pytest

from draftmeter.collect.tables import CollectError, Tables, build_tables
from draftmeter.record.watched import ScrapeRow, Session, Watched, write_watched
from draftmeter.study.archive import SourceSettings, StoredSource
from made_up_records import START, log_lines, random_requests, write_boot
from made_up_server import ServerState, exposition

ROWS = random_requests(12)
SETTINGS = SourceSettings(zone="+00:00", year=2031, log_interval_s=2.0, k=None, intervals="auto")


def write_log(path: Path) -> Path:
    path.write_text("".join(f"{line}\n" for line in ["INFO a line of another kind", *log_lines(ROWS)]))
    return path


def source(path: Path, workload: str = "traffic", settings: SourceSettings | None = SETTINGS) -> StoredSource:
    return StoredSource(given=path.name, at=str(path), workload=workload, settings=settings)


def state(drafts: int) -> ServerState:
    """A server after so many hundred drafts of three tokens."""
    return ServerState([40 * drafts, 30 * drafts, 20 * drafts, 10 * drafts], 200 * drafts, 50, 10, {"stop": drafts})


def watch(folder: Path) -> Path:
    """A watched record of twelve scrapes, one every ten seconds, with a restart in the middle."""
    folder.mkdir()
    rows = []
    for number in range(12):
        text = exposition(state(number % 6), start_time=START.timestamp() + (55 if number >= 6 else -100))
        rows.append(ScrapeRow(t=START.timestamp() + 10 * number, text=text))
    (folder / "scrapes.jsonl").write_text("".join(row.line() for row in rows))
    write_watched(
        folder,
        Watched(
            url="http://127.0.0.1:8000",
            every_s=10.0,
            log=None,
            time_zone=None,
            engine_version="0.32.0",
            models=["made-up"],
            notes=[],
            sessions=[Session(start=START)],
            draftmeter_version="0.1.0",
        ),
    )
    return folder


def by_server(tables: Tables) -> dict[str, dict[str, object]]:
    return {row["server"]: row for row in tables.counters.to_dict("records")}


def test_a_log_gives_intervals_and_counts_by_lines(tmp_path: Path) -> None:
    tables = build_tables([], [source(write_log(tmp_path / "Nightly run.log"))])
    row = by_server(tables)["nightly-run"]
    drafts = sum(request.drafts or 0 for request in ROWS)
    assert (row["source"], row["run"], row["workload"], row["boot"], row["attempt"]) == (
        *("Nightly run.log", "traffic", "traffic", "boot-1"),
        1,
    )
    assert (row["counted_by"], row["k"], row["drafts"], row["draft_tokens"]) == ("lines", 3, drafts, 3 * drafts)
    assert tables.intervals["server"].tolist() == ["nightly-run"] * 6
    assert tables.intervals["drafted"].sum() == 3 * drafts
    assert (tables.intervals["end"] - START.timestamp()).tolist() == [2, 4, 6, 8, 10, 12]
    assert len(tables.requests) == 0
    (run,) = tables.runs.to_dict("records")
    assert (run["source_kind"], run["k"], run["log_interval_s"], run["workload"]) == ("vLLM log", 3, 2.0, "traffic")
    assert all(run[name] is pd.NA or pd.isna(run[name]) for name in ("study", "model", "precision", "sampling", "prompts"))
    assert set(tables.checks["status"]) == {"ok"} and "shares do not rise" in set(tables.checks["check"])


def test_a_text_of_metrics_gives_counters_since_the_start(tmp_path: Path) -> None:
    path = tmp_path / "scrape.prom"
    path.write_text(exposition(state(7)))
    tables = build_tables([], [source(path, settings=None)])
    row = by_server(tables)["scrape"]
    assert (row["counted_by"], row["k"], row["drafts"], row["accepted"], row["model"]) == ("counters", 3, 700, 700, "made-up")
    assert len(tables.intervals) == 0 and set(tables.checks["status"]) == {"ok"}


def test_engines_are_taken_together_and_models_are_not(tmp_path: Path) -> None:
    path = tmp_path / "scrape.prom"
    path.write_text(exposition(state(1), state(2)))
    assert by_server(build_tables([], [source(path)]))["scrape"]["drafts"] == 300
    lines = exposition(state(1)).splitlines(keepends=True)
    other = [line.replace("made-up", "other") for line in lines if 'model_name="made-up"' in line]
    text = ""
    for line in lines:
        twins = [twin for twin in other if twin == line.replace("made-up", "other") and twin != line]
        text += line + "".join(twins)
    path.write_text(text)
    with pytest.raises(CollectError, match=r"scrape\.prom: found counters of the models made-up, other; a workload is of one"):
        build_tables([], [source(path)])


def test_a_watched_record_gives_its_counters_over_a_restart(tmp_path: Path) -> None:
    tables = build_tables([], [source(watch(tmp_path / "day"), settings=None)])
    row = by_server(tables)["day"]
    assert (row["counted_by"], row["restarts"], row["drafts"]) == ("counters", 1, 1000)
    assert (row["engine_version"], row["model"], row["seconds"]) == ("0.32.0", "made-up", 110)
    assert set(tables.intervals["wording"]) == {"counters"}
    assert tables.intervals["drafts"].sum() == 1000
    assert set(tables.checks["status"]) == {"ok"}


def test_names_are_taken_once_and_records_come_first(tmp_path: Path) -> None:
    boot = write_boot(tmp_path / "records", server="nightly")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_log(tmp_path / name / "nightly.log")
    tables = build_tables([boot], [source(tmp_path / name / "nightly.log", "other") for name in ("a", "b")])
    assert tables.counters["server"].tolist() == ["nightly", "nightly", "nightly-2", "nightly-3"]
    assert tables.counters["workload"].tolist() == ["pair", "traffic", "other", "other"]
    assert tables.counters["restarts"].tolist()[:2] == [0, 0]


def test_a_folder_gives_its_usable_files_and_names_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log = write_log(folder / "server.log")
    (folder / "server.log.1.gz").write_bytes(gzip.compress(log.read_bytes()))
    (folder / "readme.txt").write_text("Logs of a server.\n")
    with caplog.at_level(logging.WARNING):
        tables = build_tables([], [source(folder)])
    assert tables.counters[["server", "source"]].to_numpy().tolist() == [
        ["server", "logs/server.log"],
        ["server-log-1", "logs/server.log.1.gz"],
    ]
    assert "readme.txt" in caplog.text


def test_what_cannot_be_used_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "diary.txt"
    path.write_text("Nothing was drafted today.\n")
    with pytest.raises(CollectError, match=r"^diary\.txt: nothing to be had from it: .*diary\.txt: "):
        build_tables([], [source(path)])
    (tmp_path / "off.prom").write_text(exposition(without=["vllm:num_requests_running"]))
    with pytest.raises(CollectError, match=r"off\.prom: nothing to be had from it"):
        build_tables([], [source(tmp_path / "off.prom")])
    with pytest.raises(CollectError, match="no such file"):
        build_tables([], [source(tmp_path / "gone.log")])
    (tmp_path / "packed.zip").write_bytes(b"PK\x03\x04rest")
    with pytest.raises(CollectError, match=r"packed\.zip: a zip archive"):
        build_tables([], [source(tmp_path / "packed.zip")])
