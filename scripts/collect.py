"""Rule `collect`: the records of all boots, and stored files, to the tables runs, counters,
intervals, requests, checks.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from draftmeter.collect.tables import CollectError, build_tables, write_table
from draftmeter.job import job
from draftmeter.study.archive import StoredSource

if TYPE_CHECKING:
    from snakemake.script import snakemake

log = logging.getLogger("collect")
TABLES = ("runs", "counters", "intervals", "requests", "checks")


def collect(boots: Sequence[Path], stored: Sequence[StoredSource], outputs: dict[str, tuple[Path, Path]]) -> None:
    """Read the records that `boots` (boot.json files) list and the `stored` files.

    Write each table as parquet and csv.
    """
    log.info("reading the records of %d boots and %d stored files or folders", len(boots), len(stored))
    tables = build_tables(boots, stored)
    failed = tables.checks[tables.checks["status"] == "failed"]
    for row in failed.itertuples():
        log.warning("%s/%s/%s: check failed: %s: %s", row.server, row.boot, row.run, row.check, row.reason)
    for name, (parquet, csv) in outputs.items():
        table = getattr(tables, name)
        write_table(table, parquet, csv)
        log.info("%s: %d rows", name, len(table))
    log.info("%d checks, %d of them failed", len(tables.checks), len(failed))


if __name__ == "__main__":
    with job(snakemake.log[0], CollectError):
        collect(
            [Path(path) for path in snakemake.input.boots],
            TypeAdapter(list[StoredSource]).validate_json(snakemake.params.stored),
            {name: (Path(snakemake.output[f"{name}_parquet"]), Path(snakemake.output[f"{name}_csv"])) for name in TABLES},
        )
