"""The scripts of the render room, run on made-up facts as Snakemake would run them."""

import runpy
from pathlib import Path
from typing import Any

from draftmeter.render.documents import render_note
from draftmeter.render.facts import Facts
from made_up_facts import as_analysed, write_inputs

ROOT = Path(__file__).parents[2]
PAPER = ROOT / "paper"
FIGURES = ["figure1.svg", "figure2.svg", "figure3.svg"]
NOTE_FORMS = ("table1_csv", "table1_md", "table1_tex", "note_md", "note_html", "note_pdf")


def note(facts: dict[str, Any]) -> str:
    """The note of made-up facts as plain Markdown."""
    return note_of_analysis(as_analysed(facts))


def note_of_analysis(facts: dict[str, Any]) -> str:
    """The note of what the analysis wrote, as plain Markdown."""
    return render_note(Facts.model_validate(facts), FIGURES, PAPER / "note.md.j2", PAPER / "table1.md.j2")


class Items(dict):
    """As in a Snakemake job: items by name or as attributes."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


def run_script(name: str, job: dict[str, Any]) -> int:
    try:
        runpy.run_path(str(ROOT / "scripts" / f"{name}.py"), {"snakemake": Items(job)}, run_name="__main__")
    except SystemExit as ending:
        return int(ending.code)
    return 0


def render_paper(folder: Path, facts: dict[str, Any]) -> tuple[int, dict[str, Path]]:
    """Run all scripts of the render room as Snakemake would; return the worst exit status and the files."""
    paths = {key: str(path) for key, path in write_inputs(folder / "estimates", facts).items()}
    paper = folder / "paper"
    inputs = Items(
        facts=paths["facts.json"],
        intervals=paths["figure1_intervals.csv"],
        fifths=paths["figure1_fifths.csv"],
        table1=paths["table1.csv"],
        templates=[str(path) for path in sorted(PAPER.rglob("*.*"))],
    )
    log = [str(folder / "log.txt")]
    statuses = []
    for number in (1, 2, 3):
        figure = {form: str(paper / f"figure{number}.{form}") for form in ("svg", "pdf", "png")}
        inputs |= {f"figure{number}_svg": figure["svg"], f"figure{number}_pdf": figure["pdf"]}
        job = {"input": inputs, "output": figure, "params": Items(bin_width=0.02), "log": log}
        if number > 1:
            own = Items(facts=inputs.facts, table=paths[f"figure{number}.csv"])
            job |= {"input": own, "wildcards": Items(number=str(number))}
        statuses.append(run_script("plot_figure1" if number == 1 else "plot_over_time", job))
    outputs = {name: paper / name.replace("_", ".") for name in NOTE_FORMS}
    files = Items({name: str(path) for name, path in outputs.items()})
    statuses.append(run_script("render_note", {"input": inputs, "output": files, "log": log}))
    return max(statuses), outputs
