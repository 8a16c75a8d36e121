"""Read what a Prometheus server has stored of vLLM's counters into watched records, one for each scraped server.

Asked for are range vectors (``{...}[1h]``): the stored samples themselves, each with the time of its scrape. A query of
values at even steps (``query_range``) would repeat some samples, skip others and bridge gaps, and so lose what a server
counted just before a restart.
"""

import re
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from draftmeter.formats.counter_series import scrape_pace
from draftmeter.formats.history import (
    EVERY_NAME,
    SelectorError,
    Target,
    folder_names,
    matchers_of,
    start_time_selector,
    targets_of,
    texts,
)
from draftmeter.formats.metrics import read_metrics
from draftmeter.measure.prometheus_api import HistoryError, PrometheusServer
from draftmeter.record.watched import SCRAPES, ScrapeRow, Session, Watched, write_watched

POINTS_PER_SERIES = 11_000
SAMPLES_PER_QUERY = 400_000
_AGO = re.compile(r"-(\d+(?:\.\d+)?)([smhdw])")
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def history_time(text: str, now: float) -> float:
    """Unix seconds of ``-24h`` (before `now`), ``now``, Unix seconds or an RFC 3339 time; raise :class:`HistoryError`."""
    if text == "now":
        return now
    if (ago := _AGO.fullmatch(text)) is not None:
        return now - float(ago[1]) * _UNIT_S[ago[2]]
    if re.fullmatch(r"\d{1,11}(\.\d+)?", text):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise HistoryError(
            f"time: found {text!r}; expected one with its zone such as 2026-01-31T12:00:00+01:00 or 2026-01-31T11:00:00Z, "
            "Unix seconds, now, or a time before now such as -24h or -30d"
        )
    return moment.timestamp()


def fetch_history(url: str, selector: str, start: float, end: float, step: float | None, out: Path) -> list[Path]:
    """Write one watched record below `out` for each target with metrics of vLLM between `start` and `end` (Unix seconds).

    `selector` is a PromQL selector such as ``{job="vllm"}``; `step` the scrape interval in seconds, found from the samples
    if null. Credentials in `url` or in the variable that :mod:`draftmeter.measure.prometheus_api` names are used, never
    written. Raises :class:`HistoryError` if there is nothing to be had, or something of that name is already there.
    """
    if not start < end:
        raise HistoryError(f"range: found from {_time(start)} to {_time(end)}; expected a start before the end")
    if step is not None and not step > 0:
        raise HistoryError(f"step: found {step:g} s; expected more than 0, such as the scrape interval 15 s")
    try:
        matchers = matchers_of(selector)
    except SelectorError as error:
        raise HistoryError(str(error)) from error
    server = PrometheusServer(url)
    end = min(end, time.time())
    series = server.series(f"{{{','.join(filter(None, [EVERY_NAME, matchers]))}}}", start, end)
    if not series:
        raise HistoryError(_nothing(server, selector, start, end))
    targets = targets_of(series)
    folders = [out / name for name in folder_names(targets)]
    for folder in folders:
        if folder.exists():
            raise HistoryError(f"{folder}: already there; give another folder, or remove it")
    spans = [
        _write_record(server, target, selector, matchers, (start, end, step), folder)
        for target, folder in zip(targets, folders, strict=True)
    ]
    # A server lists series by blocks of hours: some of them may have no sample in this time.
    written = [folder for folder, there in zip(folders, spans, strict=True) if there]
    if not written:
        raise HistoryError(_nothing(server, selector, start, end))
    return written


def _write_record(
    server: PrometheusServer, target: Target, selector: str, matchers: str, span: tuple[float, float, float | None], folder: Path
) -> bool:
    """Write a target's record, complete or not at all; whether there was anything to write."""
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        watched = _fill(server, target, selector, matchers, span, unfinished)
        if watched is not None:
            write_watched(unfinished, watched)
            unfinished.rename(folder)
        return watched is not None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _fill(
    server: PrometheusServer, target: Target, selector: str, matchers: str, span: tuple[float, float, float | None], folder: Path
) -> Watched | None:
    start, end, step = span
    times: list[float] = []
    first = last = ""
    chosen = f"{{{','.join(filter(None, [EVERY_NAME, matchers, target.matchers]))}}}"
    with (folder / SCRAPES).open("w", encoding="ascii") as file:
        for t, text in _scrapes(server, target, chosen, start, end, step):
            file.write(ScrapeRow(t=t, text=text).line())
            first, last = first or text, text
            times.append(t)
    if not times:
        return None
    k = read_metrics(last).k
    return Watched(
        source="prometheus",
        url=server.url,
        selector=selector,
        instance=target.instance,
        every_s=step or scrape_pace(times) or 1.0,
        log=None,
        time_zone=None,
        models=list(target.models),
        k=k if k == read_metrics(first).k else None,
        notes=[
            f"from the samples that a Prometheus server stored between {_time(start)} and {_time(end)}: {len(times)} scrapes, "
            f"the first at {_time(times[0])}, the last at {_time(times[-1])}",
            *(f"the Prometheus server warned: {warning}" for warning in server.warnings),
        ],
        sessions=[Session(start=_moment(times[0]), end=_moment(times[-1]), ended_by="time")],
        draftmeter_version=version("draftmeter"),
    )


def _scrapes(
    server: PrometheusServer, target: Target, chosen: str, start: float, end: float, step: float | None
) -> Iterator[tuple[float, str]]:
    """The scrapes of a target in order of time, asked for in pieces that bound both the answer and the memory."""
    points = max(2, min(POINTS_PER_SERIES, SAMPLES_PER_QUERY // target.n_series))
    pace = step or 1.0
    done, last = start, -1.0
    while done < end:
        until = min(done + points * pace, end)
        times: list[float] = []
        # Prometheus 3 leaves the left end of a range out, Prometheus 2 does not: ask for more, and take no scrape twice.
        samples = server.samples(chosen, done - 0.001, until)
        starts = server.samples(start_time_selector(target), done - 0.001, until) if samples else []
        for t, text in texts(samples, starts, target):
            if t > last and t >= start:
                times.append(t)
                last = t
                yield t, text
        pace = scrape_pace(times) or pace
        done = until


def _nothing(server: PrometheusServer, selector: str, start: float, end: float) -> str:
    jobs = sorted({labels.get("job", "") for labels in server.series(f"{{{EVERY_NAME}}}", start, end)})
    there = f"it has some of the jobs {', '.join(jobs)}" if jobs else "it has none of any server in this time"
    return f"{server.url} has no metrics of vLLM that match {selector or '{}'} between {_time(start)} and {_time(end)}; {there}"


def _moment(t: float) -> datetime:
    return datetime.fromtimestamp(t, UTC)


def _time(t: float) -> str:
    try:
        return _moment(t).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{t:g}"
