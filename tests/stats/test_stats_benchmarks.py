"""The committed studies of the statistics in short: coverage of the intervals, and the published server recovered."""

import csv
import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TRAFFICS = 40


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch):
    def found(name: str) -> ModuleType:
        monkeypatch.syspath_prepend(str(BENCHMARKS))
        return importlib.import_module(name)

    return found


def test_intervals_cover_the_truth_in_a_short_study(load) -> None:
    study = load("interval_coverage")
    with (BENCHMARKS / "results" / "coverage.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "one decay" and row["intervals"] == "300"]
    truth = {row["statistic"]: float(row["truth"]) for row in rows}
    names = ["pooled.chance_1", "pooled.rise_2", "t500.mean", "t500.sd", "t500.variance_ratio", "t500.p10", "t500.p90"]
    names += ["autocorrelation.10", "running.1", "fifth_1.chance_1", "fifth_5.rise_3", "slope on running"]
    names += ["t500.step_rate_correlation_1", "true sd of the chance at 2", "pooled.formula_first_position_error"]
    hits: dict[str, list[bool]] = {name: [] for name in names}
    for seed in range(TRAFFICS):
        for name, low, high in study.one_traffic(study.KINDS["one decay"], 300, 200, seed):
            if name in hits and low is not None:
                hits[name].append(low <= truth[name] <= high)
    assert all(len(found) > 0.7 * TRAFFICS for found in hits.values())
    # Forty traffics know one coverage to 0.036, and the mean of these correlated ones to 0.024: three of those either way of
    # what the long study found, which says where it is below 93%.
    committed = {row["statistic"]: float(row["covered"]) for row in rows}
    short = {name: float(np.mean(found)) for name, found in hits.items()}
    assert all(short[name] >= committed[name] - 3 * 0.036 for name in names)
    assert np.mean(list(short.values())) == pytest.approx(np.mean([committed[name] for name in names]), abs=3 * 0.024)


def test_the_committed_table_is_that_of_its_rows_and_names_what_was_not_run(load) -> None:
    study = load("interval_coverage")
    with (BENCHMARKS / "results" / "coverage.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    places = {(row["kind"], int(row["intervals"])) for row in rows}
    wanted = [(kind, length) for kind in study.KINDS for length in study.LENGTHS]
    assert places <= set(wanted)
    assert {int(row["traffics"]) for row in rows} == {1000}
    assert len({row["statistic"] for row in rows}) > 150
    text = (BENCHMARKS / "results" / "coverage.md").read_text()
    assert text == load("coverage_table").table(rows, study.MIN_DRAFTS, wanted)
    assert ("This table is partial. Not yet run: " in text) == (places != set(wanted))


def test_the_published_server_is_recovered(load) -> None:
    compared = load("recovered").compare(resamples=300, truth_slots=200_000)
    outside = {row["figure"] for row in compared if row["verdict"].startswith("outside")}
    # The simulated server moves the log odds of all positions alike: its fifths are near the published ones, not planted.
    assert all("fifth" in figure for figure in outside), outside
    assert sum(row["verdict"] == "rounds to it" for row in compared) >= 5
    assert not [row for row in compared if row["verdict"].startswith("no interval")]
    by_figure = {row["figure"]: row for row in compared}
    assert abs(float(by_figure["standard deviation of intervals"]["planted"]) - 0.076) < 0.0015
    with (BENCHMARKS / "results" / "recovered.csv").open(newline="") as file:
        committed = {row["figure"]: row for row in csv.DictReader(file)}
    assert set(committed) == set(by_figure)
    for figure, row in committed.items():
        assert (row["published"], row["recovered"]) == (by_figure[figure]["published"], by_figure[figure]["recovered"])
