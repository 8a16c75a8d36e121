"""Rule `render_note`: Table 1 as csv, Markdown and LaTeX, and the note as Markdown, HTML and PDF."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from draftmeter.job import job
from draftmeter.render.documents import FIGURES, note_html, note_markdown, note_pdf, render_note
from draftmeter.render.facts import RenderError, read_facts
from draftmeter.render.tables import build_table1, check_same_analysis, render_table1_latex, render_table1_markdown
from draftmeter.strict import write_atomically

if TYPE_CHECKING:
    from snakemake.script import snakemake

log = logging.getLogger("render_note")


@dataclass(frozen=True)
class Inputs:
    """The estimates, Figures 1 to 3 in order, and the files of paper/ that give them their form, by name."""

    facts: Path
    table1: Path
    svg: list[Path]
    pdf: list[Path]
    paper: dict[str, Path]

    def form(self, name: str) -> Path:
        """The file `name` of paper/."""
        if name not in self.paper:
            raise RenderError(f"paper/{name}: not among the inputs, which are {sorted(self.paper)}")
        return self.paper[name]


@dataclass(frozen=True)
class Outputs:
    """What a reader gets; the note names its figures by file name, so it lies beside them."""

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
    template, table1_form = inputs.form("note.md.j2"), inputs.form("table1.md.j2")
    style, bibliography = inputs.form("style.css"), inputs.form("references.bib")
    svg, pdf = ([path.name for path in paths] for paths in (inputs.svg, inputs.pdf))
    plain = render_note(facts, svg, template, table1_form)
    html = render_note(facts, svg, template, table1_form, linked=True, full_facts=True)
    # typst sets the fonts of the figures only from their PDFs.
    printed = render_note(facts, pdf, template, table1_form, linked=True)
    contents: dict[Path, str | bytes] = {
        outputs.table1_csv: check_same_analysis(facts, inputs.table1),
        outputs.table1_md: render_table1_markdown(table1, table1_form),
        outputs.table1_tex: render_table1_latex(table1, inputs.form("table1.tex.j2")),
        outputs.note_md: note_markdown(plain, bibliography),
        outputs.note_html: note_html(html, style, bibliography, inputs.svg),
        outputs.note_pdf: note_pdf(printed, inputs.form("note.typ"), bibliography, inputs.pdf),
    }
    for path, content in contents.items():
        write_atomically(path, content)
        log.info("wrote %s", path)


if __name__ == "__main__":
    with job(snakemake.log[0], RenderError):
        render_paper(
            Inputs(
                facts=Path(snakemake.input.facts),
                table1=Path(snakemake.input.table1),
                svg=[Path(snakemake.input[f"figure{number}_svg"]) for number in range(1, FIGURES + 1)],
                pdf=[Path(snakemake.input[f"figure{number}_pdf"]) for number in range(1, FIGURES + 1)],
                paper={Path(path).name: Path(path) for path in snakemake.input.templates},
            ),
            Outputs(**{name: Path(snakemake.output[name]) for name in Outputs.__dataclass_fields__}),
        )
