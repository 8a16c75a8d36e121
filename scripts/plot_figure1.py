"""Rule `plot_figure1`: acceptance over production intervals and by position, as svg, pdf and png."""

import logging
import sys
from pathlib import Path
from typing import Any

from draftmeter.render.facts import RenderError, read_facts
from draftmeter.render.figure1 import draw_figure1, save_figure1
from draftmeter.render.figure1_data import read_fifths, read_intervals

log = logging.getLogger("plot_figure1")


def plot_figure1(facts: Path, intervals: Path, fifths: Path, bin_width: float, outputs: dict[str, Path]) -> None:
    """Draw Figure 1 from the facts and its two tables; `outputs` names the svg, pdf and png."""
    acceptance = read_intervals(intervals)
    figure = draw_figure1(read_facts(facts), acceptance, read_fifths(fifths), bin_width)
    save_figure1(figure, outputs["svg"], outputs["pdf"], outputs["png"])
    log.info("%d intervals, bins of %g; wrote %s", len(acceptance), bin_width, outputs["svg"].parent)


def main(job: Any) -> int:
    """Map a Snakemake job onto :func:`plot_figure1`; what the user can solve is printed, without a traceback."""
    logging.basicConfig(filename=job.log[0], level=logging.INFO, format="%(levelname)s %(message)s")
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # it reports each table of each font that it embeds
    try:
        plot_figure1(
            Path(job.input.facts),
            Path(job.input.intervals),
            Path(job.input.fifths),
            float(job.params.bin_width),
            {name: Path(job.output[name]) for name in ("svg", "pdf", "png")},
        )
    except RenderError as error:
        log.error("%s", error)
        print(f"plot_figure1: {error}", file=sys.stderr)
        return 1
    return 0


if "snakemake" in globals():
    sys.exit(main(globals()["snakemake"]))
