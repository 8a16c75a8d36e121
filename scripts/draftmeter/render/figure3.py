"""Figure 3: the memory of acceptance, with its intervals and the decay that was fitted to it."""

import math

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import Container
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from draftmeter.facts import PRODUCTION_INTERVALS
from draftmeter.render.facts import Facts
from draftmeter.render.figure_data import Lag
from draftmeter.render.numbers import duration
from draftmeter.render.style import COLUMN_MM, DASHED, add_panel, drawing, legend_above, new_figure, say, say_by_construction

HEIGHT_MM = 68.0
PANEL_MM = (12.0, 10.0, 72.5, 46.0)
LINE_CHARACTERS = 44
TICKS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)
FEWEST_TICKS = 3


def draw_figure3(facts: Facts, lags: list[Lag]) -> Figure:
    """Correlation over lag, on a logarithmic axis: both time scales of a decay fit on it. One column (89 mm) wide."""
    with drawing():
        figure = new_figure(COLUMN_MM, HEIGHT_MM)
        axes = add_panel(figure, PANEL_MM)
        if lags:
            _draw(axes, sorted(lags, key=lambda lag: lag.lag_s))
        else:
            correlations = [facts.fact(PRODUCTION_INTERVALS, lag.quantity) for lag in facts.structure.lags]
            reasons = [fact.unknown for fact in correlations if fact.unknown is not None]
            say(axes, reasons[0] if reasons else "no correlation is known", LINE_CHARACTERS)
            axes.set_xticks([])
            axes.set_yticks([])
        axes.set_xlabel("Time apart")
        axes.set_ylabel("Correlation of acceptance")
        say_by_construction(figure, facts)
        return figure


def _draw(axes: Axes, lags: list[Lag]) -> None:
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
