"""The five tables of the collect stage from records and stored files.

A study's record, and every stored file, becomes a source as in :mod:`draftmeter.collect.read`, and
a source becomes a run. What draftmeter wrote itself must be whole: a problem that reading only
reports for other files is an error here.
"""

import io
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from draftmeter.collect.columns import (
    ALL_ENGINES,
    OF_RUN,
    RUN,
    STUDY_TABLES,
    TEXT,
    TRUTH,
    WHOLE,
    positions_of,
    schema_of,
    table_of,
    widened,
)
from draftmeter.collect.inputs import InputError, Settings
from draftmeter.collect.read import read_usable
from draftmeter.collect.reconcile import Check, check_counts
from draftmeter.collect.records import read_study_record
from draftmeter.collect.source import Row, Source
from draftmeter.collect.texts import NOT_ADDED, join_texts
from draftmeter.record.run import Boot, BootRun, RecordError, read_boot
from draftmeter.strict import write_atomically
from draftmeter.study.archive import StoredSource

logger = logging.getLogger(__name__)

# Endings that say how a file is stored, and not what it is of.
_ENDINGS = re.compile(r"(\.(gz|zst|log|txt|prom|jsonl?))+$")

WAY_OUT = (
    "keep the texts of one server process in this workload, and leave the others out or give each a workload of its own; "
    "`draftmeter watch` counts over restarts"
)


class CollectError(ValueError):
    """Records or files that cannot become tables: which, what was found, what would be right."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The five tables.

    First the records by server, replicate, attempt and run, then stored files in the order given.
    """

    runs: pd.DataFrame
    counters: pd.DataFrame
    intervals: pd.DataFrame
    requests: pd.DataFrame
    checks: pd.DataFrame


@dataclass(frozen=True)
class _Run:
    """One source as a run: its identity (source, server, boot, ...), and its rows without that."""

    identity: Row
    described: Row
    counters: Row
    checks: Sequence[Check]
    source: Source


def build_tables(boot_paths: Iterable[Path], stored: Sequence[StoredSource] = ()) -> Tables:
    """Read every run that these boot.json files list, and the stored files.

    Raises :class:`CollectError` naming a bad one.
    """
    records = [_read_record(boot, path.parent, run) for boot, path in _read_boots(boot_paths) for run in boot.runs]
    runs = [_run_of_record(source) for source in sorted(records, key=_order_of)]
    runs += _runs_of_files(stored, {source.run["server"] for source in records})
    if not runs:
        raise CollectError("the boots list no runs; nothing was measured")
    k = max(positions_of(run.counters) for run in runs)
    intervals = [_of_run(run, batch, "intervals", k) for run in runs for batch in run.source.batches()]
    requests = [_of_run(run, run.source.requests, "requests", k) for run in runs if run.source.requests is not None]
    identities = [{name: run.identity[name] for name in RUN} for run in runs]
    checks = [{**identity, **asdict(check)} for identity, run in zip(identities, runs, strict=True) for check in run.checks]
    nothing = {name: table_of([], STUDY_TABLES[name], k) for name in ("intervals", "requests")}
    return Tables(
        runs=_frame(table_of([{**run.identity, **run.described} for run in runs], STUDY_TABLES["runs"], 0), _TRUTHS),
        counters=_frame(table_of([{**run.identity, **run.counters} for run in runs], STUDY_TABLES["counters"], k)),
        intervals=_frame(pa.concat_tables([nothing["intervals"], *intervals])),
        requests=_frame(pa.concat_tables([nothing["requests"], *requests])),
        checks=_frame(table_of(checks, STUDY_TABLES["checks"], 0)),
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


def _read_record(boot: Boot, boot_folder: Path, run: BootRun) -> Source:
    """A record that boot.json lists; every problem of it is an error."""
    folder = boot_folder / run.path
    source = read_study_record(str(folder), folder)
    if source.unusable is not None:
        raise CollectError(source.unusable)  # it names the file
    listed = (boot.study, boot.server, boot.boot, boot.replicate, run.run, run.attempt, run.fingerprint)
    found = tuple(source.run[name] for name in ("study", "server", "boot", "replicate", "run", "attempt", "fingerprint"))
    if listed != found:
        raise CollectError(f"{folder}: record.json is of {found}; boot.json lists {listed} (study ... run, attempt, fingerprint)")
    if source.problems:
        raise CollectError(f"{folder}: {'; '.join(source.problems)}")
    return source


def _order_of(source: Source) -> tuple[Any, ...]:
    return tuple(source.run[name] for name in ("server", "replicate", "boot", "attempt", "order", "run"))


def _run_of_record(source: Source) -> _Run:
    """Its source is the record's place in the tree of records."""
    named = {name: source.run[name] for name in (*RUN, "workload")}
    identity = {"source": "{server}/{boot}/attempt-{attempt}/{run}".format(**named), **named}
    (row,) = (row for row in source.counters if row["engine"] == ALL_ENGINES)
    counters = {**_without_names(row), **{name: source.run[name] for name in OF_RUN}}
    return _Run(identity, source.run, counters, source.checks, source)


def _runs_of_files(stored: Sequence[StoredSource], taken: set[str]) -> list[_Run]:
    """Every usable file below `stored`, in order; raise :class:`CollectError` for one without any.

    Each is a server of its own, named after its file by a name that is not `taken`.
    """
    sources = join_texts([source for one in stored for source in _read_stored(one)])
    runs: list[_Run] = []
    servers = set(taken)
    for source in sources:
        if NOT_ADDED in source.found:
            raise CollectError(f"workload {source.run['workload']}: {source.found[NOT_ADDED]}; {WAY_OUT}")
        server = _server_name(source.found.get("after", source.name), servers)
        servers.add(server)
        runs.append(_run_of_file(source, server))
    return runs


def _read_stored(stored: StoredSource) -> list[Source]:
    """The usable sources below `stored`, named as the config gives them, with their workload."""
    settings = Settings() if stored.settings is None else Settings(**stored.settings.model_dump())
    try:
        usable, refused = read_usable([stored.at], settings, written_tables=False)
    except InputError as error:
        raise CollectError(str(error)) from error
    if not usable:
        raise CollectError(f"{stored.given}: nothing to be had from it: {'; '.join(refused) or 'found no file'}")
    for reason in refused:
        logger.warning("not read: %s", reason)
    return [
        replace(source, name=stored.given + source.name.removeprefix(stored.at), run={"workload": stored.workload})
        for source in usable
    ]


def _run_of_file(source: Source, server: str) -> _Run:
    rows = [row for row in source.counters if row["engine"] == ALL_ENGINES]
    if len(rows) != 1:
        models = sorted({str(row.get("model")) for row in rows})
        raise CollectError(f"{source.name}: found counters of the models {', '.join(models)}; a workload is of one model")
    workload = source.run["workload"]
    version = source.found.get("watched", {}).get("engine_version")
    return _Run(
        identity={
            "source": source.name,
            **{"server": server, "boot": "boot-1", "attempt": 1, "run": workload},
            "workload": workload,
        },
        described={
            "source_kind": source.kind,
            **{name: rows[0].get(name) for name in ("model", "k", "start", "end")},
            "engine": "vllm",
            "engine_version": version,
            "log_interval_s": (source.found.get("log") or source.found).get("log_interval_s"),
        },
        counters={**_without_names(rows[0]), "engine_version": version},
        checks=check_counts(rows[0]),
        source=source,
    )


def _server_name(source: str, taken: set[str]) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", _ENDINGS.sub("", Path(source).name.lower())).strip("-") or "server"
    return next(free for free in _numbered(name) if free not in taken)


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 1
    while True:
        number += 1
        yield f"{name}-{number}"


def _without_names(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in {"source", "engine"}}


def _of_run(run: _Run, table: pa.Table, name: str, k: int) -> pa.Table:
    """Rows of one run with the columns that say which, and those that other runs have."""
    kinds = STUDY_TABLES[name]
    named = {column: pa.array([value] * table.num_rows, kinds[column]) for column, value in run.identity.items()}
    own = {column: table.column(column) for column in table.schema.names if column not in named}
    return widened(pa.table({**named, **own}), schema_of(kinds, k))


_TRUTHS: Mapping[pa.DataType, Any] = MappingProxyType({TRUTH: pd.BooleanDtype()})


def _frame(table: pa.Table, more: Mapping[pa.DataType, Any] = MappingProxyType({})) -> pd.DataFrame:
    """A table in the nullable types of pandas; `more` are those of further kinds of columns."""
    nullable = {WHOLE: pd.Int64Dtype(), TEXT: pd.StringDtype(na_value=np.nan), **more}
    frame: pd.DataFrame = table.to_pandas(types_mapper=nullable.get)
    return frame
