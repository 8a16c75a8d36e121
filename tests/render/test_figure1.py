"""Figure 1: the same inputs give the same bytes, text stays text, and what is unknown is not drawn."""

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread

from draftmeter.render.facts import Facts, RenderError
from draftmeter.render.figure_tables import Chance, read_fifths, read_intervals
from draftmeter.render.figures import draw_figure1, overlapping, spread
from draftmeter.render.style import save_figure
from made_up_facts import forget, made_up_facts, made_up_intervals, write_csv, write_inputs

FORMS = ("svg", "pdf", "png")


def draw(folder: Path, facts: dict[str, Any], intervals: list[float] | None = None) -> dict[str, Path]:
    paths = write_inputs(folder, facts)
    shown = made_up_intervals() if intervals is None else intervals
    figure = draw_figure1(Facts.model_validate(facts), shown, read_fifths(paths["figure1_fifths.csv"]), 0.02)
    outputs = {form: folder / f"figure1.{form}" for form in FORMS}
    save_figure(figure, **outputs)
    return outputs


def svg_text(path: Path) -> list[str]:
    return re.findall(r"<text[^>]*>(?:<tspan[^>]*>)?([^<]+)<", path.read_text())


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = (draw(tmp_path / name, made_up_facts()) for name in ("one", "two"))
    for form in FORMS:
        assert first[form].read_bytes() == second[form].read_bytes(), form
    for form in FORMS:
        assert b"Date" not in first[form].read_bytes()


def test_another_process_with_another_matplotlibrc_gives_the_same_bytes(tmp_path: Path) -> None:
    here = draw(tmp_path / "here", made_up_facts())
    (tmp_path / "matplotlibrc").write_text("font.size: 20\naxes.facecolor: red\nsvg.fonttype: path\n")
    script = (
        "import sys; from pathlib import Path; from made_up_facts import made_up_facts; from test_figure1 import draw; "
        "draw(Path(sys.argv[1]), made_up_facts())"
    )
    environment = {
        "PYTHONPATH": ":".join(filter(None, sys.path)),
        "MATPLOTLIBRC": str(tmp_path),
        "PYTHONHASHSEED": "5",
        "HOME": str(tmp_path),
    }
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "there")], env=environment, check=True)
    for form in FORMS:
        assert here[form].read_bytes() == (tmp_path / "there" / f"figure1.{form}").read_bytes(), form


def test_one_column_wide_with_text_and_embedded_fonts(tmp_path: Path) -> None:
    outputs = draw(tmp_path, made_up_facts())
    width = re.search(r'<svg[^>]* width="([0-9.]+)pt"', outputs["svg"].read_text(), re.DOTALL)
    assert width is not None
    assert float(width.group(1)) == pytest.approx(89 / 25.4 * 72, abs=0.01)
    assert {"Accepted over drafted", "Chance at the position", "5 highest", "×3"} <= set(svg_text(outputs["svg"]))
    pdf = outputs["pdf"].read_bytes()
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf


def test_the_words_of_a_calibration_stand_on_its_figure_alone(tmp_path: Path) -> None:
    words = "acceptance set by construction"
    assert words in svg_text(draw(tmp_path / "known", made_up_facts("known_answer"))["svg"])
    assert words not in svg_text(draw(tmp_path / "served", made_up_facts("served_model"))["svg"])


def test_everything_is_grey(tmp_path: Path) -> None:
    pixels = imread(draw(tmp_path, made_up_facts())["png"])[..., :3]
    assert (pixels.max(axis=2) - pixels.min(axis=2)).max() < 0.01


def test_an_unknown_workload_and_unknown_intervals_are_stated(tmp_path: Path) -> None:
    facts = forget(made_up_facts(), "evaluation.accepted_over_drafted", "no draft was made")
    assert "1 of 5 workloads: unknown" in svg_text(draw(tmp_path / "a", facts)["svg"])
    assert "no interval has enough drafts" in svg_text(draw(tmp_path / "b", facts, intervals=[])["svg"])


def test_unknown_chances_are_left_out(tmp_path: Path) -> None:
    facts = Facts.model_validate(forget(made_up_facts(), "production_intervals.fifth_1.chance_1", "three intervals are too few"))
    nothing = [Chance(fifth, k, None, None, None, None) for fifth in range(1, 6) for k in (1, 2, 3)]
    save_figure(draw_figure1(facts, [0.5], nothing, 0.02), *(tmp_path / f"f.{form}" for form in FORMS))
    assert "three intervals are too few" in svg_text(tmp_path / "f.svg")
    without_bars = [Chance(fifth, k, 0.1 * fifth, None, None, 0.3) for fifth in range(1, 6) for k in (1, 2, 3)]
    save_figure(draw_figure1(facts, [0.5], without_bars, 0.02), *(tmp_path / f"f.{form}" for form in FORMS))
    assert "1 lowest" in svg_text(tmp_path / "f.svg")


def test_neighbours_overlap_in_chains() -> None:
    assert overlapping([0.5, 0.1, 0.12, 0.14, 0.9], 0.03) == [[0.1, 0.12, 0.14], [0.5], [0.9]]
    assert overlapping([], 0.03) == []


def test_spread_keeps_order_and_distance() -> None:
    placed = spread([0.0, 0.01, 0.02, 1.0], 0.1)
    assert all(later - earlier > 0.0999 for earlier, later in pairwise(placed))
    assert placed[3] == 1.0


def test_malformed_tables_are_refused_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    columns = ["fifth", "position", "chance", "low", "high", "equal_chances"]
    write_csv(path, columns, [[1, 1, 0.5, None, None, None], [1, 2, 1.5, None, None, None]])
    with pytest.raises(RenderError, match=r"t\.csv, line 3, chance: found '1\.5'"):
        read_fifths(path)
    write_csv(path, columns, [[6, 1, 0.5, None, None, None]])
    with pytest.raises(RenderError, match="fifth must be 1 to 5"):
        read_fifths(path)
    write_csv(path, ["accept"], [[0.5]])
    with pytest.raises(RenderError, match="no column"):
        read_intervals(path)
    write_csv(path, ["acceptance"], [["x"]])
    with pytest.raises(RenderError, match="line 2"):
        read_intervals(path)
    with pytest.raises(RenderError, match="cannot be read"):
        read_intervals(tmp_path / "none.csv")


def test_a_bin_width_that_is_no_fraction_is_refused() -> None:
    with pytest.raises(RenderError, match="histogram_bin_width"):
        draw_figure1(Facts.model_validate(made_up_facts()), [0.5], [], 2.0)


@pytest.mark.parametrize("highest", [0.59, 0.765, 0.79, 0.99, 1.0])
def test_every_label_lies_within_the_figure(highest: float) -> None:
    chances = [Chance(fifth, k, 0.15 * fifth, None, None, 0.3) for fifth in range(1, 6) for k in (1, 2, 3)]
    figure = draw_figure1(Facts.model_validate(made_up_facts()), [0.2, highest], chances, 0.02)
    FigureCanvasAgg(figure).draw()
    for axes in figure.axes:
        low, high = axes.get_xlim()
        labels = [label for label in axes.get_xticklabels() if low <= label.get_position()[0] <= high]
        for text in [*labels, *axes.get_yticklabels(), *axes.texts, axes.xaxis.label, axes.yaxis.label]:
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.x1 <= figure.bbox.x1, text.get_text()
