"""Templates cannot use what is not there, and no inserted text can become markup."""

import json
import random
import re
from pathlib import Path

import pypandoc
import pytest

from draftmeter.render.documents import MARKDOWN
from draftmeter.render.environment import latex_environment, markdown_environment, render_template
from draftmeter.render.facts import RenderError
from draftmeter.render.printing import escape_bibtex, escape_latex, escape_markdown, plain_line

NASTY = [
    r"<script>|\input{x}",
    "</td><td onclick=alert(1)>",
    "a | b",
    "**bold** _em_ `code` ~~gone~~ x^2^ H~2~O",
    "[text](javascript:alert(1)) ![img](x.png)",
    "[@leviathan2023] @leviathan2023",
    "# heading",
    "> quote",
    "- item",
    "+ item",
    "* item",
    "1. item",
    "12) item",
    ": definition",
    "::: {.div}",
    "---",
    "===",
    "% title block",
    "```python",
    "$x^2$ and \\(y\\)",
    "&lt;b&gt; &amp; &#60;",
    "line one\n\n# line two\r\n| cell |",
    "https://example.org <https://example.org>",
    "{#id .class} {{ jinja }} {% raw %}",
    "quote \" and ' apostrophe",
    "\x1b[31mred\x00\u202eright to left",
    "\\",
    "trailing backslash \\",
    "#{ not a comment } \\VAR{x} \\BLOCK{ endfor }",
]


def test_undefined_name_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "t.j2").write_text("{{ facts.nothing }}")
    with pytest.raises(RenderError, match=r"t\.j2: .*nothing"):
        render_template(markdown_environment(tmp_path), "t.j2", facts={})


def test_undefined_name_is_an_error_in_latex_too(tmp_path: Path) -> None:
    (tmp_path / "t.j2").write_text(r"\VAR{ nothing }")
    with pytest.raises(RenderError, match="nothing"):
        render_template(latex_environment(tmp_path), "t.j2")


def test_missing_and_malformed_templates_are_errors_with_their_place(tmp_path: Path) -> None:
    with pytest.raises(RenderError, match=r"none\.j2: no such template"):
        render_template(markdown_environment(tmp_path), "none.j2")
    (tmp_path / "t.j2").write_text("one\n{% if %}")
    with pytest.raises(RenderError, match=r"t\.j2, line 2"):
        render_template(markdown_environment(tmp_path), "t.j2")


@pytest.mark.parametrize("value", [0.123456, None, True, ["a"]])
def test_a_figure_without_a_number_filter_is_an_error(tmp_path: Path, value: object) -> None:
    (tmp_path / "t.j2").write_text("{{ value }}")
    with pytest.raises(RenderError, match="number filter"):
        render_template(markdown_environment(tmp_path), "t.j2", value=value)


def test_latex_delimiters(tmp_path: Path) -> None:
    (tmp_path / "t.j2").write_text(r"\#{ a comment }\BLOCK{ for x in [1, 2] }{\bf \VAR{ x }} \BLOCK{ endfor }{{ kept }}")
    assert render_template(latex_environment(tmp_path), "t.j2") == r"{\bf 1} {\bf 2} {{ kept }}"


def test_escaping_is_the_rule_and_happens_once(tmp_path: Path) -> None:
    (tmp_path / "t.j2").write_text("{% set again %}{{ text }}{% endset %}{{ text }} {{ again }}")
    text = render_template(markdown_environment(tmp_path), "t.j2", text="a|b")
    assert text == r"a\|b a\|b"


def random_texts(count: int) -> list[str]:
    chars = "".join(chr(code) for code in range(32, 127)) + "\n\t äß×−²\u2028"
    choose = random.Random(20261130)
    return ["".join(choose.choices(chars, k=choose.randint(1, 14))) for _ in range(count)]


def texts_in(node: object) -> list[str]:
    """All text below a node of pandoc's syntax tree; any node but plain text is reported in angle brackets."""
    if isinstance(node, list):
        return [text for child in node for text in texts_in(child)]
    if isinstance(node, dict) and "t" in node:
        plain_text = {"Str": lambda: [node["c"]], "Space": lambda: [" "], "SoftBreak": lambda: [" "]}
        return plain_text[node["t"]]() if node["t"] in plain_text else [f"<{node['t']}>"]
    return []


def parse(markdown: str) -> list[dict]:
    return json.loads(pypandoc.convert_text(markdown, "json", format=MARKDOWN))["blocks"]


def test_escaped_text_stays_text_where_a_paragraph_begins() -> None:
    texts = [text for text in NASTY + random_texts(400) if plain_line(text)]
    blocks = parse("\n\n".join(escape_markdown(text) for text in texts))
    assert [block["t"] for block in blocks] == ["Para"] * len(texts)
    assert ["".join(texts_in(block["c"])) for block in blocks] == [plain_line(text) for text in texts]


def test_escaped_text_stays_one_cell_of_its_table_and_its_caption() -> None:
    texts = [text for text in NASTY + random_texts(400) if plain_line(text)]
    rows = "".join(f"| {escape_markdown(text)} | end |\n" for text in texts)
    (table,) = parse(f"| A | B |\n|:---|:---|\n{rows}\n: {escape_markdown(NASTY[0])}\n")
    assert table["t"] == "Table"
    body = table["c"][4][0][3]
    found = [["".join(texts_in(cell[4][0]["c"])) for cell in row[1]] for row in body]
    assert found == [[plain_line(text), "end"] for text in texts]
    assert "".join(texts_in(table["c"][1][1][0]["c"])) == NASTY[0]


def test_escaped_text_stays_the_text_of_a_link_and_of_a_place() -> None:
    for text in NASTY + random_texts(100):
        if plain_line(text):
            (block,) = parse(f"[{escape_markdown(text)}](#place) [{escape_markdown(text)}]{{#place}}")
            link, _, span = block["c"]
            assert (link["t"], span["t"]) == ("Link", "Span"), text
            assert link["c"][2] == ["#place", ""] and span["c"][0] == ["place", [], []]
            assert "".join(texts_in(link["c"][1])) == "".join(texts_in(span["c"][1])) == plain_line(text)


def test_ordinary_text_is_not_littered_with_backslashes() -> None:
    for text in [
        "Evaluation set, short requests (8 streams)",
        "66.0%",
        "−1.1%",
        "+0.5%",
        "2.98",
        "vllm 0.32.0",
        "1,200",
    ]:
        assert escape_markdown(text) == text


# What LaTeX prints for each sequence that escaping may produce; anything else with a special character is a leak.
LATEX_PRINTS = {
    r"\textbackslash{}": "\\",
    r"\textasciitilde{}": "~",
    r"\textasciicircum{}": "^",
    r"\textasciigrave{}": "`",
    r"\textless{}": "<",
    r"\textgreater{}": ">",
    r"\textbar{}": "|",
    "{[}": "[",
    "{*}": "*",
    "$-$": "−",
    **{f"\\{char}": char for char in "{}$&#_%"},
}


@pytest.mark.parametrize("text", NASTY + random_texts(200))
def test_latex_prints_nasty_text_literally(text: str) -> None:
    sequence = re.compile("|".join(map(re.escape, sorted(LATEX_PRINTS, key=len, reverse=True))) + "|.", re.DOTALL)
    pieces = sequence.findall(escape_latex(text))
    assert not [piece for piece in pieces if len(piece) == 1 and piece in "\\{}$&#_%~^<>|`[*"]
    assert "".join(LATEX_PRINTS.get(piece, piece) for piece in pieces) == plain_line(text)


@pytest.mark.parametrize("text", NASTY + random_texts(200))
def test_a_field_of_bibtex_keeps_its_braces_balanced(text: str) -> None:
    depth = 0
    for char in escape_bibtex(text):
        depth += {"{": 1, "}": -1}.get(char, 0)
        assert depth >= 0
    assert depth == 0
    assert "\n" not in escape_bibtex(text) and "`" not in escape_bibtex(text)
