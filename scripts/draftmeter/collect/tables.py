"""Records to the four tables of the collect stage: counters, intervals, requests, checks.

The columns are those of the schemas below, with `accepted_1` to `accepted_K` where a schema has ``accepted_k`` (K is
the largest of the records). `seconds`, `start`, `end`, `window_s`, `start_time` and `t_...` are seconds, points in time
Unix seconds; throughputs are tokens per second; `kv_cache_usage` and `prefix_cache_hit_rate` are fractions of 1.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from draftmeter.collect.loglines import Interval, LogError, read_intervals
from draftmeter.collect.prometheus import MetricsError, Scrape, difference, read_scrape
from draftmeter.collect.reconcile import Check, Sources, accepted_at, reconcile
from draftmeter.record import Boot, BootRun, Record, RecordError, RequestRow, read_boot, read_record, read_requests
from draftmeter.strict import write_atomically

TEXT, WHOLE, REAL, TRUTH = "str", "Int64", "float64", "bool"
PER_POSITION = "accepted_k"

RUN_SCHEMA = {"server": TEXT, "boot": TEXT, "attempt": WHOLE, "run": TEXT}
COUNTERS_SCHEMA = {
    **RUN_SCHEMA,
    "workload": TEXT,
    "reasoning": TEXT,
    "streams": WHOLE,
    "order": WHOLE,
    "engine_version": TEXT,
    "k": WHOLE,
    "drafts": WHOLE,
    "draft_tokens": WHOLE,
    "accepted": WHOLE,
    PER_POSITION: WHOLE,
    "generation_tokens": WHOLE,
    "prompt_tokens": WHOLE,
    "cached_prompt_tokens": WHOLE,
    "requests_finished": WHOLE,
    "preemptions": WHOLE,
    "seconds": REAL,
    "start_time": REAL,
}
INTERVALS_SCHEMA = {
    **RUN_SCHEMA,
    "workload": TEXT,
    "line": WHOLE,
    "start": REAL,
    "end": REAL,
    "window_s": REAL,
    "k": WHOLE,
    "drafts": WHOLE,
    "drafts_exact": TRUTH,
    "drafted": WHOLE,
    "accepted": WHOLE,
    PER_POSITION: WHOLE,
    "accepted_k_exact": TRUTH,
    "running": WHOLE,
    "waiting": WHOLE,
    "prompt_tokens_per_s": REAL,
    "generation_tokens_per_s": REAL,
    "kv_cache_usage": REAL,
    "prefix_cache_hit_rate": REAL,
}
REQUESTS_SCHEMA = {
    **RUN_SCHEMA,
    "workload": TEXT,
    "request_id": TEXT,
    "session_id": TEXT,
    "turn": WHOLE,
    "category": TEXT,
    "seed": WHOLE,
    "max_tokens": WHOLE,
    "prompt_sha256": TEXT,
    "t_due": REAL,
    "t_sent": REAL,
    "t_first": REAL,
    "t_last": REAL,
    "n_chunks": WHOLE,
    "prompt_tokens": WHOLE,
    "cached_tokens": WHOLE,
    "reasoning_tokens": WHOLE,
    "reply_tokens": WHOLE,
    "finish_reason": TEXT,
    "drafts": WHOLE,
    "draft_tokens": WHOLE,
    "accepted_tokens": WHOLE,
    PER_POSITION: WHOLE,
    "reply_token_sha256": TEXT,
    "score": REAL,
    "error": TEXT,
}
CHECKS_SCHEMA = {
    **RUN_SCHEMA,
    "check": TEXT,
    "expected": REAL,
    "found": REAL,
    "residual": REAL,
    "unit": TEXT,
    "tolerance": REAL,
    "status": TEXT,
    "reason": TEXT,
}


class CollectError(ValueError):
    """Records that cannot become tables: which folder, what was found, what would be right."""


@dataclass(frozen=True, slots=True)
class Tables:
    """The four tables; rows in the order of server, replicate, attempt and run, whatever the order of the inputs."""

    counters: pd.DataFrame
    intervals: pd.DataFrame
    requests: pd.DataFrame
    checks: pd.DataFrame


def build_tables(boot_paths: Iterable[Path]) -> Tables:
    """Read every run that these boot.json files list; raise :class:`CollectError` naming the folder of a bad one."""
    runs = [_read_run(boot, path.parent, run) for boot, path in _read_boots(boot_paths) for run in boot.runs]
    if not runs:
        raise CollectError("the boots list no runs; nothing was measured")
    runs.sort(key=lambda sources: _order_of(sources.record))
    positions = max(sources.counts.k for sources in runs)
    return Tables(
        counters=_frame([_counters_row(sources) for sources in runs], COUNTERS_SCHEMA, positions),
        intervals=_frame(
            [_interval_row(sources.record, interval) for sources in runs for interval in sources.intervals],
            INTERVALS_SCHEMA,
            positions,
        ),
        requests=_frame([_request_row(sources, row) for sources in runs for row in sources.requests], REQUESTS_SCHEMA, positions),
        checks=_frame(
            [_check_row(sources.record, check) for sources in runs for check in reconcile(sources)],
            CHECKS_SCHEMA,
            positions,
        ),
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
        before, after = (_read_scrape(folder / f"metrics-{moment}.prom") for moment in ("before", "after"))
        _require_same_k(record, after)
        return Sources(
            record=record,
            before=before,
            after=after,
            counts=difference(before, after),
            requests=read_requests(folder),
            intervals=_read_log(folder / "server.log", record, after.k),
        )
    except RecordError as error:
        raise CollectError(str(error)) from error  # it names the file
    except (MetricsError, LogError, CollectError, OSError, UnicodeDecodeError) as error:
        raise CollectError(f"{folder}: {error}") from error


def _require_same_run(boot: Boot, run: BootRun, record: Record) -> None:
    listed = (boot.study, boot.server, boot.boot, boot.replicate, run.run, run.attempt, run.fingerprint)
    found = (record.study, record.server, record.boot, record.replicate, record.run, record.attempt, record.fingerprint)
    if listed != found:
        raise CollectError(f"record.json is of {found}; boot.json lists {listed} (study ... run, attempt, fingerprint)")


def _require_same_k(record: Record, scrape: Scrape) -> None:
    k = record.speculative.get("num_speculative_tokens")
    if k != scrape.k:
        raise CollectError(f"the counters have {scrape.k} positions; record.json says num_speculative_tokens {k}")


def _read_scrape(path: Path) -> Scrape:
    try:
        return read_scrape(path.read_text())
    except MetricsError as error:
        raise MetricsError(f"{path.name}: {error}") from error


def _read_log(path: Path, record: Record, k: int) -> list[Interval]:
    with path.open() as lines:
        try:
            return read_intervals(lines, zone=record.time_zone, start=record.start, log_interval_s=record.log_interval_s, k=k)
        except LogError as error:
            raise LogError(f"{path.name}, {error}") from error


def _order_of(record: Record) -> tuple[Any, ...]:
    return record.server, record.replicate, record.boot, record.attempt, record.order, record.run


def _run_row(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in RUN_SCHEMA}


def _counters_row(sources: Sources) -> dict[str, Any]:
    record, values = sources.record, asdict(sources.counts)
    seconds = None
    if record.first_sent is not None and record.last_received is not None:
        seconds = (record.last_received - record.first_sent).total_seconds()
    return {
        **_run_row(record),
        **{name: getattr(record, name) for name in ("workload", "reasoning", "streams", "order", "engine_version")},
        "k": sources.counts.k,
        **_per_position(values.pop("accepted_per_position")),
        **values,
        "seconds": seconds,
    }


def _interval_row(record: Record, interval: Interval) -> dict[str, Any]:
    values = asdict(interval)
    return {**_run_row(record), "workload": record.workload, **_per_position(values.pop(PER_POSITION)), **values}


def _request_row(sources: Sources, row: RequestRow) -> dict[str, Any]:
    record, k = sources.record, sources.counts.k
    values = row.model_dump(exclude={"chunk_times", "acceptance_histogram", "per_step_accepted", "per_step_drafted"})
    # A histogram of another length is a failed check; what its counts mean is unknown.
    known = row.acceptance_histogram is not None and len(row.acceptance_histogram) == k + 1
    return {
        **_run_row(record),
        "workload": record.workload,
        **values,
        "n_chunks": len(row.chunk_times),
        **_per_position([accepted_at(row, position) if known else None for position in range(1, k + 1)]),
    }


def _check_row(record: Record, check: Check) -> dict[str, Any]:
    return {**_run_row(record), **asdict(check)}


def _per_position(values: Sequence[int | None]) -> dict[str, int | None]:
    return {f"accepted_{k}": value for k, value in enumerate(values, start=1)}


def _frame(rows: Sequence[Mapping[str, Any]], schema: Mapping[str, str], positions: int) -> pd.DataFrame:
    """Rows as a table with the schema's columns and dtypes, also if there are none; a key outside it is an error."""
    dtypes: dict[str, str] = {}
    for name, dtype in schema.items():
        names = _per_position([None] * positions) if name == PER_POSITION else [name]
        dtypes.update(dict.fromkeys(names, dtype))
    for row in rows:
        if extra := row.keys() - dtypes.keys():
            raise AssertionError(f"not in the schema of this table: {sorted(extra)}")
    return pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=dtypes[name]) for name in dtypes})
