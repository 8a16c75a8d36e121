"""The tables of the collect step as this room reads them: complete, of one attempt a run, with one K a workload."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from draftmeter.analyse.facts import AnalysisError
from draftmeter.strict import write_atomically

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

RUN_KEYS = ["server", "boot", "attempt", "run"]
RUNS = [
    *RUN_KEYS,
    "workload",
    "streams",
    "source",
    "study_kind",
    "replicate",
    "of_known_answer",
    "sampling",
    "model",
    "model_revision",
]
RUNS += ["precision", "method", "k", "engine", "engine_version", "attention_backend", "corrections", "log_interval_s"]
RUNS += ["hardware", "gpus", "driver", "git_commit", "git_dirty"]
COUNTERS = ["source", *RUN_KEYS, "workload", "streams", "model", "engine_version", "counted_by", "k", "drafts"]
COUNTERS += ["draft_tokens", "accepted", "generation_tokens", "prompt_tokens", "requests_finished", "restarts", "reasoning"]
COUNTERS += ["seconds"]
INTERVALS = [*RUN_KEYS, "workload", "offset", "process", "engine", "start", "end", "window_s", "k", "drafts", "drafts_exact"]
INTERVALS += ["drafted", "accepted", "accepted_k_exact", "running", "wording"]
REQUESTS = [
    *RUN_KEYS,
    "workload",
    "request_id",
    "session_id",
    "prompt_sha256",
    "category",
    "max_tokens",
    "t_sent",
    "t_first",
    "paused_s",
]
REQUESTS += ["t_last", "prompt_tokens", "cached_tokens", "reply_tokens", "reply_token_sha256", "score", "drafts", "draft_tokens"]
REQUESTS += ["accepted_tokens", "error"]
CHECKS = [*RUN_KEYS, "check", "expected", "found", "residual", "unit", "tolerance", "status", "reason"]


@dataclass(frozen=True)
class Measured:
    """What facts are of: a workload, or where several servers with speculation ran it, each of them."""

    workload: str
    server: str | None = None
    """None where no second server ran the workload."""

    @property
    def name(self) -> str:
        """The name of the subject of its facts."""
        return self.workload if self.server is None else f"{self.workload}.on_{self.server}"


@dataclass(frozen=True)
class Tables:
    """The five tables; each row says its server, boot, attempt and run."""

    counters: pd.DataFrame
    intervals: pd.DataFrame
    requests: pd.DataFrame
    checks: pd.DataFrame
    runs: pd.DataFrame

    def measured(self, workload: str) -> list[Measured]:
        """What of the workload has facts of its own: nothing is pooled over servers that a study tells apart.

        Files that were stored each count as a server of their own, and are one workload all the same.
        """
        rows = self.counters[(self.counters["workload"] == workload) & self.drafting]
        described = set(self.described["server"].astype(str))
        servers = sorted(set(rows["server"].astype(str)) & described)
        return [Measured(workload, server) for server in servers] if len(servers) > 1 else [Measured(workload)]

    def of(self, measured: Measured) -> "Tables":
        """The rows of what was measured, runs without speculation left out."""
        found = self.of_workload(measured.workload)
        if measured.server is None:
            return found
        return found.of_runs(found.counters[found.counters["server"] == measured.server])

    def of_workload(self, workload: str) -> "Tables":
        """The rows of one workload, but for its runs without speculation; the checks, which name no workload, stay whole."""
        chosen = self._all_of(workload)
        drafting = chosen.drafting
        return chosen if drafting.all() else chosen.of_runs(chosen.counters[drafting])

    def without_speculation(self, workload: str) -> "Tables":
        """The rows of a workload's runs without speculation."""
        chosen = self._all_of(workload)
        return chosen.of_runs(chosen.counters[~chosen.drafting])

    def _all_of(self, workload: str) -> "Tables":
        return Tables(
            counters=self.counters[self.counters["workload"] == workload],
            intervals=self.intervals[self.intervals["workload"] == workload],
            requests=self.requests[self.requests["workload"] == workload],
            checks=self.checks,
            runs=self.runs[self.runs["workload"] == workload],
        )

    @property
    def drafting(self) -> BoolArray:
        """Which rows of the counters are of runs that may make drafts: all but those whose K is known to be 0, shape (n,)."""
        return np.asarray(numbers(self.counters, "k") != 0, dtype=np.bool_)

    def of_runs(self, runs: pd.DataFrame) -> "Tables":
        """The rows of the records in `runs` (columns server, boot, attempt, run)."""
        keep = set(run_labels(runs))
        return Tables(*(table[run_labels(table).isin(keep)] for table in self.all()))

    def all(self) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame]:
        """Counters, intervals, requests, checks, runs."""
        return self.counters, self.intervals, self.requests, self.checks, self.runs

    @property
    def described(self) -> pd.DataFrame:
        """The rows of the runs that a study's record describes; of stored files less is known."""
        return self.runs[self.runs["study_kind"].notna()]

    @property
    def ks(self) -> set[int]:
        """Every number of draft tokens per draft that a row says."""
        return {int(value) for table in (self.counters, self.intervals) for value in known(numbers(table, "k"))}

    @property
    def counted_by(self) -> Literal["counters", "lines"]:
        """What gives the totals: counters where there are any, for the lines of a log may be of the same traffic."""
        return "counters" if (self.counters["counted_by"] == "counters").any() else "lines"

    @property
    def totals(self) -> pd.DataFrame:
        """The rows of the counters that make up the totals."""
        return self.counters[self.counters["counted_by"] == self.counted_by]

    @property
    def streams(self) -> list[int]:
        """The numbers of streams that runs had, ascending; session traffic has none."""
        streams = numbers(self.counters, "streams")
        return sorted({int(value) for value in streams if np.isfinite(value)})

    @property
    def k(self) -> int:
        """Draft tokens per draft, 0 where nothing says how many; an error where the records do not agree."""
        found = sorted(self.ks)
        if len(found) > 1:
            names = sorted(set(self.counters["workload"]))
            raise AnalysisError(
                f"workload {', '.join(names)}: found records with K = {found}; acceptance is pooled over one K only"
            )
        return found[0] if found else 0


def read_tables(counters: Path, intervals: Path, requests: Path, checks: Path, runs: Path) -> Tables:
    """Read and check the tables; raise :class:`AnalysisError` with the file and what is wrong with it."""
    tables = Tables(*(_read(path) for path in (counters, intervals, requests, checks, runs)))
    check_tables(tables)
    return tables


def read_checks(path: Path) -> pd.DataFrame:
    """Read the table checks alone; raise :class:`AnalysisError` with the file and what is wrong with it."""
    table = _read(path)
    _require(table, "checks", CHECKS)
    return table


def check_tables(tables: Tables) -> None:
    """Raise :class:`AnalysisError` for a missing column, a run of two attempts, or rows of a run without counters."""
    _require(tables.counters, "counters", COUNTERS)
    if tables.counters.empty:
        raise AnalysisError("table counters: found no row; the analysis needs at least one record")
    _require(tables.intervals, "intervals", INTERVALS)
    k = max(tables.ks, default=0)
    by_position = position_columns(k)
    _require(tables.counters, "counters", by_position, f" (K = {k})")
    _require(tables.intervals, "intervals", by_position, f" (K = {k})")
    _require(tables.requests, "requests", REQUESTS)
    _require(tables.requests, "requests", by_position, f" (K = {k})")
    _require(tables.checks, "checks", CHECKS)
    _require(tables.runs, "runs", RUNS)
    for (server, boot, run), rows in tables.counters.groupby(["server", "boot", "run"], sort=True):
        if len(rows) > 1:
            raise AnalysisError(
                f"table counters: run {run} of {server}/{boot} has {len(rows)} rows (attempts "
                f"{sorted(int(a) for a in rows['attempt'])}); a run counts once, from the attempt that boot.json names"
            )
    counted = set(run_labels(tables.counters))
    for name, table in zip(("intervals", "requests", "checks", "runs"), tables.all()[1:], strict=True):
        strangers = sorted(set(run_labels(table)) - counted)
        if strangers:
            raise AnalysisError(f"table {name}: found rows of {strangers[0]}, for which the table counters has no row")
    if missing := sorted(counted - set(run_labels(tables.runs))):
        raise AnalysisError(f"table runs: found no row of {missing[0]}, for which the table counters has one")


def run_labels(table: pd.DataFrame) -> "pd.Series[str]":
    """One text for each row that names its record: server/boot/attempt-n/run."""
    columns = (table[key].tolist() for key in RUN_KEYS)
    labels = [f"{server}/{boot}/attempt-{attempt}/{run}" for server, boot, attempt, run in zip(*columns, strict=True)]
    return pd.Series(labels, index=table.index, dtype=str)


def position_columns(k: int) -> list[str]:
    """accepted_1 ... accepted_K."""
    return [f"accepted_{position}" for position in range(1, k + 1)]


def numbers(table: pd.DataFrame, column: str) -> FloatArray:
    """A column as floats, shape (n,); a null is nan."""
    try:
        values = pd.to_numeric(table[column])
    except (TypeError, ValueError) as error:
        raise AnalysisError(f"column {column}: found a value that is not a number: {error}") from error
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def known(values: FloatArray) -> FloatArray:
    """The values that are not null."""
    found: FloatArray = values[~np.isnan(values)]
    return found


def by_position(table: pd.DataFrame, k: int) -> FloatArray:
    """accepted_1..accepted_K as floats, shape (n, K)."""
    at = np.empty((len(table), k))
    for position, column in enumerate(position_columns(k)):
        at[:, position] = numbers(table, column)
    return at


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows with exactly these columns; None becomes an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue())


def _read(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise AnalysisError(f"{path}: cannot be read as a parquet table: {error}; it is made by the collect step") from error


def _require(table: pd.DataFrame, name: str, columns: list[str], note: str = "") -> None:
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise AnalysisError(
            f"table {name}: column(s) {', '.join(missing)} missing{note}; found {', '.join(map(str, table.columns))}; "
            "the collect step writes them"
        )
