"""Rule `plot_figure1`: acceptance over production intervals and by position, as svg, pdf and png."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from draftmeter.job import job
from draftmeter.render.facts import RenderError, read_facts
from draftmeter.render.figure_tables import read_fifths, read_intervals
from draftmeter.render.figures import draw_figure1
from draftmeter.render.style import save_figure

if TYPE_CHECKING:
    from snakemake.script import snakemake

log = logging.getLogger("plot_figure1")


def plot_figure1(facts: Path, intervals: Path, fifths: Path, bin_width: float, outputs: dict[str, Path]) -> None:
    """Draw Figure 1 from the facts and its two tables; `outputs` names the svg, pdf and png."""
    acceptance = read_intervals(intervals)
    figure = draw_figure1(read_facts(facts), acceptance, read_fifths(fifths), bin_width)
    save_figure(figure, outputs["svg"], outputs["pdf"], outputs["png"])
    log.info("%d intervals, bins of %g; wrote %s", len(acceptance), bin_width, outputs["svg"].parent)


if __name__ == "__main__":
    with job(snakemake.log[0], RenderError):
        logging.getLogger("fontTools").setLevel(logging.WARNING)  # it reports each table of each font that it embeds
        plot_figure1(
            Path(snakemake.input.facts),
            Path(snakemake.input.intervals),
            Path(snakemake.input.fifths),
            float(snakemake.params.bin_width),
            {name: Path(snakemake.output[name]) for name in ("svg", "pdf", "png")},
        )
