"""The setup of each server as its own records describe it, or as far as stored files tell."""

import json
from collections.abc import Iterable
from typing import Any

import pandas as pd

from draftmeter.analyse.facts import AnalysisError
from draftmeter.analyse.tables import Tables, known, numbers
from draftmeter.facts import SetupRow

K_KEY = "num_speculative_tokens"


def setup_rows(tables: Tables) -> list[SetupRow]:
    """One row a server, sorted by name.

    Servers that no record describes are described by what their files tell.
    """
    servers = sorted(set(tables.counters["server"].astype(str)))
    described = dict(list(tables.described.groupby("server")))
    return [_row(one, described[one]) if one in described else _row_of_files(one, tables) for one in servers]


def _row_of_files(server: str, tables: Tables) -> SetupRow:
    counters = tables.counters[tables.counters["server"] == server]
    lines = tables.intervals[(tables.intervals["server"] == server) & (tables.intervals["wording"] != "counters")]
    windows, lengths = (sorted(set(known(column))) for column in (numbers(lines, "window_s"), numbers(counters, "k")))
    restarts = numbers(counters, "restarts")
    return SetupRow(
        server=server,
        model=_text(counters["model"].dropna()) or None,
        model_revision=None,
        precision=None,
        method=None,
        k=int(lengths[0]) if len(lengths) == 1 else None,
        engine_version=_text(f"vllm {version}" for version in counters["engine_version"].dropna()) or None,
        attention_backend=None,
        log_interval_s=float(windows[0]) if len(windows) == 1 else None,
        corrections=None,
        starts=None if len(known(restarts)) == 0 else 1 + int(known(restarts).sum()),
        attempts=[],
        processor=None,
        hardware=None,
        driver=None,
        git_commit=None,
        source=_text(counters["source"]),
    )


def _row(server: str, runs: pd.DataFrame) -> SetupRow:
    return SetupRow(
        server=server,
        model=_text(runs["model"]),
        model_revision=_text(runs["model_revision"]),
        precision=_text(runs["precision"]),
        method=_text(runs["method"]),
        k=int(_one(server, K_KEY, runs["k"])),
        engine_version=_text(runs["engine"] + " " + runs["engine_version"]),
        attention_backend=_text(runs["attention_backend"]) or None,
        log_interval_s=float(_one(server, "log_interval_s", runs["log_interval_s"])),
        corrections=sorted({correction for text in runs["corrections"] for correction in json.loads(text)}),
        starts=len(runs[["boot", "attempt"]].drop_duplicates()),
        attempts=_attempts(runs),
        processor=_text("GPU" if json.loads(gpus) else "CPU" for gpus in runs["gpus"]),
        hardware=_text(runs["hardware"]),
        driver=_text(runs["driver"]) or None,
        git_commit=_text(map(_commit, runs["git_commit"], runs["git_dirty"])) or None,
        source=None,
    )


def _attempts(runs: pd.DataFrame) -> list[str]:
    """Boots that took more than one attempt, each with the attempts whose records are used."""
    found = []
    for (_, boot), attempts in runs.groupby(["replicate", "boot"], sort=True)["attempt"]:
        used = sorted({int(attempt) for attempt in attempts})
        if used != [1]:
            found.append(f"{boot} (attempt{'s' if len(used) > 1 else ''} {' and '.join(map(str, used))})")
    return found


def _one(server: str, key: str, values: Iterable[Any]) -> Any:
    found = sorted({None if pd.isna(value) else value for value in values}, key=str)
    if len(found) != 1 or found[0] is None:
        raise AnalysisError(f"records of server {server}: found {key} {found}; all records of a server must say the same")
    return found[0]


def _text(values: Iterable[Any]) -> str:
    return "; ".join(sorted({str(value) for value in values if not pd.isna(value)}))


def _commit(commit: Any, dirty: Any) -> Any:
    return f"{commit} (with uncommitted changes)" if not pd.isna(dirty) and dirty else commit
