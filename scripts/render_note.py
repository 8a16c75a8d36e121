"""Rule `render_note`: Table 1 as csv, Markdown and LaTeX, and the note as Markdown, HTML and PDF."""

import logging
from dataclasses import dataclass
from pathlib import Path

from draftmeter.job import job
from draftmeter.render.facts import RenderError, read_facts
from draftmeter.render.note import note_html, note_pdf, render_note
from draftmeter.render.table1 import build_table1, check_same_analysis, render_table1_latex, render_table1_markdown
from draftmeter.strict import write_atomically

log = logging.getLogger("render_note")


@dataclass(frozen=True)
class Inputs:
    """The estimates, the figure, and the files of paper/ that give them their form, by name."""

    facts: Path
    table1: Path
    figure1_svg: Path
    figure1_pdf: Path
    paper: dict[str, Path]

    def form(self, name: str) -> Path:
        """The file `name` of paper/."""
        if name not in self.paper:
            raise RenderError(f"paper/{name}: not among the inputs, which are {sorted(self.paper)}")
        return self.paper[name]


@dataclass(frozen=True)
class Outputs:
    """What a reader gets; the note names its figure by file name, so it lies beside the figure."""

    table1_csv: Path
    table1_md: Path
    table1_tex: Path
    note_md: Path
    note_html: Path
    note_pdf: Path


def render_paper(inputs: Inputs, outputs: Outputs) -> None:
    """Render everything before the first file is written, so that a missing fact leaves no half of a paper."""
    facts = read_facts(inputs.facts)
    table1 = build_table1(facts)
    table1_md = render_table1_markdown(table1, inputs.form("table1.md.j2"))
    note = render_note(facts, table1_md, inputs.figure1_svg.name, inputs.form("note.md.j2"))
    # typst sets the fonts of the figure only from its PDF; in all else both notes are the same.
    note_for_pdf = render_note(facts, table1_md, inputs.figure1_pdf.name, inputs.form("note.md.j2"))
    style, bibliography = inputs.form("style.css"), inputs.form("references.bib")
    contents: dict[Path, str | bytes] = {
        outputs.table1_csv: check_same_analysis(facts, inputs.table1),
        outputs.table1_md: table1_md,
        outputs.table1_tex: render_table1_latex(table1, inputs.form("table1.tex.j2")),
        outputs.note_md: note,
        outputs.note_html: note_html(note, style, bibliography, inputs.figure1_svg),
        outputs.note_pdf: note_pdf(note_for_pdf, inputs.form("note.typ"), bibliography, inputs.figure1_pdf),
    }
    for path, content in contents.items():
        write_atomically(path, content)
        log.info("wrote %s", path)


if "snakemake" in globals():
    smk = globals()["snakemake"]
    with job(smk.log[0], RenderError):
        render_paper(
            Inputs(
                **{name: Path(smk.input[name]) for name in ("facts", "table1", "figure1_svg", "figure1_pdf")},
                paper={Path(path).name: Path(path) for path in smk.input.templates},
            ),
            Outputs(**{name: Path(smk.output[name]) for name in Outputs.__dataclass_fields__}),
        )
