"""Write tables whose K is known only when all is read, without holding all rows in memory."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from draftmeter.collect.columns import positions_of, schema_of, widened

HELD_BYTES = 48 << 20
ROWS_AT_ONCE = 1 << 16


class Spool:
    """Batches of rows in order: the last ones in memory, those before in temporary files."""

    def __init__(self, folder: Path, columns: Mapping[str, pa.DataType]) -> None:
        self.rows = 0
        self.k = 0
        self._folder = folder
        self._columns = columns
        self._held: list[pa.Table] = []
        self._files: list[Path] = []

    def add(self, batch: "pa.Table | pa.RecordBatch") -> None:
        """Take one batch; columns that it lacks are null."""
        k = positions_of(batch.schema.names)
        self.k = max(self.k, k)
        self.rows += batch.num_rows
        self._held.append(widened(batch, schema_of(self._columns, k)))
        if sum(table.nbytes for table in self._held) > HELD_BYTES:
            self._put_aside()

    def schema(self, k: int) -> pa.Schema:
        """Of the table for drafts of up to `k` tokens."""
        return schema_of(self._columns, k)

    def tables(self, k: int) -> Iterator[pa.Table]:
        """All rows in order, with the columns for drafts of up to `k` tokens."""
        schema = self.schema(k)
        for path in self._files:
            with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
                for batch in reader:
                    yield widened(batch, schema)
        for table in self._held:
            yield widened(table, schema)

    def _put_aside(self) -> None:
        path = self._folder / f"spool-{len(self._files)}-{id(self)}.arrow"
        schema = self.schema(max(positions_of(table.schema.names) for table in self._held))
        with pa.ipc.new_stream(str(path), schema) as writer:
            for table in self._held:
                writer.write_table(widened(table, schema), max_chunksize=ROWS_AT_ONCE)
        self._files.append(path)
        self._held = []


class Output:
    """A folder filled with whole files only: written under temporary names, then renamed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._temporary = folder / f".writing-{os.getpid()}"
        self._was_there = folder.exists()
        self._written: list[str] = []

    def __enter__(self) -> Self:
        self._temporary.mkdir(parents=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        shutil.rmtree(self._temporary, ignore_errors=True)
        if error is not None and not self._was_there:
            self.folder.rmdir()

    @property
    def temporary(self) -> Path:
        """Where the files lie until they are whole."""
        return self._temporary

    def write_tables(self, spools: Mapping[str, Spool], k: int) -> None:
        """Write every table as parquet and csv; the same rows give the same bytes."""
        with ThreadPoolExecutor(2) as pool:
            for done in [
                pool.submit(write, spool, k, self._temporary / f"{name}.{suffix}")
                for name, spool in spools.items()
                for write, suffix in ((_write_csv, "csv"), (_write_parquet, "parquet"))
            ]:
                done.result()
        self._written += [f"{name}.{suffix}" for name in spools for suffix in ("csv", "parquet")]

    def write_text(self, name: str, text: str) -> None:
        """Write one more file."""
        (self._temporary / name).write_text(text, encoding="utf-8")
        self._written.append(name)

    def sizes(self) -> dict[str, int]:
        """The bytes of each file so far."""
        return {name: (self._temporary / name).stat().st_size for name in sorted(self._written)}

    def publish(self) -> None:
        """Move the files to where they belong, in the order in which they were written."""
        for name in self._written:
            (self._temporary / name).replace(self.folder / name)


def _write_csv(spool: Spool, k: int, path: Path) -> None:
    with pyarrow.csv.CSVWriter(str(path), spool.schema(k)) as writer:
        for table in spool.tables(k):
            writer.write_table(table)


def _write_parquet(spool: Spool, k: int, path: Path) -> None:
    with pyarrow.parquet.ParquetWriter(str(path), spool.schema(k)) as writer:
        for table in _regrouped(spool.tables(k)):
            writer.write_table(table, row_group_size=ROWS_AT_ONCE)


def _regrouped(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows in tables of ROWS_AT_ONCE, so that bytes do not depend on how rows came."""
    held: list[pa.Table] = []
    n = 0
    for table in tables:
        held.append(table)
        n += table.num_rows
        if n >= ROWS_AT_ONCE:
            joined = pa.concat_tables(held)
            whole = n - n % ROWS_AT_ONCE
            yield joined.slice(0, whole)
            held, n = [joined.slice(whole)], n - whole
    if n:
        yield pa.concat_tables(held)
