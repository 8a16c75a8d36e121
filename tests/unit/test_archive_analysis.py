"""The analysis and the paper of stored files: what they cannot say is unknown with its reason, and nothing crashes."""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_up_study import LINES, K, MadeUp, make_up, small_study

from draftmeter.analyse.calibration import read_known_answer
from draftmeter.analyse.estimates import Estimates, estimate
from draftmeter.analyse.facts import AnalysisError
from draftmeter.analyse.tables import Tables, check_tables, write_csv
from draftmeter.archive import Archive, archive_of, parse_config
from draftmeter.render.facts import Facts
from draftmeter.render.figure1 import draw_figure1, save_figure1
from draftmeter.render.figure1_data import read_fifths, read_intervals
from draftmeter.render.note import note_html, render_note
from draftmeter.render.table1 import build_table1, render_table1_latex, render_table1_markdown

PAPER = Path(__file__).parents[2] / "paper"
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
    nothing = dict.fromkeys(("streams", "model", "engine_version", "generation_tokens", "requests_finished", "restarts"))
    return Tables(pd.DataFrame([{**nothing, **row}]), lines, made_up.requests.head(0), made_up.checks.head(0))


def analysed(tables: Tables, config: Archive | None = None) -> dict[str, Any]:
    check_tables(tables)
    return estimate(config or archive(), tables, [], None).facts["facts"]


def pages(folder: Path, tables: Tables, config: Archive | None = None) -> tuple[str, str, list[str]]:
    """The note as Markdown, Table 1 as LaTeX, and the words on the figure."""
    found = estimate(config or archive(), tables, [], None)
    facts = Facts.model_validate(found.facts)
    table1 = build_table1(facts)
    markdown = render_table1_markdown(table1, PAPER / "table1.md.j2")
    note = render_note(facts, markdown, "figure1.svg", PAPER / "note.md.j2")
    files = [folder / f"figure1.{form}" for form in ("svg", "pdf", "png")]
    save_figure1(_figure(folder, facts, found), *files)
    assert "<h1" in note_html(note, PAPER / "style.css", PAPER / "references.bib", files[0])
    words = re.findall(r"<text[^>]*>(?:<tspan[^>]*>)?([^<]+)<", files[0].read_text())
    return note, render_table1_latex(table1, PAPER / "table1.tex.j2"), words


def _figure(folder: Path, facts: Facts, found: Estimates) -> Any:
    folder.mkdir(exist_ok=True)
    write_csv(
        folder / "intervals.csv", ["server", "boot", "attempt", "run", "offset", "start", "drafts", "acceptance"], found.intervals
    )
    write_csv(folder / "fifths.csv", ["fifth", "position", "chance", "low", "high", "equal_chances"], found.fifths)
    return draw_figure1(facts, read_intervals(folder / "intervals.csv"), read_fifths(folder / "fifths.csv"), 0.02)


def test_a_log_alone_is_counted_by_its_lines(tmp_path: Path) -> None:
    facts = analysed(stored())
    assert facts["traffic.drafts"]["method"] == facts["traffic.share_through_1"]["method"] == "sums of log lines"
    assert facts["traffic.tokens_per_step"]["value"] is not None
    assert facts["traffic.tokens_per_step"]["unknown"] == "no interval: no request rows, so no clusters"
    assert facts["traffic.emitted_tokens_per_step"]["unknown"].startswith("generated tokens, finished requests or drafts")
    assert facts["production_intervals.lines_vs_counters_gap"]["unknown"] == "there are no counters; the lines are all there is"
    note, latex, words = pages(tmp_path, stored())
    for text in (note, latex):
        assert "Stored traffic is counted by the lines of a log, for there are no counters." in text
    assert "These are sums of log lines, without counters, for Stored traffic." in note
    assert "The totals of Stored traffic are sums of log lines." in note
    assert "controlled workload" not in " ".join([note, *words])
    assert "The files do not say: model, precision" in note
    assert "logs/nightly.log" in note and "Sizes of all runs" not in note


def test_recovered_counts_are_said() -> None:
    lines = make_up(STUDY).intervals
    lines.loc[:4, "accepted_k_exact"] = False
    facts = analysed(stored(lines))
    assert facts["traffic.share_through_2"]["method"] == "sums of log lines (5 with counts recovered from rounded numbers)"


def test_lines_that_do_not_show_their_drafts_are_left_out_of_what_is_by_draft(tmp_path: Path) -> None:
    lines = make_up(STUDY).intervals
    whole = analysed(stored(lines.iloc[10:]))
    lines = lines.astype({"drafts": "Int64"} | dict.fromkeys(POSITIONS, "Int64"))
    lines.loc[:9, ["drafts", *POSITIONS]] = pd.NA
    lines.loc[:9, ["drafts_exact", "accepted_k_exact"]] = False
    tables = stored(lines, drafts=None, **dict.fromkeys(POSITIONS))
    facts = analysed(tables)
    for name in ("drafts", "share_through_3", "tokens_per_step", "formula_error"):
        assert facts[f"traffic.{name}"]["value"] == whole[f"traffic.{name}"]["value"]
    assert facts["traffic.draft_tokens"]["value"] == lines["drafted"].sum()
    left_out = f"sums of log lines (10 of {LINES} left out of all that is by draft, for they do not show it)"
    assert facts["traffic.drafts"]["method"] == left_out
    assert f"The totals of Stored traffic are {left_out}." in pages(tmp_path, tables)[0]


def test_lines_without_positions_give_what_they_can(tmp_path: Path) -> None:
    lines = make_up(STUDY).intervals.assign(**dict.fromkeys(POSITIONS), accepted_k_exact=False)
    tables = stored(lines, **dict.fromkeys(POSITIONS))
    facts = analysed(tables)
    assert facts["traffic.tokens_per_step"]["value"] > 1
    for name in ("share_through_1", "chance_3", "formula_error"):
        assert facts[f"traffic.{name}"]["unknown"] == "there are no counters, and the log's lines do not say it"
    assert facts["production_intervals.p10"]["value"] is not None
    for name in ("variance_ratio", "fifth_1.chance_1", "fifth_5.equal_chance_3"):
        assert facts[f"production_intervals.{name}"]["unknown"] == "a line gives no acceptance by position"
    note, _, words = pages(tmp_path, tables)
    assert "The chances in groups of intervals are unknown: a line gives no acceptance by position." in note
    assert "a line gives no acceptance by position" in words


def test_an_unknown_number_of_draft_tokens(tmp_path: Path) -> None:
    lines = make_up(STUDY).intervals.assign(k=None, drafts=None, drafts_exact=False, accepted_k_exact=False)
    whole = stored(lines, k=None, drafts=None)
    tables = Tables(*(table.drop(columns=POSITIONS, errors="ignore") for table in whole.all()))
    facts = analysed(tables)
    assert facts["traffic.accepted_over_drafted"]["value"] is not None
    assert not [key for key in facts if "share_through" in key or "fifth" in key]
    assert facts["traffic.formula_error"]["definition"].startswith("(1 + a + ... + a^K)")
    for name in ("drafts", "tokens_per_step", "formula_error"):
        assert facts[f"traffic.{name}"]["unknown"] == "there are no counters, and the log's lines do not say it"
    reason = f"no intervals with at least 100 drafts; the drafts of {LINES} of {LINES} intervals are not known"
    assert facts["production_intervals.p10"]["unknown"] == reason
    note, latex, words = pages(tmp_path, tables)
    assert "| Through" not in note and "Through" not in latex
    assert "in how many drafts is unknown: there are no counters" in note
    assert "How many tokens a draft held is not known" in note
    assert f"None of them is looked at by itself: {reason}." in note
    assert "the number of draft tokens is not known" in words


def test_a_log_without_times_has_no_memory_but_a_spread(tmp_path: Path) -> None:
    lines = make_up(STUDY).intervals.assign(start=None, end=None, window_s=None)
    facts = analysed(stored(lines))
    qualifying = int(facts["production_intervals.qualifying"]["value"])
    for lag in (1, 3, 30, 60):
        reason = f"the log shows no time for {qualifying} of {qualifying} qualifying intervals"
        assert facts[f"production_intervals.autocorrelation_{lag}"]["unknown"] == reason
    assert facts["production_intervals.hours_with_lines"]["unknown"] == "the log interval is not known"
    timed = analysed(stored())
    for name in ("p10", "sd_pp", "variance_ratio", "fifth_2.chance_2"):
        assert facts[f"production_intervals.{name}"] == timed[f"production_intervals.{name}"]
    note, _, _ = pages(tmp_path, stored(lines))
    assert "log interval (s)" in note.split("The files do not say:")[1].split("\n")[0].lower()


def test_unknown_or_mixed_windows_have_no_memory() -> None:
    lines = make_up(STUDY).intervals
    facts = analysed(stored(lines.assign(window_s=None)))
    assert facts["production_intervals.autocorrelation_1"]["unknown"] == "the log interval is not known"
    lines.loc[:50, "window_s"] = 10.0
    facts = analysed(stored(lines))
    assert facts["production_intervals.autocorrelation_1"]["unknown"].startswith("intervals of 2, 10 s are mixed")


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
    facts = analysed(stored(pd.concat([lines, second], ignore_index=True)))
    alone = analysed(stored())
    assert facts["production_intervals.lines"]["value"] == 2 * LINES
    assert facts["production_intervals.autocorrelation_1"]["n"] == 2 * alone["production_intervals.autocorrelation_1"]["n"]


def test_counters_alone_have_no_variation(tmp_path: Path) -> None:
    tables = stored(make_up(STUDY).intervals.head(0), counted_by="counters", drafts=900, draft_tokens=2700, accepted=1500,
                    accepted_1=700, accepted_2=500, accepted_3=300, generation_tokens=2500, requests_finished=100,
                    model="some/model", restarts=2)  # fmt: skip
    facts = analysed(tables)
    assert facts["traffic.tokens_per_step"]["value"] == pytest.approx(1 + 1500 / 900)
    assert facts["traffic.emitted_tokens_per_step"]["value"] == pytest.approx(2400 / 900)
    note, _, words = pages(tmp_path, tables)
    assert "No interval of the production workload is known" in note
    assert "no intervals with at least 100 drafts" in words
    assert "| Model | some/model |" in note and "| Starts | 3 |" in note
    assert "Started 3 times: nightly." in note


def test_differences_of_counters_are_no_log_lines(tmp_path: Path) -> None:
    lines = make_up(STUDY).intervals.assign(wording="counters", offset=None, process=None, engine="0")
    tables = stored(lines, counted_by="counters", restarts=0)
    facts = analysed(tables)
    assert facts["production_intervals.p10"]["method"].startswith("differences of counters; 95% interval")
    assert facts["production_intervals.lines_vs_counters_gap"]["value"] == 0
    note, _, _ = pages(tmp_path, tables)
    assert f"The production workload has {LINES} intervals with drafts, from differences of counters." in note
    assert "The draft tokens of the production intervals differ from the counters by" in note


def test_lines_beside_counters_give_intervals_and_no_totals() -> None:
    tables = stored()
    counters = stored(server="prom", counted_by="counters", draft_tokens=10**6, drafts=10**6, restarts=0)
    both = Tables(pd.concat([tables.counters, counters.counters]), *tables.all()[1:])
    facts = analysed(both)
    assert facts["traffic.draft_tokens"]["value"] == 10**6
    gap = facts["production_intervals.lines_vs_counters_gap"]["value"]
    assert gap == pytest.approx(tables.intervals["drafted"].sum() / 10**6 - 1)


@pytest.fixture
def records_only() -> tuple[Archive, MadeUp]:
    """A study's own tables, and the archive that names its workloads."""
    workloads = {name: {"label": one.label, "clusters": one.clusters} for name, one in STUDY.workloads.items()}
    report = STUDY.report.model_dump(mode="json")
    identity = {**archive().study.model_dump(mode="json"), "kind": "known_answer", "seed": STUDY.study.seed}
    config = archive(study=identity, workloads=workloads, report=report, analysis=STUDY.analysis.model_dump(mode="json"))
    return config, make_up(STUDY)


def tables_of(made_up: MadeUp) -> Tables:
    return Tables(made_up.counters, made_up.intervals, made_up.requests, made_up.checks)


def test_records_give_what_they_gave_in_their_study(records_only: tuple[Archive, MadeUp], tmp_path: Path) -> None:
    config, made_up = records_only
    known = tmp_path / "known_answer.json"
    known.write_text(json.dumps(made_up.known_answer))
    study = estimate(STUDY, tables_of(made_up), made_up.records(), read_known_answer(known))
    same = estimate(config, tables_of(made_up), made_up.records(), read_known_answer(known))
    assert same.table1 == study.table1 and same.calibration == study.calibration
    assert same.facts["facts"] == study.facts["facts"]
    ours = estimate(config, tables_of(made_up), made_up.records(), None)
    assert ours.table1 == study.table1
    assert ours.calibration == []
    facts = Facts.model_validate(ours.facts)
    note = render_note(facts, "", "figure1.svg", PAPER / "note.md.j2")
    assert "this study does not calibrate anything" in note
    assert "The exact figures of the model are not part of this archive" in note
    assert "acceptance is set by construction" in note


def test_the_kind_of_the_records_is_the_kind_of_the_archive(records_only: tuple[Archive, MadeUp]) -> None:
    config, made_up = records_only
    served = config.model_copy(update={"study": config.study.model_copy(update={"kind": "served_model"})})
    with pytest.raises(AnalysisError, match=r"study\.kind: found served_model, but the records say known_answer"):
        estimate(served, tables_of(made_up), made_up.records(), None)
