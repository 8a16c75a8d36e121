"""Figures 1 to 3, in grey, each from the facts and its table.

Figure 1: (a) how acceptance varies over production intervals, (b) chance at each position in five
groups of them. Figure 2: acceptance of the production intervals over time, and the load below it.
Figure 3: the memory of acceptance, with its intervals and the decay that was fitted to it.
"""

import math
from collections import Counter
from itertools import groupby, pairwise
from statistics import median

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import Container
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, PercentFormatter
from matplotlib.transforms import ScaledTranslation, Transform

from draftmeter.facts import PRODUCTION_INTERVALS
from draftmeter.render.facts import Facts, RenderError
from draftmeter.render.figure_tables import Chance, Lag, Moment
from draftmeter.render.printing import duration
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

FIGURE1_HEIGHT_MM = 124.0
# The right margin holds half of a tick label that stands at the very end of an axis.
FIGURE1_PANELS_MM = {"(a)": (12.0, 68.0, 72.5, 42.0), "(b)": (12.0, 10.0, 72.5, 42.0)}
TRIANGLE_PT = 6.5
# What fits into a panel's width with room to spare.
COLUMN_CHARACTERS = 44
GREYS = ["0.72", "0.56", "0.40", "0.22", "0.0"]
MARKERS = ["o", "s", "D", "^", "v"]
FIFTH_NAMES = {1: "1 lowest", 2: "2", 3: "3", 4: "4", 5: "5 highest"}

# As wide as the text of the note: hours of intervals need it.
FIGURE2_WIDTH_MM, FIGURE2_HEIGHT_MM = 166.0, 82.0
ACCEPTANCE_MM = (13.0, 34.0, 149.0, 38.0)
LOAD_MM = (13.0, 10.0, 149.0, 17.0)
WIDE_CHARACTERS = 90
# The mean is over at least so many intervals, and no finer than this part of the whole time: swings show, steps do not.
FEWEST_IN_MEAN = 10
MEANS = 60
# A shorter time has an axis in minutes, a longer one in days.
FEWEST_HOURS, MOST_HOURS = 2.0, 240.0
MOST_TICKS = 9
ROUND_S = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400)

Line = tuple[list[float], list[float]]

FIGURE3_HEIGHT_MM = 68.0
FIGURE3_PANEL_MM = (12.0, 10.0, 72.5, 46.0)
TICKS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)
FEWEST_TICKS = 3


def draw_figure1(facts: Facts, intervals: list[float], fifths: list[Chance], bin_width: float) -> Figure:
    """Both panels, one column (89 mm) wide. `intervals` and `bin_width` are fractions of draft tokens."""
    if not 0 < bin_width <= 0.2:
        raise RenderError(f"histogram_bin_width: found {bin_width}; needs a fraction above 0 and at most 0.2")
    with drawing():
        figure = new_figure(COLUMN_MM, FIGURE1_HEIGHT_MM)
        _draw_intervals(add_panel(figure, FIGURE1_PANELS_MM["(a)"], "(a)"), facts, intervals, bin_width)
        _draw_fifths(add_panel(figure, FIGURE1_PANELS_MM["(b)"], "(b)"), fifths, _why_no_fifths(facts))
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
        say(axes, facts.fact(PRODUCTION_INTERVALS, "p10").unknown or "no interval has enough drafts", COLUMN_CHARACTERS)
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
    per_point = (high - low) / (FIGURE1_PANELS_MM["(a)"][2] / INCH * 72)
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
        say(axes, why_none, COLUMN_CHARACTERS)
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
    gap = 1.25 * LABEL_PT * (high - low) / (FIGURE1_PANELS_MM["(b)"][3] / INCH * 72)
    heights = spread([chance for chance, _ in ends], gap)
    for (_, fifth), height in zip(ends, heights, strict=True):
        axes.text(x, height, FIFTH_NAMES[fifth], fontsize=LABEL_PT, va="center")


def _bar_below(measured: list[tuple[Chance, float]]) -> list[float]:
    return [math.nan if row.low is None else max(chance - row.low, 0.0) for row, chance in measured]


def _bar_above(measured: list[tuple[Chance, float]]) -> list[float]:
    return [math.nan if row.high is None else max(row.high - chance, 0.0) for row, chance in measured]


def _up(axes: Axes, points: float) -> Transform:
    figure = axes.figure
    return ScaledTranslation(0, points / 72, figure.dpi_scale_trans)


def draw_figure2(facts: Facts, moments: list[Moment]) -> Figure:
    """Acceptance above, running requests below, on one axis of time."""
    with drawing():
        figure = new_figure(FIGURE2_WIDTH_MM, FIGURE2_HEIGHT_MM)
        above, below = add_panel(figure, ACCEPTANCE_MM), add_panel(figure, LOAD_MM)
        above.set_ylabel("Accepted over drafted")
        below.set_ylabel("Running")
        qualifying = [moment for moment in moments if moment.qualifies]
        for axes, panel in ((above, qualifying), (below, moments)):
            if not panel:
                why = facts.fact(PRODUCTION_INTERVALS, "p10").unknown or "the time of no interval is known"
                say(axes, why, WIDE_CHARACTERS)
                axes.set_xticks([])
                axes.set_yticks([])
        if qualifying:
            _draw_acceptance(above, facts, qualifying)
            above.tick_params(labelbottom=False)
        if moments:
            _draw_load(below, moments)
            width = max(moment.hours for moment in moments)
            unit, places = time_ticks(width)
            for axes in (above, below):
                axes.set_xlim(-0.01 * width, 1.01 * width)
                axes.set_xticks(list(places), places.values())
            below.set_xlabel(f"Time since the start of the first interval ({unit})")
        figure.align_ylabels()
        say_by_construction(figure, facts)
        return figure


def time_ticks(hours: float) -> tuple[str, dict[float, str]]:
    """The unit of an axis of so many hours, and its ticks: place in hours, label in the unit."""
    unit, per_hour = ("h", 1.0) if hours >= FEWEST_HOURS else ("min", 60.0)
    unit, per_hour = ("d", 1 / 24) if hours > MOST_HOURS else (unit, per_hour)
    ticks = MaxNLocator(MOST_TICKS, steps=[1, 2, 5, 10]).tick_values(0.0, hours * per_hour)
    return unit, {float(tick) / per_hour: f"{tick:g}" for tick in ticks if 0 <= tick <= hours * per_hour}


def mean_width_s(moments: list[Moment]) -> float:
    """Width in seconds of the window of the mean: some intervals, a small part of the whole time, and no less than a piece."""
    gaps = [later.hours - earlier.hours for earlier, later in pairwise(moments)]
    spacing = median(gaps) if gaps else 0.0
    fewest = max(FEWEST_IN_MEAN / median(moment.intervals for moment in moments), 1.0)
    wanted = 3600 * max(fewest * spacing, moments[-1].hours / MEANS)
    return float(next((width for width in ROUND_S if width >= wanted), ROUND_S[-1]))


def moving_means(moments: list[Moment], width_s: float) -> list[Line]:
    """The mean of the intervals within half of `width_s` around each moment, a line for each stretch without a gap.

    A piece of time counts by its intervals. A line ends with its series, and where the next moment is further away than the
    width.
    """
    half = width_s / 7200
    lines: list[Line] = []
    for _, group in groupby(moments, key=lambda moment: moment.series):
        series = list(group)
        first = last = number = 0
        total = 0.0
        hours: list[float] = []
        means: list[float] = []
        for moment in series:
            while last < len(series) and series[last].hours <= moment.hours + half:
                total += series[last].intervals * series[last].acceptance
                number += series[last].intervals
                last += 1
            while series[first].hours < moment.hours - half:
                total -= series[first].intervals * series[first].acceptance
                number -= series[first].intervals
                first += 1
            if hours and moment.hours - hours[-1] > 2 * half:
                lines.append((hours, means))
                hours, means = [], []
            hours.append(moment.hours)
            means.append(total / number)
        lines.append((hours, means))
    return lines


def _draw_acceptance(axes: Axes, facts: Facts, moments: list[Moment]) -> None:
    pieces = [(moment.hours, *moment.between) for moment in moments if moment.between is not None]
    if not pieces:
        x, y = [moment.hours for moment in moments], [moment.acceptance for moment in moments]
        handles: list[Artist] = [*axes.plot(x, y, linestyle="none", marker="o", markersize=2.2, color="0.55", markeredgewidth=0)]
        labels = ["interval"]
    else:
        handles = [axes.vlines(*zip(*pieces, strict=True), color="0.76", linewidth=1.0)]
        labels = ["8 of 10 intervals"]
    width_s = mean_width_s(moments)
    for hours, means in moving_means(moments, width_s):
        marker = "." if len(hours) == 1 else ""
        (mean,) = axes.plot(hours, means, color="0.0", linewidth=0.9, zorder=3, marker=marker, markersize=2.5)
    handles.append(mean)
    labels.append(f"mean over {duration(width_s) if width_s < 7200 else f'{width_s / 3600:g} h'}")
    pooled = facts.fact(facts.production.workload, "accepted_over_drafted").value
    if pooled is not None:
        handles.append(axes.axhline(pooled, color="0.35", linewidth=0.7, linestyle=(0, (4, 2)), zorder=2))
        labels.append("production, all drafts")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    legend_above(axes, handles, labels, columns=3)


def _draw_load(axes: Axes, moments: list[Moment]) -> None:
    known = [moment for moment in moments if moment.running is not None]
    if not known:
        say(axes, "the requests running are not known", WIDE_CHARACTERS)
        axes.set_yticks([])
        return
    if any(moment.between is not None for moment in known):
        axes.set_ylabel("Most running")
    heights = [moment.running or 0.0 for moment in known]
    axes.vlines([moment.hours for moment in known], 0, heights, color="0.45", linewidth=0.8)
    axes.set_ylim(0, max(1.0, 1.08 * max(heights)))
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))


def draw_figure3(facts: Facts, lags: list[Lag]) -> Figure:
    """Correlation over lag, on a logarithmic axis: both time scales of a decay fit on it. One column (89 mm) wide."""
    with drawing():
        figure = new_figure(COLUMN_MM, FIGURE3_HEIGHT_MM)
        axes = add_panel(figure, FIGURE3_PANEL_MM)
        if lags:
            _draw_correlations(axes, sorted(lags, key=lambda lag: lag.lag_s))
        else:
            correlations = [facts.fact(PRODUCTION_INTERVALS, lag.quantity) for lag in facts.structure.lags]
            reasons = [fact.unknown for fact in correlations if fact.unknown is not None]
            say(axes, reasons[0] if reasons else "no correlation is known", COLUMN_CHARACTERS)
            axes.set_xticks([])
            axes.set_yticks([])
        axes.set_xlabel("Time apart")
        axes.set_ylabel("Correlation of acceptance")
        say_by_construction(figure, facts)
        return figure


def _draw_correlations(axes: Axes, lags: list[Lag]) -> None:
    axes.set_xscale("log")
    axes.axhline(0, color="0.35", linewidth=0.6, zorder=1)
    measured = axes.errorbar(
        [lag.lag_s for lag in lags],
        [lag.correlation for lag in lags],
        yerr=[
            [math.nan if lag.low is None else max(lag.correlation - lag.low, 0.0) for lag in lags],
            [math.nan if lag.high is None else max(lag.high - lag.correlation, 0.0) for lag in lags],
        ],
        linestyle="none",
        color="0.22",
        marker="o",
        markersize=2.8,
        elinewidth=0.7,
        capsize=1.4,
        zorder=3,
    )
    handles: list[Artist | Container] = [measured]
    labels = ["measured"]
    fitted = [(lag.lag_s, lag.fitted) for lag in lags if lag.fitted is not None]
    if fitted:
        x, y = zip(*fitted, strict=True)
        handles += axes.plot(x, y, color="0.0", linestyle=DASHED, linewidth=0.9, zorder=4)
        labels.append("fitted decay")
    low, high = lags[0].lag_s / 1.25, lags[-1].lag_s * 1.25
    axes.set_xlim(low, high)
    ticks = [float(tick) for tick in TICKS_S if low <= tick <= high]
    if len(ticks) < FEWEST_TICKS:
        ticks = sorted({lags[0].lag_s, lags[len(lags) // 2].lag_s, lags[-1].lag_s})
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda seconds, _: duration(seconds))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    legend_above(axes, handles, labels)
