"""Files and records to tables: planted numbers come back, bytes are stable, what cannot be used is said."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from draftmeter.collect.columns import COUNTERS, INTERVALS, REQUESTS, TABLES, schema_of
from draftmeter.collect.inputs import InputError, Settings
from draftmeter.collect.read import read_paths, read_source, read_tables
from draftmeter.collect.tables import CollectError, build_tables
from draftmeter.record.run import RequestRow
from made_up_files import HISTOGRAMS, START, accepted_of, drafts_of, log_text, write_watched_record
from made_up_records import random_requests, write_boot
from made_up_server import ServerState, exposition

SETTINGS = Settings(zone="+00:00", year=2026, log_interval_s=10.0)
FILES = sorted([*(f"{name}.{suffix}" for name in TABLES for suffix in ("csv", "parquet")), "reading.json"])


def rows(out: Path, name: str) -> list[dict]:
    return pq.read_table(out / f"{name}.parquet").to_pylist()


def described(out: Path) -> dict:
    return json.loads((out / "reading.json").read_text())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "server.log"
    path.parent.mkdir()
    path.write_text(log_text())
    os.utime(path, (START.timestamp() + 60, START.timestamp() + 60))
    return path


def test_a_log_gives_its_intervals_and_their_sums(log: Path, tmp_path: Path) -> None:
    reading = read_paths([str(log)], SETTINGS, tmp_path / "out")
    assert reading.rows == {"intervals": 4, "counters": 1, "requests": 0}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES
    intervals = rows(tmp_path / "out", "intervals")
    assert [row["drafts"] for row in intervals] == [sum(histogram) for histogram in HISTOGRAMS]
    assert [row["running"] for row in intervals] == [1, 2, 3, 4]
    assert [row["end"] - START.timestamp() for row in intervals] == [10, 20, 30, 40]
    assert {(row["source"], row["window_s"], row["k"]) for row in intervals} == {(str(log), 10.0, 3)}
    (counters,) = rows(tmp_path / "out", "counters")
    assert (counters["counted_by"], counters["engine"], counters["k"]) == ("lines", "all", 3)
    assert (counters["drafts"], counters["draft_tokens"]) == (drafts_of(), 3 * drafts_of())
    assert [counters[f"accepted_{k}"] for k in (1, 2, 3)] == accepted_of()
    assert (counters["seconds"], counters["generation_tokens"], counters["restarts"]) == (40.0, None, None)
    (file,) = described(tmp_path / "out")["files"]
    assert (file["source"], file["kind"], file["k"], file["intervals"]) == (str(log), "vLLM log", 3, 4)
    assert {"format", "wordings", "k_from", "refused", "unknown", "warnings", "zone", "log_interval_from"} <= file.keys()


def test_the_csv_says_the_same_as_the_parquet(log: Path, tmp_path: Path) -> None:
    write_boot(tmp_path / "in" / "boot-1")
    read_paths([str(log.parent)], SETTINGS, tmp_path / "out")
    for name in TABLES:
        table = pq.read_table(tmp_path / "out" / f"{name}.parquet")
        types = pyarrow.csv.ConvertOptions(
            column_types=dict(zip(table.schema.names, table.schema.types, strict=True)),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        csv = pyarrow.csv.read_csv(tmp_path / "out" / f"{name}.csv", convert_options=types)
        assert csv.schema.names == schema_of(TABLES[name], 3).names
        assert csv.to_pylist() == table.to_pylist()


def test_bytes_do_not_depend_on_the_time_or_on_compression(log: Path, tmp_path: Path) -> None:
    for out in ("one", "two"):
        read_paths([str(log)], SETTINGS, tmp_path / out)
    for name in FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    compressed = {"gzip": gzip.compress(log.read_bytes()), "zstd": zstandard.compress(log.read_bytes())}
    for compression, data in compressed.items():
        log.write_bytes(data)
        os.utime(log, (START.timestamp() + 60, START.timestamp() + 60))
        read_paths([str(log)], SETTINGS, tmp_path / compression)
        for name in set(FILES) - {"reading.json"}:
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / compression / name).read_bytes()
        assert described(tmp_path / compression)["files"][0]["compression"] == compression


def test_a_folder_with_its_own_tables_is_read_as_before(log: Path) -> None:
    out = log.parent / "tables"
    read_paths([str(log.parent)], SETTINGS, out)
    before = {name: (out / name).read_bytes() for name in FILES}
    assert read_paths([str(log.parent)], SETTINGS, out).remarks == []
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_cut_gzip_is_read_as_far_as_it_goes_and_reported(log: Path, tmp_path: Path) -> None:
    data = gzip.compress(log_text([[n, n, n, n] for n in range(1, 60)]).encode())
    log.write_bytes(data[: len(data) * 3 // 4])
    reading = read_paths([str(log)], SETTINGS, tmp_path / "out")
    assert 20 < reading.rows["intervals"] < 59
    (file,) = described(tmp_path / "out")["files"]
    assert file["damage"].startswith("gzip: the file ends before its compressed data does; read up to byte")
    assert any("gzip: the file ends before" in remark for remark in reading.remarks)


def test_a_metrics_text_gives_counters_since_the_start(tmp_path: Path) -> None:
    text = exposition(
        ServerState([1, 2, 3, 4], 50, 60, 7, {"stop": 2, "length": 3}), ServerState([4, 3, 2, 1], 10, 10, 0, {"stop": 1})
    )
    (tmp_path / "dump.txt").write_text(text)
    read_paths([str(tmp_path / "dump.txt")], Settings(), tmp_path / "out")
    total, first, second = rows(tmp_path / "out", "counters")
    assert (total["engine"], total["model"], total["counted_by"]) == ("all", "made-up", "counters")
    assert (total["drafts"], total["accepted"], total["generation_tokens"], total["requests_finished"]) == (20, 30, 60, 6)
    assert [total[f"accepted_{k}"] for k in (1, 2, 3)] == [15, 10, 5]
    assert [(row["engine"], row["drafts"], row["accepted"]) for row in (first, second)] == [("0", 10, 20), ("1", 10, 10)]
    assert total["start_time"] == 1796000000.25 and total["end"] is None and total["seconds"] is None
    (file,) = described(tmp_path / "out")["files"]
    assert (file["kind"], file["k"], file["engines"], file["models"]) == ("/metrics text", 3, ["0", "1"], ["made-up"])
    assert file["intervals"] == 0 and "does not say when it was read" in file["unknown"]["end"]


def test_a_server_without_speculation_is_read_and_said(tmp_path: Path) -> None:
    text = "".join(line for line in exposition(ServerState([1, 2])).splitlines(keepends=True) if "spec_decode" not in line)
    (tmp_path / "dump.txt").write_text(text)
    reading = read_paths([str(tmp_path / "dump.txt")], Settings(), tmp_path / "out")
    (row,) = rows(tmp_path / "out", "counters")
    assert (row["drafts"], row["k"]) == (None, None)
    (file,) = described(tmp_path / "out")["files"]
    assert any("peculation is off" in warning for warning in file["warnings"])
    assert any("peculation is off" in remark for remark in reading.remarks)


def test_study_records_give_counters_intervals_and_requests(tmp_path: Path) -> None:
    boot = write_boot(tmp_path / "records/production/boot-1")
    read_paths([str(tmp_path / "records")], Settings(), tmp_path / "out")
    pair, traffic = rows(tmp_path / "out", "counters")
    planted = random_requests(12, seed=2)
    assert traffic["source"] == f"{boot.parent}/attempt-1/traffic"
    assert traffic["drafts"] == sum(row.drafts or 0 for row in planted)
    assert traffic["accepted_2"] == sum(sum((row.acceptance_histogram or [])[2:]) for row in planted)
    assert (traffic["prompt_tokens"], traffic["requests_finished"], traffic["seconds"], traffic["restarts"]) == (240, 12, 20.5, 0)
    requests = [row for row in rows(tmp_path / "out", "requests") if row["source"] == traffic["source"]]
    assert [row["accepted_3"] for row in requests] == [(row.acceptance_histogram or [])[3] for row in planted]
    assert [row["n_chunks"] for row in requests] == [3] * 12
    intervals = [row for row in rows(tmp_path / "out", "intervals") if row["source"] == pair["source"]]
    assert len(intervals) == 5 and sum(row["drafts"] for row in intervals) == pair["drafts"]
    files = described(tmp_path / "out")["files"]
    assert [file["lines_against_counters"]["draft_tokens"]["difference"] for file in files] == [0, 0]
    assert files[1]["run"] == {
        **{"study": "made-up", "server": "production", "boot": "boot-1", "attempt": 1, "run": "traffic"},
        **{"workload": "traffic", "engine_version": "0.32.0"},
    }


def test_every_field_of_a_request_has_its_column() -> None:
    lists = {"chunk_times", "acceptance_histogram", "per_step_accepted", "per_step_drafted"}
    assert RequestRow.model_fields.keys() - lists <= REQUESTS.keys()


def test_a_broken_study_record_is_skipped_with_its_reason(tmp_path: Path) -> None:
    boot = write_boot(tmp_path / "boot-1")
    (boot.parent / "attempt-1/pair/metrics-after.prom").unlink()
    reading = read_paths([str(tmp_path)], Settings(), tmp_path / "out")
    assert reading.sources == 1
    (skipped,) = described(tmp_path / "out")["not_read"]
    assert skipped["name"].endswith("attempt-1/pair") and "metrics-after.prom: not found" in skipped["reason"]


@pytest.mark.parametrize("intervals", ["auto", "counters"])
def test_a_watched_record_without_a_log_has_intervals_from_counters(intervals: str, tmp_path: Path) -> None:
    record = write_watched_record(tmp_path / "record")
    read_paths([str(record)], Settings(intervals=intervals), tmp_path / "out")  # type: ignore[arg-type]
    found = rows(tmp_path / "out", "intervals")
    assert [row["drafts"] for row in found] == [sum(histogram) for histogram in HISTOGRAMS]
    assert {(row["wording"], row["drafts_exact"], row["accepted_k_exact"], row["offset"]) for row in found} == {
        ("counters", True, True, None)
    }
    (counters,) = rows(tmp_path / "out", "counters")
    assert (counters["drafts"], counters["seconds"], counters["restarts"]) == (drafts_of(), 40.0, 0)
    (file,) = described(tmp_path / "out")["files"]
    assert (file["intervals_from"], file["log"]) == ("counters", None)
    assert file["lines_against_counters"]["accepted"]["unknown"] == "there are no log lines with drafts"


def test_a_watched_record_with_a_log_checks_one_against_the_other(tmp_path: Path) -> None:
    record = write_watched_record(tmp_path / "record", log=log_text(HISTOGRAMS[:3]))
    read_paths([str(record)], Settings(), tmp_path / "out")
    found = rows(tmp_path / "out", "intervals")
    assert [row["drafts"] for row in found] == [sum(histogram) for histogram in HISTOGRAMS[:3]]
    assert [row["end"] - START.timestamp() for row in found] == [10, 20, 30]
    (file,) = described(tmp_path / "out")["files"]
    assert file["intervals_from"] == "lines"
    assert file["lines_against_counters"]["draft_tokens"]["difference"] == -3 * sum(HISTOGRAMS[3])
    read_paths([str(record)], Settings(intervals="counters"), tmp_path / "out2")
    assert len(rows(tmp_path / "out2", "intervals")) == 4


def test_a_restart_while_watching_is_added_up(tmp_path: Path) -> None:
    record = write_watched_record(tmp_path / "record", restart_at=3)
    read_paths([str(record)], Settings(), tmp_path / "out")
    (counters,) = rows(tmp_path / "out", "counters")
    assert (counters["drafts"], counters["restarts"]) == (drafts_of(), 1)
    assert len(rows(tmp_path / "out", "intervals")) == 3
    (file,) = described(tmp_path / "out")["files"]
    assert len(file["restarts"]) == 1 and any("restart" in warning for warning in file["warnings"])


def test_sources_of_different_k_share_the_tables(log: Path, tmp_path: Path) -> None:
    other = log.parent / "deep.log"
    other.write_text(log_text([[1, 2, 3, 4, 5, 6]]))
    read_paths([str(log.parent)], SETTINGS, tmp_path / "out")
    deep, *shallow = rows(tmp_path / "out", "intervals")
    assert (deep["k"], deep["accepted_5"]) == (5, 6)
    assert {(row["k"], row["accepted_5"]) for row in shallow} == {(3, None)}


def test_many_rows_go_through_files(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_paths([str(log)], SETTINGS, tmp_path / "memory")
    monkeypatch.setattr("draftmeter.collect.writing.HELD_BYTES", 1)
    read_paths([str(log)], SETTINGS, tmp_path / "files")
    for name in FILES:
        assert (tmp_path / "memory" / name).read_bytes() == (tmp_path / "files" / name).read_bytes()


def test_what_is_nothing_of_ours_is_listed(log: Path, tmp_path: Path) -> None:
    (log.parent / "README.md").write_text("SpecDecoding is a word.\n")
    (log.parent / "empty").write_text("")
    (log.parent / "node.prom").write_text("node_load1 0.5\n")
    (log.parent / "old.log.xz").write_bytes(b"\xfd7zXZ\x00rest")
    reading = read_paths([str(log.parent)], SETTINGS, tmp_path / "out")
    reasons = {Path(item["name"]).name: item["reason"] for item in described(tmp_path / "out")["not_read"]}
    assert reasons == {
        "README.md": "neither a /metrics text nor a log with statistics lines of vLLM",
        "empty": "neither a /metrics text nor a log with statistics lines of vLLM",
        "node.prom": "a text of metrics, but no metric of vLLM is in this text",
        "old.log.xz": "compressed with xz; unpack or convert it first",
    }
    assert reading.remarks == [f"not read: 4 files and folders, such as {log.parent}/README.md: {reasons['README.md']}"]


@pytest.mark.parametrize("make", ["empty folder", "file", "record", "tables"])
def test_nothing_usable_is_an_error_and_leaves_nothing(make: str, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    if make == "file":
        (given / "a").write_text("hello\n")
    elif make == "record":
        (given / "watch.json").write_text("{}")
    elif make == "tables":
        (given / "reading.json").write_text("{}")
    message = {"record": "watch.json: not the watch.json", "tables": "tables that", "file": "neither"}.get(make, "no file in it")
    with pytest.raises(InputError, match=message):
        read_paths([str(given)], Settings(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_failed_reading_leaves_the_earlier_tables(log: Path, tmp_path: Path) -> None:
    read_paths([str(log)], SETTINGS, tmp_path / "out")
    before = {name: (tmp_path / "out" / name).read_bytes() for name in FILES}
    log.write_text("nothing any more\n")
    with pytest.raises(InputError):
        read_paths([str(log)], SETTINGS, tmp_path / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_one_source_can_be_read_by_itself(log: Path, tmp_path: Path) -> None:
    source = read_source(log, SETTINGS)
    assert source.kind == "vLLM log" and source.unusable is None
    assert [name for batch in source.batches() for name in batch.column_names if name in INTERVALS][:2] == ["source", "offset"]
    assert source.counters[0].keys() - {"accepted_1", "accepted_2", "accepted_3"} <= COUNTERS.keys()
    with pytest.raises(InputError, match="found 0 sources in it"):
        (tmp_path / "none").mkdir()
        read_source(tmp_path / "none", SETTINGS)
    (log.parent / "nothing").write_text("hello")
    assert read_source(log.parent / "nothing", SETTINGS).unusable is not None


def test_written_tables_come_back_as_their_sources(log: Path, tmp_path: Path) -> None:
    write_boot(tmp_path / "in" / "boot-1")
    read_paths([str(log.parent)], SETTINGS, tmp_path / "out")
    sources = read_tables(tmp_path / "out")
    assert [source.kind for source in sources] == ["study record", "study record", "vLLM log"]
    (batch,) = sources[2].batches()
    assert batch.column("drafts").to_pylist() == [sum(histogram) for histogram in HISTOGRAMS]
    assert sources[2].counters[0]["drafts"] == drafts_of()


def test_tables_that_were_changed_are_refused(log: Path, tmp_path: Path) -> None:
    read_paths([str(log)], SETTINGS, tmp_path / "out")
    with (tmp_path / "out/intervals.csv").open("a") as file:
        file.write("x")
    with pytest.raises(InputError, match=r"intervals\.csv is not as reading\.json says"):
        read_tables(tmp_path / "out")
    (tmp_path / "out/intervals.csv").unlink()
    with pytest.raises(InputError, match="not whole tables of `draftmeter read`: FileNotFoundError"):
        read_tables(tmp_path / "out")


def test_a_zone_that_is_none_makes_a_record_unusable(tmp_path: Path) -> None:
    for folder, name in ((write_watched_record(tmp_path / "watched", log=log_text()), "watch.json"), (tmp_path / "boot-1", "")):
        if not name:
            write_boot(folder)
            folder, name = folder / "attempt-1/pair", "record.json"  # noqa: PLW2901
        described = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(described | {"time_zone": "CET"}))
        assert "found 'CET'; expected an UTC offset" in (read_source(folder, Settings()).unusable or "")


def test_a_record_with_a_damaged_reading_is_counted_by_its_lines(tmp_path: Path) -> None:
    write_boot(tmp_path / "boot-1")
    folder = tmp_path / "boot-1/attempt-1/traffic"
    (folder / "metrics-after.prom").write_text((folder / "metrics-after.prom").read_text()[:-9])
    source = read_source(folder, Settings())
    assert source.unusable is None and len(source.problems) == 1 and "cut short" in source.found["warnings"][0]
    (row,) = source.counters
    assert row["counted_by"] == "lines"
    assert row["drafts"] == sum(request.drafts or 0 for request in random_requests(12, seed=2))
    assert source.found["lines_against_counters"]["accepted"]["difference"] is None


def test_a_run_that_broke_off_is_read_as_far_as_it_went_and_never_by_a_study(tmp_path: Path) -> None:
    boot = write_boot(tmp_path / "boot-1")
    folder = tmp_path / "boot-1/attempt-1/traffic.partial"
    (tmp_path / "boot-1/attempt-1/traffic").rename(folder)
    described = json.loads((folder / "record.json").read_text())
    (folder / "record.json").write_text(json.dumps({**described, "end": None}))
    (folder / "metrics-after.prom").unlink()
    rows = (folder / "requests.jsonl").read_text().splitlines(keepends=True)
    (folder / "requests.jsonl").write_text("".join(rows[:7]) + rows[7][:40])
    source = read_source(folder, Settings())
    (row,) = source.counters
    assert row["counted_by"] == "lines" and row["drafts"] == sum(request.drafts or 0 for request in random_requests(12, seed=2))
    assert source.requests is not None and source.requests.num_rows == 7
    assert source.found["warnings"][0] == "the run broke off after 7 requests: this is as far as it went"
    with pytest.raises(CollectError, match="traffic"):
        build_tables([boot])


def test_a_record_whose_server_restarted_says_so(tmp_path: Path) -> None:
    write_boot(tmp_path / "boot-1")
    folder = tmp_path / "boot-1/attempt-1/traffic"
    (folder / "metrics-after.prom").write_text(exposition(ServerState([10**6] * 4), start_time=1796000999.0))
    source = read_source(folder, Settings())
    said = [warning.split(": ")[1] for warning in source.found["warnings"]]
    assert said == ["start time unchanged", "counters never fall"]
    assert source.problems == []


def test_names_that_are_no_utf_8(log: Path, tmp_path: Path) -> None:
    name = os.fsdecode(b"server-\xff.log")
    log.rename(log.parent / name)
    read_paths([str(log.parent)], SETTINGS, tmp_path / "out")
    (file,) = json.loads((tmp_path / "out/reading.json").read_text(encoding="utf-8"))["files"]
    assert file["source"] == f"{log.parent}/server-\N{REPLACEMENT CHARACTER}.log"


def test_the_tables_need_a_folder_of_their_own(log: Path) -> None:
    with pytest.raises(InputError, match="given both to be read and to be written to"):
        read_paths([str(log.parent)], SETTINGS, log.parent)
    assert [path.name for path in log.parent.iterdir()] == ["server.log"]


def test_several_engines_have_rows_of_their_own(log: Path, tmp_path: Path) -> None:
    lines = log_text().splitlines(keepends=True)
    second = [line.replace("Engine 000", "Engine 001") for line in lines]
    pairs = [line for number in range(1, len(lines), 4) for line in lines[number : number + 4] + second[number : number + 4]]
    log.write_text("".join(pairs))
    read_paths([str(log)], SETTINGS, tmp_path / "out")
    total, *engines = rows(tmp_path / "out", "counters")
    assert (total["engine"], total["drafts"]) == ("all", 2 * drafts_of())
    assert [(row["engine"], row["drafts"]) for row in engines] == [("0", drafts_of()), ("1", drafts_of())]


STARTS = [b"", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"vllm:a 1\n", log_text().encode()]
BYTES = st.one_of(
    st.binary(max_size=400),
    st.tuples(st.sampled_from(STARTS), st.binary(max_size=200)).map(b"".join),
    st.integers(0, len(log_text())).map(lambda cut: log_text().encode()[cut:]),
    st.integers(0, 2500).map(lambda cut: exposition(ServerState([1, 2, 3, 4])).encode()[:cut]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=BYTES, compress=st.sampled_from([bytes, gzip.compress, zstandard.compress]))
def test_any_bytes_are_read_or_refused(data: bytes, compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(compress(data))
    try:
        source = read_source(path, SETTINGS)
    except InputError as error:
        assert "unpack or convert it first" in str(error)
        return
    for row in source.counters:
        assert row["source"] == str(path)
    n = sum(batch.num_rows for batch in source.batches())
    assert n == source.found.get("intervals", 0) or source.kind != "vLLM log"
