"""Read everything below some paths into the tables intervals, counters and requests, and say what was found."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from draftmeter.collect.reading.columns import COUNTERS, INTERVALS, REQUESTS, positions_of, table_of
from draftmeter.collect.reading.inputs import InputError, Skipped, find_inputs
from draftmeter.collect.reading.kinds import READING_JSON, TABLES
from draftmeter.collect.reading.report import remarks_on, text_of
from draftmeter.collect.reading.settings import Settings
from draftmeter.collect.reading.source import Row, Source
from draftmeter.collect.reading.sources import read_input
from draftmeter.collect.reading.writing import Output, Spool


@dataclass(frozen=True)
class Reading:
    """What was written: rows by table, the number of sources, and one line for everything that the user should know."""

    rows: dict[str, int]
    sources: int
    remarks: list[str]


def read_paths(paths: Sequence[str], settings: Settings, out: Path) -> Reading:
    """Write the three tables (parquet and csv) and reading.json into `out`; the same input gives the same bytes.

    Each file appears only when all are whole, reading.json last. Raises :class:`InputError`, and writes nothing, if a path
    is not there or if there is nothing usable in any of them.
    """
    found = find_inputs(paths)
    if any(Path(path).resolve() == out.resolve() for path in paths):
        raise InputError(f"{out}: given both to be read and to be written to; give the tables a folder of their own")
    skipped = list(found.skipped)
    files: list[dict[str, Any]] = []
    counters: list[Row] = []
    with Output(out) as output:
        spools = {
            "intervals": Spool(output.temporary, INTERVALS),
            "counters": Spool(output.temporary, COUNTERS),
            "requests": Spool(output.temporary, REQUESTS),
        }
        for item in found.inputs:
            if item.kind == TABLES and item.path is not None and item.path.resolve() == out.resolve():
                continue  # what an earlier reading of the same folder wrote
            try:
                source = read_input(item, settings)
            except InputError as error:
                skipped.append(Skipped(item.name, str(error).removeprefix(f"{item.name}: ")))
                continue
            if source.unusable is not None:
                skipped.append(Skipped(source.name, source.unusable))
                continue
            files.append({"source": source.name, **source.found, "intervals": _put(source, spools["intervals"])})
            counters += source.counters
            if source.requests is not None:
                spools["requests"].add(source.requests)
        if not files:
            raise InputError(_nothing(paths, skipped))
        k = max([positions_of(row) for row in counters] + [spool.k for spool in spools.values()], default=0)
        spools["counters"].add(table_of(counters, COUNTERS, k))
        output.write_tables(spools, k)
        rows = {name: spool.rows for name, spool in spools.items()}
        described = {
            "draftmeter": version("draftmeter"),
            "settings": asdict(settings),
            "tables": {"rows": rows, "positions": k, "bytes": output.sizes()},
            "files": files,
            "not_read": [asdict(one) for one in skipped],
        }
        output.write_text(READING_JSON, text_of(described))
        output.publish()
    return Reading(rows, len(files), remarks_on(files, skipped))


def _put(source: Source, spool: Spool) -> int:
    before = spool.rows
    for batch in source.batches():
        spool.add(batch)
    return spool.rows - before


def _nothing(paths: Sequence[str], skipped: Sequence[Skipped]) -> str:
    if not skipped:
        return f"{', '.join(paths)}: no file in it"
    first = f"{skipped[0].name}: {skipped[0].reason}"
    more = len(skipped) - 1
    return first if not more else f"nothing usable in {len(skipped)} files and folders; the first: {first}"
