"""Figure 2: acceptance of the production intervals over time, and the load below it."""

from itertools import groupby, pairwise
from statistics import median

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from draftmeter.facts import PRODUCTION_INTERVALS
from draftmeter.render.facts import Facts
from draftmeter.render.figure_data import Moment
from draftmeter.render.numbers import duration
from draftmeter.render.style import add_panel, drawing, legend_above, new_figure, say, say_by_construction

# As wide as the text of the note: hours of intervals need it.
WIDTH_MM, HEIGHT_MM = 166.0, 82.0
ACCEPTANCE_MM = (13.0, 34.0, 149.0, 38.0)
LOAD_MM = (13.0, 10.0, 149.0, 17.0)
LINE_CHARACTERS = 90
# The mean is over at least so many intervals, and no finer than this part of the whole time: swings show, steps do not.
FEWEST_IN_MEAN = 10
MEANS = 60
# A shorter time has an axis in minutes, a longer one in days.
FEWEST_HOURS, MOST_HOURS = 2.0, 240.0
MOST_TICKS = 9
ROUND_S = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400)

Line = tuple[list[float], list[float]]


def draw_figure2(facts: Facts, moments: list[Moment]) -> Figure:
    """Acceptance above, running requests below, on one axis of time."""
    with drawing():
        figure = new_figure(WIDTH_MM, HEIGHT_MM)
        above, below = add_panel(figure, ACCEPTANCE_MM), add_panel(figure, LOAD_MM)
        above.set_ylabel("Accepted over drafted")
        below.set_ylabel("Running")
        qualifying = [moment for moment in moments if moment.qualifies]
        for axes, panel in ((above, qualifying), (below, moments)):
            if not panel:
                why = facts.fact(PRODUCTION_INTERVALS, "p10").unknown or "the time of no interval is known"
                say(axes, why, LINE_CHARACTERS)
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
        say(axes, "the requests running are not known", LINE_CHARACTERS)
        axes.set_yticks([])
        return
    if any(moment.between is not None for moment in known):
        axes.set_ylabel("Most running")
    heights = [moment.running or 0.0 for moment in known]
    axes.vlines([moment.hours for moment in known], 0, heights, color="0.45", linewidth=0.8)
    axes.set_ylim(0, max(1.0, 1.08 * max(heights)))
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
