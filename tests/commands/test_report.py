"""The headline figures: planted counts come back as ratios, what is unknown is null with its reason, and nothing counts twice."""

import json
from pathlib import Path

import numpy as np
import pytest

from draftmeter.analyse.counts import Counts, IntervalSeries, Part, counts_of_series, pooled
from draftmeter.analyse.quantities import Value, values_of, values_of_intervals, values_of_reading
from draftmeter.cli import main
from made_up_files import HISTOGRAMS, accepted_of, drafts_of, log_text, write_watched_record
from made_up_records import write_boot
from made_up_server import ServerState, exposition

COMMON = ["--zone", "+00:00", "--year", "2026", "--log-interval", "10s"]


def counts(**changes: object) -> Counts:
    values: dict = {
        "counted_by": "counters",
        "k": 4,
        "drafts": 5,
        "draft_tokens": 20,
        "accepted": 10,
        "accepted_of_drafts": 10,
        "drafted_of_drafts": 20,
        "accepted_at": (4, 3, 2, 1),
        "generation_tokens": 17,
        "requests_finished": 2,
        "seconds": 10.0,
        "restarts": 0,
    }
    return Counts(**(values | changes))


def lines(*intervals: tuple[float, float, float], counters: bool = False) -> IntervalSeries:
    """Intervals of (drafts, drafted, accepted) with K = 1."""
    drafts, drafted, accepted = np.array(intervals, dtype=float).reshape(-1, 3).T
    known = np.isfinite(drafts)
    return IntervalSeries(
        drafts=drafts,
        drafted=drafted,
        accepted=accepted,
        accepted_at=np.where(known, accepted, np.nan)[:, None],
        exact=known,
        window_s=np.full(len(drafts), 10.0),
        k=np.ones(len(drafts)),
        counters=counters,
    )


def headline(found: Counts, series: IntervalSeries | None, min_drafts: int) -> dict[str, Value]:
    return values_of_reading(found) | values_of(found) | values_of_intervals(found, series, min_drafts)


def values(figures: dict) -> dict:
    return {name: figure.value for name, figure in figures.items()}


def test_the_accounting_case() -> None:
    """Five drafts of four tokens that accept 0, 1, 2, 3 and 4."""
    found = values(headline(counts(), None, 500))
    assert found["accepted_over_drafted"] == 0.5
    assert found["tokens_per_step"] == 3.0
    assert found["emitted_tokens_per_step"] == 3.0
    assert [found[f"share_through_{k}"] for k in (1, 2, 3, 4)] == [0.8, 0.6, 0.4, 0.2]
    assert [found[f"chance_{k}"] for k in (1, 2, 3, 4)] == [4 / 5, 3 / 4, 2 / 3, 1 / 2]
    assert [found[f"tokens_per_step_at_{k}"] for k in (1, 2, 3)] == pytest.approx([1.8, 2.4, 2.8])
    assert "tokens_per_step_at_4" not in found and found["intervals"] == 0


def test_shorter_drafts_are_said_to_assume_the_same_policy() -> None:
    figure = headline(counts(), None, 500)["tokens_per_step_at_2"]
    assert figure.definition.endswith(": tokens per step with drafts of 2, if the draft policy is unchanged")


def test_a_missing_count_leaves_only_its_figures_unknown() -> None:
    reason = {"accepted_at": "this server predates per-position counters"}
    found = headline(counts(accepted_at=None, generation_tokens=None, unknown=reason), None, 500)
    assert found["tokens_per_step"].value == 3.0
    assert found["share_through_2"].unknown == "this server predates per-position counters"
    assert found["tokens_per_step_at_1"].unknown == "this server predates per-position counters"
    assert found["emitted_tokens_per_step"].unknown == "the source does not show generated tokens"


def test_counts_that_contradict_each_other_are_no_figures() -> None:
    found = headline(counts(accepted_at=(4, 5, 2, 1), accepted=30), None, 500)
    assert "nor rise along the draft" in (found["chance_2"].unknown or "")
    assert "accepted <= drafted" in (found["accepted_over_drafted"].unknown or "")


def test_no_draft_gives_no_ratio() -> None:
    nothing = counts(drafts=0, draft_tokens=0, accepted=0, accepted_of_drafts=0, accepted_at=(0, 0, 0, 0))
    found = headline(nothing, None, 500)
    assert found["drafts"].value == 0
    assert {found[name].unknown for name in ("tokens_per_step", "chance_1", "tokens_per_step_at_1")} == {"no draft was made"}


def test_intervals_count_when_they_hold_enough_drafts() -> None:
    found = headline(counts(), lines((600, 600, 300), (500, 500, 100), (499, 499, 499), (np.nan, 900, 0)), 500)
    assert (found["intervals"].value, found["qualifying"].value) == (4, 2)
    assert "1 whose number of drafts is unknown do not count" in found["qualifying"].definition
    assert (found["p10"].value, found["p90"].value) == pytest.approx((0.23, 0.47))
    assert found["hours"].value == pytest.approx(40 / 3600)
    assert found["lines_against_counters"].value == pytest.approx(2499 / 20 - 1)
    few = headline(counts(), lines((10, 10, 5)), 500)
    assert few["p10"].unknown == "no intervals with at least 500 drafts"
    of_counters = headline(counts(), lines((10, 10, 5), counters=True), 5)
    assert of_counters["lines_against_counters"].unknown == "the intervals are differences of the same counters"


def test_a_log_whose_drafts_are_partly_unknown_says_what_it_leaves_out() -> None:
    found = counts_of_series(lines((10, 10, 5), (np.nan, 90, 45)), None, 20.0)
    assert (found.drafts, found.draft_tokens, found.accepted, found.accepted_of_drafts) == (10, 100, 50, 5)
    assert found.notes[0].startswith("1 of 2 intervals, with 90.00% of the draft tokens, do not show their drafts")
    figures = headline(found, None, 1)
    assert figures["tokens_per_step"].value == 1.5 and figures["accepted_over_drafted"].value == 0.5
    unknown = counts_of_series(lines((np.nan, 90, 45)), None, 20.0)
    assert headline(unknown, None, 1)["chance_1"].unknown == "no interval shows its drafts"


def part(name: str, **changes: object) -> Part:
    found: dict = {"model": None, "counts": counts(), "series": None, "start": 0.0, "end": 10.0, "since_start": False}
    found |= {"start_time": 5.0, **changes}
    return Part(name, **found)


def test_sources_are_added_up() -> None:
    result = pooled([part("a", series=lines((1, 1, 1))), part("b", start=10.0, end=20.0, series=lines((2, 2, 0)))])
    assert not isinstance(result, str)
    together, intervals = result
    assert (together.drafts, together.accepted_at, together.seconds, together.restarts) == (10, (8, 6, 4, 2), 20.0, 0)
    assert intervals is not None and intervals.drafts.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        ({}, {"counts": counts(k=3, accepted_at=(4, 3, 2))}, "K = 3, 4"),
        ({}, {"counts": counts(counted_by="lines")}, "may be of the same drafts"),
        ({}, {"start": 9.0, "end": 20.0}, "one server process at the same time"),
        ({"since_start": True}, {"since_start": True}, "of the earlier one are part of the later one's"),
        ({"since_start": True}, {}, "of the earlier one are part of the later one's"),
        ({"since_start": True, "start_time": None}, {"since_start": True}, "the counters do not show their start"),
        (
            {"counts": counts(counted_by="lines"), "series": lines((1, 1, 1))},
            {"counts": counts(counted_by="lines"), "series": lines((1, 1, 1))},
            "hold the same intervals",
        ),
    ],
)
def test_what_would_count_twice_is_not_pooled(one: dict, other: dict, reason: str) -> None:
    result = pooled([part("a", **one), part("b", **other)])
    assert isinstance(result, str) and result.startswith("not pooled: ") and reason in result


def test_servers_that_started_at_different_times_are_pooled() -> None:
    assert not isinstance(pooled([part("a", since_start=True), part("b", since_start=True, start_time=6.0)]), str)


def reported(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict:
    assert main(["report", *map(str, arguments), *COMMON, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_log_and_its_tables_give_the_same_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "server.log").write_text(log_text())
    direct = reported(capsys, tmp_path / "server.log", "--min-drafts", 100)
    (source,) = direct["sources"]
    figures = source["figures"]
    assert (source["counted_by"], figures["drafts"]["value"], figures["k"]["value"]) == ("lines", drafts_of(), 3)
    assert figures["share_through_2"]["value"] == accepted_of()[1] / drafts_of()
    assert figures["tokens_per_step"]["value"] == 1 + sum(accepted_of()) / drafts_of()
    assert figures["tokens_per_step_at_1"]["value"] == 1 + accepted_of()[0] / drafts_of()
    assert (figures["intervals"]["value"], figures["qualifying"]["value"]) == (len(HISTOGRAMS), 3)
    assert figures["emitted_tokens_per_step"] == {
        **{"value": None, "unit": "tokens", "unknown": "log lines do not show it"},
        "definition": "generated tokens less one a finished request, which its prefill makes, per draft",
    }
    assert main(["read", str(tmp_path / "server.log"), "--out", str(tmp_path / "out"), *COMMON]) == 0
    capsys.readouterr()
    assert reported(capsys, tmp_path / "out", "--min-drafts", 100) == direct


def test_a_study_is_reported_by_run_and_pooled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_boot(tmp_path / "records/boot-1")
    found = reported(capsys, tmp_path / "records")
    assert [source["kind"] for source in found["sources"]] == ["study record"] * 2
    assert found["pooled"]["unknown"] is not None and "one server process at the same time" in found["pooled"]["unknown"]
    assert found["sources"][0]["figures"]["lines_against_counters"]["value"] == 0


def test_two_models_of_one_server_are_kept_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = exposition(ServerState([1, 2, 3, 4]), ServerState([4, 3, 2, 1]))
    (tmp_path / "dump").write_text(text.replace('engine="1",model_name="made-up"', 'engine="0",model_name="other"'))
    found = reported(capsys, tmp_path / "dump")
    assert [(source["model"], source["figures"]["accepted"]["value"]) for source in found["sources"]] == [
        ("made-up", 20),
        ("other", 10),
    ]
    assert "not pooled: the sources are of the models made-up, other" in found["pooled"]["unknown"]


def test_an_old_server_is_reported_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = exposition(ServerState([1, 2, 3, 4]), without=["vllm:spec_decode_num_accepted_tokens_per_pos"])
    (tmp_path / "dump").write_text(text)
    (source,) = reported(capsys, tmp_path / "dump")["sources"]
    assert source["figures"]["k"]["value"] is None
    assert source["figures"]["tokens_per_step"]["value"] == 3.0
    assert any("predates per-position counters" in warning for warning in source["warnings"])


def test_the_text_is_plain_where_there_is_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = write_watched_record(tmp_path / "record")
    assert main(["report", str(record), "--min-drafts", "100"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    first, *rest = out.splitlines()
    assert first == f"{record} (watched record; counters)"
    assert f"  drafts                  {drafts_of():,}" in rest
    assert "  intervals               4, 3 of them with enough drafts" in rest
    assert any(line.endswith("at this draft length, if the draft policy is unchanged") for line in rest)


def test_a_log_whose_k_changes_gives_what_is_not_by_position(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = (
        "INFO 09-14 08:15:{second} [metrics.py:120] SpecDecoding metrics: Mean acceptance length: {length}, Accepted throughput: "
        "{accepted}.00 tokens/s, Drafted throughput: {drafted}.00 tokens/s, Accepted: {accepted}0 tokens, Drafted: {drafted}0 "
        "tokens, Per-position acceptance rate: {rates}, Avg Draft acceptance rate: {rate}%\n"
    )
    two = line.format(second="00", length="2.00", accepted=10, drafted=20, rates="0.700, 0.300", rate="50.0")
    one = line.format(second="10", length="1.80", accepted=8, drafted=10, rates="0.800", rate="80.0")
    (tmp_path / "server.log").write_text(two + one)
    (source,) = reported(capsys, tmp_path / "server.log")["sources"]
    figures = source["figures"]
    found = [figures[name]["value"] for name in ("k", "drafts", "draft_tokens", "accepted", "tokens_per_step")]
    assert found == [None, 200, 300, 180, 1.9]
    for name in ("k", "share_through_1", "chance_2"):
        assert (figures[name]["value"], figures[name]["unknown"]) == (None, "K changed from 2 to 1")
    assert main(["report", str(tmp_path / "server.log"), *COMMON]) == 0
    out = capsys.readouterr().out
    assert "  drafts                  200\n" in out and "- K changed from 2 to 1: " in out and "not shown" not in out


def test_steps_without_a_draft_are_told_from_those_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counted = {"spec_decode_num_drafts": 2, "spec_decode_num_draft_tokens": 2, "spec_decode_num_accepted_tokens": 1}
    counted |= {"generation_tokens": 101, "prompt_tokens": 5, "request_success": 1}
    text = "".join(f"vllm:{name}_total {count}\n" for name, count in counted.items())
    (tmp_path / "dump").write_text(f'{text}vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="0"}} 1\n')
    assert main(["report", str(tmp_path / "dump")]) == 0
    out = capsys.readouterr().out
    assert "  tokens per step         1.50 (emitted: unknown)\n" in out
    assert "  tokens per decode step  at most 1.01, over steps with and without a draft\n" in out
    reason = "98 of 101 generated tokens came from steps without a draft, or are a prompt's first token"
    assert f"- unknown: emitted tokens per step: {reason}\n" in out


def test_many_sources_make_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(5):
        text = exposition(ServerState([1, 2, 3, 4]), start_time=1.7e9 + number)
        # Servers with the same labels could be one that restarted.
        (tmp_path / f"{number}.prom").write_text(text.replace('engine="0"', f'engine="{number}"'))
    assert main(["report", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"5 sources in {tmp_path}/\n")
    assert sum(line.split()[:1] == ["3.prom"] for line in out.splitlines()) == 1
    assert "all 5 sources (by counters)" in out and "  drafts           50" in out


def test_nothing_to_report_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("hello\n")
    (tmp_path / "b").write_text("hello\n")
    assert main(["report", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"draftmeter report: {tmp_path}/a: neither a /metrics text nor a log with statistics lines of vLLM (and 1 more)\n"
    )
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.endswith("nowhere: no such file or folder\n")


def test_a_log_of_a_v0_engine_is_not_summed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old.log").write_text(
        "INFO 01-05 10:00:00 metrics.py:477] Speculative metrics: Draft acceptance rate: 0.700, System efficiency: 0.600, "
        "Number of speculative tokens: 3, Number of accepted tokens: 700, Number of draft tokens: 1000, "
        "Number of emitted tokens: 900.\n"
    )
    assert main(["report", str(tmp_path / "old.log")]) == 2
    assert "only cumulative records of a V0 engine" in capsys.readouterr().err
