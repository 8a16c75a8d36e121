"""How often the 95% intervals of interval statistics hold the truth: simulated traffics of three kinds and three lengths.

`python benchmarks/interval_coverage.py` writes results/coverage.csv and results/coverage.md beside this file. 1,000 traffics
of each kind and length take some minutes of two quiet cores; each finished kind and length is kept: start it again to go on.
"""

import argparse
import csv
import math
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from coverage_table import table

from draftmeter.stats.interval_statistics import IntervalStatistics, Settings, interval_statistics
from draftmeter.stats.intervals import IntervalSeries, interval_series
from draftmeter.stats.simulate import PUBLISHED_LIKE, Decay, Server, Traffic, simulate

RESULTS = Path(__file__).parent / "results"
LENGTHS = (300, 1000, 3558)
MIN_DRAFTS = 500
TRUTH_SLOTS = 6_000_000
COLUMNS = ["kind", "intervals", "statistic", "truth", "traffics", "given", "covered", "standard_error", "missed", "half_width"]

DECAY_TIMES = {0: (), 1: ("one decay time",), 2: ("shorter of two decay times", "longer of two decay times")}
KINDS = {
    "no memory": replace(PUBLISHED_LIKE, decays=()),
    "one decay": replace(PUBLISHED_LIKE, decays=(Decay(0.8, 30.0),)),
    "two decays": PUBLISHED_LIKE,
}


@dataclass
class Count:
    """Of one statistic over traffics: intervals given, those that hold the truth, and the sum of their half widths."""

    truth: float
    traffics: int = 0
    given: int = 0
    covered: int = 0
    half_widths: list[float] = field(default_factory=list)


def as_series(traffic: Traffic, qualifying: int | None) -> IntervalSeries:
    """The lines up to the one that makes the wanted number of qualifying ones."""
    end = len(traffic.end)
    if qualifying is not None:
        end = int(np.flatnonzero(np.cumsum(traffic.drafts >= MIN_DRAFTS) >= qualifying)[0]) + 1
    return interval_series(
        traffic.end[:end],
        traffic.drafts[:end],
        traffic.accepted[:end],
        traffic.drafted[:end],
        window_s=10.0,
        accepted_at=traffic.accepted_at[:end],
        running=traffic.running[:end],
    )


def ends(found: IntervalStatistics) -> Iterator[tuple[str, float | None, float | None, float | None]]:
    """Name, value, low and high of every figure with an interval."""
    for name, one in found.estimates.items():
        if not name.startswith("dispersion."):
            yield name, one.value, one.low, one.high
    spread = found.overdispersion
    for name, one in (("true sd of acceptance", spread.acceptance), *_positions(spread.positions)):
        yield name, one.value, one.low, one.high
    if found.regression is not None:
        slope = found.regression.slope
        yield "slope on running", slope.value, slope.low, slope.high
    fits = {1: found.decay.one, 2: found.decay.two}
    chosen = fits[found.decay.chosen] if found.decay.chosen else None
    if chosen is not None:
        for name, one in zip(DECAY_TIMES[len(chosen.components)], chosen.components, strict=True):
            yield name, one.time_s.value, one.time_s.low, one.time_s.high


def _positions(positions: tuple) -> list:
    return [(f"true sd of the chance at {number}", one) for number, one in enumerate(positions, start=1)]


def truth(server: Server) -> dict[str, float]:
    """Each figure over a traffic so long that its own error does not count; the planted value where one was planted."""
    traffic = simulate(server, TRUTH_SLOTS, np.random.default_rng(1))
    found = interval_statistics(as_series(traffic, None), Settings(min_drafts=MIN_DRAFTS, resamples=2))
    values = {name: value for name, value, _, _ in ends(found) if value is not None}
    chosen = traffic.drafts >= MIN_DRAFTS
    true_acceptance = np.cumprod(traffic.chances[chosen], axis=1).mean(axis=1)
    values["true sd of acceptance"] = float(true_acceptance.std())
    for position, sd in enumerate(traffic.chances[chosen].std(axis=0), start=1):
        values[f"true sd of the chance at {position}"] = float(sd)
    values["slope on running"] = 0.0
    for name in [name for name in values if name.startswith("running.") and " - " in name]:
        values[name] = 0.0
    values = {name: value for name, value in values.items() if not name.endswith(("decay time", "decay times"))}
    planted = [decay.time_s for decay in server.decays]
    return values | dict(zip(DECAY_TIMES[len(planted)], planted, strict=True))


def one_traffic(server: Server, qualifying: int, resamples: int, seed: int) -> list[tuple[str, float | None, float | None]]:
    """Names and ends of the intervals of one traffic."""
    rng = np.random.default_rng([qualifying, seed])
    traffic = simulate(server, int(qualifying / 0.3) + 300, rng)
    settings = Settings(min_drafts=MIN_DRAFTS, resamples=resamples, seed=seed)
    return [(name, low, high) for name, _, low, high in ends(interval_statistics(as_series(traffic, qualifying), settings))]


def study(
    server: Server, qualifying: int, traffics: int, resamples: int, known: dict[str, float], processes: int
) -> dict[str, Count]:
    """Counts by statistic."""
    counts = {name: Count(value) for name, value in known.items()}
    work = partial(one_traffic, server, qualifying, resamples)
    with multiprocessing.Pool(processes) as pool:
        for done, found in enumerate(pool.imap_unordered(work, range(traffics), chunksize=4), start=1):
            for count in counts.values():
                count.traffics += 1
            for name, low, high in found:
                if low is None or high is None or name not in counts:
                    continue
                counts[name].given += 1
                counts[name].covered += low <= counts[name].truth <= high
                counts[name].half_widths.append((high - low) / 2)
            if done % 50 == 0:
                print(f"  {done} of {traffics}", flush=True)
    return counts


def rows(kind: str, qualifying: int, counts: dict[str, Count]) -> list[dict[str, str]]:
    """Rows of the csv."""
    result = []
    for name, count in counts.items():
        covered = count.covered / count.given if count.given else float("nan")
        error = math.sqrt(covered * (1 - covered) / count.given) if count.given else float("nan")
        result.append(
            {
                "kind": kind,
                "intervals": str(qualifying),
                "statistic": name,
                "truth": f"{count.truth:.6g}",
                "traffics": str(count.traffics),
                "given": f"{count.given / count.traffics:.4f}",
                "covered": f"{covered:.4f}",
                "standard_error": f"{error:.4f}",
                "missed": f"{(count.given - count.covered) / count.traffics:.4f}",
                "half_width": f"{np.median(count.half_widths) if count.half_widths else float('nan'):.4g}",
            }
        )
    return result


def main() -> None:
    """Run what is not yet in the csv, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traffics", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=500)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "coverage.csv", help="the table goes beside it, as .md")
    arguments = parser.parse_args()
    wanted = [(kind, length) for kind in KINDS for length in LENGTHS]
    done: list[dict[str, str]] = []
    if arguments.out.exists():
        with arguments.out.open(newline="") as file:
            done = list(csv.DictReader(file))
    finished = {(row["kind"], int(row["intervals"])) for row in done if int(row["traffics"]) == arguments.traffics}
    done = [row for row in done if (row["kind"], int(row["intervals"])) in finished]
    for kind, server in KINDS.items():
        missing = [qualifying for qualifying in LENGTHS if (kind, qualifying) not in finished]
        known = truth(server) if missing else {}
        for qualifying in missing:
            start = time.perf_counter()
            print(f"{kind}, {qualifying} intervals", flush=True)
            counts = study(server, qualifying, arguments.traffics, arguments.resamples, known, arguments.processes)
            done += rows(kind, qualifying, counts)
            print(f"  {time.perf_counter() - start:.0f} s", flush=True)
            with arguments.out.open("w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(done)
            arguments.out.with_suffix(".md").write_text(table(done, MIN_DRAFTS, wanted))


if __name__ == "__main__":
    main()
