"""Figure 2: acceptance over time with the load below; gaps stay gaps, and what is unknown is said."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from made_up_facts import made_up_facts, write_csv, write_inputs
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread

from draftmeter.render.facts import Facts, RenderError
from draftmeter.render.figure2 import draw_figure2, mean_width_s, moving_means, time_ticks
from draftmeter.render.figure_data import Moment, read_times
from draftmeter.render.style import save_figure

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


def test_a_long_study_is_drawn_in_pieces_and_a_day_has_hours(tmp_path: Path) -> None:
    text = svg_text(draw(tmp_path, made_up_facts(), day(3558))["svg"])
    assert {"8 of 10 intervals", "mean over 10 min", "Most running", "Time since the start of the first interval (h)"} <= set(
        text
    )
    assert mean_width_s(day(3558)) == 600.0
    assert len((tmp_path / "figure2.svg").read_text()) < 2_000_000


@pytest.mark.parametrize("hours", [0.01, 0.06, 1.9, 2.0, 29.0, 8760.0])
def test_ticks_are_round_and_within_the_axis(hours: float) -> None:
    unit, places = time_ticks(hours)
    assert unit == ("h" if hours >= 2 else "min") and 3 <= len(places) <= 11
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
    columns = ["hours", "acceptance", "running", "series", "qualifies"]
    for row, message in (
        ([None, 0.5, 1, 0, 1], "line 2: an interval without a time"),
        ([0.1, 1.5, 1, 0, 1], "line 2, acceptance"),
        ([0.1, 0.5, "x", 0, 1], "line 2, running"),
        ([0.1, 0.5, 1, 0, 2], "line 2, qualifies: found '2'"),
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
