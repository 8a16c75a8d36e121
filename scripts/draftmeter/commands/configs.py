"""What a config promises: a study server by server, an archive by what its files hold; validated as Snakemake would do it."""

from collections.abc import Iterator
from pathlib import Path

from draftmeter.collect.reading.settings import Settings
from draftmeter.commands.arguments import UnusableInput
from draftmeter.commands.availability import Answer, Availability
from draftmeter.commands.offers import of_source
from draftmeter.commands.report import read_all
from draftmeter.models.lock import with_locked_revisions
from draftmeter.study.archive import Archive, Source, find_stored
from draftmeter.study.config import parse_config, read_yaml
from draftmeter.study.schema import ConfigError, FolderModel, HubModel, PromptFile, Server, Study

MODELS_LOCK = Path("models.lock.json")
KIND = "server of a config"


def availabilities_of(path: Path) -> list[Availability]:
    """One for each server of a study, one for an archive; raise :class:`UnusableInput` for a file that is no config at all."""
    try:
        config = read_yaml(path)
    except ConfigError as error:
        raise UnusableInput(str(error)) from error
    try:
        study = parse_config(config)
        if isinstance(study, Archive):
            return [_of_archive(path, study)]
        study = with_locked_revisions(study, MODELS_LOCK)
    except ConfigError as error:
        return [_refused(path, str(error).splitlines())]
    return [_of_server(path, study, name, server) for name, server in study.servers.items()]


def _of_server(path: Path, study: Study, name: str, server: Server) -> Availability:
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


def _not_named(study: Study, server: Server) -> Iterator[str]:
    """What the config leaves open, or names and is not there: a run would refuse to start."""
    model = study.models[server.model]
    if isinstance(model, HubModel) and model.revision == "unresolved":
        yield f"models.{server.model}.revision: unresolved; put a commit hash there, or run snakemake with lock_models"
    if isinstance(model, FolderModel) and not (Path(model.path) / "config.json").is_file():
        yield f"models.{server.model}.path: {model.path} has no config.json; it must be the folder of a checkpoint"
    workloads = dict.fromkeys(study.runs[run].workload for run in server.runs)
    for name in dict.fromkeys(study.workloads[workload].prompts for workload in workloads):
        prompts = study.prompts[name]
        if not isinstance(prompts, PromptFile):
            continue
        if prompts.sha256 == "unresolved":
            yield f"prompts.{name}.sha256: unresolved; put the hash of the file there"
        elif not Path(prompts.path).is_file():
            yield f"prompts.{name}.path: {prompts.path} is not there"


def _of_archive(path: Path, archive: Archive) -> Availability:
    """What the files of an archive hold together."""
    try:
        find_stored(archive, path.parent)
        parts = [part for source in archive.sources for part in _parts(path.parent / source.path, source)]
    except ConfigError as error:
        return _refused(path, str(error).splitlines())
    except UnusableInput as error:
        return _refused(path, [str(error)])
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
        blocking=[f"{part.subject}: holds nothing that shows acceptance by position" for part in parts if not part.possible],
    )


def _parts(path: Path, source: Source) -> list[Availability]:
    settings = Settings() if source.settings is None else Settings(**source.settings.model_dump())
    sources, _ = read_all([str(path)], settings)
    return [of_source(one) for one in sources]


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
