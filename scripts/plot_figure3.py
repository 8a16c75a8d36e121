"""Rule `plot_figure3`: the autocorrelation of acceptance with its intervals and its fit, as svg, pdf and png."""

import logging
from pathlib import Path

from draftmeter.job import job
from draftmeter.render.facts import RenderError, read_facts
from draftmeter.render.figure3 import draw_figure3
from draftmeter.render.figure_data import read_lags
from draftmeter.render.style import save_figure

log = logging.getLogger("plot_figure3")


def plot_figure3(facts: Path, curve: Path, outputs: dict[str, Path]) -> None:
    """Draw Figure 3 from the facts and its table; `outputs` names the svg, pdf and png."""
    lags = read_lags(curve)
    save_figure(draw_figure3(read_facts(facts), lags), outputs["svg"], outputs["pdf"], outputs["png"])
    log.info("%d lags; wrote %s", len(lags), outputs["svg"].parent)


if "snakemake" in globals():
    smk = globals()["snakemake"]
    with job(smk.log[0], RenderError):
        logging.getLogger("fontTools").setLevel(logging.WARNING)  # it reports each table of each font that it embeds
        plot_figure3(
            Path(smk.input.facts), Path(smk.input.curve), {name: Path(smk.output[name]) for name in ("svg", "pdf", "png")}
        )
