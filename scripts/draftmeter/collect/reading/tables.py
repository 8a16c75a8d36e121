"""The tables that reading wrote, as the sources that they came from."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from draftmeter.collect.reading.columns import position_names, positions_of
from draftmeter.collect.reading.inputs import InputError
from draftmeter.collect.reading.kinds import READING_JSON
from draftmeter.collect.reading.source import Source


def read_tables(folder: Path) -> list[Source]:
    """The sources of a folder that reading wrote; raise :class:`InputError` for one that is not whole or was changed."""
    path = folder / READING_JSON
    try:
        described = json.loads(path.read_text())
        sizes: dict[str, int] = described["tables"]["bytes"]
        changed = sorted(name for name, size in sizes.items() if (folder / name).stat().st_size != size)
        if changed:
            raise InputError(f"{folder}: {', '.join(changed)} is not as {READING_JSON} says; read the files again")
        counters = pyarrow.parquet.read_table(folder / "counters.parquet").to_pylist()
        intervals = pyarrow.parquet.read_table(folder / "intervals.parquet")
        return [_source(file, counters, intervals) for file in described["files"]]
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise InputError(f"{folder}: not whole tables of `draftmeter read`: {type(error).__name__}: {error}") from error


def _source(file: dict[str, Any], counters: list[dict[str, Any]], intervals: pa.Table) -> Source:
    name = file["source"]
    rows = [{column: value for column, value in row.items() if value is not None} for row in counters if row["source"] == name]
    return Source(name, file["kind"], file, counters=rows, make_batches=lambda: [_intervals(name, intervals)])


def _intervals(name: str, intervals: pa.Table) -> pa.Table:
    """The intervals of one source, with as many positions as it has itself."""
    chosen = intervals.filter(pc.equal(intervals.column("source"), name)).drop_columns(["source"])
    k = pc.max(chosen.column("k")).as_py() or 0
    return chosen.drop_columns(position_names(positions_of(chosen.schema.names))[k:])
