"""Rule `collect`: turn the records of all boots into the tables counters, intervals, requests and checks."""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from draftmeter.collect.tables import CollectError, build_tables, write_table

log = logging.getLogger("collect")


def collect(boots: Sequence[Path], outputs: dict[str, tuple[Path, Path]]) -> None:
    """Read the records that `boots` (boot.json files) list; write each table to its pair of parquet and csv paths."""
    log.info("reading the records of %d boots", len(boots))
    tables = build_tables(boots)
    failed = tables.checks[tables.checks["status"] == "failed"]
    for row in failed.itertuples():
        log.warning("%s/%s/%s: check failed: %s: %s", row.server, row.boot, row.run, row.check, row.reason)
    for name, (parquet, csv) in outputs.items():
        table = getattr(tables, name)
        write_table(table, parquet, csv)
        log.info("%s: %d rows", name, len(table))
    log.info("%d checks, %d of them failed", len(tables.checks), len(failed))


def main(job: Any) -> int:
    """Map a Snakemake job onto :func:`collect`; a problem that the user can solve is printed, without a traceback."""
    logging.basicConfig(filename=job.log[0], level=logging.INFO, format="%(levelname)s %(message)s")
    outputs = {
        name: (Path(job.output[f"{name}_parquet"]), Path(job.output[f"{name}_csv"]))
        for name in ("counters", "intervals", "requests", "checks")
    }
    boots = [job.input.boots] if isinstance(job.input.boots, str) else job.input.boots
    try:
        collect([Path(path) for path in boots], outputs)
    except CollectError as error:
        log.error("%s", error)
        print(f"collect: {error}", file=sys.stderr)
        return 1
    return 0


if "snakemake" in globals():
    sys.exit(main(globals()["snakemake"]))
