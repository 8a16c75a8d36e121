"""From the note's Markdown to what a reader opens: Markdown with its references, HTML and PDF."""

import re
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pypandoc  # type: ignore[import-untyped]
import typst

from draftmeter.render.escaping import escape_markdown
from draftmeter.render.facts import RenderError

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
