"""The research note: as Markdown from the facts alone, and from there what a reader opens:
Markdown, HTML and PDF."""

import re
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pypandoc  # type: ignore[import-untyped]
import typst
from markupsafe import Markup

from draftmeter.render.context import build_appendix, note_context
from draftmeter.render.environment import markdown_environment, render_template
from draftmeter.render.facts import Facts, RenderError
from draftmeter.render.printing import escape_markdown
from draftmeter.render.tables import build_table1, render_table1_markdown

# Only what the templates use: no raw HTML, no TeX, so that a slip in escaping stays harmless.
MARKDOWN = (
    "markdown_strict-raw_html+pipe_tables+table_captions+implicit_figures+citations+all_symbols_escapable"
    "+intraword_underscores+auto_identifiers+space_in_atx_header+blank_before_header+blank_before_blockquote"
    "+bracketed_spans+fenced_divs+link_attributes"
)
# Typst stamps files with the time of day unless it is told another; this one only has to be the same everywhere.
TIMESTAMP = datetime(2000, 1, 1, tzinfo=UTC)
# Columns of a table are as wide as their contents, but in a table with a line longer than this as wide as their dashes.
WIDE = 2000
# Where the references go. Inserted text has its brackets, colons and @ escaped, so that both are of the template alone.
REFERENCES = "::: {#refs}\n:::"
CITATION = re.compile(r"(?<!\\)\[(@[a-z0-9]+(?:; @[a-z0-9]+)*)\]")
FIGURES = 3


def render_note(
    facts: Facts, figures: Sequence[str], template: Path, table1: Path, *, linked: bool = False, full_facts: bool = False
) -> str:
    """The note as Markdown. `figures` are the file names of Figures 1 to 3, beside the note.

    `linked`: figures in the text point at their rows in the appendix. `full_facts`: these rows hold definition and method
    in full, and not by the name of a list.
    """
    if len(figures) != FIGURES or not all(re.fullmatch(r"[A-Za-z0-9._-]+", figure) for figure in figures):
        raise RenderError(f"figure files: found {list(figures)}; needs three plain file names beside the note")
    if facts.study.kind == "known_answer" and not facts.calibration and not facts.study.archive:
        raise RenderError("facts.json, calibration: found no row; a known-answer study compares with its exact figures")
    appendix = build_appendix(facts)
    texts = [("Reasons", appendix.reasons)]
    if not full_facts:
        texts = [("Definitions", appendix.definitions), ("Methods", appendix.methods), *texts]
    # In the head of a table that fills the page: the widths of its columns are then those of its dashes.
    wide = Markup(" " * (WIDE + 1) if linked else "")
    context = note_context(facts, appendix) | {
        "figures": [Markup(figure) for figure in figures],
        "table1": Markup(
            render_table1_markdown(build_table1(facts), table1, linked=linked, places=appendix.reasons, wide=wide).strip()
        ),
        "references": Markup(REFERENCES),
        "wide": wide,
        "full_width": Markup("{width=100%}" if linked else ""),
        "linked": linked,
        "full_facts": full_facts,
        "fact_texts": texts,
    }
    environment = markdown_environment(template.parent, linked=linked, places=appendix.reasons)
    return re.sub(r"\n{3,}", "\n\n", render_template(environment, template.name, **context))


def note_markdown(markdown: str, bibliography: Path) -> str:
    """The note with its citations and references in words, as Markdown that any reader shows."""
    cited = list(dict.fromkeys(CITATION.findall(markdown)))
    groups = "\n\n".join(f"[{keys}]" for keys in cited)
    text = _convert(groups, "plain", ["--wrap=none", *_citations(bibliography)])
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]
    words = dict(zip(cited, paragraphs, strict=False))
    references = "\n".join(f"- {escape_markdown(entry)}" for entry in paragraphs[len(cited) :])
    resolved = CITATION.sub(lambda match: escape_markdown(words[match[1]]), markdown)
    # Pandoc's mark of a caption means nothing to other readers of Markdown.
    return re.sub(r"^: (?=\*\*)", "", resolved, flags=re.MULTILINE).replace(REFERENCES, references)


def note_html(markdown: str, css: Path, bibliography: Path, figures: Sequence[Path]) -> str:
    """The note as one HTML file that needs no other: style and figures, which lie in one folder, are embedded."""
    arguments = [*_standalone(bibliography), "--embed-resources", f"--css={css.resolve()}"]
    arguments += [f"--resource-path={figures[0].resolve().parent}", "--metadata=lang:en"]
    return _convert(markdown, "html5", arguments)


def note_pdf(markdown: str, template: Path, bibliography: Path, figures: Sequence[Path]) -> bytes:
    """The note as PDF through typst. Same Markdown and figures, same bytes: no date, only fonts that typst brings."""
    source = _convert(markdown, "typst", [*_standalone(bibliography), f"--template={template.resolve()}"])
    with tempfile.TemporaryDirectory() as folder:
        main = Path(folder) / "note.typ"
        main.write_text(source)
        for figure in figures:
            (Path(folder) / figure.name).write_bytes(figure.read_bytes())
        try:
            return bytes(typst.compile(str(main), root=folder, ignore_system_fonts=True, timestamp=TIMESTAMP))
        except typst.TypstError as error:
            raise RenderError(f"the PDF of the note cannot be made with {template.name}: {error}") from error


def _standalone(bibliography: Path) -> list[str]:
    return ["--standalone", "--wrap=none", f"--columns={WIDE}", "--shift-heading-level-by=-1", *_citations(bibliography)]


def _citations(bibliography: Path) -> list[str]:
    return ["--citeproc", f"--bibliography={bibliography.resolve()}"]


def _convert(markdown: str, target: str, arguments: list[str]) -> str:
    try:
        return str(pypandoc.convert_text(markdown, target, format=MARKDOWN, extra_args=arguments))
    except RuntimeError as error:
        raise RenderError(f"pandoc cannot make {target} from the note: {error}") from error
