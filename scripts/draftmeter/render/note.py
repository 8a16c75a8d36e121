"""The research note as Markdown, from the facts alone."""

import re
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from draftmeter.render.appendix import build_appendix
from draftmeter.render.context import note_context
from draftmeter.render.documents import REFERENCES, WIDE
from draftmeter.render.environment import markdown_environment, render_template
from draftmeter.render.facts import Facts, RenderError
from draftmeter.render.table1 import build_table1, render_table1_markdown

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
