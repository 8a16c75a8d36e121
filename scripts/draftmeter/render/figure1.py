"""Figure 1: (a) how acceptance varies over production intervals, (b) chance at each position in five groups of them."""

import math
from collections import Counter

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator, PercentFormatter
from matplotlib.transforms import ScaledTranslation, Transform

from draftmeter.facts import PRODUCTION_INTERVALS
from draftmeter.render.facts import Facts, RenderError
from draftmeter.render.figure_data import Chance
from draftmeter.render.style import (
    COLUMN_MM,
    DASHED,
    GROUND,
    INCH,
    LABEL_PT,
    add_panel,
    drawing,
    legend_above,
    new_figure,
    say,
    say_by_construction,
)

HEIGHT_MM = 124.0
# The right margin holds half of a tick label that stands at the very end of an axis.
PANELS_MM = {"(a)": (12.0, 68.0, 72.5, 42.0), "(b)": (12.0, 10.0, 72.5, 42.0)}
TRIANGLE_PT = 6.5
# What fits into a panel's width with room to spare.
LINE_CHARACTERS = 44
GREYS = ["0.72", "0.56", "0.40", "0.22", "0.0"]
MARKERS = ["o", "s", "D", "^", "v"]
NAMES = {1: "1 lowest", 2: "2", 3: "3", 4: "4", 5: "5 highest"}


def draw_figure1(facts: Facts, intervals: list[float], fifths: list[Chance], bin_width: float) -> Figure:
    """Both panels, one column (89 mm) wide. `intervals` and `bin_width` are fractions of draft tokens."""
    if not 0 < bin_width <= 0.2:
        raise RenderError(f"histogram_bin_width: found {bin_width}; needs a fraction above 0 and at most 0.2")
    with drawing():
        figure = new_figure(COLUMN_MM, HEIGHT_MM)
        _draw_intervals(add_panel(figure, PANELS_MM["(a)"], "(a)"), facts, intervals, bin_width)
        _draw_fifths(add_panel(figure, PANELS_MM["(b)"], "(b)"), fifths, _why_no_fifths(facts))
        say_by_construction(figure, facts)
        return figure


def overlapping(positions: list[float], reach: float) -> list[list[float]]:
    """Sorted `positions` in groups: neighbours less than `reach` apart overlap and belong together."""
    groups: list[list[float]] = []
    for position in sorted(positions):
        if groups and position - groups[-1][-1] < reach:
            groups[-1].append(position)
        else:
            groups.append([position])
    return groups


def spread(positions: list[float], gap: float) -> list[float]:
    """Ascending `positions`, neighbours closer than `gap` pushed apart around their middle."""
    placed = list(positions)
    for _ in range(100):
        for left in range(len(placed) - 1):
            excess = gap - (placed[left + 1] - placed[left])
            if excess > 0:
                placed[left] -= excess / 2
                placed[left + 1] += excess / 2
    return placed


def _draw_intervals(axes: Axes, facts: Facts, intervals: list[float], bin_width: float) -> None:
    pooled = facts.fact(facts.production.workload, "accepted_over_drafted").value
    known = [facts.fact(row.workload, "accepted_over_drafted").value for row in facts.controlled]
    triangles = [value for value in known if value is not None]
    # The tiny addend keeps a value on a bin's edge, such as 0.58 = 29 x 0.02, out of the bin below.
    bins = Counter(math.floor(value / bin_width + 1e-9) for value in intervals)
    shown = [*bins, *(math.floor(value / bin_width) for value in (*triangles, *([] if pooled is None else [pooled])))]
    first, last = min(shown, default=0), max(shown, default=round(1 / bin_width))
    axes.set_xlim(max((first - 1) * bin_width, -0.02), min((last + 2) * bin_width, 1.02))
    axes.set_ylim(0, 1.12 * max(bins.values(), default=1))
    if intervals:
        left_edges = [index * bin_width for index in sorted(bins)]
        heights = [bins[index] for index in sorted(bins)]
        label = "production intervals"
        axes.bar(left_edges, heights, bin_width, align="edge", color="0.80", edgecolor="0.35", lw=0.5, label=label)
    else:
        say(axes, facts.fact(PRODUCTION_INTERVALS, "p10").unknown or "no interval has enough drafts", LINE_CHARACTERS)
    if pooled is not None:
        axes.axvline(pooled, color="0.0", linewidth=1.0, label="production, all drafts")
    if known:
        _draw_triangles(axes, triangles)
    if len(triangles) < len(known):
        note = f"{len(known) - len(triangles)} of {len(known)} workloads: unknown"
        axes.text(1, 1, note, transform=axes.transAxes, ha="right", va="top", fontsize=LABEL_PT)
    axes.set_xlabel("Accepted over drafted")
    axes.set_ylabel("Intervals")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True) if intervals else NullLocator())
    handles, labels = axes.get_legend_handles_labels()
    legend_above(axes, handles[::-1], labels[::-1])


def _draw_triangles(axes: Axes, values: list[float]) -> None:
    """One triangle a workload, standing on the axis; where they overlap, their number above them."""
    low, high = axes.get_xlim()
    per_point = (high - low) / (PANELS_MM["(a)"][2] / INCH * 72)
    axes.plot(
        values,
        [0.0] * len(values),
        linestyle="none",
        marker=(3, 0, 0),
        markersize=TRIANGLE_PT,
        markerfacecolor="0.0",
        markeredgecolor="white",
        markeredgewidth=0.5,
        zorder=5,
        transform=axes.get_xaxis_transform() + _up(axes, TRIANGLE_PT / 2),
        label="controlled workload",
    )
    last, raised = -math.inf, False
    for group in overlapping(values, TRIANGLE_PT * per_point):
        if len(group) > 1:
            middle = sum(group) / len(group)
            raised = middle - last < 2.2 * LABEL_PT * per_point and not raised
            last = middle
            height = _up(axes, TRIANGLE_PT + 1 + (LABEL_PT if raised else 0))
            transform = axes.get_xaxis_transform() + height
            text = f"×{len(group)}"
            axes.text(middle, 0, text, transform=transform, ha="center", fontsize=LABEL_PT, zorder=6, bbox=GROUND)


def _why_no_fifths(facts: Facts) -> str:
    if facts.positions(facts.production.workload) == 0:
        return "the number of draft tokens is not known"
    return facts.fact(f"{PRODUCTION_INTERVALS}.fifth_1", "chance_1").unknown or "no chance is known"


def _draw_fifths(axes: Axes, fifths: list[Chance], why_none: str) -> None:
    ends: list[tuple[float, int]] = []
    for fifth in sorted({chance.fifth for chance in fifths}):
        rows = [row for row in fifths if row.fifth == fifth]
        shift = (fifth - 3) * 0.05
        equal = [(row.position + shift, row.equal_chances) for row in rows if row.equal_chances is not None]
        axes.plot([x for x, _ in equal], [y for _, y in equal], color="0.45", linestyle=DASHED, linewidth=0.8, zorder=2)
        measured = [(row, row.chance) for row in rows if row.chance is not None]
        if measured:
            axes.errorbar(
                [row.position + shift for row, _ in measured],
                [chance for _, chance in measured],
                yerr=[_bar_below(measured), _bar_above(measured)],
                color=GREYS[fifth - 1],
                marker=MARKERS[fifth - 1],
                markersize=3.4,
                markeredgecolor="0.0",
                markeredgewidth=0.4,
                linewidth=1.0,
                elinewidth=0.8,
                capsize=1.6,
                zorder=3 + fifth,
            )
            ends.append((measured[-1][1], fifth))
    axes.set_xlabel("Position in the draft")
    axes.set_ylabel("Chance at the position")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    if not ends:
        axes.set_xticks([])
        axes.set_yticks([])
        say(axes, why_none, LINE_CHARACTERS)
        return
    positions = sorted({chance.position for chance in fifths})
    axes.set_xticks(positions)
    axes.set_xlim(positions[0] - 0.3, positions[-1] + 0.7)
    _name_lines(axes, positions[-1] + 0.2, sorted(ends))
    solid = axes.errorbar([], [], yerr=[], color="0.22", marker="o", markersize=3.4, linewidth=1.0, capsize=1.6)
    (dashed,) = axes.plot([], [], color="0.45", linestyle=DASHED, linewidth=0.8)
    legend_above(axes, [solid, dashed], ["fifth of the intervals", "same selection, equal chances"])


def _name_lines(axes: Axes, x: float, ends: list[tuple[float, int]]) -> None:
    low, high = axes.get_ylim()
    gap = 1.25 * LABEL_PT * (high - low) / (PANELS_MM["(b)"][3] / INCH * 72)
    heights = spread([chance for chance, _ in ends], gap)
    for (_, fifth), height in zip(ends, heights, strict=True):
        axes.text(x, height, NAMES[fifth], fontsize=LABEL_PT, va="center")


def _bar_below(measured: list[tuple[Chance, float]]) -> list[float]:
    return [math.nan if row.low is None else max(chance - row.low, 0.0) for row, chance in measured]


def _bar_above(measured: list[tuple[Chance, float]]) -> list[float]:
    return [math.nan if row.high is None else max(row.high - chance, 0.0) for row, chance in measured]


def _up(axes: Axes, points: float) -> Transform:
    figure = axes.figure
    return ScaledTranslation(0, points / 72, figure.dpi_scale_trans)
