"""Records to tables: planted numbers come back, bytes are stable, a bad record is named with its folder."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from draftmeter.analyse.checked import CheckFailed, check_rows, judge
from draftmeter.collect.columns import STUDY_TABLES
from draftmeter.collect.tables import CollectError, build_tables, write_table
from draftmeter.record.run import RequestRow
from draftmeter.strict import canonical_json
from made_up_records import START, random_requests, request, write_boot
from made_up_server import ServerState, exposition

NAMES = ("runs", "counters", "intervals", "requests", "checks")
RUN = Path("attempt-1/traffic")


@pytest.fixture
def boots(tmp_path: Path) -> list[Path]:
    """Two boots of one server and one of another, deliberately not in order; `boot-10` comes after `boot-2`."""
    return [
        write_boot(tmp_path / "production/boot-10", boot="boot-10", replicate=10),
        write_boot(tmp_path / "production/boot-2", boot="boot-2", replicate=2),
        write_boot(tmp_path / "controlled/boot-1", server="controlled"),
    ]


def test_counters_hold_what_was_planted(boots: list[Path]) -> None:
    counters = build_tables(boots).counters
    assert counters[["server", "boot", "run"]].to_numpy().tolist() == [
        ["controlled", "boot-1", "pair"],
        ["controlled", "boot-1", "traffic"],
        ["production", "boot-2", "pair"],
        ["production", "boot-2", "traffic"],
        ["production", "boot-10", "pair"],
        ["production", "boot-10", "traffic"],
    ]
    rows = random_requests(12, seed=2)
    traffic = counters[counters["run"] == "traffic"].iloc[0]
    assert traffic["drafts"] == sum(row.drafts or 0 for row in rows)
    assert traffic["draft_tokens"] == 3 * traffic["drafts"]
    assert traffic["accepted"] == sum(row.accepted_tokens or 0 for row in rows)
    assert traffic["accepted_2"] == sum(sum((row.acceptance_histogram or [])[2:]) for row in rows)
    assert (traffic["prompt_tokens"], traffic["cached_prompt_tokens"]) == (240, 48)
    assert (traffic["requests_finished"], traffic["preemptions"], traffic["seconds"]) == (12, 0, 20.5)
    assert traffic["start_time"] == 1796000000.25
    assert pd.isna(traffic["streams"]) and pd.isna(traffic["reasoning"])
    pair = counters[counters["run"] == "pair"].iloc[0]
    assert (pair["streams"], pair["reasoning"], pair["order"], pair["attempt"]) == (4, "off", 1, 1)


def test_intervals_hold_what_was_planted_across_new_year(boots: list[Path]) -> None:
    intervals = build_tables(boots[:1]).intervals
    traffic = intervals[intervals["run"] == "traffic"].reset_index(drop=True)
    rows = random_requests(12, seed=2)
    assert traffic["drafts"].tolist() == [(rows[n].drafts or 0) + (rows[n + 1].drafts or 0) for n in range(0, 12, 2)]
    assert traffic["drafts_exact"].all() and traffic["accepted_k_exact"].all()
    assert (traffic[["accepted_1", "accepted_2", "accepted_3"]].sum(axis=1) == traffic["accepted"]).all()
    log = (boots[0].parent / RUN / "server.log").read_bytes()
    starts = [log.rindex(b"\n", 0, found.start()) + 1 for found in re.finditer(b"SpecDecoding", log)]
    assert traffic["offset"].tolist() == starts
    assert (traffic["end"] - START.timestamp()).tolist() == [2, 4, 6, 8, 10, 12]
    assert traffic["running"].tolist() == [2] * 6


def test_requests_hold_what_was_planted(boots: list[Path]) -> None:
    requests = build_tables(boots[2:]).requests
    traffic = requests[requests["run"] == "traffic"].reset_index(drop=True)
    rows = random_requests(12, seed=2)
    assert traffic["request_id"].tolist() == [row.request_id for row in rows]
    assert traffic["accepted_3"].tolist() == [(row.acceptance_histogram or [])[3] for row in rows]
    assert traffic["accepted_tokens"].tolist() == [row.accepted_tokens for row in rows]
    assert traffic["n_chunks"].tolist() == [3] * 12
    assert traffic["t_last"].tolist() == [row.t_last for row in rows]
    assert traffic["reasoning_tokens"].isna().all() and traffic["error"].isna().all()


def test_runs_hold_what_the_records_say(boots: list[Path]) -> None:
    as_baseline(boots[1].parent / RUN)
    runs = build_tables(boots).runs.set_index("source")
    assert len(runs) == 6
    pair, baseline = runs.loc["controlled/boot-1/attempt-1/pair"], runs.loc["production/boot-2/attempt-1/traffic"]
    assert (pair["study"], pair["study_kind"], pair["replicate"], pair["order"]) == ("made-up", "known_answer", 1, 1)
    assert (pair["method"], pair["k"]) == ("mtp", 3)
    assert json.loads(pair["speculative"]) == {"method": "mtp", "num_speculative_tokens": 3}
    assert (pair["requests"], pair["requests_recorded"], pair["errors"], pair["prompts"]) == (10, 10, 0, 10)
    assert (pair["workload_label"], pair["reasoning"], pair["streams"], pair["precision"]) == ("Pair", "off", 4, "float32")
    assert (pair["hardware"], json.loads(pair["gpus"]), json.loads(pair["corrections"])) == ("not recorded", [], [])
    assert (pair["start"], pair["last_received"] - pair["first_sent"]) == (START.timestamp(), 20.5)
    assert not pair["of_known_answer"] and pd.isna(pair["git_dirty"])
    assert (baseline["method"], baseline["k"]) == ("none", 0)
    assert pd.isna(baseline["speculative"]) and pd.isna(baseline["streams"])


def test_every_field_of_a_request_has_its_column() -> None:
    lists = {"chunk_times", "acceptance_histogram", "per_step_accepted", "per_step_drafted"}
    assert RequestRow.model_fields.keys() - lists <= STUDY_TABLES["requests"].keys()


def test_a_controlled_run_passes_every_check(boots: list[Path]) -> None:
    checks = build_tables(boots).checks
    assert set(checks["status"]) == {"ok"}
    assert checks["residual"].abs().max() < 1e-12
    assert len(checks) == 6 * 22


def test_servers_with_different_k_share_a_table(tmp_path: Path) -> None:
    paths = [write_boot(tmp_path / "a", k=3), write_boot(tmp_path / "b", server="deep", k=5)]
    counters = build_tables(paths).counters
    assert counters.groupby("server")["accepted_5"].count().to_dict() == {"deep": 2, "production": 0}
    assert counters["accepted_5"].dtype == "Int64"
    assert (counters["k"] == [5, 5, 3, 3]).all()


def test_bytes_do_not_depend_on_the_order_of_the_boots_or_on_the_time(boots: list[Path], tmp_path: Path) -> None:
    for name in NAMES:
        for order, paths in (("forwards", boots), ("backwards", boots[::-1])):
            out = tmp_path / order
            write_table(getattr(build_tables(paths), name), out / f"{name}.parquet", out / f"{name}.csv")
        for suffix in ("parquet", "csv"):
            forwards, backwards = (tmp_path / order / f"{name}.{suffix}" for order in ("forwards", "backwards"))
            assert forwards.read_bytes() == backwards.read_bytes()
        assert sorted(path.name for path in (tmp_path / "forwards").glob(f"*{name}*")) == [
            f"{name}.csv",
            f"{name}.parquet",
        ]


def test_a_table_reads_back_with_its_dtypes(boots: list[Path], tmp_path: Path) -> None:
    tables = build_tables(boots)
    for name in NAMES:
        table = getattr(tables, name)
        write_table(table, tmp_path / f"{name}.parquet", tmp_path / f"{name}.csv")
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / f"{name}.parquet"), table)
        csv = pd.read_csv(tmp_path / f"{name}.csv", dtype=table.dtypes.to_dict())
        if name == "checks":
            csv["reason"] = csv["reason"].fillna("")  # csv cannot tell an empty text from a null
        pd.testing.assert_frame_equal(csv, table)


def test_an_empty_log_keeps_columns_and_dtypes(boots: list[Path]) -> None:
    full = build_tables(boots[:1])
    for run in ("pair", "traffic"):
        (boots[0].parent / "attempt-1" / run / "server.log").write_text("")
    tables = build_tables(boots[:1])
    assert len(tables.intervals) == 0
    assert tables.intervals.dtypes.equals(full.intervals.dtypes)
    assert set(tables.checks[tables.checks["status"] == "unknown"]["check"]) == {
        "lines against counters: draft tokens",
        "lines against counters: accepted",
        "lines within the run",
        "spacing of lines is the log interval",
    }


def test_a_histogram_of_another_length_gives_no_positions(boots: list[Path]) -> None:
    rows = [request(0, [1, 2, 3, 4, 5]), *random_requests(12, seed=2)[1:]]
    (boots[0].parent / RUN / "requests.jsonl").write_text("".join(f"{canonical_json(row)}\n" for row in rows))
    tables = build_tables(boots[:1])
    traffic = tables.requests[tables.requests["run"] == "traffic"]
    assert traffic["accepted_1"].isna().tolist() == [True] + [False] * 11
    failed = tables.checks[tables.checks["status"] == "failed"]
    assert "histograms without K + 1 counts" in set(failed["check"])


def edit_record(folder: Path, **changes: object) -> None:
    path = folder / "record.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def cut(path: Path, characters: int) -> None:
    path.write_text(path.read_text()[:-characters])


def drop_last_request(folder: Path) -> None:
    lines = (folder / "requests.jsonl").read_text().splitlines(keepends=True)
    (folder / "requests.jsonl").write_text("".join(lines[:-1]))


def without_speculation(folder: Path) -> None:
    lines = (folder / "metrics-after.prom").read_text().splitlines(keepends=True)
    (folder / "metrics-after.prom").write_text("".join(line for line in lines if "spec_decode" not in line))


def as_baseline(folder: Path) -> None:
    """The record of a server without speculation."""
    edit_record(folder, speculative=None)
    for name in ("metrics-before.prom", "metrics-after.prom"):
        lines = (folder / name).read_text().splitlines(keepends=True)
        (folder / name).write_text("".join(line for line in lines if "spec_decode" not in line))
    lines = (folder / "server.log").read_text().splitlines(keepends=True)
    (folder / "server.log").write_text("".join(line for line in lines if "SpecDecoding" not in line))
    acceptance = ("acceptance_histogram", "drafts", "draft_tokens", "accepted_tokens", "per_step_accepted", "per_step_drafted")
    rows = [json.loads(line) | dict.fromkeys(acceptance) for line in (folder / "requests.jsonl").read_text().splitlines()]
    (folder / "requests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_server_without_speculation_has_output_and_no_drafts(boots: list[Path]) -> None:
    as_baseline(boots[1].parent / RUN)
    tables = build_tables(boots)
    (row,) = tables.counters[(tables.counters["boot"] == "boot-2") & (tables.counters["run"] == "traffic")].to_dict("records")
    assert (row["k"], row["drafts"], row["draft_tokens"], row["accepted"]) == (0, 0, 0, 0)
    assert row["generation_tokens"] > 0 and pd.isna(row["accepted_1"])
    checks, intervals, requests = (
        table[(table["boot"] == "boot-2") & (table["run"] == "traffic")]
        for table in (tables.checks, tables.intervals, tables.requests)
    )
    assert set(checks["status"]) == {"ok"} and len(checks) == 6
    assert intervals.empty
    assert len(requests) == 12 and requests["drafts"].isna().all() and requests["reply_tokens"].notna().all()


def swap_scrapes(folder: Path) -> None:
    before, after = folder / "metrics-before.prom", folder / "metrics-after.prom"
    texts = before.read_text(), after.read_text()
    after.write_text(texts[0])
    before.write_text(texts[1])


BAD_RECORDS = {
    "the run has no end": lambda folder: edit_record(folder, end=None),
    "not a record of schema version 1": lambda folder: edit_record(folder, surprise=1),
    "a record is a folder with a record.json": lambda folder: (folder / "record.json").unlink(),
    "line 12: not a request row": lambda folder: cut(folder / "requests.jsonl", 40),
    "metrics-after.prom: .*speculation is off": without_speculation,
    "metrics-before.prom: .*this server speculates; expected one without": lambda folder: edit_record(folder, speculative=None),
    "metrics-after.prom: .*cut short": lambda folder: cut(folder / "metrics-after.prom", 9),
    "metrics-before.prom: not found, neither plain nor as": lambda folder: (folder / "metrics-before.prom").unlink(),
    "server.log, byte [1-9][0-9]*: .*1 such records in all": lambda folder: cut(folder / "server.log", 200),
    "server.log, byte [1-9][0-9]*: found 2 positions; expected K = 3": lambda folder: (folder / "server.log").write_text(
        re.sub(r"rate: (\S+, \S+), \S+,", r"rate: \1,", (folder / "server.log").read_text())
    ),
    "server.log: not found, neither plain nor as": lambda folder: (folder / "server.log").unlink(),
    "num_speculative_tokens 4": lambda folder: edit_record(folder, speculative={"num_speculative_tokens": 4}),
    "record.json is of .*'another'.* boot.json lists": lambda folder: edit_record(folder, fingerprint="another"),
    "requests.jsonl: cannot be read: .*decode byte": lambda folder: (folder / "requests.jsonl").write_bytes(b"\xff\xfe"),
}


@pytest.mark.parametrize("message", BAD_RECORDS)
def test_a_bad_record_is_refused_and_its_folder_named(message: str, boots: list[Path]) -> None:
    folder = boots[1].parent / RUN
    BAD_RECORDS[message](folder)
    with pytest.raises(CollectError, match=message) as caught:
        build_tables(boots)
    assert str(folder) in str(caught.value)


def restart(folder: Path) -> None:
    (folder / "metrics-after.prom").write_text(exposition(ServerState([10**6] * 4), start_time=1796000999.0))


@pytest.mark.parametrize(
    ("change", "check", "reason"),
    [
        (drop_last_request, "requests recorded", "found 11, expected 12 requests: requests.jsonl was cut short"),
        (swap_scrapes, "counters never fall", "drafts, .*accepted_3 fell: the server restarted between the scrapes"),
        (restart, "start time unchanged", "the server restarted between the scrapes"),
    ],
)
def test_a_run_that_went_wrong_is_a_failed_check(
    change: Callable[[Path], None], check: str, reason: str, boots: list[Path], tmp_path: Path
) -> None:
    change(boots[1].parent / RUN)
    tables = build_tables(boots)
    failed = tables.checks[(tables.checks["status"] == "failed") & (tables.checks["check"] == check)]
    assert failed[["boot", "run"]].to_numpy().tolist() == [["boot-2", "traffic"]]
    assert re.search(reason, failed["reason"].iloc[0])
    for name in NAMES:
        write_table(getattr(tables, name), tmp_path / f"{name}.parquet", tmp_path / f"{name}.csv")
    with pytest.raises(CheckFailed, match=f"boot-2/attempt-1/traffic  {check} "):
        judge([], check_rows(tmp_path / "checks.parquet"))


def test_a_partial_folder_is_no_record(boots: list[Path]) -> None:
    folder = boots[0].parent / RUN
    folder.rename(folder.with_name("traffic.partial"))
    boot = json.loads(boots[0].read_text())
    boot["runs"][1]["path"] += ".partial"
    boots[0].write_text(json.dumps(boot))
    with pytest.raises(CollectError, match="the run broke off after 12 requests"):
        build_tables(boots)


def test_bad_lists_of_boots_are_refused(boots: list[Path], tmp_path: Path) -> None:
    with pytest.raises(CollectError, match="nothing was measured"):
        build_tables([])
    with pytest.raises(CollectError, match="boot-10 is given twice"):
        build_tables([boots[0], boots[0]])
    with pytest.raises(CollectError, match=r"nowhere\.json: not a boot.json"):
        build_tables([tmp_path / "nowhere.json"])
    boot = json.loads(boots[0].read_text())
    boots[0].write_text(json.dumps({**boot, "runs": boot["runs"] * 2}))
    with pytest.raises(CollectError, match="a run is listed twice"):
        build_tables(boots)
