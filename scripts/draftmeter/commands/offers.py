"""What a live server, a file or a record offers a study."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from draftmeter.collect.reading.inputs import open_input
from draftmeter.collect.reading.source import LOG, METRICS_TEXT, STUDY, WATCHED, Row, Source
from draftmeter.commands.availability import Answer, Availability
from draftmeter.formats.exposition import read_exposition
from draftmeter.formats.startup import read_startup
from draftmeter.measure.examine import Examined

NOT_IN = "{} holds none"
FROM_POSITIONS = "the positions of the counters"


def of_server(found: Examined) -> Availability:
    """What a live server offers."""
    exposition = read_exposition(found.metrics or "")
    counters, by_position = _counters([row.counters.drafts for row in exposition.rows()], exposition.k, exposition.problems)
    return Availability(
        subject=found.url,
        kind="live server",
        engine_version=found.version,
        models=found.models or [model for model in exposition.models if model],
        k=exposition.k,
        k_from=FROM_POSITIONS if exposition.k else "the counters show none",
        log_interval_s=None,
        log_interval_from="/metrics does not show it; 10 s unless VLLM_LOG_STATS_INTERVAL says otherwise",
        counters=counters,
        counters_by_position=by_position,
        per_request_metrics=_probed(found),
        log_lines=Answer(None, "a server does not show its log; `draftmeter watch --log FILE` follows it"),
        intervals=bool(by_position.there),
        problems=[*(f"{path}: {error}" for path, error in found.errors.items()), *exposition.problems],
    )


def of_source(source: Source) -> Availability:
    """What a file or a record offers."""
    found = source.found
    log = found if source.kind == LOG else found.get("log") or {}
    from_counters = [row for row in source.counters if row["counted_by"] == "counters"]
    counters, by_position = _counters_of(source, from_counters)
    k = found.get("k") or log.get("k")
    return Availability(
        subject=source.name,
        kind=source.kind,
        engine_version=_version(source),
        models=found.get("models", []),
        k=k,
        k_from=str(found.get("k_from") if found.get("k") else log.get("k_from", found.get("k_from"))),
        log_interval_s=log.get("log_interval_s"),
        log_interval_from=str(log.get("log_interval_from", "there is no log")),
        counters=counters,
        counters_by_position=by_position,
        per_request_metrics=_requests(source),
        log_lines=_lines(source, log),
        intervals=source.kind == WATCHED and found["intervals_from"] == "counters",
        problems=[*found.get("warnings", []), *(log.get("warnings", []) if log is not found else [])],
    )


def _counters(drafts: Sequence[int | None], k: int | None, problems: Sequence[str]) -> tuple[Answer, Answer]:
    reason = "; ".join(problems) or "none shown"
    there = any(count is not None for count in drafts)
    counters = Answer(True, f"{sum(count or 0 for count in drafts):,} drafts") if there else Answer(False, reason)
    return counters, Answer(True, f"K = {k}") if k else Answer(False, reason if there else "there are no counters of drafts")


def _counters_of(source: Source, rows: Sequence[Row]) -> tuple[Answer, Answer]:
    if not rows:
        none = Answer(False, NOT_IN.format("a log" if source.kind == LOG else "the record"))
        return none, none
    totals = [row for row in rows if row["engine"] == "all"]
    return _counters([row.get("drafts") for row in totals], source.found.get("k"), source.found.get("warnings", []))


def _requests(source: Source) -> Answer:
    if source.kind == STUDY:
        n = source.found["requests"]
        return Answer(n > 0, f"{n} requests")
    return Answer(False, NOT_IN.format({LOG: "a log", METRICS_TEXT: "a /metrics text"}.get(source.kind, "a watched record")))


def _lines(source: Source, log: dict[str, Any]) -> Answer:
    if not log:
        return Answer(False, NOT_IN.format("a /metrics text" if source.kind == METRICS_TEXT else "the record"))
    refused = f", {log['refused_count']} refused" if log["refused_count"] else ""
    wordings = ", ".join(log["wordings"]) or "none"
    return Answer(log["intervals"] > 0, f"{log['intervals']:,} intervals{refused}; wordings: {wordings}")


def _version(source: Source) -> str | None:
    """What a record says, or the start of a log."""
    described = {STUDY: "run", WATCHED: "watched"}.get(source.kind)
    version: str | None = None
    if described is not None:
        version = source.found[described]["engine_version"]
    elif source.kind == LOG and Path(source.name).is_file():
        opened = open_input(Path(source.name))
        with opened.stream:
            version = read_startup(opened.head.decode(errors="replace")).engine_version
    return version


def _probed(found: Examined) -> Answer:
    if found.probed is None:
        return Answer(None, "not asked; --probe sends one short request")
    if found.probed.error is not None:
        return Answer(None, f"the probe failed: {found.probed.error}")
    if not found.probed.metrics:
        return Answer(False, "the reply had none; vLLM 0.29 or later has them with --per-request-spec-decode-metrics detailed")
    return Answer(True, "the reply had them, " + ("with every step" if found.probed.steps else "but not of every step"))
