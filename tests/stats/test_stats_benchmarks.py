"""The committed studies of the statistics in short: coverage of the intervals, and the published server recovered."""

import csv
import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from chance import CERTAIN, ERRORS, fits

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
    # The long study, which says where its coverage is below 93%, knows each share to 0.03. The mean of these correlated
    # coverages has a standard error of 0.024 in forty traffics.
    given, committed = ({row["statistic"]: float(row[column]) for row in rows} for column in ("given", "covered"))
    for name, found in hits.items():
        assert fits(len(found), TRAFFICS, least=given[name] - 0.03), name
        assert fits(sum(found), len(found), least=committed[name] - 0.03), name
    short = [np.mean(found) for found in hits.values()]
    assert np.mean(short) == pytest.approx(np.mean([committed[name] for name in names]), abs=ERRORS * 0.024)


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
    with (BENCHMARKS / "results" / "recovered.csv").open(newline="") as file:
        committed = {row["figure"]: row for row in csv.DictReader(file)}
    outside = {figure for figure, row in committed.items() if row["verdict"].startswith("outside")}
    # The simulated server moves the log odds of all positions alike: its fifths are near the published ones, not planted.
    assert all("fifth" in figure for figure in outside), outside
    assert sum(row["verdict"] == "rounds to it" for row in committed.values()) >= 5
    assert not [row for row in committed.values() if row["verdict"].startswith("no interval")]
    # Another processor draws another traffic from the same seed; one in a hundred seems too short for intervals.
    again = {row["figure"]: row for row in load("recovered").compare(300, truth_slots=200_000, confidence=CERTAIN)}
    assert list(committed) == list(again)
    # Five standard errors of the variance over the 200,000 slots, and the rounding.
    assert abs(float(again["standard deviation of intervals"]["planted"]) - 0.076) < 0.0025
    for figure, row in again.items():
        assert row["published"] == committed[figure]["published"]
        if not row["low"]:
            continue
        low, high = float(row["low"]), float(row["high"])
        rounding = 0.5 * 10.0 ** -len(row["planted"].partition(".")[2])
        assert low - rounding <= float(row["planted"]) <= high + rounding, figure
        # Two traffics are apart by the luck of both.
        assert abs(float(row["recovered"]) - float(committed[figure]["recovered"])) <= 1.5 * (high - low) / 2, figure
