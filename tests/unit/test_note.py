"""The note: from the facts alone, no result typed, sentences that follow the facts, the same bytes each time."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from made_up_facts import fail_calibration, forget, made_up_facts, write_inputs

from draftmeter.render.facts import Facts, RenderError
from draftmeter.render.note import render_note
from draftmeter.render.table1 import build_table1, render_table1_markdown

ROOT = Path(__file__).parents[2]
PAPER = ROOT / "paper"
HOSTILE = r"<script>|\input{x}"
NOTE_FORMS = ("table1_csv", "table1_md", "table1_tex", "note_md", "note_html", "note_pdf")


def note(facts: dict[str, Any]) -> str:
    model = Facts.model_validate(facts)
    table1 = render_table1_markdown(build_table1(model), PAPER / "table1.md.j2")
    return render_note(model, table1, "figure1.svg", PAPER / "note.md.j2")


def first_sentence(text: str) -> str:
    abstract = text.split("## Abstract\n", 1)[1].strip()
    return abstract.split(".", 1)[0]


class Items(dict):
    """As in a Snakemake job: items by name or as attributes."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


def run_script(name: str, job: dict[str, Any]) -> int:
    try:
        runpy.run_path(str(ROOT / "scripts" / f"{name}.py"), {"snakemake": Items(job)})
    except SystemExit as ending:
        return int(ending.code)
    return 0


def render_paper(folder: Path, facts: dict[str, Any]) -> tuple[int, dict[str, Path]]:
    """Run both scripts of the render room as Snakemake would; return the worse exit status and the files."""
    paths = {key: str(path) for key, path in write_inputs(folder / "estimates", facts).items()}
    paper = folder / "paper"
    figure = {form: str(paper / f"figure1.{form}") for form in ("svg", "pdf", "png")}
    inputs = Items(
        facts=paths["facts.json"],
        intervals=paths["figure1_intervals.csv"],
        fifths=paths["figure1_fifths.csv"],
        table1=paths["table1.csv"],
        figure1_svg=figure["svg"],
        figure1_pdf=figure["pdf"],
        templates=[str(path) for path in sorted(PAPER.iterdir())],
    )
    log = [str(folder / "log.txt")]
    outputs = {name: paper / name.replace("_", ".") for name in NOTE_FORMS}
    plotted = run_script("plot_figure1", {"input": inputs, "output": figure, "params": Items(bin_width=0.02), "log": log})
    files = Items({name: str(path) for name, path in outputs.items()})
    rendered = run_script("render_note", {"input": inputs, "output": files, "log": log})
    return max(plotted, rendered), outputs


def test_a_calibration_says_so_in_its_first_sentence() -> None:
    sentence = first_sentence(note(made_up_facts("known_answer")))
    assert "calibration of the instrument" in sentence
    assert "acceptance is set by construction" in sentence


def test_a_served_model_has_no_calibration() -> None:
    text = note(made_up_facts("served_model"))
    assert "calibrat" not in text.lower()
    assert "construction" not in text


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


def test_a_calibration_that_compared_nothing_does_not_pass() -> None:
    facts = made_up_facts()
    for row in facts["calibration"]:
        row |= {"z": None, "standard_error": None, "status": "unknown", "reason": "no request"}
    text = note(facts)
    assert "does not calibrate anything" in text
    assert "lie within" not in text and "are within" not in text


@pytest.mark.parametrize("key", ["traffic.emitted_tokens_per_step", "production_intervals.variance_ratio"])
def test_a_missing_fact_is_an_error_that_names_it(key: str) -> None:
    facts = made_up_facts()
    del facts["facts"][key]
    with pytest.raises(RenderError, match=re.escape(key)):
        note(facts)


def test_an_unknown_fact_prints_unknown_and_why() -> None:
    facts = forget(made_up_facts(), "production_intervals.variance_ratio", "no interval qualifies")
    text = note(facts)
    assert "the ratio of the two variances is unknown: no interval qualifies" in text
    assert re.search(r"^- 1 of \d+ figures are unknown", text, re.MULTILINE)
    assert re.search(r"\| U\d+ \| no interval qualifies \|", text)


def test_unknown_intervals_print_their_reason_once() -> None:
    text = note(made_up_facts()).split("### Variation over intervals")[1].split("### Chance")[0]
    assert "9.1 percentage points. " in text
    assert text.count("it is unknown: too short: 12.5 effective blocks") == 1


def test_failed_checks_are_announced() -> None:
    facts = made_up_facts()
    assert "No check failed." in note(facts)
    facts["checks"]["counters never fall"] |= {"ok": 11, "failed": 2}
    assert "**2 checks failed.**" in note(facts)


def test_limitations_follow_the_setup() -> None:
    facts = made_up_facts()
    text = note(facts)
    assert "Started once: controlled and production." in text
    assert "a statistics line every 2 s" in text
    assert "Corrections to the engine were active on controlled and production: made-up-correction." in text
    assert "(1, 4, 8, 16 and 32)" in text
    for row in facts["setup"]:
        row |= {"starts": 3, "corrections": [], "log_interval_s": 10.0}
    facts["study"]["scale"] = 1.0
    text = note(facts)
    assert "Started 3 times: controlled and production." in text
    for absent in ("Started once", "statistics line every", "Corrections to the engine", "scaled by"):
        assert absent not in text


def test_an_interrupted_boot_is_said() -> None:
    facts = made_up_facts()
    assert "attempt" not in note(facts).split("## Limitations")[1].split("## Appendix")[0]
    assert "| Boots that took several attempts | none | none |" in note(facts)
    facts["setup"][1] |= {"starts": 3, "attempts": ["boot-1 (attempts 1 and 3)", "boot-2 (attempt 2)"]}
    text = note(facts)
    assert "Started once: controlled." in text and "Started 3 times: production." in text
    assert "The records of production are not all of a first attempt: boot-1 (attempts 1 and 3) and boot-2 (attempt 2)." in text
    assert "| Starts | 1 | 3 |" in text
    assert "| none | boot-1 (attempts 1 and 3), boot-2 (attempt 2) |" in text


def test_every_fact_is_in_the_appendix() -> None:
    facts = made_up_facts()
    appendix = note(facts).split("## Appendix: all facts", 1)[1].split("### Methods")[0]
    assert len(re.findall(r"^\| (?!Quantity|:--)", appendix, re.MULTILINE)) == len(facts["facts"])


def test_the_template_holds_no_digit_that_could_be_a_result() -> None:
    for name in ("note.md.j2", "table1.md.j2", "table1.tex.j2"):
        text = (PAPER / name).read_text()
        text = re.sub(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|\\(?:VAR|BLOCK|#)\{.*?\}(?!\})", "", text, flags=re.DOTALL)
        text = re.sub(r"(Figure|Table) 1[ab]?|\[@[a-z]+\d{4}\]", "", text)
        assert re.findall(r".*\d.*", text) == [], name


def test_it_cites_what_the_bibliography_holds_and_no_more() -> None:
    cited = set(re.findall(r"@([a-z]+\d{4})", (PAPER / "note.md.j2").read_text()))
    assert set(re.findall(r"^@\w+\{(\w+),", (PAPER / "references.bib").read_text(), re.MULTILINE)) == cited


def test_a_figure_name_that_is_no_plain_file_name_is_refused() -> None:
    facts = Facts.model_validate(made_up_facts())
    with pytest.raises(RenderError, match="plain file name"):
        render_note(facts, "", "../x y)", PAPER / "note.md.j2")


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    status, outputs = render_paper(tmp_path_factory.mktemp("paper"), made_up_facts())
    assert status == 0
    return outputs


def test_the_same_facts_give_the_same_bytes(rendered: dict[str, Path], tmp_path: Path) -> None:
    _, again = render_paper(tmp_path, made_up_facts())
    for name in NOTE_FORMS:
        assert rendered[name].read_bytes() == again[name].read_bytes(), name


def test_the_html_needs_no_other_file(rendered: dict[str, Path]) -> None:
    html = rendered["note_html"].read_text()
    assert "data:image/svg+xml" in html
    assert "<title>A made-up study</title>" in html
    assert not re.search(r'(src|href)="(?!data:|#)', html)
    assert "/tmp" not in html
    assert "Leviathan" in html


def test_the_pdf_carries_no_date(rendered: dict[str, Path]) -> None:
    pdf = rendered["note_pdf"].read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"CreationDate" not in pdf


def test_untrusted_text_cannot_break_out(tmp_path: Path) -> None:
    facts = made_up_facts()
    facts["study"] |= {"title": HOSTILE, "authors": [HOSTILE]}
    for row in facts["setup"]:
        row |= {"model": HOSTILE, "corrections": [HOSTILE], "hardware": '#read("/etc/passwd") *b* $x$ @ref // c'}
    for row in facts["table1"]:
        row["label"] = HOSTILE
    for row in facts["calibration"]:
        row |= {"subject": HOSTILE, "status": "unknown", "z": None, "reason": HOSTILE}
    forget(facts, "production_intervals.sd_pp", HOSTILE)
    facts["facts"]["traffic.drafts"] |= {"method": HOSTILE, "definition": HOSTILE, "n_unit": HOSTILE}
    status, outputs = render_paper(tmp_path, facts)
    assert status == 0
    html = outputs["note_html"].read_text()
    assert "<script" not in html
    assert html.count("&lt;script&gt;|\\input{x}") > 20
    assert r"\input{" not in outputs["table1_tex"].read_text()


def test_a_missing_fact_ends_the_script_without_traceback_or_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = made_up_facts()
    del facts["facts"]["traffic.formula_error"]
    status, outputs = render_paper(tmp_path, facts)
    assert status == 1
    message = capsys.readouterr().err
    assert message.startswith("error: facts.json: no fact 'traffic.formula_error'")
    assert "Traceback" not in message
    assert not any(path.exists() for path in outputs.values())
