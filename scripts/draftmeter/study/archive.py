"""The config of an archive: a study made of stored records and files, whose table, figure and note need no server.

Paths in it are relative to the folder of the config file.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from draftmeter.record.run import RecordError, read_boot, read_record
from draftmeter.strict import Strict
from draftmeter.study.rules import misplaced, repeated_rows, undefined
from draftmeter.study.schema import (
    Analysis,
    ConfigError,
    Count,
    Identity,
    Name,
    Positive,
    Report,
)

BOOT_JSON = "boot.json"
# Drafts asked of an interval in a generated config: 500 in ten seconds, as the published study does.
DRAFTS_PER_SECOND = 50
DEFAULT_LOG_INTERVAL_S = 10.0


class SourceSettings(Strict):
    """What a file does not say itself; null where nobody knows. It never wins over what a file says."""

    zone: Annotated[str, Field(pattern=r"^[+-]\d\d:\d\d$")] | None
    """Of the time stamps in a log, as an UTC offset such as +01:00."""
    year: Annotated[int, Field(ge=2000, le=2999)] | None
    """Of the first line of a log, whose stamps have none."""
    log_interval_s: Positive | None
    k: Count | None
    """Draft tokens per step."""
    intervals: Literal["auto", "lines", "counters"]
    """Of a watched record: from its log lines, from differences of its counters, or from lines where it has some."""


class Source(Strict):
    """One stored thing: a file or folder. A null workload: a tree of a study's records, which say their workloads themselves."""

    path: str
    workload: Name | None
    settings: SourceSettings | None


class StoredWorkload(Strict):
    """What the table calls a workload, and what makes its requests alike where there are any."""

    label: str
    clusters: Literal["sessions", "prompts"]


class Archive(Strict):
    """A complete config of an archive."""

    study: Identity
    known_answer: str | None
    """Path of known_answer.json; null where the exact figures are not at hand."""
    sources: Annotated[list[Source], Field(min_length=1)]
    workloads: dict[Name, StoredWorkload]
    analysis: Analysis
    report: Report

    @model_validator(mode="after")
    def _parts_fit_together(self) -> "Archive":
        if found := list(_problems(self)):
            raise ValueError("\n  ".join(found))
        return self


class StoredSource(Strict):
    """A source with a workload: its path as the config gives it, and where it lies."""

    given: str
    at: str
    workload: Name
    settings: SourceSettings | None


@dataclass(frozen=True)
class Material:
    """What tables are made of: the boots of a study, and whatever else is stored."""

    boots: list[Path]
    """boot.json of every boot of a study."""
    others: list[StoredSource]
    """The sources with a workload, in the order of the config."""
    files: list[Path]
    """Every file below any source."""
    known_answer: Path | None


def find_stored(archive: Archive, folder: Path) -> Material:
    """What lies at the archive's paths, taken from `folder`; raise :class:`ConfigError` naming each path that will not do."""
    problems: list[str] = []
    boots: list[Path] = []
    others: list[StoredSource] = []
    files: list[Path] = []
    for number, source in enumerate(archive.sources):
        path, key = folder / source.path, f"sources.{number}.path"
        below = _files_below(path)
        listed = [file for file in below if file.name == BOOT_JSON]
        files += below
        if not below:
            problems.append(f"{key}: found no file at {path}; give a file, or a folder that holds some")
        elif source.workload is None:
            boots += listed
            if not listed:
                problems.append(
                    f"{key}: found no {BOOT_JSON} in {path}, so it holds no records of a study; give other files a workload"
                )
        else:
            others.append(StoredSource(given=source.path, at=str(path), workload=source.workload, settings=source.settings))
            if listed:
                problems.append(f"{key}: found records of a study in {path}, which say their workloads; use workload: null")
    known = None if archive.known_answer is None else folder / archive.known_answer
    if known is not None and not known.is_file():
        problems.append(f"known_answer: found no file at {known}; use null where the exact figures are not at hand")
    for file, number in _repeated(files):
        problems.append(f"sources: {file} is given {number} times; give it once, or it counts twice")
    if problems:
        raise ConfigError("\n".join(["the archive is not usable:", *(f"  {problem}" for problem in problems)]))
    return Material(boots, others, sorted(files), known)


def archive_of(
    paths: Sequence[Path], settings: SourceSettings | None = None, workload: str = "traffic", label: str = "Stored traffic"
) -> dict[str, Any]:
    """The plain config of an archive of `paths`, absolute: what was stored of one server's traffic, or a study's records.

    Files of a server belong to `workload`, with `settings`. Records of a study bring their workloads: the first one of
    sessions is production, unless there is traffic too. Raises :class:`ConfigError` for records that cannot be read.
    """
    boots = {path: [file for file in _files_below(Path(path)) if file.name == BOOT_JSON] for path in map(os.path.abspath, paths)}
    workloads, kind, measured = _workloads_of([file for found in boots.values() for file in found])
    if workload in workloads:
        workload += "-of-files"  # never one row with what the records hold
    if not all(boots.values()):
        workloads[workload] = {"label": label, "clusters": "sessions"}
        measured.append(workload)
    sources = [
        Source(path=path, workload=None if found else workload, settings=None if found else settings).model_dump(mode="json")
        for path, found in boots.items()
    ]
    sessions = [name for name in measured if workloads[name]["clusters"] == "sessions"]
    production = workload if workload in measured else next(iter([*sessions, *measured]), None)
    if production is None:
        raise ConfigError(f"{', '.join(boots)}: no record of a server that makes drafts; without one there is nothing to report")
    interval = (settings and settings.log_interval_s) or DEFAULT_LOG_INTERVAL_S
    fewest = max(1, round(DRAFTS_PER_SECOND * interval))
    return {
        "study": {
            "name": "archive",
            "title": "Draft tokens accepted by a server, from stored files",
            "kind": kind,
            "seed": 20261130,
        },
        "known_answer": None,
        "sources": sources,
        "workloads": workloads,
        "analysis": {
            "min_drafts": fewest,
            "min_drafts_sensitivity": [max(1, fewest // 5), 2 * fewest],
            "confidence": 0.95,
            "histogram_bin_width": 0.02,
            "z_limit": 4,
            "resamples": 2000,
        },
        "report": {
            "production": production,
            "controlled": [name for name in measured if name != production],
            "published": {},
            "authors": [],
        },
    }


def _problems(archive: Archive) -> Iterator[str]:
    for number, source in enumerate(archive.sources):
        if source.workload is not None:
            yield from undefined(f"sources.{number}.workload", source.workload, archive.workloads)
        elif source.settings is not None:
            yield f"sources.{number}.settings: found some without a workload; records of a study say it all, use null"
    yield from undefined("report.production", archive.report.production, archive.workloads)
    for row in archive.report.controlled:
        yield from undefined("report.controlled", row, archive.workloads)
    yield from repeated_rows(archive.report.production, archive.report.controlled)
    yield from misplaced(archive.report.controlled, archive.report.published)


def _files_below(path: Path) -> list[Path]:
    """A file itself, or the files in a folder, hidden ones left out; none where there is nothing."""
    if path.is_file():
        return [path]
    found = (file for file in path.rglob("*") if file.is_file())
    return sorted(file for file in found if not any(part.startswith(".") for part in file.relative_to(path).parts))


def _repeated(files: list[Path]) -> Iterator[tuple[Path, int]]:
    real: dict[str, list[Path]] = {}
    for file in files:
        real.setdefault(os.path.realpath(file), []).append(file)
    yield from ((found[0], len(found)) for found in real.values() if len(found) > 1)


def _workloads_of(boots: list[Path]) -> tuple[dict[str, dict[str, str]], str, list[str]]:
    """The workloads of a study's records, the kind of the study, and the workloads whose acceptance is what it is about.

    The kind is that of a served model where there are no records. A server without speculation has no acceptance, and a
    known-answer model beside another one only calibrates.
    """
    workloads: dict[str, dict[str, str]] = {}
    kind = "served_model"
    measured: dict[str, None] = {}
    try:
        for path in boots:
            for run in read_boot(path).runs:
                record = read_record(path.parent / run.path)
                clusters = "sessions" if record.streams is None else "prompts"
                workloads[record.workload] = {"label": record.workload_label, "clusters": clusters}
                kind = record.study_kind
                if record.speculative is not None and not (kind == "served_model" and record.of_known_answer):
                    measured[record.workload] = None
    except RecordError as error:
        raise ConfigError(str(error)) from error
    return workloads, kind, list(measured)
