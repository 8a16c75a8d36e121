"""Figure 2: acceptance over time with the load below; gaps stay gaps, and what is unknown is said."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread

from draftmeter.analyse.figure_tables import TIME_COLUMNS, time_rows
from draftmeter.analyse.interval_series import MOST_SINGLE, WorkloadIntervals, piece_s
from draftmeter.analyse.tables import write_csv as write_table
from draftmeter.render.facts import Facts, RenderError
from draftmeter.render.figure_tables import Moment, read_times
from draftmeter.render.figures import draw_figure2, mean_width_s, moving_means, time_ticks
from draftmeter.render.style import save_figure
from draftmeter.stats.intervals import interval_series
from made_up_facts import made_up_facts, write_csv, write_inputs

FORMS = ("svg", "pdf", "png")


def draw(folder: Path, facts: dict[str, Any], moments: list[Moment] | None = None) -> dict[str, Path]:
    paths = write_inputs(folder, facts)
    shown = read_times(paths["figure2.csv"]) if moments is None else moments
    outputs = {form: folder / f"figure2.{form}" for form in FORMS}
    save_figure(draw_figure2(Facts.model_validate(facts), shown), **outputs)
    return outputs


def svg_text(path: Path) -> list[str]:
    return re.findall(r"<text[^>]*>(?:<tspan[^>]*>)?([^<]+)<", path.read_text())


def day(intervals: int) -> list[Moment]:
    return [Moment(number / 360, 0.5 + 0.1 * (number % 7 < 3), number % 5, "0", True) for number in range(1, intervals + 1)]


def test_the_same_inputs_give_the_same_bytes_without_a_date(tmp_path: Path) -> None:
    first, second = (draw(tmp_path / name, made_up_facts()) for name in ("one", "two"))
    for form in FORMS:
        assert first[form].read_bytes() == second[form].read_bytes(), form
        assert b"Date" not in first[form].read_bytes()


def test_its_fonts_are_embedded_its_text_is_text_and_it_is_grey(tmp_path: Path) -> None:
    outputs = draw(tmp_path, made_up_facts())
    assert {"Accepted over drafted", "Running", "Time since the start of the first interval (min)"} <= set(
        svg_text(outputs["svg"])
    )
    pdf = outputs["pdf"].read_bytes()
    assert b"/FontFile2" in pdf and b"/Type3" not in pdf
    pixels = imread(outputs["png"])[..., :3]
    assert (pixels.max(axis=2) - pixels.min(axis=2)).max() < 0.01


def test_a_calibration_says_so(tmp_path: Path) -> None:
    words = "acceptance set by construction"
    assert words in svg_text(draw(tmp_path / "known", made_up_facts("known_answer"))["svg"])
    assert words not in svg_text(draw(tmp_path / "served", made_up_facts("served_model"))["svg"])


def test_the_mean_stops_at_gaps_and_at_the_end_of_a_series() -> None:
    times = [(0, "0"), (10, "0"), (20, "0"), (200, "0"), (210, "0"), (220, "1")]
    moments = [Moment(seconds / 3600, value, None, series, True) for value, (seconds, series) in enumerate(times)]
    lines = moving_means(moments, 30.0)
    assert [len(hours) for hours, _ in lines] == [3, 2, 1]
    assert [round(mean, 9) for _, means in lines for mean in means] == [0.5, 1.0, 1.5, 3.5, 3.5, 5.0]


def test_a_piece_counts_by_its_intervals() -> None:
    moments = [
        Moment(hour, value, None, "0", True, intervals) for hour, value, intervals in ((0, 0.5, 9), (1, 0.7, 1), (2, 0.9, 4))
    ]
    ((hours, means),) = moving_means(moments, 2 * 3600.0)
    assert hours == [0, 1, 2] and means == pytest.approx([5.2 / 10, 8.8 / 14, 4.3 / 5])


def log_of(
    end: np.ndarray, drafts: np.ndarray, acceptance: np.ndarray, running: np.ndarray, series: np.ndarray
) -> WorkloadIntervals:
    """Intervals of ten seconds with these ends, all of one boot."""
    drafted = 10.0 * drafts
    accepted = np.round(acceptance * drafted)
    n, every = len(end), np.ones(len(end), dtype=bool)
    found = interval_series(end, drafts, accepted, drafted, window_s=10.0, running=running, series=series)
    return WorkloadIntervals(pd.DataFrame(index=range(n)), found, "", every, every, ~every)


def many(n: int) -> WorkloadIntervals:
    """One interval every ten seconds; every fifth has few drafts and low acceptance."""
    number = np.arange(n)
    few = number % 5 == 0
    acceptance = np.where(few, 0.1, 0.5 + (number % 7) / 20)
    return log_of(1.8e9 + 10.0 * (number + 1), np.where(few, 100.0, 600.0), acceptance, number % 4, np.zeros(n))


def test_few_intervals_are_shown_one_by_one() -> None:
    log = many(MOST_SINGLE)
    rows = list(time_rows(log, 500))
    assert piece_s(log) is None and len(rows) == MOST_SINGLE
    assert {(row["low"], row["high"], row["intervals"]) for row in rows} == {(None, None, 1)}


def test_many_intervals_become_pieces_of_time_by_hand() -> None:
    log = many(2400)
    assert piece_s(log) == 60.0  # 400 pieces of six intervals
    rows = list(time_rows(log, 500))
    assert len(rows) == 400 and [row["hours"] for row in rows[:2]] == pytest.approx([0.5 / 60, 1.5 / 60])
    # Of the first six intervals the first and the sixth have few drafts.
    shown = [0.55, 0.6, 0.65, 0.7]
    low, high = np.percentile(shown, [10, 90])
    assert rows[0] == {
        "hours": pytest.approx(0.5 / 60),
        "acceptance": pytest.approx(np.mean(shown)),
        "low": pytest.approx(low),
        "high": pytest.approx(high),
        "intervals": 4,
        "drafts": 2600,
        "running": 3,
        "series": 0,
        "boot": 0,
        "qualifies": 1,
    }
    assert sum(row["intervals"] for row in rows) == 4 * 2400 / 5


def test_pieces_end_with_their_series_and_leave_gaps_and_unknowns() -> None:
    n = 1600
    number = np.arange(n)
    end = 1.8e9 + 10.0 * (number + 1) + np.where(number >= 800, 7200.0, 0.0)
    running = np.where(number < 800, np.nan, 2.0)
    drafts = np.where(number < 800, 600.0, 50.0)
    log = log_of(end, drafts, np.full(n, 0.5), running, (number >= 803).astype(int))
    length = piece_s(log)
    rows = list(time_rows(log, 500))
    assert length == 60.0
    assert {row["running"] for row in rows if row["qualifies"]} == {None}
    assert {row["running"] for row in rows if not row["qualifies"]} == {2}
    hours = [row["hours"] for row in rows]
    assert not [hour for hour in hours if 8000 / 3600 + length / 3600 < hour < (8000 + 7200) / 3600 - length / 3600]
    # The second series begins in the middle of a piece, of which both have a row.
    assert [row["series"] for row in rows] == sorted(row["series"] for row in rows)
    assert len(hours) == len(set(hours)) + 1


@pytest.mark.parametrize(("days", "length"), [(1.2, 300.0), (36.5, 10800.0), (365.0, 86400.0), (3650.0, 604800.0)])
def test_pieces_have_a_round_length(days: float, length: float) -> None:
    n = MOST_SINGLE + 1
    end = np.linspace(10.0, days * 86400, n)
    assert piece_s(log_of(end, np.full(n, 9.0), np.full(n, 0.5), np.ones(n), np.zeros(n))) == length


def test_a_long_study_is_drawn_in_pieces_and_a_day_has_hours(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    write_table(path, TIME_COLUMNS, time_rows(many(8640), 500))
    moments = read_times(path)
    assert len(moments) == 288 and moments[0].between is not None
    text = svg_text(draw(tmp_path, made_up_facts(), moments)["svg"])
    assert {"8 of 10 intervals", "mean over 30 min", "Most running", "Time since the start of the first interval (h)"} <= set(
        text
    )
    assert mean_width_s(moments) == 1800.0
    assert len((tmp_path / "figure2.svg").read_text()) < 500_000


def test_the_mean_is_no_finer_than_ten_intervals_or_a_piece() -> None:
    assert mean_width_s(day(60)) == 120.0  # ten intervals of 10 s, at the next round width
    pieces = [Moment(number / 360, 0.5, None, "0", True, 4, (0.4, 0.6)) for number in range(60)]
    assert mean_width_s(pieces) == 30.0
    pieces = [Moment(number / 60, 0.5, None, "0", True, 400, (0.4, 0.6)) for number in range(20)]
    assert mean_width_s(pieces) == 60.0


@pytest.mark.parametrize("hours", [0.01, 0.06, 1.9, 2.0, 29.0, 240.0, 241.0, 8760.0])
def test_ticks_are_round_and_within_the_axis(hours: float) -> None:
    unit, places = time_ticks(hours)
    assert unit == ("d" if hours > 240 else "h" if hours >= 2 else "min") and 3 <= len(places) <= 11
    assert all(0 <= place <= hours for place in places)
    steps = {round(later - earlier, 9) for earlier, later in pairwise(places)}
    assert max(steps) - min(steps) < 1e-6


def test_what_is_unknown_is_said(tmp_path: Path) -> None:
    empty = svg_text(draw(tmp_path / "a", made_up_facts(), [])["svg"])
    assert empty.count("the time of no interval is known") == 2
    no_load = [Moment(one.hours, one.acceptance, None, one.series, True) for one in day(20)]
    assert "the requests running are not known" in svg_text(draw(tmp_path / "b", made_up_facts(), no_load)["svg"])
    small = [Moment(one.hours, one.acceptance, 1.0, one.series, False) for one in day(20)]
    facts = made_up_facts()
    facts["facts"]["production_intervals.p10"] |= {"value": None, "unknown": "no intervals with at least 100 drafts"}
    assert "no intervals with at least 100 drafts" in svg_text(draw(tmp_path / "c", facts, small)["svg"])


def test_malformed_rows_are_refused_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "figure2.csv"
    columns = ["hours", "acceptance", "low", "high", "intervals", "running", "series", "qualifies"]
    for row, message in (
        ([None, 0.5, None, None, 1, 1, 0, 1], "line 2: an interval without a time"),
        ([0.1, 1.5, None, None, 1, 1, 0, 1], "line 2, acceptance"),
        ([0.1, 0.5, None, None, 1, "x", 0, 1], "line 2, running"),
        ([0.1, 0.5, None, None, 1, 1, 0, 2], "line 2, qualifies: found '2'"),
        ([0.1, 0.5, 0.4, None, 4, 1, 0, 1], "line 2: needs one interval or more, and both of low and high or neither"),
        ([0.1, 0.5, 0.4, 0.6, 0, 1, 0, 1], "line 2: needs one interval or more"),
        ([0.1, 0.5, 0.4, 0.6, None, 1, 0, 1], "line 2: needs one interval or more"),
        ([0.1, 0.5, 0.4, "x", 4, 1, 0, 1], "line 2, high"),
    ):
        write_csv(path, columns, [row])
        with pytest.raises(RenderError, match=message):
            read_times(path)
    write_csv(path, columns[1:], [])
    with pytest.raises(RenderError, match=r"no column \['hours'\]"):
        read_times(path)


@pytest.mark.parametrize("intervals", [5, 150, 3558])
def test_every_label_lies_within_the_figure(intervals: int) -> None:
    figure = draw_figure2(Facts.model_validate(made_up_facts()), day(intervals))
    FigureCanvasAgg(figure).draw()
    for axes in figure.axes:
        low, high = axes.get_xlim()
        labels = [label for label in axes.get_xticklabels() if low <= label.get_position()[0] <= high]
        for text in [*labels, *axes.get_yticklabels(), *axes.texts, axes.xaxis.label, axes.yaxis.label]:
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0, text.get_text()
