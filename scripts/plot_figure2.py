"""Rule `plot_figure2`: acceptance over time with the load below it, as svg, pdf and png."""

import logging
from pathlib import Path

from draftmeter.job import job
from draftmeter.render.facts import RenderError, read_facts
from draftmeter.render.figure2 import draw_figure2
from draftmeter.render.figure_data import read_times
from draftmeter.render.style import save_figure

log = logging.getLogger("plot_figure2")


def plot_figure2(facts: Path, times: Path, outputs: dict[str, Path]) -> None:
    """Draw Figure 2 from the facts and its table; `outputs` names the svg, pdf and png."""
    moments = read_times(times)
    save_figure(draw_figure2(read_facts(facts), moments), outputs["svg"], outputs["pdf"], outputs["png"])
    log.info("%d intervals; wrote %s", len(moments), outputs["svg"].parent)


if "snakemake" in globals():
    smk = globals()["snakemake"]
    with job(smk.log[0], RenderError):
        logging.getLogger("fontTools").setLevel(logging.WARNING)  # it reports each table of each font that it embeds
        plot_figure2(
            Path(smk.input.facts), Path(smk.input.times), {name: Path(smk.output[name]) for name in ("svg", "pdf", "png")}
        )
