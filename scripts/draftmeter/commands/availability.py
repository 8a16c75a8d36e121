"""What a live server, a config, a file or a record offers a study, and what the study could and
could not say from it.

A config is validated as Snakemake would do it: a study server by server, an archive by what its
files hold.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftmeter.collect.inputs import Settings, open_input
from draftmeter.collect.source import LOG, METRICS_TEXT, METRICS_TEXTS, STUDY, WATCHED, Row, Source
from draftmeter.collect.texts import NOT_ADDED
from draftmeter.commands.arguments import UnusableInput
from draftmeter.commands.report import read_all
from draftmeter.formats.metrics import read_metrics
from draftmeter.formats.startup import read_startup

if TYPE_CHECKING:  # a config's models and an HTTP client are slow to import, and most subjects need neither
    from draftmeter.measure.examine import Examined
    from draftmeter.study.archive import Archive
    from draftmeter.study.archive import Source as StoredFile
    from draftmeter.study.schema import Server, Study

MODELS_LOCK = Path("models.lock.json")
KIND = "server of a config"
NOT_IN = "{} holds none"
TEXT = "a /metrics text"
FROM_POSITIONS = "the positions of the counters"


@dataclass(frozen=True)
class Answer:
    """Whether something is there; None: it cannot be seen from here. `detail` says how, or why not."""

    there: bool | None
    detail: str


@dataclass(frozen=True)
class Availability:
    """What one subject offers. `intervals`: whether counters are read often enough for intervals of
    their own.
    """

    subject: str
    kind: str
    engine_version: str | None
    models: Sequence[str]
    k: int | None
    k_from: str
    log_interval_s: float | None
    log_interval_from: str
    counters: Answer
    counters_by_position: Answer
    per_request_metrics: Answer
    log_lines: Answer
    intervals: bool
    problems: Sequence[str] = ()
    blocking: Sequence[str] = ()
    """Problems that make a study impossible, whatever else is there."""
    baseline: bool = False
    """Whether a study runs it without speculation, to compare with: it has no acceptance to
    measure.
    """

    @property
    def possible(self) -> bool:
        """Whether a study can be made of it: acceptance by position must be known from somewhere."""
        if self.blocking:
            return False
        return self.baseline or bool(self.counters_by_position.there or (self.log_lines.there and self.k is not None))

    def can(self) -> list[str]:
        """Sentences: what a study could say."""
        said: list[str] = []
        if self.blocking:
            return said
        if self.baseline:
            return ["Emitted tokens per second without speculation, beside the same runs of a server with it."]
        if self.counters_by_position.there:
            said.append(
                "Acceptance, the chance at each position and tokens per step, exact from the server's counters; "
                "also at every shorter draft, if the draft policy is unchanged."
            )
        elif self.counters.there:
            said.append("Accepted over drafted and tokens per step from the server's counters, but not by position.")
        if self.log_lines.there:
            said.append("How acceptance varies between the intervals of the log, with load, and how long it keeps its level.")
        elif self.intervals:
            said.append("How acceptance varies between intervals, from differences of counters that are read often enough.")
        if self.log_lines.there and self.counters.there:
            said.append("Whether the log is complete: its lines against the counters.")
        if self.log_lines.there and not self.counters.there and self.k is not None:
            said.append("Acceptance by position and tokens per step, as far as the log is complete.")
        if self.per_request_metrics.there:
            said.append("Acceptance by request: confidence intervals by prompt or session, and the share of other clients.")
        return said

    def cannot(self) -> list[str]:
        """Sentences: what a study could not say, and why."""
        said: list[str] = []
        if self.blocking:
            return said
        if self.baseline:
            return ["Anything about acceptance: it makes no drafts."]
        if not self.counters.there:
            said.append(f"Nothing from counters: {self.counters.detail}.")
        elif not self.counters_by_position.there:
            said.append(f"No chance by position from counters: {self.counters_by_position.detail}.")
        if not self.log_lines.there and not self.intervals:
            said.append(f"Nothing about intervals: {self.log_lines.detail}.")
        if not self.per_request_metrics.there:
            said.append(f"Nothing by request, so no confidence intervals from requests: {self.per_request_metrics.detail}.")
        if self.log_lines.there and not self.counters.there:
            said.append("Not whether the log misses intervals, nor emitted tokens per step: that needs counters.")
        return said

    def as_data(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
        return {**asdict(self), "study_possible": self.possible, "could_say": self.can(), "could_not_say": self.cannot()}

    def lines(self) -> list[str]:
        """Everything as lines of text."""
        facts = {
            "engine": f"vLLM {self.engine_version or '(version unknown)'}",
            "models": ", ".join(self.models) or "unknown",
            "K": f"{'none' if self.baseline else self.k or 'unknown'} ({self.k_from})",
            "log interval": f"{_seconds(self.log_interval_s)} ({self.log_interval_from})",
            "counters": _said(self.counters),
            "counters by position": _said(self.counters_by_position),
            "per-request metrics": _said(self.per_request_metrics),
            "log lines": _said(self.log_lines),
        }
        can, cannot = self.can(), self.cannot()
        return [
            f"{self.subject} ({self.kind})",
            *([] if self.blocking else [f"  {name:21} {text}" for name, text in facts.items()]),
            *(f"  problem: {problem}" for problem in (*self.blocking, *self.problems)),
            *(["  A study could say:", *(f"  + {sentence}" for sentence in can)] if can else []),
            *(["  It could not say:", *(f"  - {sentence}" for sentence in cannot)] if cannot else []),
            f"  A study of it is {'possible' if self.possible else 'not possible'}.",
        ]


def of_server(found: "Examined") -> Availability:
    """What a live server offers."""
    metrics = read_metrics(found.metrics or "")
    counters, by_position = _counters([row.counters.drafts for row in metrics.rows()], metrics.k, metrics.problems)
    return Availability(
        subject=found.url,
        kind="live server",
        engine_version=found.version,
        models=found.models or [model for model in metrics.models if model],
        k=metrics.k,
        k_from=FROM_POSITIONS if metrics.k else "the counters show none",
        log_interval_s=None,
        log_interval_from="/metrics does not show it; 10 s unless VLLM_LOG_STATS_INTERVAL says otherwise",
        counters=counters,
        counters_by_position=by_position,
        per_request_metrics=_probed(found),
        log_lines=Answer(None, "a server does not show its log; `draftmeter watch --log FILE` follows it"),
        intervals=bool(by_position.there),
        problems=[*(f"{path}: {error}" for path, error in found.errors.items()), *metrics.problems],
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
        problems=[
            *([found[NOT_ADDED]] if NOT_ADDED in found else []),
            *found.get("warnings", []),
            *(log.get("warnings", []) if log is not found else []),
        ],
    )


def of_config(path: Path) -> list[Availability]:
    """One for each server of a study, one for an archive; raise :class:`UnusableInput` for a file
    that is no config at all.
    """
    from draftmeter.models.prepare import with_locked_revisions  # noqa: PLC0415
    from draftmeter.study.config import parse_config, read_yaml  # noqa: PLC0415
    from draftmeter.study.schema import ConfigError, Study  # noqa: PLC0415

    try:
        config = read_yaml(path)
    except ConfigError as error:
        raise UnusableInput(str(error)) from error
    try:
        study = parse_config(config)
        if not isinstance(study, Study):
            return [_of_archive(path, study)]
        study = with_locked_revisions(study, MODELS_LOCK)
    except ConfigError as error:
        return [_refused(path, str(error).splitlines())]
    return [_of_study_server(path, study, name, server) for name, server in study.servers.items()]


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
    holder = {LOG: "a log", METRICS_TEXT: TEXT, METRICS_TEXTS: TEXT}.get(source.kind, "a watched record")
    return Answer(False, NOT_IN.format(holder))


def _lines(source: Source, log: dict[str, Any]) -> Answer:
    if not log:
        return Answer(False, NOT_IN.format(TEXT if source.kind in {METRICS_TEXT, METRICS_TEXTS} else "the record"))
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


def _probed(found: "Examined") -> Answer:
    if found.probed is None:
        return Answer(None, "not asked; --probe sends one short request")
    if found.probed.error is not None:
        return Answer(None, f"the probe failed: {found.probed.error}")
    if not found.probed.metrics:
        return Answer(False, "the reply had none; vLLM 0.29 or later has them with --per-request-spec-decode-metrics detailed")
    return Answer(True, "the reply had them, " + ("with every step" if found.probed.steps else "but not of every step"))


def _of_study_server(path: Path, study: "Study", name: str, server: "Server") -> Availability:
    started, speculative = "draftmeter starts the server with what shows it", server.speculative
    off = Answer(False, "it runs without speculation")
    return Availability(
        subject=f"{path}: {name}",
        kind=KIND,
        engine_version=None,
        models=[server.model],
        k=speculative.num_speculative_tokens if speculative else None,
        k_from="speculative.num_speculative_tokens" if speculative else "speculative: null",
        log_interval_s=server.log_interval_s,
        log_interval_from="log_interval_s",
        counters=Answer(True, "read before and after every run"),
        counters_by_position=Answer(True, "vLLM 0.9.2 or later has them") if speculative else off,
        per_request_metrics=Answer(True, f"{started}, in vLLM 0.29 or later") if speculative else off,
        log_lines=Answer(True, f"{server.boots} boots with the runs {', '.join(server.runs)}"),
        intervals=False,
        blocking=list(_not_named(study, server)),
        baseline=speculative is None,
    )


def _not_named(study: "Study", server: "Server") -> Iterator[str]:
    """What the config leaves open, or names and is not there: a run would refuse to start."""
    model = study.models[server.model]
    if model.source == "hub" and model.revision == "unresolved":
        yield f"models.{server.model}.revision: unresolved; put a commit hash there, or run snakemake with lock_models"
    if model.source == "folder" and not (Path(model.path) / "config.json").is_file():
        yield f"models.{server.model}.path: {model.path} has no config.json; it must be the folder of a checkpoint"
    workloads = dict.fromkeys(study.runs[run].workload for run in server.runs)
    for name in dict.fromkeys(study.workloads[workload].prompts for workload in workloads):
        prompts = study.prompts[name]
        if prompts.kind != "file":
            continue
        if prompts.sha256 == "unresolved":
            yield f"prompts.{name}.sha256: unresolved; put the hash of the file there"
        elif not Path(prompts.path).is_file():
            yield f"prompts.{name}.path: {prompts.path} is not there"


def _of_archive(path: Path, archive: "Archive") -> Availability:
    """What the files of an archive hold together."""
    from draftmeter.study.archive import find_stored  # noqa: PLC0415
    from draftmeter.study.schema import ConfigError  # noqa: PLC0415

    try:
        find_stored(archive, path.parent)
        sources = [one for source in archive.sources for one in _sources(path.parent / source.path, source)]
    except ConfigError as error:
        return _refused(path, str(error).splitlines())
    except UnusableInput as error:
        return _refused(path, [str(error)])
    parts = [of_source(source) for source in sources]
    ks, intervals_s, versions = (
        list(dict.fromkeys(value for value in values if value is not None))
        for values in zip(*((part.k, part.log_interval_s, part.engine_version) for part in parts), strict=True)
    )
    return Availability(
        subject=str(path),
        kind=f"archive of {len(parts)} sources",
        engine_version=", ".join(versions) or None,
        models=list(dict.fromkeys(model for part in parts for model in part.models)),
        k=ks[0] if len(ks) == 1 else None,
        k_from="all its sources" if len(ks) == 1 else f"its sources have {ks or 'none'}",
        log_interval_s=intervals_s[0] if len(intervals_s) == 1 else None,
        log_interval_from="all its logs" if len(intervals_s) == 1 else f"its logs have {intervals_s or 'none'}",
        counters=_together([part.counters for part in parts]),
        counters_by_position=_together([part.counters_by_position for part in parts]),
        per_request_metrics=_together([part.per_request_metrics for part in parts]),
        log_lines=_together([part.log_lines for part in parts]),
        intervals=any(part.intervals for part in parts),
        problems=[f"{part.subject}: {problem}" for part in parts for problem in part.problems],
        blocking=[
            *(f"{part.subject}: holds nothing that shows acceptance by position" for part in parts if not part.possible),
            *dict.fromkeys(source.found[NOT_ADDED] for source in sources if NOT_ADDED in source.found),
        ],
    )


def _sources(path: Path, source: "StoredFile") -> list[Source]:
    settings = Settings() if source.settings is None else Settings(**source.settings.model_dump())
    sources, _ = read_all([str(path)], settings)
    return sources


def _together(answers: list[Answer]) -> Answer:
    n = sum(answer.there is True for answer in answers)
    return Answer(n > 0, f"in {n} of {len(answers)} sources")


def _refused(path: Path, problems: list[str]) -> Availability:
    nothing = Answer(None, "the config is not usable")
    return Availability(
        subject=str(path),
        kind="config",
        engine_version=None,
        models=[],
        k=None,
        k_from="the config is not usable",
        log_interval_s=None,
        log_interval_from="the config is not usable",
        counters=nothing,
        counters_by_position=nothing,
        per_request_metrics=nothing,
        log_lines=nothing,
        intervals=False,
        blocking=[problem.strip() for problem in problems],
    )


def _said(answer: Answer) -> str:
    return f"{ {True: 'yes', False: 'no', None: 'unknown'}[answer.there] }: {answer.detail}"


def _seconds(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds:g} s"
