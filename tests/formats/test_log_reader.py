"""Reading statistics lines: what was planted in generated lines comes back, and nothing else is taken for one."""

import dataclasses
import io
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.formats.log import Known, LogFound, LogReading, read_log
from draftmeter.formats.log import gather as gather_module
from draftmeter.formats.log import window as window_module
from made_up_server import PREFIX, RATE_FIRST, V0, engine_line, speculation_line

STAMP = "11-30 05:11:52"
GOOD = speculation_line(STAMP, [1, 2, 3, 4])


def read(content: str | bytes, **known: Any) -> LogReading:
    settings = {"zone": "+00:00", "year": 2031, "log_interval_s": 2.0} | known
    return read_log(io.BytesIO(content if isinstance(content, bytes) else content.encode()), Known(**settings))


def rows(content: str | bytes | list[str], **known: Any) -> list[dict[str, Any]]:
    reading = read("\n".join(content) + "\n" if isinstance(content, list) else content, **known)
    found = [row for batch in reading.batches() for row in batch.to_pylist()]
    assert reading.n == reading.found.intervals == len(found)
    return found


def accepted_at(row: dict[str, Any]) -> tuple[int | None, ...]:
    return tuple(row[f"accepted_{position}"] for position in range(1, row["k"] + 1))


def histograms(largest: int) -> st.SearchStrategy[list[int]]:
    counts = st.integers(1, 6).flatmap(lambda k: st.lists(st.integers(0, largest), min_size=k + 1, max_size=k + 1))
    return counts.filter(lambda histogram: sum(histogram) > 0)


@given(histograms(100))
def test_counts_of_a_short_interval_come_back_exactly(histogram: list[int]) -> None:
    k = len(histogram) - 1
    (row,) = rows([engine_line(STAMP), speculation_line(STAMP, histogram)])
    at = tuple(sum(histogram[position:]) for position in range(1, k + 1))
    assert (row["drafts"], row["drafts_exact"]) == (sum(histogram), True)
    assert (row["drafted"], row["accepted"]) == (k * sum(histogram), sum(at))
    assert (accepted_at(row), row["accepted_k_exact"]) == (at, True)
    assert (row["offset"], row["k"], row["window_s"]) == (len(engine_line(STAMP)) + 1, k, 2.0)


@given(histograms(20_000))
def test_counts_of_a_long_interval_come_back_to_the_rounding_or_exactly(histogram: list[int]) -> None:
    k, drafts = len(histogram) - 1, sum(histogram)
    (row,) = rows([speculation_line(STAMP, histogram)])
    at = tuple(sum(histogram[position:]) for position in range(1, k + 1))
    assert (row["drafts"], row["drafts_exact"]) == (drafts, True)
    if row["accepted_k_exact"]:
        assert accepted_at(row) == at
    for found, planted in zip(accepted_at(row), at, strict=True):
        assert found is not None and abs(found - planted) <= 0.0005 * drafts + 1


@given(histograms(300), st.data())
def test_short_drafts_are_noticed_or_within_the_rounding_of_the_mean(histogram: list[int], data: st.DataObject) -> None:
    k, drafts = len(histogram) - 1, sum(histogram)
    accepted = sum(n * count for n, count in enumerate(histogram))
    drafted = data.draw(st.integers(max(accepted, drafts, 1), k * drafts))
    (row,) = rows([speculation_line(STAMP, histogram, drafted=drafted)])
    assert (row["drafted"], row["accepted"]) == (drafted, accepted)
    if row["drafts"] is None:
        assert accepted / drafts <= 0.005
    elif accepted > 0:
        # The printed mean leaves this range of drafts, whichever way they were found.
        mean = float(f"{1 + accepted / drafts:.2f}") - 1
        assert accepted / (mean + 0.0051) - 1 <= row["drafts"] <= accepted / max(mean - 0.0051, 1e-9) + 1


def test_real_drafts_that_are_short_are_not_called_exact() -> None:
    reading = read(speculation_line(STAMP, [100, 100, 100, 100], drafted=1140) + "\n")
    (row,) = reading.table().to_pylist()
    assert not row["drafts_exact"] and not row["accepted_k_exact"]
    assert row["drafts"] == 400
    assert "estimated" in reading.found.unknown["drafts"]
    assert not reading.found.warnings


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Avg Draft acceptance rate: 66.7%", "Avg Draft acceptance rate: 60.7%"),
        ("Accepted throughput: 10.00", "Accepted throughput: 11.00"),
        ("length: 3.00", "length: 2.00"),
        ("length: 3.00", "length: 5.00"),
        ("length: 3.00", "length: nan"),
        ("0.900, 0.700, 0.400", "0.700, 0.900, 0.400"),
        ("0.900, 0.700, 0.400", "0.900, 0.700, 0.100"),
        ("0.900, 0.700, 0.400", "1.100, 0.700, 0.200"),
        ("0.900, 0.700, 0.400", "nan, 0.700, 0.400"),
        ("Accepted: 20", "Accepted: 0"),
    ],
)
def test_a_line_that_contradicts_itself_keeps_its_counts_with_a_warning(old: str, new: str) -> None:
    assert old in GOOD
    reading = read(GOOD.replace(old, new) + "\n")
    (row,) = reading.table().to_pylist()
    assert row["drafted"] == 30 and row["accepted"] == (0 if "Accepted: 0" in new else 20)
    assert not row["drafts_exact"] and not row["accepted_k_exact"]
    assert any("contradictory" in warning and "byte 0" in warning for warning in reading.found.warnings)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (GOOD[: GOOD.index("Drafted: ")], "cut before its counts"),
        (GOOD[: GOOD.index("Accepted: ")], "cut before its counts"),
        (GOOD.replace("Drafted: 30 tokens", "Drafted: nan tokens"), "'Drafted' is not of its shape"),
        (GOOD.replace("Drafted: 30 tokens, ", ""), "cut before its counts"),
        (GOOD.replace("Drafted: 30", "Drafted: 12"), "20 accepted of 12 drafted tokens"),
        (GOOD.replace("Drafted: ", "Accepted: "), "'Accepted' stands twice"),
        (GOOD.replace("Drafted: 30", "Drafted: 3000000000000000000000"), "a number that no interval has"),
        (GOOD.replace("0.400", ", ".join(["0.400"] * 300)), "more than 256 positions"),
        (GOOD.replace("11-30", "13-30"), "time of no year"),
        (GOOD.replace("11-30", "02-30"), "time of no year"),
        (GOOD + " and that is much", "'Avg Draft acceptance rate' is not of its shape"),
        (GOOD.replace("[metrics.py:120]", "[logger.py:39]"), "not as the statistics logger prints them"),
        (GOOD.replace("[metrics.py:120]", "[loggers.py:39]"), "not as the statistics logger prints them"),
        (engine_line(STAMP).replace("Running: 2", "Running: many"), "'Running' is not of its shape"),
        (GOOD.replace("Accepted: 20", "Accepted: 2۰"), "'Accepted' is not of its shape"),
    ],
)
def test_a_record_that_cannot_be_used_is_refused_with_its_place(line: str, reason: str) -> None:
    reading = read(GOOD + "\n" + line + "\n" + GOOD + "\n")
    assert reading.n == 2
    (refused,) = reading.found.refused
    assert refused["offset"] == len(GOOD) + 1 and reason in refused["reason"], refused
    assert reading.found.refused_count == 1
    assert any("refused" in warning for warning in reading.found.warnings)


def test_only_the_first_thousand_refusals_are_listed() -> None:
    reading = read("SpecDecoding metrics: high\n" * 1500)
    assert (len(reading.found.refused), reading.found.refused_count, reading.n) == (1000, 1500, 0)


def test_the_engine_line_before_it_belongs_to_a_speculation_line() -> None:
    (row,) = rows([engine_line(STAMP, running=5, waiting=2), speculation_line(STAMP, [1, 2, 3, 4])])
    assert (row["engine"], row["running"], row["waiting"]) == ("0", 5, 2)
    assert (row["prompt_tokens_per_s"], row["generation_tokens_per_s"]) == (0.5, 30.0)
    assert (row["kv_cache_usage"], row["prefix_cache_hit_rate"]) == (0.013, 0.125)


def test_the_second_may_end_between_the_two_lines() -> None:
    (row,) = rows([engine_line(STAMP, running=5), speculation_line("11-30 05:11:53", [1, 2, 3, 4])])
    assert row["running"] == 5


@pytest.mark.parametrize(
    "lines",
    [
        [GOOD],
        [engine_line("11-30 05:11:50"), GOOD],
        [engine_line("11-30 05:11:54"), GOOD],
        [engine_line(STAMP, prefix=PREFIX.replace("71", "72")), GOOD],
        [GOOD, engine_line(STAMP)],
    ],
    ids=["none", "of the interval before", "time running backwards", "of another process", "after it"],
)
def test_without_its_engine_line_an_interval_knows_no_running_requests(lines: list[str]) -> None:
    (row,) = rows(lines)
    assert (row["engine"], row["running"], row["waiting"]) == (None, None, None)
    assert (row["prompt_tokens_per_s"], row["kv_cache_usage"], row["prefix_cache_hit_rate"]) == (None, None, None)
    assert "running requests" in read("\n".join(lines)).found.unknown


def test_two_processes_in_one_log_are_told_apart() -> None:
    other = PREFIX.replace("71", "88")
    lines = [
        engine_line(STAMP, running=1),
        engine_line(STAMP, running=9, prefix=other),
        speculation_line(STAMP, [1, 0, 0, 0]),
        speculation_line(STAMP, [2, 0, 0, 0], prefix=other),
    ]
    found = [(row["process"], row["drafts"], row["running"]) for row in rows(lines)]
    assert found == [("APIServer pid=71", 1, 1), ("APIServer pid=88", 2, 9)]
    assert any("several servers" in warning for warning in read("\n".join(lines)).found.warnings)


def test_containers_whose_processes_have_the_same_number_are_told_apart() -> None:
    """Every container counts its processes from 1."""
    lines = [
        "vllm-1  | " + engine_line(STAMP, running=1),
        "vllm-2  | " + engine_line(STAMP, running=9),
        "vllm-1  | " + speculation_line(STAMP, [1, 0, 0, 0]),
        "vllm-2  | " + speculation_line(STAMP, [2, 0, 0, 0]),
    ]
    assert [(row["drafts"], row["running"]) for row in rows(lines)] == [(1, 1), (2, 9)]


def test_one_engine_line_serves_one_speculation_line() -> None:
    assert [row["running"] for row in rows([engine_line(STAMP), GOOD, GOOD])] == [2, None]


def test_an_engine_line_waits_for_its_record_from_one_batch_to_the_next() -> None:
    """Wherever batches and windows end, each record keeps its Engine line."""
    lines = []
    for number in range(30_000):
        stamp = f"11-{1 + number // 8640:02d} {number // 360 % 24:02d}:{number // 6 % 60:02d}:{number % 6 * 10:02d}"
        lines += [engine_line(stamp, running=number % 97), speculation_line(stamp, [number % 7 + 1, 2, 3, 4])]
    found = rows(lines)
    assert [row["running"] for row in found] == [number % 97 for number in range(30_000)]
    assert [row["drafts"] for row in found] == [number % 7 + 10 for number in range(30_000)]


def test_unknown_keys_and_missing_optional_ones_are_tolerated() -> None:
    busy = engine_line(STAMP).replace(
        "CPU KV cache usage: 1.3%, Prefix cache hit rate: 12.5%",
        "Deferred: 1 reqs, KV fetch: 2 waiting to start, 1 in progress, 0 completed waiting, Preemptions: 3, "
        "GPU KV cache usage: 45.6%, External prefix cache hit rate: 99.0%, MM cache hit rate: 88.0%",
    )
    (row,) = rows([busy, GOOD + ", Current speculative depth: 7"])
    assert (row["kv_cache_usage"], row["prefix_cache_hit_rate"]) == (0.456, None)
    assert row["drafts"] == 10
    extra = json.loads(row["extra"])
    assert extra["Current speculative depth"] == "7" and extra["Preemptions"] == "3" and list(extra) == sorted(extra)


def test_rate_first_wording_reads_the_same() -> None:
    (row,) = rows([RATE_FIRST])
    assert (row["drafts"], accepted_at(row), row["accepted_k_exact"]) == (10, (9, 7, 4), True)
    assert (row["wording"], row["since_last_line_s"]) == ("0.8.5-0.10.1", None)


def test_a_mean_without_the_bonus_token_is_recognised() -> None:
    (row,) = rows([RATE_FIRST.replace("length: 3.00", "length: 2.00")])
    assert (row["drafts"], row["drafts_exact"], accepted_at(row)) == (10, True, (9, 7, 4))


def test_several_engines_in_one_line() -> None:
    line = engine_line(STAMP).replace("Engine 000: ", "002 Engines Aggregated: ")
    (row,) = rows([line, GOOD])
    assert (row["engine"], row["running"]) == ("2 aggregated", 2)


def test_nothing_accepted_and_a_single_draft() -> None:
    (row,) = rows([speculation_line(STAMP, [1, 0, 0, 0])])
    assert (row["drafts"], accepted_at(row), row["accepted_k_exact"]) == (1, (0, 0, 0), True)


def test_cumulative_records_are_recognised_and_never_summed() -> None:
    reading = read(V0 + "\n" + V0 + "\n")
    assert (reading.n, reading.found.cumulative, reading.found.refused) == (0, 2, [])
    assert reading.found.format == "vLLM log" and reading.found.wordings == {"V0 cumulative": 2}
    assert any("never summed" in warning for warning in reading.found.warnings)


def test_the_first_version_of_the_engines_of_today_counts_by_interval() -> None:
    line = (
        "INFO 03-30 10:00:00 [metrics.py:60] Speculative metrics: Draft acceptance rate: 0.641, "
        "Number of accepted tokens: 66, Number of draft tokens: {}, "
    )
    (row,) = rows([line.format(103)[:-2]], k=3)
    assert (row["drafted"], row["accepted"], row["wording"]) == (103, 66, "2025-03 speculative")
    (row,) = rows([line.format(102)], k=3)
    assert (row["k"], row["drafts"], row["drafts_exact"], row["accepted_1"]) == (3, 34, False, None)


def test_diffusion_metrics_are_another_thing() -> None:
    reading = read(GOOD.replace("SpecDecoding", "DiffusionDecoding") + "\n")
    assert (reading.n, reading.found.refused_count) == (0, 0)
    assert reading.found.format == "no statistics lines"


def test_an_empty_log_has_no_intervals() -> None:
    reading = read("")
    assert reading.n == 0 and reading.found.format == "no statistics lines"
    assert {"offset", "process", "drafts", "accepted_k_exact", "extra"} <= set(reading.table().column_names)


def test_what_was_found_is_plain_data() -> None:
    found = read(engine_line(STAMP) + "\n" + GOOD + "\n").found
    assert LogFound(**json.loads(json.dumps(dataclasses.asdict(found)))) == found


@pytest.mark.parametrize("kept", range(len(GOOD)))
def test_a_file_that_ends_within_a_record_guesses_nothing(kept: int) -> None:
    for row in rows(GOOD[:kept]):
        assert (row["drafted"], row["accepted"]) == (30, 20)
        assert row["k"] in (None, 3) and row["drafts"] in (None, 10)


def test_a_number_at_the_very_end_is_trusted_only_if_a_ratio_confirms_it() -> None:
    kept = GOOD[: GOOD.index(" tokens, Per-position")]
    assert kept.endswith("Drafted: 30")
    (row,) = rows(kept)
    assert (row["drafted"], row["accepted"]) == (30, 20)
    reading = read(kept.replace("Accepted throughput: 10.00", "Accepted throughput: 1.00"))
    assert reading.n == 0 and "no printed ratio confirms it" in reading.found.refused[0]["reason"]


def test_windows_cut_the_file_anywhere_without_losing_or_doubling_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    stamps = [f"11-30 05:{minute:02d}:{second:02d}" for minute in range(60) for second in range(0, 60, 10)]
    content = "".join(
        f"{'x' * (n * 7 % 300)}\n{engine_line(s)}\n{speculation_line(s, [n + 1, 2, 3, 4])}\n" for n, s in enumerate(stamps)
    )
    wrapped = "\n".join(content[at : at + 80] for at in range(0, len(content), 80))
    for text in (content, content.replace("\n", "\r\n"), json.dumps({"log": content}), wrapped):
        whole = rows(text)
        monkeypatch.setattr(window_module, "CHUNK", 30_011)
        assert rows(text) == whole
        monkeypatch.undo()
        if text is not wrapped:
            assert [row["drafted"] for row in whole] == [3 * (n + 10) for n in range(len(stamps))]


def test_many_rows_go_through_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    content = "".join(engine_line(STAMP) + "\n" + speculation_line(STAMP, [n + 1, 2, 3, 4]) + "\n" for n in range(500))
    whole = read(content).table()
    monkeypatch.setattr(gather_module, "MOST_ROWS_IN_MEMORY", 30)
    monkeypatch.setattr(gather_module, "BATCH", 100)
    reading = read(content)
    first, second = (pa.concat_tables(reading.batches()) for _ in range(2))
    assert first.equals(whole) and second.equals(whole)
