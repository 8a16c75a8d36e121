"""A record of a study, and a watched record, as sources."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from draftmeter.collect.reading.checks import lines_against_counters
from draftmeter.collect.reading.columns import INTERVALS, table_of
from draftmeter.collect.reading.counts import describe_result, row_of_part
from draftmeter.collect.reading.logs import describe_log
from draftmeter.collect.reading.requests import requests_table
from draftmeter.collect.reading.settings import Settings
from draftmeter.collect.reading.source import STUDY, WATCHED, Row, Source, unusable
from draftmeter.collect.reading.sums import rows_of_lines
from draftmeter.formats.counter_series import CounterResult, CounterSeries, counter_series
from draftmeter.formats.log import Known, LogReading, read_log
from draftmeter.formats.metrics import read_metrics
from draftmeter.record.run import open_raw, read_raw, read_record, read_requests
from draftmeter.record.watched import SERVER_LOG, Watched, read_scrapes, read_watched

ROWS_AT_ONCE = 4096


def read_study_record(name: str, folder: Path) -> Source:
    """Read a complete record of a study: counters after less before, the intervals of its log, its requests."""
    try:
        record = read_record(folder)
        scrapes = [read_metrics(read_raw(folder, f"metrics-{moment}.prom")) for moment in ("before", "after")]
        end = record.end or record.start
        result, _ = counter_series([record.start.timestamp(), end.timestamp()], scrapes)
        k = next((part.counters.k for part in result.parts), None)
        known = Known(zone=record.time_zone, near_start=record.start, log_interval_s=record.log_interval_s, k=k)
        with open_raw(folder, SERVER_LOG) as stream:
            reading = read_log(stream, known)
        requests = requests_table(name, read_requests(folder), k)
    except (ValueError, OSError) as error:
        return unusable(name, str(error))
    sent, received = record.first_sent, record.last_received
    seconds = (received - sent).total_seconds() if sent is not None and received is not None else None
    source = Source(name, STUDY, {}, requests=requests, make_batches=reading.batches)
    source.counters = [{**row_of_part(name, part), "seconds": seconds} for part in result.parts]
    lines = rows_of_lines(name, source.batches())
    source.found = {
        "kind": STUDY,
        **describe_result(result),
        "run": {key: getattr(record, key) for key in ("study", "server", "boot", "attempt", "run", "workload", "engine_version")},
        "log": describe_log(reading.found),
        "lines_against_counters": lines_against_counters(source.counters, lines),
        "requests": requests.num_rows,
    }
    return source


def read_watched_record(name: str, folder: Path, settings: Settings) -> Source:
    """Read a watched record: what its scrapes add up to, and intervals from its log or from differences of its counters."""
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
    source = Source(name, WATCHED, {}, counters=[row_of_part(name, part) for part in result.parts] or lines)
    if not from_lines:
        source.make_batches = lambda: differences
    elif reading is not None:
        source.make_batches = reading.batches
    source.found = {
        "kind": WATCHED,
        **describe_result(result),
        "watched": watched.model_dump(mode="json"),
        "scrapes_failed": failed,
        "intervals_from": "lines" if from_lines else "counters",
        "log": None if reading is None else describe_log(reading.found),
        "lines_against_counters": lines_against_counters(source.counters, lines),
    }
    if not source.counters:
        return unusable(name, "the record holds no answer of the server yet, and no log lines with drafts")
    return source


def _differences(series: CounterSeries, folder: Path) -> tuple[list[pa.Table], int]:
    """The intervals between the scrapes of a record, and how many scrapes the server did not answer."""
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
    """The log that was followed, with all that the record knows of it; null where there is none."""
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
