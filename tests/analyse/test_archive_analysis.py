"""The analysis and the paper of stored files: what they cannot say is unknown with its reason, and nothing crashes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from draftmeter.analyse.calibration import read_known_answer
from draftmeter.analyse.comparison import read_published
from draftmeter.analyse.estimates import estimate
from draftmeter.analyse.facts import AnalysisError
from draftmeter.analyse.tables import Tables, check_tables
from draftmeter.render.documents import render_note
from draftmeter.render.facts import Facts
from draftmeter.render.tables import build_table1, render_table1_latex
from draftmeter.study.archive import Archive, archive_of
from draftmeter.study.config import parse_config
from made_up_study import LINES, K, MadeUp, make_up, runs_of_files, small_study

PAPER = Path(__file__).parents[2] / "paper"
PUBLISHED = Path(__file__).parents[2] / "config" / "published.yaml"
FIGURES = [f"figure{number}.svg" for number in (1, 2, 3)]
POSITIONS = [f"accepted_{k}" for k in range(1, K + 1)]
STUDY = small_study()
RUN = {"server": "nightly", "boot": "boot-1", "attempt": 1, "run": "traffic"}


def archive(**keys: Any) -> Archive:
    config = archive_of([Path("nightly.log")])
    config["analysis"] |= {"min_drafts": 100, "min_drafts_sensitivity": [20], "resamples": 120}
    parsed = parse_config({**config, **keys})
    assert isinstance(parsed, Archive)
    return parsed


def stored(lines: pd.DataFrame | None = None, **counters: Any) -> Tables:
    """The tables of one stored file: by default a log, whose sums are its counts."""
    made_up = make_up(STUDY)
    if lines is None:
        lines = made_up.intervals
    lines = lines.assign(**{name: value for name, value in RUN.items() if name != "attempt"})
    sums = lines[["drafts", "drafted", "accepted", *POSITIONS]].sum()
    row = {
        "source": "logs/nightly.log",
        **RUN,
        "workload": "traffic",
        "counted_by": "lines",
        "k": K,
        "drafts": sums["drafts"],
        "draft_tokens": sums["drafted"],
        "accepted": sums["accepted"],
        **{name: sums[name] for name in POSITIONS},
        **counters,
    }
    empty = ("streams", "model", "engine_version", "generation_tokens", "prompt_tokens", "requests_finished", "restarts")
    nothing = dict.fromkeys((*empty, "reasoning", "seconds"))
    counted = pd.DataFrame([{**nothing, **row}])
    return Tables(counted, lines, made_up.requests.head(0), made_up.checks.head(0), runs_of_files(counted))


def analysed(tables: Tables, config: Archive | None = None) -> dict[str, Any]:
    check_tables(tables)
    return estimate(config or archive(), tables, None, None).facts["facts"]


def test_a_log_alone_is_counted_by_its_lines_and_its_blocks_give_the_intervals() -> None:
    facts = analysed(stored())
    assert facts["traffic.drafts"]["method"] == "sums of log lines"
    for name in ("accepted_over_drafted", "share_through_1", "rise_2", "tokens_per_step_at_2", "formula_checked_error"):
        fact = facts[f"traffic.{name}"]
        assert fact["low"] < fact["value"] < fact["high"]
        assert fact["method"].startswith("sums of log lines; 95% interval from 120 stationary bootstraps in blocks of")
        assert fact["method"].endswith(", from the blocks of its log lines, for no own request is known")
        assert (fact["n"], fact["n_unit"]) == (LINES, "intervals")
    assert facts["traffic.equal_chances_p"]["value"] is not None
    assert facts["traffic.emitted_tokens_per_step"]["unknown"] == "log lines do not show it"
    assert facts["traffic.request_weighted_acceptance"]["unknown"] == "no own request is known"
    assert facts["traffic.other_clients_share"]["unknown"] == "there are no counters of generated tokens"
    assert not [key for key in facts if "_third_" in key or "under_1_percent" in key or key.startswith("pair.")]
    for name in ("lines_vs_counters_gap", "hours_of_counters"):
        assert facts[f"production_intervals.{name}"]["unknown"] == "there are no counters; the lines are all there is"


def test_a_short_log_keeps_its_values_and_has_no_intervals() -> None:
    facts = analysed(stored(make_up(STUDY).intervals.head(15)))
    for name in ("traffic.accepted_over_drafted", "traffic.chance_2", "production_intervals.p10"):
        assert facts[name]["value"] is not None and facts[name]["low"] is None
        assert facts[name]["unknown"].startswith("too short: ")
        assert facts[name]["method"].endswith("log lines")
    for name in ("decay_fast_s", "planning_drafts", "explained_by_load"):
        assert facts[f"production_intervals.{name}"]["value"] is None
    assert facts["production_intervals.load_slope_pp"]["value"] is not None
    assert facts["production_intervals.load_slope_pp"]["unknown"].startswith("too short: ")


def test_recovered_counts_are_said() -> None:
    lines = make_up(STUDY).intervals
    lines.loc[:4, "accepted_k_exact"] = False
    facts = analysed(stored(lines))
    source = "sums of log lines (5 with counts recovered from rounded numbers)"
    assert facts["traffic.drafts"]["method"] == source
    assert facts["traffic.share_through_2"]["method"].startswith(f"{source}; 95% interval")


def test_lines_that_do_not_show_their_drafts_are_left_out_of_what_is_by_draft() -> None:
    lines = make_up(STUDY).intervals
    whole = analysed(stored(lines.iloc[10:]))
    lines = lines.astype({"drafts": "Int64"} | dict.fromkeys(POSITIONS, "Int64"))
    lines.loc[:9, ["drafts", *POSITIONS]] = pd.NA
    lines.loc[:9, ["drafts_exact", "accepted_k_exact"]] = False
    facts = analysed(stored(lines, drafts=None, **dict.fromkeys(POSITIONS)))
    for name in ("drafts", "share_through_3", "tokens_per_step", "formula_first_position_error"):
        for part in ("value", "low", "high"):
            assert facts[f"traffic.{name}"][part] == whole[f"traffic.{name}"][part]
    assert facts["traffic.draft_tokens"]["value"] == lines["drafted"].sum()
    left_out = f"sums of log lines (10 of {LINES}, not showing it, left out of all that is by draft)"
    assert facts["traffic.drafts"]["method"] == left_out
    assert facts["traffic.accepted_over_drafted"]["low"] is None
    assert "the lines that show their drafts hold 9" in facts["traffic.accepted_over_drafted"]["unknown"]


def test_lines_without_positions_give_what_they_can() -> None:
    lines = make_up(STUDY).intervals.assign(**dict.fromkeys(POSITIONS), accepted_k_exact=False)
    facts = analysed(stored(lines, **dict.fromkeys(POSITIONS)))
    assert facts["traffic.tokens_per_step"]["value"] > 1 and facts["traffic.tokens_per_step"]["low"] > 1
    for name in ("share_through_1", "chance_3", "formula_checked", "rise_2", "tokens_per_step_at_1"):
        assert facts[f"traffic.{name}"]["unknown"] == "no interval shows its acceptance by position"
    assert facts["production_intervals.p10"]["value"] is not None
    names = ("variance_ratio", "fifth_1.chance_1", "fifth_5.equal_chance_3", "between_sd_pp", "planning_drafts")
    for name in names:
        assert facts[f"production_intervals.{name}"]["unknown"] == "a line gives no acceptance by position"


def test_an_unknown_number_of_draft_tokens() -> None:
    lines = make_up(STUDY).intervals.assign(k=None, drafts=None, drafts_exact=False, accepted_k_exact=False)
    whole = stored(lines, k=None, drafts=None)
    facts = analysed(Tables(*(table.drop(columns=POSITIONS, errors="ignore") for table in whole.all())))
    assert facts["traffic.accepted_over_drafted"]["value"] is not None
    assert facts["traffic.accepted_over_drafted"]["low"] is not None
    assert not [key for key in facts if "share_through" in key or "fifth" in key or "rise_" in key or "dispersion" in key]
    assert facts["traffic.formula_first_position_error"]["definition"].startswith("(1 + a + ... + a^K)")
    for name in ("drafts", "tokens_per_step", "formula_first_position_error"):
        assert facts[f"traffic.{name}"]["unknown"] == "no interval shows its drafts"
    reason = f"no intervals with at least 100 drafts; the drafts of {LINES} of {LINES} intervals are not known"
    for name in ("p10", "running_1", "load_slope_pp", "autocorrelation_2s", "t20.p90"):
        expected = reason.replace("100", "20") if name.startswith("t20") else reason
        assert facts[f"production_intervals.{name}"]["unknown"] == expected


def test_a_log_without_times_has_no_memory_but_a_spread() -> None:
    lines = make_up(STUDY).intervals.assign(start=None, end=None, window_s=None)
    facts = analysed(stored(lines))
    qualifying = int(facts["production_intervals.qualifying"]["value"])
    reason = f"the log shows no time for {qualifying} of {qualifying} qualifying intervals"
    # Lags are named by seconds; where these are not known, by those of ten-second intervals.
    for name in ("autocorrelation_10s", "autocorrelation_600s", "decay_components"):
        assert facts[f"production_intervals.{name}"]["unknown"] == reason
    for name in ("hours_with_lines", "step_rate_p10", "step_rate_correlation_1", "planning_minutes"):
        assert facts[f"production_intervals.{name}"]["unknown"] == "the log interval is not known"
    timed = analysed(stored())
    for name in ("p10", "sd_pp", "variance_ratio", "fifth_2.chance_2", "running_1", "load_slope_pp", "t20.p90"):
        assert facts[f"production_intervals.{name}"]["value"] == timed[f"production_intervals.{name}"]["value"]
        assert facts[f"production_intervals.{name}"]["low"] is not None
    assert estimate(archive(), stored(lines), None, None).over_time == []


def test_unknown_or_mixed_windows_have_no_memory() -> None:
    lines = make_up(STUDY).intervals
    facts = analysed(stored(lines.assign(window_s=None)))
    assert facts["production_intervals.autocorrelation_10s"]["unknown"] == "the log interval is not known"
    lines.loc[:50, "window_s"] = 10.0
    facts = analysed(stored(lines))
    assert facts["production_intervals.autocorrelation_10s"]["unknown"].startswith("intervals of 2, 10 s are mixed")


def test_lines_of_several_numbers_of_draft_tokens_are_not_pooled() -> None:
    lines = make_up(STUDY).intervals
    lines.loc[:50, "k"] = 5
    tables = stored(lines, k=None)
    whole = Tables(*(table.assign(accepted_4=None, accepted_5=None) for table in tables.all()))
    with pytest.raises(
        AnalysisError, match=r"workload traffic: found records with K = \[3, 5\]; acceptance is pooled over one K"
    ):
        analysed(whole)
    lines = make_up(STUDY).intervals.astype({"k": "Int64"})
    lines.loc[:50, "k"] = pd.NA
    assert analysed(stored(lines, k=None))["traffic.share_through_3"]["value"] is not None


def test_processes_of_one_log_are_series_of_their_own() -> None:
    lines = make_up(STUDY).intervals
    second = lines.assign(process="APIServer pid=2", offset=lines["offset"] + 100)
    found = estimate(archive(), stored(pd.concat([lines, second], ignore_index=True)), None, None)
    facts = found.facts["facts"]
    alone = analysed(stored())
    assert facts["production_intervals.lines"]["value"] == 2 * LINES
    assert facts["production_intervals.autocorrelation_2s"]["n"] == 2 * alone["production_intervals.autocorrelation_2s"]["n"]
    # They ran at the same time, in one start of the server.
    assert {(row["series"], row["boot"]) for row in found.over_time} == {(0, 0), (1, 0)}


def test_processes_after_each_other_are_starts_of_the_server() -> None:
    lines = make_up(STUDY).intervals
    length = lines["end"].max() - lines["start"].min()
    later = lines.assign(process="APIServer pid=2", **{name: lines[name] + length + 60 for name in ("start", "end")})
    found = estimate(archive(), stored(pd.concat([later, lines], ignore_index=True)), None, None)
    assert {(row["series"], row["boot"]) for row in found.over_time} == {(0, 0), (1, 1)}
    assert [row["hours"] for row in found.over_time] == sorted(row["hours"] for row in found.over_time)
    assert "2 boots as the top level" in found.facts["facts"]["production_intervals.p10"]["method"]


def test_counters_alone_have_no_variation() -> None:
    tables = stored(make_up(STUDY).intervals.head(0), counted_by="counters", drafts=900, draft_tokens=2700, accepted=1500,
                    accepted_1=700, accepted_2=500, accepted_3=300, generation_tokens=2500, prompt_tokens=5000, seconds=7200.0,
                    requests_finished=100, model="some/model", restarts=2)  # fmt: skip
    facts = analysed(tables)
    assert facts["traffic.tokens_per_step"]["value"] == pytest.approx(1 + 1500 / 900)
    assert facts["traffic.tokens_per_step"]["low"] is None
    assert facts["traffic.tokens_per_step"]["unknown"].endswith("the log has no line with drafts")
    assert facts["traffic.emitted_tokens_per_step"]["value"] == pytest.approx(2400 / 900)
    assert facts["traffic.mean_prompt_tokens"]["value"] == 50
    assert facts["traffic.other_clients_share"]["unknown"] == "no own request is known"
    assert facts["production_intervals.lines"]["value"] == 0
    assert facts["production_intervals.hours_of_counters"]["value"] == 2
    for name in ("p10", "running_0", "fifth_1.chance_1", "between_sd_pp", "most_running", "hours_with_lines"):
        assert facts[f"production_intervals.{name}"]["unknown"] == "the log has no line with drafts"


def test_steps_without_a_draft_are_told_in_the_note() -> None:
    counted = {"counted_by": "counters", "drafts": 900, "draft_tokens": 2700, "accepted": 1500}
    tables = stored(make_up(STUDY).intervals.head(0), **counted, generation_tokens=10_100, requests_finished=100)
    estimates = estimate(archive(), tables, None, None)
    facts = Facts.model_validate(estimates.facts)
    reason = "7700 of 10100 generated tokens came from steps without a draft, or are a prompt's first token"
    for name in ("emitted_tokens_per_step", "emitted_minus_verified"):
        assert (facts.fact("traffic", name).value, facts.fact("traffic", name).unknown) == (None, reason)
    over_all = facts.fact("traffic", "tokens_per_decode_step")
    assert over_all.value == pytest.approx(10_000 / (900 + 7600)) and over_all.unknown == "no interval: it is a bound"
    note = " ".join(render_note(facts, FIGURES, PAPER / "note.md.j2", PAPER / "table1.md.j2").split())
    assert "those without a draft included, it was at most 1.18 per step" in note


def test_differences_of_counters_are_no_log_lines() -> None:
    lines = make_up(STUDY).intervals.assign(wording="counters", offset=None, process=None, engine="0")
    facts = analysed(stored(lines, counted_by="counters", restarts=0, seconds=400.0))
    assert facts["production_intervals.p10"]["method"].startswith("differences of counters; 95% interval")
    assert facts["production_intervals.lines_vs_counters_gap"]["value"] == 0
    assert facts["traffic.chance_2"]["method"].startswith("server counters; 95% interval")
    assert facts["traffic.chance_2"]["method"].endswith(
        "from the blocks of its differences of counters, for no own request is known"
    )


def test_lines_beside_counters_give_intervals_and_no_totals() -> None:
    tables = stored()
    counters = stored(server="prom", counted_by="counters", draft_tokens=10**6, drafts=10**6, restarts=0, accepted=5 * 10**5)
    both = replace(
        tables,
        counters=pd.concat([tables.counters, counters.counters]),
        runs=pd.concat([tables.runs, counters.runs]),
    )
    facts = analysed(both)
    assert facts["traffic.draft_tokens"]["value"] == 10**6
    gap = facts["production_intervals.lines_vs_counters_gap"]["value"]
    assert gap == pytest.approx(tables.intervals["drafted"].sum() / 10**6 - 1)
    # Lines of another part of the traffic say nothing about how well its totals are known.
    assert facts["traffic.accepted_over_drafted"]["low"] is None
    assert "the intervals hold " in facts["traffic.accepted_over_drafted"]["unknown"]


def test_lines_that_contradict_themselves_are_unknown_with_the_line() -> None:
    lines = make_up(STUDY).intervals
    lines.loc[7, "accepted_2"] = lines.loc[7, "accepted_1"] + 1
    facts = analysed(stored(lines, counted_by="counters"))
    reason = facts["production_intervals.p10"]["unknown"]
    assert reason.startswith("line 7: found ") and reason.endswith("; see the failed cross-checks")
    assert facts["production_intervals.lines"]["value"] == LINES
    assert facts["traffic.accepted_over_drafted"]["value"] is not None


NO_POSITIONS: dict[str, Any] = dict.fromkeys(POSITIONS)
ARCHIVES: dict[str, Callable[[pd.DataFrame], Tables]] = {
    "log": stored,
    "short log": lambda lines: stored(lines.head(15)),
    "one line": lambda lines: stored(lines.head(1)),
    "no positions": lambda lines: stored(lines.assign(**NO_POSITIONS, accepted_k_exact=False), **NO_POSITIONS),
    "no drafts": lambda lines: stored(lines.assign(**NO_POSITIONS, drafts=None), drafts=None, **NO_POSITIONS),
    "no K": lambda lines: Tables(
        *(table.drop(columns=POSITIONS, errors="ignore") for table in stored(lines.assign(k=None, drafts=None), k=None).all())
    ),
    "no times": lambda lines: stored(lines.assign(start=None, end=None, window_s=None)),
    "counters alone": lambda lines: stored(lines.head(0), counted_by="counters", drafts=900, draft_tokens=2700, accepted=1500),
    "counters and log": lambda lines: stored(lines, counted_by="counters", restarts=0),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_whatever_the_files_do_not_say_the_note_can_be_rendered(name: str) -> None:
    estimates = estimate(archive(), ARCHIVES[name](make_up(STUDY).intervals), None, read_published(PUBLISHED))
    facts = Facts.model_validate(estimates.facts)
    assert "\\begin{tab" in render_table1_latex(build_table1(facts), PAPER / "table1.tex.j2")
    assert "## Results" in render_note(facts, FIGURES, PAPER / "note.md.j2", PAPER / "table1.md.j2")


@pytest.fixture
def records_only() -> tuple[Archive, MadeUp]:
    """A study's own tables, and the archive that names its workloads."""
    workloads = {name: {"label": one.label, "clusters": one.clusters} for name, one in STUDY.workloads.items()}
    report = STUDY.report.model_dump(mode="json")
    identity = {**archive().study.model_dump(mode="json"), "kind": "known_answer", "seed": STUDY.study.seed}
    config = archive(study=identity, workloads=workloads, report=report, analysis=STUDY.analysis.model_dump(mode="json"))
    return config, make_up(STUDY)


def tables_of(made_up: MadeUp) -> Tables:
    return Tables(made_up.counters, made_up.intervals, made_up.requests, made_up.checks, made_up.runs)


def test_records_give_what_they_gave_in_their_study(records_only: tuple[Archive, MadeUp], tmp_path: Path) -> None:
    config, made_up = records_only
    known = tmp_path / "known_answer.json"
    known.write_text(json.dumps(made_up.known_answer))
    study = estimate(STUDY, tables_of(made_up), read_known_answer(known), None)
    same = estimate(config, tables_of(made_up), read_known_answer(known), None)
    assert same.table1 == study.table1 and same.calibration == study.calibration
    assert same.facts["facts"] == study.facts["facts"]
    ours = estimate(config, tables_of(made_up), None, None)
    assert ours.table1 == study.table1
    assert ours.calibration == []


def test_the_kind_of_the_records_is_the_kind_of_the_archive(records_only: tuple[Archive, MadeUp]) -> None:
    config, made_up = records_only
    served = config.model_copy(update={"study": config.study.model_copy(update={"kind": "served_model"})})
    with pytest.raises(AnalysisError, match=r"study\.kind: found served_model, but the records say known_answer"):
        estimate(served, tables_of(made_up), None, None)
