"""The published server simulated for its 28.9 hours: what was printed, what was planted, and what the statistics recover.

`python benchmarks/recovered.py` writes results/recovered.csv and results/recovered.md beside this file.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from draftmeter.stats.estimate import Estimate
from draftmeter.stats.interval_statistics import IntervalStatistics, Settings, interval_statistics
from draftmeter.stats.intervals import interval_series
from draftmeter.stats.simulate import PUBLISHED_LIKE, Traffic, simulate

RESULTS = Path(__file__).parent / "results"
PUBLISHED = Path(__file__).parents[1] / "config" / "published.yaml"
# The month of the publication, chosen before anything was run.
SEED = 202610
HOURS = 28.9
TRUTH_SLOTS = 3_000_000
COLUMNS = ["figure", "published", "planted", "recovered", "low", "high", "verdict"]


@dataclass(frozen=True)
class Row:
    """A figure; `planted` is what the simulated server would show over a time without end."""

    figure: str
    published: float
    half_unit: float
    """Half of the last digit printed."""
    name: str
    """Of the estimate."""

    def verdict(self, found: Estimate) -> str:
        """Whether the recovered figure rounds to the printed one, or its interval holds it."""
        if found.value is not None and abs(found.value - self.published) <= self.half_unit:
            return "rounds to it"
        if found.low is None or found.high is None:
            return f"no interval: {found.unknown}"
        inside = found.low - self.half_unit <= self.published <= found.high + self.half_unit
        return "inside the interval" if inside else "outside the interval"


def rows(production: dict[str, Any]) -> Iterator[Row]:
    """The figures of the production server that follow from chances, spread and decay."""
    yield Row("accepted over drafted", production["accepted_over_drafted"], 0.0005, "pooled.accepted_over_drafted")
    for k, share in enumerate(production["share_through"], start=1):
        yield Row(f"share through {k}", share, 0.0005, f"pooled.share_through_{k}")
    for k, chance in enumerate(production["chance_at"], start=1):
        yield Row(f"chance at {k}", chance, 0.0005, f"pooled.chance_{k}")
    yield Row("tokens per step", production["tokens_per_step"], 0.005, "pooled.tokens_per_step")
    yield Row("accepted over checked", production["accepted_over_checked"], 0.0005, "pooled.accepted_over_checked")
    for rate, printed in production["formula"].items():
        half = 0.005 if rate == "accepted_over_drafted" else 0.0005
        yield Row(f"formula, {rate.replace('_', ' ')}", printed["value"], 0.005, f"pooled.formula_{rate}")
        yield Row(f"error of the formula, {rate.replace('_', ' ')}", printed["error"], half, f"pooled.formula_{rate}_error")
    last = production["formula"]["first_position"]["error_last_terms"]
    yield Row("error of the last two terms", last, 0.0005, "pooled.formula_last_terms_error")
    at_500 = production["intervals"][500]
    yield Row("standard deviation of intervals", at_500["sd_pp"] / 100, 0.0005, "t500.sd")
    yield Row("sampling standard deviation", at_500["sampling_sd_pp"] / 100, 0.0005, "t500.sampling_sd")
    yield Row("variance ratio", at_500["variance_ratio"], 0.5, "t500.variance_ratio")
    yield Row("P10 of acceptance", at_500["p10"], 0.0005, "t500.p10")
    yield Row("P90 of acceptance", at_500["p90"], 0.0005, "t500.p90")
    yield Row("P10 of tokens per step", at_500["tokens_per_step_p10"], 0.005, "t500.tokens_per_step_p10")
    yield Row("P90 of tokens per step", at_500["tokens_per_step_p90"], 0.005, "t500.tokens_per_step_p90")
    spread = 1 + at_500["tokens_per_step_spread"]
    yield Row("P90 over P10 of tokens per step", spread, 0.005, "t500.tokens_per_step_p90_over_p10")
    for lag, value in production["autocorrelation"].items():
        yield Row(f"autocorrelation at {lag} s", value, 0.005, f"autocorrelation.{lag}")
    for number, fifth in ((1, "lowest"), (5, "highest")):
        for k, chance in enumerate(production["fifths"][fifth], start=1):
            yield Row(f"{fifth} fifth, chance at {k}", chance, 0.0005, f"fifth_{number}.chance_{k}")


def statistics_of(traffic: Traffic, resamples: int, confidence: float = 0.95) -> IntervalStatistics:
    """The interval statistics of a simulated log."""
    made = interval_series(
        traffic.end,
        traffic.drafts,
        traffic.accepted,
        traffic.drafted,
        window_s=PUBLISHED_LIKE.interval_s,
        accepted_at=traffic.accepted_at,
        running=traffic.running,
    )
    return interval_statistics(made, Settings(resamples=resamples, seed=SEED, confidence=confidence))


def compare(resamples: int = 2000, truth_slots: int = TRUTH_SLOTS, confidence: float = 0.95) -> list[dict[str, str]]:
    """One row for each figure, with the columns of COLUMNS."""
    production = yaml.safe_load(PUBLISHED.read_text())["production"]
    slots = int(HOURS * 3600 / PUBLISHED_LIKE.interval_s)
    found = statistics_of(simulate(PUBLISHED_LIKE, slots, np.random.default_rng(SEED)), resamples, confidence)
    planted = statistics_of(simulate(PUBLISHED_LIKE, truth_slots, np.random.default_rng(SEED + 1)), 2)
    result = []
    for row in rows(production):
        one = found.estimates[row.name]
        digits = max(0, int(np.ceil(-np.log10(row.half_unit * 2.001))))
        values = (row.published, planted.estimates[row.name].value)
        printed = [f"{value:.{digits}f}" for value in values if value is not None]
        more = [f"{value:.{digits + 1}f}" if value is not None else "" for value in (one.value, one.low, one.high)]
        result.append(dict(zip(COLUMNS, [row.figure, *printed, *more, row.verdict(one)], strict=True)))
    return result


def main() -> None:
    """Write the csv and the table."""
    compared = compare()
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "recovered.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(compared)
    counts = {
        verdict: sum(row["verdict"] == verdict for row in compared) for verdict in dict.fromkeys(r["verdict"] for r in compared)
    }
    text = [
        "# A simulated server with the published variance, decay and chances",
        "",
        f"{HOURS} hours of ten-second intervals, seed {SEED}; `python benchmarks/recovered.py` writes this file. Planted: the "
        "three chances, the standard deviation of the intervals' true acceptance, and two decays with a white rest; the column "
        "holds what each figure would be over a time without end. No two decays meet the four published autocorrelations "
        "exactly. The fifths are not planted: the log odds of all positions move alike, and the published fifths do not quite.",
        "",
        "; ".join(f"{count} of {len(compared)} {verdict}" for verdict, count in counts.items()) + ".",
        "",
        "| figure | published | planted | recovered | 95% interval | published figure |",
        "|---|--:|--:|--:|:-:|---|",
    ]
    for row in compared:
        interval = f"{row['low']} to {row['high']}" if row["low"] else ""
        text.append(
            f"| {row['figure']} | {row['published']} | {row['planted']} | {row['recovered']} | {interval} | {row['verdict']} |"
        )
    (RESULTS / "recovered.md").write_text("\n".join(text) + "\n")
    print("\n".join(text[4:]))


if __name__ == "__main__":
    main()
