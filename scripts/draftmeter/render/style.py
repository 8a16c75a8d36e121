"""What all figures have in common: millimetres, fonts, greys, and files that are the same each time."""

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import Container
from matplotlib.figure import Figure

from draftmeter.render.facts import Facts

BY_CONSTRUCTION = "acceptance set by construction"
INCH = 25.4
COLUMN_MM = 89.0
"""Width of one column of a paper."""
LABEL_PT = 6.5
DASHED = (0, (3, 2))
# Under text, and not an outline around it: an outline would turn the text of the SVG into curves.
GROUND = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}

# Text stays text in SVG and is embedded in PDF; element names come from a fixed salt: same figure, same bytes.
STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 7,
    "axes.labelsize": 7,
    "xtick.labelsize": LABEL_PT,
    "ytick.labelsize": LABEL_PT,
    "legend.fontsize": LABEL_PT,
    "legend.frameon": False,
    "legend.columnspacing": 1.2,
    "legend.handletextpad": 0.5,
    "legend.borderpad": 0.2,
    "legend.labelspacing": 0.3,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "draftmeter figure",
    "pdf.fonttype": 42,
}


@contextmanager
def drawing() -> Iterator[None]:
    """The style of all figures, whatever the settings of this machine."""
    with matplotlib.style.context(["default", STYLE]):
        yield


def new_figure(width_mm: float, height_mm: float) -> Figure:
    """An empty figure of this size."""
    return Figure(figsize=(width_mm / INCH, height_mm / INCH))


def add_panel(figure: Figure, place_mm: tuple[float, float, float, float], name: str = "") -> Axes:
    """Axes at (left, bottom, width, height), with their name above the left corner: fixed, no layout engine decides."""
    width_mm, height_mm = figure.get_figwidth() * INCH, figure.get_figheight() * INCH
    left, bottom, width, height = place_mm
    axes = figure.add_axes((left / width_mm, bottom / height_mm, width / width_mm, height / height_mm))
    if name:
        figure.text(1 / width_mm, (bottom + height + 2) / height_mm, name, weight="bold")
    return axes


def say_by_construction(figure: Figure, facts: Facts) -> None:
    """Write over the figure of a known-answer study that its acceptance was made, and not found."""
    if facts.study.kind == "known_answer":
        height_mm = figure.get_figheight() * INCH
        figure.text(0.5, 1 - 1.5 / height_mm, BY_CONSTRUCTION, style="italic", ha="center", va="top")


def legend_above(axes: Axes, handles: Sequence[Artist | Container], labels: list[str], columns: int = 2) -> None:
    """A legend over the right end of the axes."""
    axes.legend(handles, labels, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=columns)


def say(axes: Axes, words: str, characters: int) -> None:
    """Words in the middle of axes that have nothing to show, broken into lines of so many characters."""
    text = textwrap.fill(words, characters)
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", bbox=GROUND, zorder=6)


def save_figure(figure: Figure, svg: Path, pdf: Path, png: Path) -> None:
    """Write the three forms; none carries a date."""
    with drawing():
        for path in (svg, pdf, png):
            path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "draftmeter"})
        figure.savefig(pdf, format="pdf", metadata={"CreationDate": None, "Creator": "draftmeter"})
        figure.savefig(png, format="png", dpi=200, metadata={"Software": None})
