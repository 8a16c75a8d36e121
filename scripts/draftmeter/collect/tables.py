"""Records and stored files to the four tables of the collect stage: counters, intervals, requests, checks.

Each row says its source, server, boot, attempt and run; the other columns are those of :mod:`draftmeter.collect.reading.columns`
and of the schemas below.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from draftmeter.collect.reading import columns
from draftmeter.collect.reading.columns import REAL, TEXT, WHOLE, position_names, schema_of, table_of, widened
from draftmeter.collect.reading.requests import requests_table
from draftmeter.collect.reconcile import Check, Sources, reconcile
from draftmeter.collect.stored import CollectError, read_stored
from draftmeter.formats.counters import EngineReading, add_up
from draftmeter.formats.log import Known, read_log
from draftmeter.formats.metrics import Metrics, MetricsError, difference, read_strict
from draftmeter.record.run import Boot, BootRun, Record, RecordError, open_raw, read_boot, read_raw, read_record, read_requests
from draftmeter.strict import write_atomically
from draftmeter.study.archive import StoredSource

RUN = {"server": TEXT, "boot": TEXT, "attempt": WHOLE, "run": TEXT}
OF_RUN = {"reasoning": TEXT, "streams": WHOLE, "order": WHOLE, "engine_version": TEXT}
CHECKS = {
    **RUN,
    "check": TEXT,
    "expected": REAL,
    "found": REAL,
    "residual": REAL,
    "unit": TEXT,
    "tolerance": REAL,
    "status": TEXT,
    "reason": TEXT,
}


def _with_run(read: Mapping[str, pa.DataType], *, more: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    return {"source": TEXT, **RUN, "workload": TEXT, **more, **{name: kind for name, kind in read.items() if name != "source"}}


INTERVALS = _with_run(columns.INTERVALS, more={})
REQUESTS = _with_run(columns.REQUESTS, more={})
COUNTERS = {name: kind for name, kind in _with_run(columns.COUNTERS, more=OF_RUN).items() if name != "engine"}


@dataclass(frozen=True, slots=True)
class Tables:
    """The four tables; first the records by server, replicate, attempt and run, then stored files in the order given."""

    counters: pd.DataFrame
    intervals: pd.DataFrame
    requests: pd.DataFrame
    checks: pd.DataFrame


def build_tables(boot_paths: Iterable[Path], stored: Sequence[StoredSource] = ()) -> Tables:
    """Read every run that these boot.json files list, and the stored files; raise :class:`CollectError` naming a bad one."""
    runs = [_read_run(boot, path.parent, run) for boot, path in _read_boots(boot_paths) for run in boot.runs]
    runs.sort(key=lambda sources: _order_of(sources.record))
    files = read_stored(stored, taken={sources.record.server for sources in runs})
    if not runs and not files:
        raise CollectError("the boots list no runs; nothing was measured")
    k = max([*(sources.counts.k or 0 for sources in runs), *(file.k for file in files)])
    intervals, requests = ([table_of([], kinds, k)] for kinds in (INTERVALS, REQUESTS))
    counters: list[dict[str, Any]] = []
    checks: list[dict[str, Any]] = []
    for sources in runs:
        own, identity = sources.counts.k or 0, _identity(sources.record)
        intervals.append(_labelled(table_of(sources.intervals, columns.INTERVALS, own), identity, INTERVALS, k))
        requests.append(_labelled(requests_table("", sources.requests, own), identity, REQUESTS, k))
        counters.append(_counters_row(sources))
        checks += [_check_row(identity, check) for check in reconcile(sources)]
    for file in files:
        intervals += [_labelled(batch, file.identity, INTERVALS, k) for batch in file.batches()]
        counters.append({**file.identity, **file.counters})
        checks += [_check_row(file.identity, check) for check in file.checks]
    return Tables(
        counters=_frame(table_of(counters, COUNTERS, k)),
        intervals=_frame(pa.concat_tables(intervals)),
        requests=_frame(pa.concat_tables(requests)),
        checks=_frame(table_of(checks, CHECKS, 0)),
    )


def write_table(table: pd.DataFrame, parquet: Path, csv: Path) -> None:
    """Write a table in both formats, each atomically; the same table gives the same bytes."""
    buffer = io.BytesIO()
    table.to_parquet(buffer, engine="pyarrow", index=False)
    write_atomically(parquet, buffer.getvalue())
    write_atomically(csv, table.to_csv(index=False, lineterminator="\n"))


def _read_boots(paths: Iterable[Path]) -> list[tuple[Boot, Path]]:
    boots: dict[tuple[str, str], tuple[Boot, Path]] = {}
    for path in paths:
        try:
            boot = read_boot(path)
        except RecordError as error:
            raise CollectError(str(error)) from error
        key = (boot.server, boot.boot)
        if key in boots:
            raise CollectError(f"{path}: {boot.server}/{boot.boot} is given twice, also by {boots[key][1]}; give it once")
        if len({run.run for run in boot.runs}) != len(boot.runs):
            raise CollectError(f"{path}: a run is listed twice; attempts of one boot are never pooled")
        boots[key] = (boot, path)
    return list(boots.values())


def _read_run(boot: Boot, boot_folder: Path, run: BootRun) -> Sources:
    folder = boot_folder / run.path
    try:
        record = read_record(folder)
        _require_same_run(boot, run, record)
        speculation = record.speculative is not None
        before, after = (_read_metrics(folder, f"metrics-{moment}.prom", speculation) for moment in ("before", "after"))
        counts = add_up(list(difference(before, after).values()))
        first, last = before.rows()[0], after.rows()[0]
        _require_same_k(record, last)
        return Sources(
            record=record,
            before=first,
            after=last,
            counts=counts,
            requests=read_requests(folder),
            intervals=_read_intervals(folder, record, counts.k or 0),
        )
    except RecordError as error:
        raise CollectError(str(error)) from error  # it names the file
    except (MetricsError, CollectError) as error:
        raise CollectError(f"{folder}: {error}") from error


def _require_same_run(boot: Boot, run: BootRun, record: Record) -> None:
    listed = (boot.study, boot.server, boot.boot, boot.replicate, run.run, run.attempt, run.fingerprint)
    found = (record.study, record.server, record.boot, record.replicate, record.run, record.attempt, record.fingerprint)
    if listed != found:
        raise CollectError(f"record.json is of {found}; boot.json lists {listed} (study ... run, attempt, fingerprint)")


def _require_same_k(record: Record, reading: EngineReading) -> None:
    k = 0 if record.speculative is None else record.speculative.get("num_speculative_tokens")
    found = reading.counters.k or 0
    if k != found:
        raise CollectError(f"the counters have {found} positions; record.json says num_speculative_tokens {k}")


def _read_metrics(folder: Path, name: str, speculation: bool) -> Metrics:
    try:
        return read_strict(read_raw(folder, name), speculation=speculation)
    except MetricsError as error:
        raise MetricsError(f"{name}: {error}") from error


def _read_intervals(folder: Path, record: Record, k: int) -> list[dict[str, Any]]:
    """The intervals of a record's own log, of which a server of ours wrote every line: a damaged one is an error."""
    known = Known(zone=record.time_zone, near_start=record.start, log_interval_s=record.log_interval_s, k=k or None)
    with open_raw(folder, "server.log") as stream:
        reading = read_log(stream, known)
    rows = [row for batch in reading.batches() for row in batch.to_pylist()]
    refused = [(refusal["offset"], refusal["reason"]) for refusal in reading.found.refused]
    refused += [(row["offset"], f"found {row['k']} positions; expected K = {k}") for row in rows if row["k"] != k]
    if refused:
        offset, reason = min(refused)
        raise CollectError(f"server.log, byte {offset}: {reason}; {len(refused)} such records in all")
    return rows


def _order_of(record: Record) -> tuple[Any, ...]:
    return record.server, record.replicate, record.boot, record.attempt, record.order, record.run


def _identity(record: Record) -> dict[str, Any]:
    """Which record a row is of; its source is the record's place in the tree of records."""
    source = f"{record.server}/{record.boot}/attempt-{record.attempt}/{record.run}"
    return {"source": source, **{name: getattr(record, name) for name in RUN}, "workload": record.workload}


def _counters_row(sources: Sources) -> dict[str, Any]:
    record, values = sources.record, asdict(sources.counts)
    del values["prefix_cache_queries"]
    k = sources.counts.k or 0
    start, end = (None if time is None else time.timestamp() for time in (record.first_sent, record.last_received))
    return {
        **_identity(record),
        **{name: getattr(record, name) for name in OF_RUN},
        "model": record.model.name,
        "counted_by": columns.COUNTED_BY_COUNTERS,
        "k": k,
        **dict(zip(position_names(k), values.pop("accepted_per_position"), strict=True)),
        "accepted_k_exact": True,
        **values,
        "start_time": sources.after.start_time,
        "start": start,
        "end": end,
        "seconds": None if start is None or end is None else end - start,
        # Both scrapes read one server process, or a check fails.
        "restarts": 0,
    }


def _check_row(identity: Mapping[str, Any], check: Check) -> dict[str, Any]:
    return {**{name: identity[name] for name in RUN}, **asdict(check)}


def _labelled(table: pa.Table, identity: Mapping[str, Any], kinds: Mapping[str, pa.DataType], k: int) -> pa.Table:
    """Rows of one run with the columns that say which, and those that other runs have."""
    own = [name for name in table.schema.names if name not in identity]
    named = {name: pa.array([value] * table.num_rows, kinds[name]) for name, value in identity.items()}
    return widened(pa.table({**named, **{name: table.column(name) for name in own}}), schema_of(kinds, k))


def _frame(table: pa.Table) -> pd.DataFrame:
    nullable = {WHOLE: pd.Int64Dtype(), TEXT: pd.StringDtype(na_value=np.nan)}
    frame: pd.DataFrame = table.to_pandas(types_mapper=nullable.get)
    return frame
