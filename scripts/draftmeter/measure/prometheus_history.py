"""Read what a Prometheus server has stored of vLLM's counters into watched records, one for each
scraped server.

Asked for are range vectors (``{...}[1h]``): the stored samples themselves, each with the time of
its scrape. A query of values at even steps (``query_range``) would repeat some samples, skip others
and bridge gaps, and so lose what a server counted just before a restart.
"""

import asyncio
import json
import os
import re
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aiohttp

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
from draftmeter.measure.http import (
    Address,
    AddressError,
    NotAnswered,
    ask,
    checked_authorization,
    parse_address,
    proxy_for,
    session_to,
)
from draftmeter.measure.watch.durations import DurationError, parse_duration
from draftmeter.record.watched import SCRAPES, ScrapeRow, Session, Watched, write_watched

AUTHORIZATION_VARIABLE = "DRAFTMETER_PROMETHEUS_AUTHORIZATION"
"""Value of the Authorization header, such as ``Bearer ...``; a name and password in the URL do as
well.
"""
# A Prometheus server gives a query two minutes by itself; its answer must also arrive.
TIMEOUT_S = 300.0
LIMIT_BYTES = 2**30
POINTS_PER_SERIES = 11_000
SAMPLES_PER_QUERY = 400_000
_EXCERPT = 300

Samples = list[tuple[dict[str, str], list[tuple[float, str]]]]


class HistoryError(ValueError):
    """A history that cannot be read: what was asked, what was found, what would be right. Never
    quotes credentials.
    """


def history_time(text: str, now: float) -> float:
    """Unix seconds of ``-24h`` (before `now`), ``now``, Unix seconds or an RFC 3339 time; raise
    :class:`HistoryError`.
    """
    if text == "now":
        return now
    if re.fullmatch(r"\d{1,11}(\.\d+)?", text):
        return float(text)
    try:
        if text.startswith("-"):
            return now - parse_duration(text[1:])
        moment = datetime.fromisoformat(text)
    except (DurationError, ValueError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise HistoryError(
            f"time: found {text!r}; expected one with its zone such as 2026-01-31T12:00:00+01:00 or 2026-01-31T11:00:00Z, "
            "Unix seconds, now, or a time before now such as -24h or -30d"
        )
    return moment.timestamp()


@dataclass(frozen=True)
class _Wanted:
    """What to fetch: times in Unix seconds; `matchers` is what stands between the braces of the
    `selector`.
    """

    selector: str
    matchers: str
    start: float
    end: float
    step: float | None

    def chosen(self, *more: str) -> str:
        """The selector of all that draftmeter uses and the user wants, with `more` matchers."""
        return f"{{{','.join(filter(None, [EVERY_NAME, self.matchers, *more]))}}}"


class PrometheusServer:
    """A Prometheus server (or one that speaks its HTTP API) at an address, asked in a session to
    it.
    """

    def __init__(self, address: Address, session: aiohttp.ClientSession) -> None:
        self.url = address.url
        """Without credentials."""
        self.warnings: list[str] = []
        """What the server said against the completeness of its answers."""
        self._session = session
        self._proxy = proxy_for(address)

    async def series(self, selector: str, start: float, end: float) -> list[dict[str, str]]:
        """The labels of the series that match and have samples between two times (Unix seconds)."""
        found = await self._ask("series", {"match[]": selector, "start": f"{start:.3f}", "end": f"{end:.3f}"})
        return list(found)

    async def samples(self, selector: str, start: float, end: float) -> Samples:
        """The stored samples of the series that match: their labels, and (Unix seconds, number as
        text) in order of time.
        """
        milliseconds = round((end - start) * 1000)
        found = await self._ask("query", {"query": f"{selector}[{milliseconds}ms]", "time": f"{end:.3f}"})
        try:
            return [(one["metric"], [(float(t), str(number)) for t, number in one.get("values", [])]) for one in found["result"]]
        except (KeyError, TypeError, ValueError) as error:
            raise HistoryError(f"{self.url}: the answer to a query is no matrix of samples ({error!r})") from error

    async def _ask(self, what: str, query: dict[str, str]) -> Any:
        path = f"/api/v1/{what}"
        try:
            body = await ask(
                self._session,
                f"{self.url}{path}",
                TIMEOUT_S,
                query=query,
                limit_bytes=LIMIT_BYTES,
                redirects=True,
                proxy=self._proxy,
            )
        except NotAnswered as error:
            raise HistoryError(f"{self.url}: {_refusal(error)}") from None
        answer = _read(body)
        if answer is None or "data" not in answer:
            raise HistoryError(f"{self.url}: not a Prometheus server: {path} did not answer as its HTTP API does")
        for warning in answer.get("warnings") or []:
            if (text := str(warning)[:_EXCERPT]) not in self.warnings:
                self.warnings.append(text)
        return answer["data"]


def fetch_history(url: str, selector: str, start: float, end: float, step: float | None, out: Path) -> list[Path]:
    """Write one watched record below `out` for each target with metrics of vLLM between `start` and
    `end` (Unix seconds).

    `selector` is a PromQL selector such as ``{job="vllm"}``; `step` the scrape interval in seconds,
    found from the samples if None. Credentials in `url` or in the variable
    :data:`AUTHORIZATION_VARIABLE` are used, never written. Raises :class:`HistoryError` if there is
    nothing to be had, or something of that name is already there.
    """
    if not start < end:
        raise HistoryError(f"range: found from {_time(start)} to {_time(end)}; expected a start before the end")
    if step is not None and not step > 0:
        raise HistoryError(f"step: found {step:g} s; expected more than 0, such as the scrape interval 15 s")
    try:
        matchers = matchers_of(selector)
    except SelectorError as error:
        raise HistoryError(str(error)) from error
    return asyncio.run(_fetch(_address(url), _Wanted(selector, matchers, start, min(end, time.time()), step), out))


async def _fetch(address: Address, wanted: _Wanted, out: Path) -> list[Path]:
    async with session_to(address) as session:
        return await _write_records(PrometheusServer(address, session), wanted, out)


async def _write_records(server: PrometheusServer, wanted: _Wanted, out: Path) -> list[Path]:
    series = await server.series(wanted.chosen(), wanted.start, wanted.end)
    if not series:
        raise HistoryError(await _nothing(server, wanted))
    targets = targets_of(series)
    folders = [out / name for name in folder_names(targets)]
    for folder in folders:
        if folder.exists():
            raise HistoryError(f"{folder}: already there; give another folder, or remove it")
    filled = [await _write_record(server, target, wanted, folder) for target, folder in zip(targets, folders, strict=True)]
    # A server lists series by blocks of hours: some of them may have no sample in this time.
    written = [folder for folder, there in zip(folders, filled, strict=True) if there]
    if not written:
        raise HistoryError(await _nothing(server, wanted))
    return written


async def _write_record(server: PrometheusServer, target: Target, wanted: _Wanted, folder: Path) -> bool:
    """Write a target's record, complete or not at all; whether there was anything to write."""
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        watched = await _fill(server, target, wanted, unfinished)
        if watched is not None:
            write_watched(unfinished, watched)
            unfinished.rename(folder)
        return watched is not None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


async def _fill(server: PrometheusServer, target: Target, wanted: _Wanted, folder: Path) -> Watched | None:
    times: list[float] = []
    first = last = ""
    with (folder / SCRAPES).open("w", encoding="ascii") as file:
        async for t, text in _scrapes(server, target, wanted):
            file.write(ScrapeRow(t=t, text=text).line())
            first, last = first or text, text
            times.append(t)
    if not times:
        return None
    k = read_metrics(last).k
    return Watched(
        source="prometheus",
        url=server.url,
        selector=wanted.selector,
        instance=target.instance,
        every_s=wanted.step or scrape_pace(times) or 1.0,
        log=None,
        time_zone=None,
        models=list(target.models),
        k=k if k == read_metrics(first).k else None,
        notes=[
            f"from the samples that a Prometheus server stored between {_time(wanted.start)} and {_time(wanted.end)}: "
            f"{len(times)} scrapes, the first at {_time(times[0])}, the last at {_time(times[-1])}",
            *(f"the Prometheus server warned: {warning}" for warning in server.warnings),
        ],
        sessions=[Session(start=_moment(times[0]), end=_moment(times[-1]), ended_by="time")],
        draftmeter_version=version("draftmeter"),
    )


async def _scrapes(server: PrometheusServer, target: Target, wanted: _Wanted) -> AsyncIterator[tuple[float, str]]:
    """The scrapes of a target in order of time, asked for in pieces that bound both the answer and
    the memory.
    """
    points = max(2, min(POINTS_PER_SERIES, SAMPLES_PER_QUERY // target.n_series))
    pace = wanted.step or 1.0
    chosen = wanted.chosen(target.matchers)
    done, last = wanted.start, -1.0
    while done < wanted.end:
        until = min(done + points * pace, wanted.end)
        times: list[float] = []
        # Prometheus 3 leaves the left end of a range out, Prometheus 2 does not: ask for more, and
        # take no scrape twice.
        samples = await server.samples(chosen, done - 0.001, until)
        starts = await server.samples(start_time_selector(target), done - 0.001, until) if samples else []
        for t, text in texts(samples, starts, target):
            if t > last and t >= wanted.start:
                times.append(t)
                last = t
                yield t, text
        pace = scrape_pace(times) or pace
        done = until


async def _nothing(server: PrometheusServer, wanted: _Wanted) -> str:
    series = await server.series(f"{{{EVERY_NAME}}}", wanted.start, wanted.end)
    jobs = sorted({labels.get("job", "") for labels in series})
    there = f"it has some of the jobs {', '.join(jobs)}" if jobs else "it has none of any server in this time"
    between = f"between {_time(wanted.start)} and {_time(wanted.end)}"
    return f"{server.url} has no metrics of vLLM that match {wanted.selector or '{}'} {between}; {there}"


def _address(url: str) -> Address:
    """The address in `url`, with the credentials of the environment if there are any."""
    try:
        address = parse_address(url)
    except AddressError as error:
        raise HistoryError(f"--prometheus: {error}") from error
    given = os.environ.get(AUTHORIZATION_VARIABLE)
    if not given:
        return address
    try:
        authorization = checked_authorization(given, AUTHORIZATION_VARIABLE, instead_of=address.authorization)
    except AddressError as error:
        raise HistoryError(str(error)) from error
    return replace(address, authorization=authorization)


def _refusal(error: NotAnswered) -> str:
    """Why a question was not answered, with what a Prometheus server says of it, or what would be
    right.
    """
    if error.status is None:
        return f"cannot be asked: {error}"
    if error.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f"{error}; give a name and password in the URL, or {AUTHORIZATION_VARIABLE}"
    answer = _read(error.body)
    if answer is not None and isinstance(answer.get("error"), str):
        return f"{error}: {answer['error'][:_EXCERPT]}"
    return f"{error}; expected a Prometheus server: its address without /api, such as http://prometheus:9090"


def _read(body: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) and answer.get("status") in ("success", "error") else None


def _moment(t: float) -> datetime:
    return datetime.fromtimestamp(t, UTC)


def _time(t: float) -> str:
    try:
        return _moment(t).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{t:g}"
