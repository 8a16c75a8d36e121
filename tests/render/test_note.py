"""The note as text: from the facts alone, no result typed, and what it is said first."""

import re
from pathlib import Path

import pytest

from draftmeter.render.documents import note_markdown, render_note
from draftmeter.render.facts import Facts, RenderError
from made_up_facts import fail_calibration, forget, made_up_facts
from rendered_paper import FIGURES, PAPER, note, render_paper

TEMPLATES = sorted(PAPER.rglob("*.j2"))


def first_sentence(text: str) -> str:
    abstract = text.split("## Abstract\n", 1)[1].strip()
    return abstract.split(".", 1)[0]


def section(text: str, heading: str) -> str:
    """What stands below a heading, to the next one of its level or above."""
    level = heading.count("#")
    return re.split(rf"^#{{2,{level}}} ", text.split(f"\n{heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def test_a_calibration_says_so_in_its_first_sentence() -> None:
    sentence = first_sentence(note(made_up_facts("known_answer")))
    assert "calibration of the instrument" in sentence
    assert "acceptance is set by construction" in sentence


def test_a_served_model_has_no_calibration() -> None:
    text = note(made_up_facts("served_model"))
    assert "calibrat" not in text.lower()
    assert "construction" not in text


def test_a_calibration_makes_no_claim_and_is_compared_with_nothing_published() -> None:
    text = note(made_up_facts("known_answer"))
    assert "published" not in text.lower() and "akinin" not in text.lower()
    assert text.startswith("# A made-up study\n")
    assert "is no finding about any other" in section(text, "## Results")
    recommended = section(text, "## Recommendations")
    assert "Repeat this calibration" in recommended and "draft" not in recommended.split("\n- ")[1]


def test_the_sections_come_in_the_order_of_the_published_note() -> None:
    headings = re.findall(r"^##+ (.*)$", note(made_up_facts("served_model")).split("## Appendix: all facts")[0], re.MULTILINE)
    assert headings == [
        "Abstract",
        "What was measured, and how",
        "What was known",
        "Results",
        "Share of draft tokens accepted",
        "Variation with workload and in time",
        "Load",
        "Chance at each position",
        "Tokens per step and step rate",
        "The claims of the published study",
        "Cross-checks",
        "Limitations",
        "Recommendations",
        "Disclosure",
        "How each number was made",
        "References",
        "How to cite",
        "Appendix: acceptance over time",
        "Appendix: beside the published figures",
    ]


def test_a_calibration_without_rows_is_refused() -> None:
    facts = made_up_facts("known_answer") | {"calibration": []}
    with pytest.raises(RenderError, match="calibration"):
        note(facts)


def test_a_passed_calibration_says_how_far_off_it_was() -> None:
    text = note(made_up_facts())
    assert "All 24 comparisons with an exact figure lie within 4 standard errors; the largest" in text
    assert "so z is measured less exact in standard errors; the study sets its limit to 4 in size." in text
    facts = made_up_facts()
    facts["study"]["z_limit"] = 3.5
    assert "lie within 3.5 standard errors" in note(facts)
    assert "**failed**" not in text


def test_a_failed_calibration_is_announced_before_any_figure() -> None:
    text = note(fail_calibration(made_up_facts()))
    announcement = text.index("**The calibration failed.** 1 of 24 comparisons")
    assert announcement < text.index("120,000")
    assert "1 of 24 comparisons with an exact figure lie more than 4 standard errors away" in text
    assert text.count("**failed**") == 1
    assert r"traffic: A, share through 3: \|z\| is above 4" in text
    assert "All 24" not in text
    assert "Do not use this instrument" in section(text, "## Recommendations")


def test_a_calibration_that_compared_nothing_does_not_pass() -> None:
    facts = made_up_facts()
    for row in facts["calibration"]:
        row |= {"z": None, "standard_error": None, "status": "unknown", "reason": "no request"}
    text = note(facts)
    assert "does not calibrate anything" in text
    assert "lie within" not in text and "are within" not in text


@pytest.mark.parametrize(
    "key",
    [
        "traffic.emitted_tokens_per_step",
        "traffic.rise_2",
        "traffic.formula_checked_error",
        "production_intervals.variance_ratio",
        "production_intervals.running_6plus",
        "production_intervals.fifth_3.chance_slope",
        "production_intervals.t200.step_rate_correlation_2",
        "production_intervals.decay_components",
        "production_intervals.most_running",
    ],
)
def test_a_missing_fact_is_an_error_that_names_it(key: str) -> None:
    facts = made_up_facts()
    del facts["facts"][key]
    with pytest.raises(RenderError, match=re.escape(key)):
        note(facts)


def test_a_planning_number_is_missed_where_it_is_recommended() -> None:
    facts = made_up_facts("served_model")
    del facts["facts"]["production_intervals.planning_drafts"]
    with pytest.raises(RenderError, match="planning_drafts"):
        note(facts)


def test_a_figure_that_does_not_apply_to_a_study_may_be_absent() -> None:
    facts = made_up_facts("served_model")
    for key in list(facts["facts"]):
        if re.search(r"^pair\.|streams_slope|_third_|request_weighted|explained_by_workload", key):
            del facts["facts"][key]
    facts["claims"] = facts["claims"][:1]
    text = note(facts)
    for absent in ("with it less without it", "weighed alike accepted", "a trend with the streams", "Acceptance by request"):
        assert absent not in section(text, "## Results"), absent


def test_an_unknown_fact_prints_unknown_and_why() -> None:
    facts = forget(made_up_facts(), "production_intervals.variance_ratio", "no interval qualifies")
    text = note(facts)
    assert "The ratio of the two variances is unknown: no interval qualifies" in text
    assert re.search(r"^- 1 of \d+ figures are unknown", text, re.MULTILINE)
    assert re.search(r"\| U\d+ \| no interval qualifies \|", text)


def test_unknown_intervals_print_their_reason_once() -> None:
    text = section(note(made_up_facts()), "### Variation with workload and in time").split("![")[0]
    assert text.count("(interval unknown)") == 2
    assert text.count("Unknown here: too short: 12.5 effective blocks (150 intervals in blocks of 12)") == 1


def test_a_draft_of_one_token_has_no_slope() -> None:
    facts = made_up_facts("served_model")
    for key in list(facts["facts"]):
        of_positions = re.search(r"(_[23]|at_[12]|chance_slope|equal_chances_p|last_terms_error)$", key)
        if of_positions and not re.search(r"third|step_rate|running", key):
            del facts["facts"][key]
    facts["claims"], facts["comparison"] = [], []
    text = note(facts)
    assert "of draft tokens accepted, varying beyond chance\n" in text
    assert "1 + a" in text and "slope" not in section(text, "### Chance at each position")


def test_a_log_without_positions_load_or_times_reads_on() -> None:
    facts = made_up_facts("served_model")
    for key in list(facts["facts"]):
        if re.search(
            r"^traffic\.(share|chance|rise|tokens_per_step_at)_|^production_intervals\.dispersion|traffic\.equal_ch", key
        ):
            del facts["facts"][key]
    reason = "a line gives no acceptance by position"
    gone = [key for key in facts["facts"] if re.search(r"^traffic\.formula_|fifth_|running|load|idle|autocorr|decay", key)]
    for key in gone:
        forget(facts, key, reason if "fifth" in key or "formula" in key else "the log does not say")
    facts["claims"], facts["comparison"] = [], []
    text = note(facts)
    assert "How many tokens a draft held is not known" in text
    assert "How acceptance goes with load is unknown: the log does not say" in text
    assert "How the memory decays is unknown" in text
    assert re.findall(r"^[^|\n][^\n]*\n\|", text, re.MULTILINE) == []
    assert "a trend with load" not in text.lower() and "along the draft" not in section(text, "## Abstract")


def test_intervals_whose_drafts_are_unknown_leave_a_table_and_a_reason() -> None:
    facts = made_up_facts("served_model")
    reason = "no intervals with at least 100 drafts; the drafts of 150 of 150 intervals are not known"
    for key in facts["facts"]:
        if key.startswith("production_intervals.") and not re.search(r"lines|hours|min_drafts|most_running", key):
            forget(facts, key, reason)
    facts["facts"]["production_intervals.qualifying"] |= {"value": 0, "unknown": None}
    text = note(facts)
    assert f"None of them is looked at by itself: {reason}." in text
    assert re.findall(r"^[^|\n][^\n]*\n\|", text, re.MULTILINE) == []
    assert text.count("](figure1.svg)") == 1


def test_failed_checks_are_announced() -> None:
    facts = made_up_facts()
    assert "No check failed." in note(facts)
    facts["checks"]["counters never fall"] |= {"ok": 11, "failed": 2}
    assert "**2 checks failed.**" in note(facts)
    facts["checks"]["counters never fall"] |= {"ok": 12, "failed": 1}
    assert "**1 check failed.**" in note(facts)


def test_limitations_follow_the_setup_and_the_facts() -> None:
    facts = made_up_facts()
    text = note(facts)
    assert "Started once: controlled and production." in text
    assert "a statistics line every 2 s" in text
    assert "Corrections to the engine were active on the servers named controlled and production: made-up-correction." in text
    assert "(1, 4, 8, 16 and 32)" in text
    assert "Lines are missing" in text and "Other clients" not in text
    for row in facts["setup"]:
        row |= {"starts": 3, "corrections": [], "log_interval_s": 10.0}
    facts["study"]["scale"] = 1.0
    facts["facts"]["production_intervals.lines_vs_counters_gap"]["value"] = 0.0
    facts["facts"]["synthetic.other_clients_share"]["value"] = 0.04
    text = note(facts)
    assert "Started 3 times: controlled and production." in text
    assert "Other clients made 4.0% of the generated tokens of Made-up random words" in section(text, "## Limitations")
    for absent in ("Started once", "statistics line every", "Corrections to the engine", "scaled by", "Lines are missing"):
        assert absent not in text


def test_an_interrupted_boot_is_said() -> None:
    facts = made_up_facts()
    assert "attempt" not in section(note(facts), "## Limitations")
    assert "| Boots that took several attempts | none | none |" in note(facts)
    facts["setup"][1] |= {"starts": 3, "attempts": ["boot-1 (attempts 1 and 3)", "boot-2 (attempt 2)"]}
    text = note(facts)
    assert "Started once: controlled." in text and "Started 3 times: production." in text
    assert "not all of a first attempt: boot-1 (attempts 1 and 3) and boot-2 (attempt 2)." in text
    assert "| Starts | 1 | 3 |" in text
    assert "| none | boot-1 (attempts 1 and 3), boot-2 (attempt 2) |" in text


def test_every_fact_is_in_the_appendix() -> None:
    facts = made_up_facts()
    appendix = note(facts).split("## Appendix: all facts", 1)[1].split("### Definitions")[0]
    assert len(re.findall(r"^\| (?!Quantity|:--)", appendix, re.MULTILINE)) == len(facts["facts"])


def test_one_record_is_not_several() -> None:
    facts = made_up_facts()
    facts["facts"]["traffic.drafts"] |= {"n": 1, "n_unit": "records"}
    assert re.search(r"^\| drafts \| 120,000 \| none \| 1 record \|", note(facts), re.MULTILINE)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_holds_a_digit_that_could_be_a_result(path: Path) -> None:
    text = path.read_text()
    text = re.sub(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|\\(?:VAR|BLOCK|#)\{.*?\}(?!\})", "", text, flags=re.DOTALL)
    text = re.sub(r"(Figure|Table) [123][ab]?|@[a-z]+\d{4}[a-z]*", "", text)
    assert re.findall(r".*\d.*", text) == []
    # Nor inside what is printed: a literal number among the words of an expression.
    printed = re.findall(r"\{\{(.*?)\}\}", path.read_text(), flags=re.DOTALL)
    assert [text for text in printed if re.search(r"[\"'][^\"'_]*\d+[.,%]\d*[^\"'_]*[\"']", text)] == []


def test_it_cites_what_the_bibliography_holds_and_no_more() -> None:
    cited = {key for path in TEMPLATES for key in re.findall(r"@([a-z]+\d{4}[a-z]*)", path.read_text())}
    assert set(re.findall(r"^@\w+\{(\w+),", (PAPER / "references.bib").read_text(), re.MULTILINE)) == cited


def test_the_markdown_names_its_sources_in_words() -> None:
    text = note_markdown(note(made_up_facts("served_model")), PAPER / "references.bib")
    assert "(Leviathan et al. 2023)" in text and "(Liu et al. 2024; Cheng et al. 2026)" in text
    assert "- Leviathan, Y., M. Kalman, and Y. Matias. 2023." in section(text, "## References")
    assert "@leviathan" not in text and ":::" not in text
    calibration = note_markdown(note(made_up_facts()), PAPER / "references.bib")
    assert "Akinin" not in calibration


def test_captions_are_paragraphs_in_the_markdown() -> None:
    text = note_markdown(note(made_up_facts()), PAPER / "references.bib")
    assert not re.search(r"^: ", text, re.MULTILINE)
    assert re.search(r"^\*\*Table 1\.\*\* Accepted draft tokens", text, re.MULTILINE)


def test_the_note_says_how_to_cite_it() -> None:
    facts = made_up_facts("served_model")
    facts["study"] |= {"authors": ["A. Nobody", "B. None"], "title": "100% {made} up"}
    text = section(note(facts), "## How to cite")
    assert "    @techreport{made-up,\n" in text
    assert "      title  = {100\\% \\textbraceleft{}made\\textbraceright{} up: 54.0\\% of draft tokens accepted, varying" in text
    assert "      author = {A. Nobody and B. None},\n" in text
    facts["study"]["authors"] = []
    assert "author" not in section(note(facts), "## How to cite").split("No year")[0]


def test_a_figure_name_that_is_no_plain_file_name_is_refused() -> None:
    facts = Facts.model_validate(made_up_facts())
    for names in (["../x y)", *FIGURES[1:]], FIGURES[:2]):
        with pytest.raises(RenderError, match="three plain file names"):
            render_note(facts, names, PAPER / "note.md.j2", PAPER / "table1.md.j2")


def test_a_key_that_could_not_be_a_link_is_refused() -> None:
    facts = made_up_facts()
    facts["facts"]["traffic.a]b"] = facts["facts"]["traffic.drafts"]
    with pytest.raises(ValueError, match="needs letters, digits"):
        Facts.model_validate(facts)


def test_a_missing_fact_ends_the_script_without_traceback_or_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = made_up_facts()
    del facts["facts"]["traffic.formula_first_position_error"]
    status, outputs = render_paper(tmp_path, facts)
    assert status == 1
    message = capsys.readouterr().err
    assert message.startswith("error: facts.json: no fact 'traffic.formula_first_position_error'")
    assert "Traceback" not in message
    assert not any(path.exists() for path in outputs.values())
