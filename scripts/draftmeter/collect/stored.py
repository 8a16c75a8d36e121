"""Stored files of a server - a log, a /metrics text, a watched record - as runs of a study: one run each."""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from draftmeter.collect.reading.columns import ALL_ENGINES, positions_of
from draftmeter.collect.reading.inputs import InputError, find_inputs
from draftmeter.collect.reading.settings import Settings
from draftmeter.collect.reading.source import Source
from draftmeter.collect.reading.sources import read_input
from draftmeter.collect.reconcile import Check, check_counts
from draftmeter.study.archive import StoredSource

logger = logging.getLogger(__name__)

# Endings that say how a file is stored, and not what it is of.
_ENDINGS = re.compile(r"(\.(gz|zst|log|txt|prom|jsonl?))+$")


class CollectError(ValueError):
    """Records or files that cannot become tables: which, what was found, what would be right."""


@dataclass(frozen=True)
class StoredFile:
    """One file, or one watched record, as a run. `run` (of the table runs) and `counters` are rows without the identity."""

    identity: dict[str, Any]
    run: dict[str, Any]
    counters: dict[str, Any]
    k: int
    batches: Callable[[], Iterator[pa.Table]]
    checks: list[Check]


def read_stored(sources: Sequence[StoredSource], taken: set[str]) -> list[StoredFile]:
    """Every usable file below `sources`, in order; raise :class:`CollectError` for a source without one.

    Each is a server of its own, named after its file by a name that is not `taken`.
    """
    files: list[StoredFile] = []
    servers = set(taken)
    for stored in sources:
        found = _read(stored)
        for source in found:
            server = _server_name(source.name, servers)
            servers.add(server)
            files.append(_as_run(stored, source, server))
    return files


def _read(stored: StoredSource) -> list[Source]:
    settings = Settings() if stored.settings is None else Settings(**stored.settings.model_dump())
    try:
        inputs = find_inputs([stored.at])
        read = [read_input(item, settings) for item in inputs.inputs]
    except InputError as error:
        raise CollectError(str(error)) from error
    refused = [f"{skipped.name}: {skipped.reason}" for skipped in inputs.skipped]
    refused += [f"{source.name}: {source.unusable or 'no drafts'}" for source in read if not source.counters]
    usable = [source for source in read if source.counters]
    if not usable:
        raise CollectError(f"{stored.given}: nothing to be had from it: {'; '.join(refused) or 'found no file'}")
    for reason in refused:
        logger.warning("not read: %s", reason)
    return usable


def _as_run(stored: StoredSource, source: Source, server: str) -> StoredFile:
    rows = [row for row in source.counters if row["engine"] == ALL_ENGINES]
    if len(rows) != 1:
        models = sorted({str(row.get("model")) for row in rows})
        raise CollectError(f"{source.name}: found counters of the models {', '.join(models)}; a workload is of one model")
    given = stored.given + source.name.removeprefix(stored.at)
    identity = {"source": given, "server": server, "boot": "boot-1", "attempt": 1, "run": stored.workload}
    version = source.found.get("watched", {}).get("engine_version")
    return StoredFile(
        identity={**identity, "workload": stored.workload},
        run={
            "source_kind": source.kind,
            "model": rows[0].get("model"),
            "k": rows[0].get("k"),
            "engine": "vllm",
            "engine_version": version,
            "log_interval_s": (source.found.get("log") or source.found).get("log_interval_s"),
            "start": rows[0].get("start"),
            "end": rows[0].get("end"),
        },
        counters={
            **{name: value for name, value in rows[0].items() if name not in {"source", "engine"}},
            "engine_version": version,
        },
        k=positions_of(rows[0]),
        batches=source.batches,
        checks=check_counts(rows[0]),
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
