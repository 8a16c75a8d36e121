"""Reads a generated log for every wording x source x trouble and prints the pass counts as a Markdown table.

Usage: python benchmarks/format_matrix.py [--seeds N] [--failures]. Exits 1 if a case fails.
"""

import argparse
import io
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "worlds"))

from draftmeter.formats.log import Known, read_log
from log_generator import PREFIXES, TROUBLES, WORDINGS, make_case
from log_truth import Case, judge


def problems_of(case: Case) -> list[str]:
    """Everything in which reading the case differs from what was planted."""
    reading = read_log(io.BytesIO(case.content), Known(**case.known))
    return judge(case, [row for batch in reading.batches() for row in batch.to_pylist()], reading.found)


def main() -> int:
    """Print the table; with --failures also the first problem of each failed case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, help="logs for each triple (default 1)")
    parser.add_argument("--failures", action="store_true", help="also list the failed cases")
    options = parser.parse_args()
    per_cell = len(TROUBLES) * options.seeds
    failed: list[tuple[str, list[str]]] = []
    print(f"Passed of {per_cell} logs ({len(TROUBLES)} troubles x {options.seeds} seeds) for each wording and source.\n")
    print("| wording | " + " | ".join(PREFIXES) + " |")
    print("|---|" + "---:|" * len(PREFIXES))
    for wording in WORDINGS:
        cells = []
        for prefix in PREFIXES:
            passed = 0
            for trouble in TROUBLES:
                for seed in range(options.seeds):
                    case = make_case(wording, prefix, trouble, seed)
                    problems = problems_of(case)
                    passed += not problems
                    if problems:
                        failed.append((case.name, problems))
            cells.append(str(passed))
        print(f"| {wording} | " + " | ".join(cells) + " |", flush=True)
    total = len(WORDINGS) * len(PREFIXES) * per_cell
    print(f"\n{total - len(failed)} of {total} passed. Troubles: {', '.join(TROUBLES)}.")
    if options.failures:
        for name, problems in failed:
            print(f"- {name}: {problems[0]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
