"""A record of a study, and a watched record, as sources."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa

from draftmeter.collect.columns import ELIGIBLE, INTERVALS, REQUESTS, position_names, table_of
from draftmeter.collect.counter_rows import describe_rows, rows_between, rows_of_series
from draftmeter.collect.inputs import Settings
from draftmeter.collect.line_sums import rows_of_lines
from draftmeter.collect.reconcile import OF_PROCESS, Check, Sources, lines_against_counters, reconcile
from draftmeter.collect.source import STUDY, WATCHED, Row, Source, unusable
from draftmeter.formats.counter_series import CounterResult, CounterSeries
from draftmeter.formats.counters import add_up
from draftmeter.formats.log import Known, LogReading, read_log
from draftmeter.formats.metrics import Metrics, MetricsError, difference, read_metrics, read_strict
from draftmeter.record.run import (
    PARTIAL,
    Record,
    RequestRow,
    open_raw,
    read_raw,
    read_record,
    read_requests,
    read_started,
)
from draftmeter.record.watched import SERVER_LOG, Watched, read_scrapes, read_watched
from draftmeter.strict import canonical_json

ROWS_AT_ONCE = 4096
# A reply stands still for so long, in seconds, where a machine or a server is held up; a step takes
# a fraction of that.
PAUSE_S = 0.5
_IDENTITY = ("server", "boot", "attempt", "run", "workload")
_NO_COLUMN = {"chunk_times", "acceptance_histogram", "per_step_accepted", "per_step_drafted"}
_RUN_COLUMNS = (
    *("study", "study_kind", "replicate", "order", "fingerprint", "of_known_answer", "workload_label", "reasoning", "streams"),
    *("requests", "errors", "precision", "engine", "engine_version", "attention_backend", "log_interval_s", "time_zone"),
    *("clock_offset_s", "driver", "git_commit", "git_dirty", "server_start_s"),
)
"""Columns of the table runs that a record has under the same name."""

MOMENTS = ("before", "after")
"""When the counters are read: their files are named after it."""


def read_study_record(name: str, folder: Path) -> Source:
    """Read a record of a study: counters after less before, intervals and requests.

    Of a run that broke off, the folder that it left is read as far as it goes, and `problems` says so.

    draftmeter started that server and wrote every file: what is damaged, or is not as the record
    says, is a problem of the source. Readings of the counters with a problem are not used: the
    log's lines count then.
    """
    try:
        broken_off = folder.name.endswith(PARTIAL)
        record = read_started(folder) if broken_off else read_record(folder)
        moments = [one for one in MOMENTS if not broken_off or (folder / f"metrics-{one}.prom").is_file()]
        texts = {moment: read_raw(folder, f"metrics-{moment}.prom") for moment in moments}
        k = 0 if record.speculative is None else record.speculative.get("num_speculative_tokens")
        known = Known(zone=record.time_zone, near_start=record.start, log_interval_s=record.log_interval_s, k=k or None)
        with open_raw(folder, SERVER_LOG) as stream:
            reading = read_log(stream, known)
        requests = read_requests(folder, whole=not broken_off)
    except (ValueError, OSError) as error:
        return unusable(name, str(error))
    readings, problems = _readings(record, k, texts)
    if broken_off:
        problems.insert(0, f"the run broke off after {len(requests)} requests: this is as far as it went")
    if k is None and readings is not None:  # what the server resolved, where the config left it out
        k = readings[1].rows()[0].counters.k
    source = Source(name, STUDY, {}, requests=requests_table(name, requests, k), make_batches=reading.batches)
    source.run = {**{key: getattr(record, key) for key in _IDENTITY}, **describe_run(record, requests), "k": k}
    intervals = [row for batch in reading.batches() for row in batch.to_pylist()]
    lines = rows_of_lines(name, source.batches())
    counted: list[Row] = []
    if readings is not None:
        before, after = (metrics.rows()[0] for metrics in readings)
        counts = add_up(list(difference(*readings).values()))
        source.checks = reconcile(Sources(record, before, after, counts, requests, intervals))
        counted = _counters(name, record, *readings)
    source.counters = counted or lines
    source.problems = [*problems, *_damages(reading, intervals, k)]
    source.found = {
        "kind": STUDY,
        **describe_rows(counted),
        "models": [record.model.name],
        **({"k_from": "record.json: the server ran without speculation"} if k == 0 else {}),
        "restarts": [],
        "warnings": [*problems, *_failures(source.checks)],
        "run": {key: getattr(record, key) for key in ("study", *_IDENTITY, "engine_version")},
        "log": asdict(reading.found),
        "lines_against_counters": lines_against_counters(source.counters, lines),
        "requests": len(requests),
    }
    return source


def _readings(record: Record, k: int | None, texts: dict[str, str]) -> tuple[tuple[Metrics, Metrics] | None, list[str]]:
    """The counters before and after a run, None where they cannot be used, and their problems.

    `k` is what the record says: 0 without speculation.
    """
    found: list[Metrics] = []
    problems: list[str] = []
    for moment, text in texts.items():
        try:
            found.append(read_strict(text, speculation=record.speculative is not None))
        except MetricsError as error:
            problems.append(f"metrics-{moment}.prom: {error}")
    if problems or len(found) < len(MOMENTS):
        return None, problems
    before, after = found
    shown = after.rows()[0].counters.k or 0
    try:
        difference(before, after)
    except MetricsError as error:
        return None, [str(error)]
    if k is not None and shown != k:
        problems.append(f"the counters have {shown} positions; record.json says num_speculative_tokens {k}")
    return (before, after), problems


def _counters(name: str, record: Record, before: Metrics, after: Metrics) -> list[Row]:
    """The rows of the table counters, over the time in which requests were sent and answered."""
    start, end = (None if time is None else time.timestamp() for time in (record.first_sent, record.last_received))
    of_record: Row = {
        "model": record.model.name,
        "start": start,
        "end": end,
        "seconds": None if start is None or end is None else end - start,
        # Both readings are of one server process, or a check fails.
        "restarts": 0,
    }
    if record.speculative is None:
        of_record |= {"k": 0, "accepted_k_exact": True}
    return [{**row, **of_record} for row in rows_between(name, before, after)]


def _damages(reading: LogReading, intervals: Sequence[Row], k: int | None) -> Iterator[str]:
    """What is wrong with a log of which our own server wrote every line: a sentence or nothing."""
    places = [(refusal["offset"], refusal["reason"]) for refusal in reading.found.refused]
    others = [(row["offset"], f"found {row['k']} positions; expected K = {k}") for row in intervals if row["k"] != k]
    if places or others:
        offset, reason = min([*places, *others])
        n = reading.found.refused_count + len(others)
        yield f"server.log, byte {offset}: {reason}; {n} such records in all"


def _failures(checks: Sequence[Check]) -> list[str]:
    """The checks that failed, in words.

    Where the readings are not of one process, that alone: the others follow from it.
    """
    failed = [check for check in checks if check.status == "failed"]
    chosen = [check for check in failed if check.check in OF_PROCESS] or failed
    return [f"check failed: {check.check}: {check.reason}" for check in chosen]


def describe_run(record: Record, requests: Sequence[RequestRow]) -> Row:
    """What a record says of its run, as columns of the table runs.

    Lists and mappings are JSON text. A server without speculation has the method "none", K = 0 and
    no speculative config. `requests` is how many record.json says were sent, `requests_recorded`
    how many rows there are, `prompts` how many different prompts those had.
    """
    speculative = record.speculative
    limits = record.sampling.get("max_tokens", [])
    times = {name: getattr(record, name) for name in ("start", "end", "first_sent", "last_received")}
    return {
        "source_kind": STUDY,
        **{name: getattr(record, name) for name in _RUN_COLUMNS},
        "requests_recorded": len(requests),
        "max_tokens": max(limits, default=None),
        "sampling": canonical_json(record.sampling),
        "prompts": len({row.prompt_sha256 for row in requests}),
        "prompts_sha256": record.prompts_sha256 or None,
        "model": record.model.name,
        "model_source": record.model.source,
        "model_revision": record.model.revision,
        "tokenizer_revision": record.model.tokenizer_revision,
        "draft_revision": record.model.draft_revision,
        "speculative": None if speculative is None else canonical_json(speculative),
        "method": "none" if speculative is None else speculative.get("method"),
        "k": 0 if speculative is None else speculative.get("num_speculative_tokens"),
        **{name: canonical_json(getattr(record, name)) for name in ("corrections", "server_arguments", "server_environment")},
        "hardware": _hardware(record),
        "gpus": canonical_json(record.gpu),
        **{name: None if time is None else time.timestamp() for name, time in times.items()},
    }


def _hardware(record: Record) -> str:
    """The GPUs if there are any, else the processor; a key that the record lacks is left out."""
    if record.gpu:
        return ", ".join(record.gpu)
    host = record.host
    parts = [str(host["processor"])] if host.get("processor") else []
    if host.get("cores"):
        parts.append(f"{host['cores']} cores")
    if host.get("memory_bytes"):
        parts.append(f"{host['memory_bytes'] / 2**30:.0f} GiB")
    return ", ".join(parts) or "not recorded"


def requests_table(source: str, rows: Sequence[RequestRow], k: int | None) -> pa.Table:
    """One row a request.

    Acceptance by position follows from its histogram, and is null where that has no K + 1 counts.
    What was really drafted at each position follows from its steps, and is null where they do not
    agree with its counts. `paused_s` is the time in pauses of more than PAUSE_S between two chunks;
    null for a reply without any chunk.
    """
    return table_of([_request_row(source, row, k) for row in rows], REQUESTS, k or 0)


def _request_row(source: str, row: RequestRow, k: int | None) -> Row:
    values = {
        "source": source,
        **row.model_dump(exclude=_NO_COLUMN),
        "n_chunks": len(row.chunk_times),
        "paused_s": _paused_s(row),
    }
    histogram = row.acceptance_histogram
    if k is not None and histogram is not None and len(histogram) == k + 1:
        values |= {f"accepted_{position}": sum(histogram[position:]) for position in range(1, k + 1)}
        values |= dict(zip(position_names(k, ELIGIBLE), _eligible(row, histogram), strict=False))
    return values


def _paused_s(row: RequestRow) -> float | None:
    if not row.chunk_times:
        return None
    between = np.diff(row.chunk_times)
    return float(between[between > PAUSE_S].sum())


def _eligible(row: RequestRow, histogram: list[int]) -> list[int]:
    """Steps whose draft holds at least 1 to K tokens with all before the last of these accepted.

    Empty if not known.
    """
    if row.per_step_accepted is None or row.per_step_drafted is None:
        return []
    accepted, drafted = (np.array(steps, dtype=np.int64) for steps in (row.per_step_accepted, row.per_step_drafted))
    k = len(histogram) - 1
    if accepted.shape != drafted.shape or np.any((accepted < 0) | (accepted > drafted) | (drafted > k)):
        return []
    told = (len(accepted), int(drafted.sum()), int(accepted.sum()), np.bincount(accepted, minlength=k + 1).tolist())
    if told != (row.drafts, row.draft_tokens, row.accepted_tokens, histogram):
        return []
    return [int(((drafted >= position) & (accepted >= position - 1)).sum()) for position in range(1, k + 1)]


def read_watched_record(name: str, folder: Path, settings: Settings) -> Source:
    """Read a watched record: what its scrapes add up to, and intervals of its log or counters."""
    try:
        watched = read_watched(folder)
        series = CounterSeries(watched.every_s)
        differences, failed = _differences(series, folder)
        result = series.result()
        reading = _read_log(watched, folder, settings, result)
    except (ValueError, OSError) as error:
        return unusable(name, str(error))
    lines = [] if reading is None else rows_of_lines(name, Source(name, WATCHED, {}, make_batches=reading.batches).batches())
    from_lines = bool(lines) if settings.intervals == "auto" else settings.intervals == "lines"
    source = Source(name, WATCHED, {}, counters=rows_of_series(name, result) or lines)
    if not from_lines:
        source.make_batches = lambda: differences
    elif reading is not None:
        source.make_batches = reading.batches
    source.found = {
        "kind": WATCHED,
        **describe_rows(rows_of_series(name, result)),
        "restarts": [restart._asdict() for restart in result.restarts],
        "warnings": list(result.notes),
        "watched": watched.model_dump(mode="json"),
        "scrapes_failed": failed,
        "intervals_from": "lines" if from_lines else "counters",
        "log": None if reading is None else asdict(reading.found),
        "lines_against_counters": lines_against_counters(source.counters, lines),
    }
    if not source.counters:
        return unusable(name, "the record holds no answer of the server yet, and no log lines with drafts")
    return source


def _differences(series: CounterSeries, folder: Path) -> tuple[list[pa.Table], int]:
    """The intervals between the scrapes of a record, and how many scrapes had no answer."""
    tables: list[pa.Table] = []
    rows: list[Row] = []
    failed = 0
    for scrape in read_scrapes(folder):
        if scrape.text is None:
            failed += 1
            continue
        rows += series.add(scrape.t, read_metrics(scrape.text))
        if len(rows) >= ROWS_AT_ONCE:
            tables.append(_table(rows))
            rows = []
    return [*tables, _table(rows)], failed


def _table(rows: Sequence[Row]) -> pa.Table:
    columns = {name: kind for name, kind in INTERVALS.items() if name != "source"}
    return table_of(rows, columns, max((row["k"] or 0 for row in rows), default=0))


def _read_log(watched: Watched, folder: Path, settings: Settings, result: CounterResult) -> LogReading | None:
    """The log that was followed, with all that the record knows of it; None where there is none."""
    path = folder / SERVER_LOG
    if not path.exists():
        return None
    known = Known(
        zone=watched.time_zone or settings.zone,
        year=settings.year,
        near_start=min(session.start for session in watched.sessions) if watched.sessions else None,
        log_interval_s=watched.log_interval_s or settings.log_interval_s,
        k=next((part.counters.k for part in result.parts if part.counters.k), settings.k),
    )
    with path.open("rb") as stream:
        return read_log(stream, known)
