"""The note as HTML and PDF: every number leads to its row, untrusted text stays text, the same bytes each time."""

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from shutil import which

import pytest

from made_up_facts import forget, made_up_facts
from made_up_figures import FALLING
from made_up_served import served_facts
from rendered_paper import NOTE_FORMS, render_paper

HOSTILE = r"<script>|\input{x}"
NASTY = '#read("/etc/passwd") *b* $x$ @ref // c [l](javascript:alert(1)) {#id} ::: </table>'
# What has digits and is no figure.
NAMES = re.compile(r"Figure [123][ab]?|Table 1|1 \+ a(?: \+ a[²³])*")
# Tables of settings and of what other tables point at, and columns that name their rows.
ROWS = {"Position", "Fifth", "Streams", "Region", "Why", "Published", "Remark", "Name", "Text"}
OWN_TABLES = {"Property", "Margin", "Check", "Subject", "Quantity", "Name"}


class Page(HTMLParser):
    """The ids and links of a page, and its text outside links: of paragraphs, and of cells with the name of their column."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loose: list[tuple[str, str]] = []
        self._open: list[str] = []
        self._columns: list[str] = []
        self._column = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "img", "br", "col", "hr"):
            self._open.append("citation" if ("class", "citation") in attributes else tag)
        self._noted(tag, attributes)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._noted(tag, attributes)

    def _noted(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if tag == "a":
            self.links.append(str(found.get("href")))
        if tag == "tr":
            self._column = -1
        if tag == "table":
            self._columns = []
        if tag in ("th", "td"):
            self._column += 1
            if tag == "th":
                self._columns.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() in (tag, "citation")

    def handle_data(self, data: str) -> None:
        if "th" in self._open:
            self._columns[-1] += data
        elif {"p", "li", "td"} & set(self._open) and not {"a", "citation", "figcaption", "caption"} & set(self._open):
            cell = "td" in self._open
            self.loose.append((self._columns[self._column] if cell else "", data))
            if cell and (self._columns[0] in OWN_TABLES or self._columns[self._column] in ROWS):
                self.loose.pop()


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    status, outputs = render_paper(tmp_path_factory.mktemp("paper"), made_up_facts())
    assert status == 0
    return outputs


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    facts = made_up_facts("served_model", FALLING)
    forget(facts, "production_intervals.step_rate_p90_over_p10", "no interval had one request running")
    facts["facts"]["synthetic.other_clients_share"]["value"] = 0.04
    status, outputs = render_paper(tmp_path_factory.mktemp("served"), facts)
    assert status == 0
    return outputs


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """With a baseline and a calibration beside the study."""
    status, outputs = render_paper(tmp_path_factory.mktemp("beside"), served_facts("mixed"))
    assert status == 0
    return outputs


FACTS = {"rendered": made_up_facts, "served": lambda: made_up_facts("served_model"), "beside": served_facts}


def test_the_same_facts_give_the_same_bytes(rendered: dict[str, Path], tmp_path: Path) -> None:
    _, again = render_paper(tmp_path, made_up_facts())
    for name in NOTE_FORMS:
        assert rendered[name].read_bytes() == again[name].read_bytes(), name


@pytest.mark.parametrize("study", FACTS)
def test_every_link_leads_somewhere_and_every_fact_has_one_row(study: str, request: pytest.FixtureRequest) -> None:
    page = Page(request.getfixturevalue(study)["note_html"].read_text())
    assert len(page.ids) == len(set(page.ids))
    inside = {link[1:] for link in page.links if link.startswith("#")}
    assert inside <= set(page.ids)
    facts = FACTS[study]()["facts"]
    assert {name.removeprefix("fact-") for name in page.ids if name.startswith("fact-")} == set(facts)
    assert len([name for name in inside if name.startswith("fact-")]) > 150


@pytest.mark.parametrize("study", FACTS)
def test_every_number_of_the_text_and_its_tables_is_a_link(study: str, request: pytest.FixtureRequest) -> None:
    html = request.getfixturevalue(study)["note_html"].read_text()
    body = html.split("<body>")[1]
    page = Page(re.split(r'<h1 id="(?:references|appendix-calibration)"', body)[0].split('id="how-each-number-was-made"')[0])
    loose = [text for _, text in page.loose if re.search(r"\d", NAMES.sub("", text))]
    assert loose == []


def test_a_row_of_the_appendix_holds_definition_interval_method_and_number(rendered: dict[str, Path]) -> None:
    html = rendered["note_html"].read_text()
    row = html.split('<span id="fact-traffic.share_through_1">')[1].split("</tr>")[0]
    for part in ("71.0%", "69.9% to 72.1%", "40 prompts", "drafts accepted through position 1", "95% t interval, linearised"):
        assert part in row, part


def test_the_html_needs_no_other_file(rendered: dict[str, Path]) -> None:
    html = rendered["note_html"].read_text()
    assert html.count("data:image/svg+xml") == 3
    assert "<title>A made-up study</title>" in html
    assert not re.search(r'src="(?!data:)|<link[^>]*href="(?!data:)', html)
    assert set(re.findall(r'href="(?!data:|#)([a-z]+://[^/"]*)', html)) <= {"https://arxiv.org"}
    assert "/tmp" not in html
    assert "Leviathan" in html


def test_the_pdf_carries_no_date_and_embeds_its_fonts(rendered: dict[str, Path]) -> None:
    pdf = rendered["note_pdf"].read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"CreationDate" not in pdf
    assert b"/Type3" not in pdf and b"/FontFile" in pdf


@pytest.mark.skipif(which("pdftotext") is None, reason="poppler's pdftotext is not installed")
def test_the_pdf_says_what_the_markdown_says(served: dict[str, Path]) -> None:
    text = subprocess.run(
        ["pdftotext", "-layout", str(served["note_pdf"]), "-"], capture_output=True, text=True, check=True
    ).stdout
    for words in (
        "52.7% of draft tokens accepted",
        "Acceptance by streams",
        "@techreport{made-up,",
        "Figure 3.",
        "1 + a + a² + a³",
    ):
        assert words in text, words


def test_untrusted_text_cannot_break_out(tmp_path: Path) -> None:
    facts = served_facts("mixed")
    facts["study"] |= {"title": HOSTILE, "authors": [HOSTILE, NASTY], "name": "x"}
    for row in facts["setup"]:
        row |= {"server": HOSTILE, "model": HOSTILE, "corrections": [HOSTILE], "hardware": NASTY, "git_commit": NASTY}
        row |= {"attempts": [NASTY], "source": "logs/" + NASTY}
    facts["labels"] = dict.fromkeys(facts["labels"], HOSTILE)
    for row in facts["table1"]:
        row |= {"label": HOSTILE, "counted_by": "lines"}
    for claim in facts["claims"]:
        claim |= {"statement": HOSTILE, "region": NASTY, "reason": NASTY}
    for row in facts["comparison"]:
        row["note"] = NASTY
    facts["checks"][NASTY] = facts["checks"]["counters never fall"]
    forget(facts, "production_intervals.sd_pp", HOSTILE)
    forget(facts, "evaluation.tokens_per_step", NASTY)
    facts["facts"]["traffic.drafts"] |= {"method": HOSTILE, "definition": NASTY, "n_unit": HOSTILE}
    status, outputs = render_paper(tmp_path, facts)
    assert status == 0
    html = outputs["note_html"].read_text()
    assert "<script" not in html and 'href="javascript' not in html
    assert html.count("&lt;script&gt;|\\input{x}") > 20
    assert html.count("</table>") == html.count("<table")
    assert Page(html).ids.count("id") == 0
    assert r"\input{" not in outputs["table1_tex"].read_text()
    markdown = outputs["note_md"].read_text()
    assert not re.search(r"(?<!\\)<script", markdown) and "[l](" not in markdown


def test_a_hostile_calibration_stays_a_table(tmp_path: Path) -> None:
    facts = made_up_facts()
    for row in facts["calibration"]:
        row |= {"subject": HOSTILE, "quantity": NASTY, "status": "unknown", "z": None, "reason": HOSTILE}
    status, outputs = render_paper(tmp_path, facts)
    assert status == 0
    assert "<script" not in outputs["note_html"].read_text()
