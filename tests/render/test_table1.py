"""Table 1 says what the facts say, in the order of the published table, in three formats."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pypandoc
import pytest

from draftmeter.render.documents import MARKDOWN
from draftmeter.render.facts import Facts, RenderError, read_facts
from draftmeter.render.tables import (
    build_table1,
    check_same_analysis,
    render_table1_latex,
    render_table1_markdown,
)
from made_up_facts import WORKLOADS, K, as_analysed, forget, made_up_facts, write_inputs

PAPER = Path(__file__).parents[2] / "paper"
HOSTILE = r"<script>|\input{x}"


def markdown(facts: dict[str, Any]) -> str:
    return render_table1_markdown(build_table1(Facts.model_validate(as_analysed(facts))), PAPER / "table1.md.j2")


def latex(facts: dict[str, Any]) -> str:
    return render_table1_latex(build_table1(Facts.model_validate(as_analysed(facts))), PAPER / "table1.tex.j2")


def markdown_rows(facts: dict[str, Any]) -> list[list[str]]:
    lines = [line for line in markdown(facts).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_production_comes_first_whatever_the_order_of_the_facts() -> None:
    facts = made_up_facts()
    facts["table1"] = facts["table1"][1:] + facts["table1"][:1]
    labels = [row[0] for row in markdown_rows(facts)[2:]]
    assert labels[0] == "Made-up traffic (production)"
    assert labels[1:] == [label for name, (label, *_) in WORKLOADS.items() if name != "traffic"]


def test_each_cell_is_its_fact() -> None:
    head, _, production, *_ = markdown_rows(made_up_facts())
    assert head[3:] == [
        "Accepted over drafted",
        "Interval",
        "Through 1",
        "Through 2",
        "Through 3",
        "Tokens per step",
        "Formula error",
    ]
    assert production[1:] == ["120,000", "360,000", "54.0%", "53.1% to 54.9%", "71.0%", "52.0%", "39.0%", "2.62", "−1.83%"]


def test_latex_holds_the_same_numbers_as_markdown() -> None:
    body = latex(made_up_facts()).split(r"\midrule", 1)[1].split(r"\bottomrule")[0]
    rows = [row for row in re.sub(r"\s*\n\s*", " ", body).replace(r"\midrule", "").split(r"\\") if row.strip()]
    cells = [[cell.strip().replace(r"\%", "%").replace("$-$", "−") for cell in row.split("&")] for row in rows]
    assert cells == markdown_rows(made_up_facts())[2:]


def test_caption_says_that_acceptance_was_set_only_where_it_was() -> None:
    for render in (markdown, latex):
        assert "acceptance set by construction" in render(made_up_facts("known_answer"))
        assert "construction" not in render(made_up_facts("served_model"))


def test_a_missing_fact_is_an_error_that_names_it() -> None:
    facts = made_up_facts()
    del facts["facts"]["synthetic.tokens_per_step"]
    with pytest.raises(RenderError, match=r"synthetic\.tokens_per_step"):
        markdown(facts)


def test_an_unknown_fact_says_so_and_why() -> None:
    facts = forget(made_up_facts(), "evaluation.formula_first_position_error", "no draft was made")
    for render in (markdown, latex):
        text = render(facts)
        assert "unknown" in text
        assert "Unknown for Made-up evaluation set, error of the formula: no draft was made." in text


def test_one_reason_for_several_figures_stands_once() -> None:
    facts = forget(made_up_facts(), "evaluation.formula_first_position_error", "no draft was made")
    forget(facts, "evaluation.tokens_per_step", "no draft was made")
    facts["facts"]["evaluation.accepted_over_drafted"] |= {"low": None, "high": None, "unknown": "no interval: two prompts"}
    for render in (markdown, latex):
        text = render(facts)
        assert "Unknown for Made-up evaluation set, tokens per step, error of the formula: no draft was made." in text
        assert "Unknown for Made-up evaluation set, interval: two prompts." in text


def test_a_workload_with_shorter_drafts_has_empty_positions() -> None:
    facts = made_up_facts()
    del facts["facts"][f"evaluation.share_through_{K}"]
    assert markdown_rows(facts)[3][5:8] == ["60.0%", "40.0%", "none"]


def test_untrusted_labels_stay_text() -> None:
    facts = made_up_facts()
    facts["table1"][1]["label"] = HOSTILE
    blocks = json.loads(pypandoc.convert_text(markdown(facts), "json", format=MARKDOWN))["blocks"]
    assert [block["t"] for block in blocks] == ["Table"]
    row = blocks[0]["c"][4][0][3][1]
    assert len(row[1]) == 7 + K
    assert "".join(inline["c"] for inline in row[1][0][4][0]["c"]) == HOSTILE
    html = pypandoc.convert_text(markdown(facts), "html", format=MARKDOWN)
    assert "<script" not in html
    assert r"\input{" not in latex(facts)
    assert r"\textless{}script\textgreater{}\textbar{}\textbackslash{}input\{x\}" in latex(facts)


def test_two_production_rows_are_refused() -> None:
    facts = made_up_facts()
    facts["table1"][1]["role"] = "production"
    with pytest.raises(RenderError, match="found 2 rows"):
        markdown(facts)


def test_table1_csv_of_another_analysis_is_refused(tmp_path: Path) -> None:
    paths = write_inputs(tmp_path, made_up_facts())
    facts = read_facts(paths["facts.json"])
    rows = list(csv.DictReader(io.StringIO(check_same_analysis(facts, paths["table1.csv"]))))
    assert [row["workload"] for row in rows] == list(WORKLOADS)
    paths["table1.csv"].write_text("workload,drafts\ntraffic,1\n")
    with pytest.raises(RenderError, match="rerun `analyse`"):
        check_same_analysis(facts, paths["table1.csv"])


def test_facts_of_the_wrong_form_are_refused_with_the_key(tmp_path: Path) -> None:
    facts = made_up_facts()
    facts["facts"]["traffic.drafts"]["value"] = "many"
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(facts))
    with pytest.raises(RenderError, match=r"facts\.traffic\.drafts\.value"):
        read_facts(path)
    path.write_text("{")
    with pytest.raises(RenderError, match="not JSON"):
        read_facts(path)
    with pytest.raises(RenderError, match="cannot be read"):
        read_facts(tmp_path / "none.json")
