"""Read any input: one file or record becomes a source, all below some paths a folder of tables."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from draftmeter.collect.columns import (
    COUNTERS,
    INTERVALS,
    REQUESTS,
    position_names,
    positions_of,
    table_of,
)
from draftmeter.collect.inputs import (
    METRICS,
    READING_JSON,
    STUDY_RECORD,
    TABLES,
    WATCHED_RECORD,
    Input,
    InputError,
    Opened,
    Settings,
    Skipped,
    find_inputs,
    open_input,
)
from draftmeter.collect.line_sums import rows_of_lines
from draftmeter.collect.source import LOG, METRICS_TEXT, Source, unusable
from draftmeter.collect.texts import NOT_ADDED, join_texts
from draftmeter.collect.writing import Output, Spool
from draftmeter.formats.log import Known, read_log

LARGEST_TEXT = 1 << 26
NO_STATISTICS = "no statistics lines"


def read_source(path: Path, settings: Settings) -> Source:
    """Read one file (a log or a /metrics text, plain or compressed) or one record.

    The kind follows from its contents. Raises :class:`InputError` for a path that is not there, a
    folder with several sources or none, and a file that cannot be opened. What is in it never
    raises: `unusable` of the source says why there is nothing to be had.
    """
    inputs = find_inputs([str(path)]).inputs
    if len(inputs) != 1:
        raise InputError(f"{path}: found {len(inputs)} sources in it; expected one file or one record")
    return read_input(inputs[0], settings)


def read_input(item: Input, settings: Settings) -> Source:
    """Read one of what `find_inputs` found, as :func:`read_source` does."""
    if item.kind == STUDY_RECORD and item.path is not None:
        from draftmeter.collect.records import read_study_record  # noqa: PLC0415  slow to import, needed only here

        return read_study_record(item.name, item.path)
    if item.kind == WATCHED_RECORD and item.path is not None:
        from draftmeter.collect.records import read_watched_record  # noqa: PLC0415  slow to import, needed only here

        return read_watched_record(item.name, item.path, settings)
    if item.kind == TABLES:
        return unusable(item.name, "tables that `draftmeter read` wrote; read the files that they came from")
    opened = open_input(item.path)
    read = _read_metrics_text if opened.kind == METRICS else _read_log_file
    return read(item.name, opened, settings)


def read_usable(paths: Sequence[str], settings: Settings, *, written_tables: bool) -> tuple[list[Source], list[str]]:
    """Every source below `paths` that figures can be made of, and a line for all that is none.

    With `written_tables`, tables that reading wrote are the sources that they came from. Raises
    :class:`InputError` for a path that is not there or is given twice. Several texts of one server
    are still apart.
    """
    found = find_inputs(paths)
    sources: list[Source] = []
    not_read = [f"{skipped.name}: {skipped.reason}" for skipped in found.skipped]
    for item in found.inputs:
        try:
            if written_tables and item.kind == TABLES and item.path is not None:
                sources += read_tables(item.path)
            else:
                sources.append(read_input(item, settings))
        except InputError as error:
            not_read.append(str(error))
    not_read += [f"{source.name}: {source.lacking}" for source in sources if source.lacking is not None]
    return [source for source in sources if source.lacking is None], not_read


def _read_log_file(name: str, opened: Opened, settings: Settings) -> Source:
    """A log: its intervals, and their sums as counts by lines.

    Without any line of statistics it is unusable.
    """
    known = Known(
        zone=settings.zone, year=settings.year, near=opened.modified, log_interval_s=settings.log_interval_s, k=settings.k
    )
    with opened.stream as stream:
        reading = read_log(stream, known)
    file = {"compression": opened.compression, "damage": opened.damage}
    if reading.found.format == NO_STATISTICS and not reading.found.refused_count:
        damage = f"; {opened.damage}" if opened.damage else ""
        return unusable(name, f"neither a /metrics text nor a log with statistics lines of vLLM{damage}", **file)
    source = Source(name, LOG, {"kind": LOG, **asdict(reading.found), **file}, make_batches=reading.batches)
    source.counters = rows_of_lines(name, source.batches())
    return source


def _read_metrics_text(name: str, opened: Opened, _: Settings) -> Source:
    """A /metrics text: the counters since the server's start.

    Without any metric of vLLM it is unusable.
    """
    from draftmeter.collect.counter_rows import describe_rows, rows_since_start  # noqa: PLC0415  slow to import, needed only here
    from draftmeter.formats.metrics import read_metrics  # noqa: PLC0415

    with opened.stream as stream:
        pieces, n = [], 0
        while n <= LARGEST_TEXT and (piece := stream.read(1 << 20)):
            pieces.append(piece)
            n += len(piece)
    file = {"compression": opened.compression, "damage": opened.damage}
    if n > LARGEST_TEXT:
        return unusable(name, f"a text of metrics of more than {LARGEST_TEXT >> 20} MB is not of one server", **file)
    metrics = read_metrics(b"".join(pieces).decode(errors="replace").replace("\r\n", "\n"))
    if not metrics.engines:
        return unusable(name, f"a text of metrics, but {'; '.join(metrics.problems)}", **file)
    rows = rows_since_start(name, metrics)
    found = {
        "kind": METRICS_TEXT,
        **file,
        **describe_rows(rows),
        "unknown": {"end": "a /metrics text does not say when it was read"},
        "warnings": list(metrics.problems),
    }
    return Source(name, METRICS_TEXT, found, counters=rows, metrics=metrics)


@dataclass(frozen=True)
class Reading:
    """What was written: rows by table, and the number of sources.

    `remarks` are lines for all that the user should know. `not_added` is why some of the sources
    must not be added up; None if all may.
    """

    rows: dict[str, int]
    sources: int
    remarks: list[str]
    not_added: str | None


def read_paths(paths: Sequence[str], settings: Settings, out: Path) -> Reading:
    """Write the three tables (parquet and csv) and reading.json into `out`.

    The same input gives the same bytes. Each file appears only when all are whole, reading.json
    last. Raises :class:`InputError`, and writes nothing, if a path is not there or if there is
    nothing usable in any of them.
    """
    found = find_inputs(paths)
    if any(Path(path).resolve() == out.resolve() for path in paths):
        raise InputError(f"{out}: given both to be read and to be written to; give the tables a folder of their own")
    skipped = list(found.skipped)
    sources: list[Source] = []
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
            sources.append(_put_aside(source, spools["intervals"], spools["requests"]))
        if not sources:
            raise InputError(_nothing(paths, skipped))
        sources = join_texts(sources)
        files = [{"source": source.name, "intervals": 0, **source.found} for source in sources]
        counters = [row for source in sources for row in source.counters]
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
        output.write_text(READING_JSON, _text_of(described))
        output.publish()
    not_added = next((file[NOT_ADDED] for file in files if NOT_ADDED in file), None)
    return Reading(rows, len(files), _remarks_on(files, skipped), not_added)


def _put_aside(source: Source, intervals: Spool, requests: Spool) -> Source:
    """The source without its intervals and requests: those are in the spools, out of memory."""
    before = intervals.rows
    for batch in source.batches():
        intervals.add(batch)
    if source.requests is not None:
        requests.add(source.requests)
    found = {**source.found, "intervals": intervals.rows - before}
    return replace(source, found=found, requests=None, make_batches=list)


def _nothing(paths: Sequence[str], skipped: Sequence[Skipped]) -> str:
    if not skipped:
        return f"{', '.join(paths)}: no file in it"
    first = f"{skipped[0].name}: {skipped[0].reason}"
    more = len(skipped) - 1
    return first if not more else f"nothing usable in {len(skipped)} files and folders; the first: {first}"


def _text_of(described: Mapping[str, Any]) -> str:
    """One text for one reading: keys sorted, one value a line."""
    return json.dumps(described, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _remarks_on(files: Sequence[Mapping[str, Any]], skipped: Sequence[Skipped]) -> list[str]:
    """One line for each file that was not read whole or is odd, and one for all not read.

    One more is for all logs without a time zone.
    """
    remarks = [f"{file['source']}: {'; '.join(found)}" for file in files if (found := list(_remarks(file)))]
    without_zone = [file["source"] for file in files if file["intervals"] and "zone" in _log(file).get("unknown", {})]
    if without_zone:
        more = f" and {len(without_zone) - 1} more logs" if len(without_zone) > 1 else ""
        remarks.append(f"{without_zone[0]}{more}: no time zone is named, times are read as UTC; --zone +01:00 would name one")
    if len(skipped) == 1:
        remarks.append(f"not read: {skipped[0].name}: {skipped[0].reason}")
    elif skipped:
        remarks.append(f"not read: {len(skipped)} files and folders, such as {skipped[0].name}: {skipped[0].reason}")
    return remarks


def _log(file: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is said of the source's log; empty without one."""
    log: Mapping[str, Any] = file if "refused_count" in file else file.get("log") or {}
    return log


def _remarks(file: Mapping[str, Any]) -> Iterator[str]:
    log = _log(file)
    if NOT_ADDED in file:
        yield file[NOT_ADDED]
    if refused := log.get("refused_count"):
        first = log["refused"][0]
        yield f"{refused} records refused, the first at byte {first['offset']}: {first['reason']}"
    if file.get("damage"):
        yield file["damage"]
    warnings = [*file.get("warnings", []), *([] if log is file else log.get("warnings", []))]
    warnings = [warning for warning in warnings if not warning.endswith("were refused")]  # said above, with the first reason
    if warnings:
        more = f" (and {len(warnings) - 1} more warnings)" if len(warnings) > 1 else ""
        yield f"{warnings[0]}{more}"


def read_tables(folder: Path) -> list[Source]:
    """The sources of a folder that reading wrote.

    Raises :class:`InputError` for one that is not whole or was changed.
    """
    path = folder / READING_JSON
    try:
        described = json.loads(path.read_text())
        sizes: dict[str, int] = described["tables"]["bytes"]
        changed = sorted(name for name, size in sizes.items() if (folder / name).stat().st_size != size)
        if changed:
            raise InputError(f"{folder}: {', '.join(changed)} is not as {READING_JSON} says; read the files again")
        counters = pyarrow.parquet.read_table(folder / "counters.parquet").to_pylist()
        intervals = pyarrow.parquet.read_table(folder / "intervals.parquet")
        return [_stored_source(file, counters, intervals) for file in described["files"]]
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise InputError(f"{folder}: not whole tables of `draftmeter read`: {type(error).__name__}: {error}") from error


def _stored_source(file: dict[str, Any], counters: list[dict[str, Any]], intervals: pa.Table) -> Source:
    name = file["source"]
    rows = [{column: value for column, value in row.items() if value is not None} for row in counters if row["source"] == name]
    return Source(name, file["kind"], file, counters=rows, make_batches=lambda: [_intervals(name, intervals)])


def _intervals(name: str, intervals: pa.Table) -> pa.Table:
    """The intervals of one source, with as many positions as it has itself."""
    chosen = intervals.filter(pc.equal(intervals.column("source"), name)).drop_columns(["source"])
    k = pc.max(chosen.column("k")).as_py() or 0
    return chosen.drop_columns(position_names(positions_of(chosen.schema.names))[k:])
