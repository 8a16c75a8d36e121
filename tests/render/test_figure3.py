"""Figure 3: the autocorrelation with its intervals and the fitted decay; unknown ends and fits are left out."""

import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread

from draftmeter.render.facts import Facts, RenderError
from draftmeter.render.figure_tables import Lag, read_lags
from draftmeter.render.figures import draw_figure3
from draftmeter.render.style import save_figure
from made_up_facts import forget, made_up_facts, write_csv, write_inputs
from made_up_figures import LAGS_S

FORMS = ("svg", "pdf", "png")


def draw(folder: Path, facts: dict[str, Any], lags: list[Lag] | None = None) -> dict[str, Path]:
    paths = write_inputs(folder, facts)
    shown = read_lags(paths["figure3.csv"]) if lags is None else lags
    outputs = {form: folder / f"figure3.{form}" for form in FORMS}
    save_figure(draw_figure3(Facts.model_validate(facts), shown), **outputs)
    return outputs


def svg_text(path: Path) -> list[str]:
    return re.findall(r"<text[^>]*>(?:<tspan[^>]*>)?([^<]+)<", path.read_text())


def test_the_same_inputs_give_the_same_bytes_without_a_date(tmp_path: Path) -> None:
    first, second = (draw(tmp_path / name, made_up_facts()) for name in ("one", "two"))
    for form in FORMS:
        assert first[form].read_bytes() == second[form].read_bytes(), form
        assert b"Date" not in first[form].read_bytes()


def test_one_column_wide_with_text_embedded_fonts_and_in_grey(tmp_path: Path) -> None:
    outputs = draw(tmp_path, made_up_facts())
    width = re.search(r'<svg[^>]* width="([0-9.]+)pt"', outputs["svg"].read_text(), re.DOTALL)
    assert width is not None
    assert float(width.group(1)) == pytest.approx(89 / 25.4 * 72, abs=0.01)
    assert {"2 s", "1 min", "measured", "fitted decay", "acceptance set by construction"} <= set(svg_text(outputs["svg"]))
    pdf = outputs["pdf"].read_bytes()
    assert b"/FontFile2" in pdf and b"/Type3" not in pdf
    pixels = imread(outputs["png"])[..., :3]
    assert (pixels.max(axis=2) - pixels.min(axis=2)).max() < 0.01


def test_unknown_intervals_and_an_unknown_fit_are_left_out(tmp_path: Path) -> None:
    lags = [Lag(lag, 0.5, None, None, None) for lag in (2.0, 4.0, 6.0)]
    text = svg_text(draw(tmp_path, made_up_facts("served_model"), lags)["svg"])
    assert "measured" in text and "fitted decay" not in text
    assert {"2 s", "4 s", "6 s"} & set(text)


def test_no_lag_at_all_says_why(tmp_path: Path) -> None:
    facts = made_up_facts()
    assert "no correlation is known" in svg_text(draw(tmp_path / "a", facts, [])["svg"])
    for lag in LAGS_S:
        forget(facts, f"production_intervals.autocorrelation_{lag}s", "the log interval is not known")
    assert "the log interval is not known" in svg_text(draw(tmp_path / "b", facts, [])["svg"])


def test_malformed_rows_are_refused_and_unknown_lags_left_out(tmp_path: Path) -> None:
    path = tmp_path / "figure3.csv"
    columns = ["lag_s", "correlation", "low", "high", "pairs", "fitted"]
    write_csv(path, columns, [[2, None, None, None, 0, None], [4, 0.5, 0.4, 0.6, 90, 0.5]])
    assert [lag.lag_s for lag in read_lags(path)] == [4]
    for row in ([0, 0.5, 0.4, 0.6, 90, 0.5], [2, 1.5, 0.4, 0.6, 90, 0.5], [2, "inf", None, None, 90, None]):
        write_csv(path, columns, [row])
        with pytest.raises(RenderError, match=r"figure3\.csv, line 2"):
            read_lags(path)


@pytest.mark.parametrize("lags_s", [(2, 4), (2, 6, 60, 120), (10, 30, 300, 1800)])
def test_every_label_lies_within_the_figure(lags_s: tuple[float, ...]) -> None:
    figure = draw_figure3(Facts.model_validate(made_up_facts()), [Lag(lag, 0.3, 0.1, 0.5, 0.3) for lag in lags_s])
    FigureCanvasAgg(figure).draw()
    (axes,) = figure.axes
    for text in [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.xaxis.label, axes.yaxis.label]:
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0, text.get_text()
