"""Rule `plot_over_time`: Figure 2, acceptance over time, or Figure 3, its autocorrelation, as svg,
pdf and png."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from draftmeter.job import job
from draftmeter.render.facts import RenderError, read_facts
from draftmeter.render.figure_tables import read_lags, read_times
from draftmeter.render.figures import draw_figure2, draw_figure3
from draftmeter.render.style import save_figure

if TYPE_CHECKING:
    from snakemake.script import snakemake

log = logging.getLogger("plot_over_time")


def plot_over_time(number: str, facts: Path, table: Path, outputs: dict[str, Path]) -> None:
    """Draw the figure of this number, 2 or 3, from the facts and its table; `outputs` names the
    svg, pdf and png."""
    if number == "2":
        figure = draw_figure2(read_facts(facts), read_times(table))
    else:
        figure = draw_figure3(read_facts(facts), read_lags(table))
    save_figure(figure, outputs["svg"], outputs["pdf"], outputs["png"])
    log.info("wrote Figure %s to %s", number, outputs["svg"].parent)


if __name__ == "__main__":
    with job(snakemake.log[0], RenderError):
        logging.getLogger("fontTools").setLevel(logging.WARNING)  # it reports each table of each font that it embeds
        plot_over_time(
            snakemake.wildcards.number,
            Path(snakemake.input.facts),
            Path(snakemake.input.table),
            {name: Path(snakemake.output[name]) for name in ("svg", "pdf", "png")},
        )
