"""Seconds and memory of everything that the lines of a log say: one year of ten-second intervals, and shorter logs.

`python benchmarks/statistics_speed.py` writes results/statistics_speed.md beside this file.
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from draftmeter.stats.interval_statistics import Settings, interval_statistics
from draftmeter.stats.intervals import interval_series
from draftmeter.stats.simulate import PUBLISHED_LIKE, simulate

RESULTS = Path(__file__).parent / "results"
YEAR = 3_153_600
LENGTHS = (YEAR // 100, YEAR // 10, YEAR)
RESAMPLES = 2000
MOST_SECONDS = 60.0
MOST_BYTES = 2e9


def measure(length: int) -> None:
    """Print seconds and the most memory (bytes) of the statistics of `length` intervals; these themselves count as memory."""
    traffic = simulate(PUBLISHED_LIKE, int(length * 1.9), np.random.default_rng(0))
    columns = [column[:length].copy() for column in (traffic.end, traffic.drafts, traffic.accepted_at, traffic.running)]
    del traffic
    end, drafts, accepted_at, running = columns
    start = time.perf_counter()
    made = interval_series(
        end,
        drafts,
        accepted_at.sum(axis=1),
        drafts * accepted_at.shape[1],
        window_s=PUBLISHED_LIKE.interval_s,
        accepted_at=accepted_at,
        running=running,
    )
    found = interval_statistics(made, Settings(resamples=RESAMPLES))
    seconds = time.perf_counter() - start
    print(len(made), seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, len(found.estimates))


def main() -> None:
    """Each length in a process of its own, since memory is that of a process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int)
    arguments = parser.parse_args()
    if arguments.length:
        measure(arguments.length)
        return
    measured = []
    for length in LENGTHS:
        command = [sys.executable, __file__, "--length", str(length)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        measured.append((int(output[0]), float(output[1]), float(output[2]), int(output[3])))
        print(f"{measured[-1][0]:,} lines: {measured[-1][1]:.1f} s, {measured[-1][2] / 1e9:.2f} GB", flush=True)
    text = [
        "# Speed of the statistics",
        "",
        f"All of `draftmeter.stats.interval_statistics` ({measured[-1][3]} with resampled intervals) with {RESAMPLES} resamples; "
        f"`python benchmarks/statistics_speed.py` writes this file. To stay below, for a year of ten-second intervals: "
        f"{MOST_SECONDS:.0f} s and {MOST_BYTES / 1e9:.0f} GB.",
        "",
        "| lines | seconds over the most allowed | memory over the most allowed | seconds over a tenth of the lines' |",
        "|--:|--:|--:|--:|",
    ]
    for number, (length, seconds, memory, _) in enumerate(measured):
        growth = f"{seconds / measured[number - 1][1]:.1f}" if number else ""
        text.append(f"| {length:,} | {seconds / MOST_SECONDS:.3f} | {memory / MOST_BYTES:.2f} | {growth} |")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "statistics_speed.md").write_text("\n".join(text) + "\n")
    print("\n".join(text[4:]))


if __name__ == "__main__":
    main()
