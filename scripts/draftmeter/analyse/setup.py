"""The setup of each server as its own records describe it, or as far as stored files tell; and in
what servers differ."""

import json
from collections.abc import Iterable, Iterator
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import pandas as pd

from draftmeter.analyse.facts import AnalysisError
from draftmeter.analyse.tables import Tables, known, numbers
from draftmeter.facts import ServerDifference, SetupRow

K_KEY = "num_speculative_tokens"
# What decides a measurement besides speculation, in words, and its columns of the table runs.
DECISIVE = {
    "the model": ["model"],
    "the model revision": ["model_revision"],
    "the tokenizer": ["tokenizer_revision"],
    "the precision": ["precision"],
    "the sampling": ["sampling"],
    "the engine": ["engine", "engine_version"],
    "the active corrections": ["corrections"],
    "the hardware": ["hardware"],
}
# Arguments that belong to speculation itself, or say only where a server was.
OWN_ARGUMENTS = {"speculative-config", "per-request-spec-decode-metrics", "port"}
# A folder that each boot gets for itself.
PER_BOOT_VARIABLES = {"TMPDIR"}


class Difference(NamedTuple):
    """What differs between the servers of two groups of runs: its name in words, and what each has."""

    key: str
    one: str
    other: str


def setup_rows(tables: Tables) -> list[SetupRow]:
    """One row a server, sorted by name.

    Servers that no record describes are described by what their files tell.
    """
    servers = sorted(set(tables.counters["server"].astype(str)))
    described = dict(list(tables.described.groupby("server")))
    return [_row(one, described[one]) if one in described else _row_of_files(one, tables) for one in servers]


def differences(one: pd.DataFrame, other: pd.DataFrame) -> Iterator[Difference]:
    """In what the servers and requests of two groups of described runs differ, speculation left out.

    `one` and `other` are rows of the table runs.
    """
    for key, columns in DECISIVE.items():
        yield from _different(key, *("; ".join(sorted(set(side[columns].agg(" ".join, axis=1)))) for side in (one, other)))
    for kind, settings_of in (("argument", _arguments), ("variable", _variables)):
        settings = [settings_of(side) for side in (one, other)]
        for name in sorted(settings[0].keys() | settings[1].keys()):
            yield from _different(f"the server's {kind} {name}", *(side.get(name, "not given") for side in settings))


def server_differences(tables: Tables) -> list[ServerDifference]:
    """In what each two servers differ that ran some of the same workloads, speculation first."""
    found = []
    for one, other in combinations(sorted(set(tables.described["server"].astype(str))), 2):
        sides = [tables.described[tables.described["server"] == server] for server in (one, other)]
        shared = set(sides[0]["workload"]) & set(sides[1]["workload"])
        if shared:
            sides = [side[side["workload"].isin(shared)] for side in sides]
            speculation = (_text(side["speculative"].fillna("none")) for side in sides)
            found += [
                ServerDifference(one=one, other=other, key=key, of_one=of_one, of_other=of_other)
                for key, of_one, of_other in [*_different("speculation", *speculation), *differences(*sides)]
            ]
    return found


def _different(key: str, one: str, other: str) -> Iterator[Difference]:
    if one != other:
        yield Difference(key, one, other)


def _arguments(runs: pd.DataFrame) -> dict[str, str]:
    """The arguments of the runs' servers by name; one that differs between them holds every value."""
    found: dict[str, set[str]] = {}
    for text in runs["server_arguments"]:
        for name, value in pairwise([*json.loads(text), "--"]):
            if name.startswith("--") and name.removeprefix("--") not in OWN_ARGUMENTS:
                found.setdefault(name.removeprefix("--"), set()).add("set" if value.startswith("--") else value)
    return {name: " or ".join(sorted(values)) for name, values in found.items()}


def _variables(runs: pd.DataFrame) -> dict[str, str]:
    """The same of the variables that were set for the servers."""
    found: dict[str, set[str]] = {}
    for text in runs["server_environment"]:
        for name, value in json.loads(text).items():
            if name not in PER_BOOT_VARIABLES:
                found.setdefault(name, set()).add(value)
    return {name: " or ".join(sorted(values)) for name, values in found.items()}


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
