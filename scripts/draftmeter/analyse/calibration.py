"""Exact acceptance of the known-answer model beside what was measured, in standard errors.

The difference over its standard error is read as Student's t with one degree of freedom fewer than there are requests,
and given as the normal deviate of equal probability: z means the same for 16 requests and for 256.

The exact share through k of a set of requests is sum E[accepted_k] / sum E[drafts]; expectations are known for each
request from its category, sampling settings and reply limit.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ConfigDict, ValidationError

from draftmeter.analyse.facts import AnalysisError, rounded
from draftmeter.analyse.tables import Tables, by_position, numbers
from draftmeter.stats.uncertainty import normal_deviate, standard_error
from draftmeter.strict import Strict
from draftmeter.study import Study, Workload

FloatArray = NDArray[np.float64]

# Below this many clusters the standard error is too rough for a z value.
FEWEST_REQUESTS = 8
COLUMNS = ["server", "run", "subject", "quantity", "drafts", "requests", "exact", "measured", "standard_error", "z"]
COLUMNS += ["status", "reason"]


class Setting(Strict):
    """Expected counts of one request of a setting; further keys of known_answer.json are not used here."""

    model_config = ConfigDict(extra="ignore")

    category: str
    temperature: float
    top_p: float
    top_k: int
    max_tokens: int
    drafts: float
    accepted: list[float]


class CalibrationRow(Strict):
    """One comparison; where it could not be made, `status` is unknown and `reason` says why."""

    server: str
    run: str
    subject: str
    quantity: str
    drafts: int | None
    requests: int
    exact: float | None
    measured: float | None
    standard_error: float | None
    z: float | None
    status: Literal["ok", "failed", "unknown"]
    reason: str


@dataclass(frozen=True)
class KnownAnswer:
    """The settings of known_answer.json, looked up by everything that decides a request's acceptance."""

    path: str
    settings: dict[tuple[str, float, float, int, int], Setting]

    def of(self, category: str, workload: Workload, max_tokens: int, k: int) -> Setting:
        """The setting of a request; raise :class:`AnalysisError` where there is none, or of another K."""
        sampling = workload.sampling
        key = (category, sampling.temperature, sampling.top_p, sampling.top_k, max_tokens)
        truncation = f"temperature {key[1]:g}, top_p {key[2]:g}, top_k {key[3]}"
        wanted = f"category {category}, {truncation}, max_tokens {max_tokens}"
        if key not in self.settings:
            raise AnalysisError(f"{self.path}: no entry for {wanted}; rerun the rule that writes the known-answer model")
        setting = self.settings[key]
        if len(setting.accepted) != k:
            raise AnalysisError(f"{self.path}: {wanted} has {len(setting.accepted)} positions; the records have K = {k}")
        return setting


def read_known_answer(path: Path) -> KnownAnswer:
    """Read known_answer.json; raise :class:`AnalysisError` with the file's name when it is malformed."""
    try:
        content = json.loads(path.read_text())
        settings = [Setting.model_validate(entry) for entry in content["settings"]]
    except (OSError, KeyError, TypeError, ValidationError, ValueError) as error:
        raise AnalysisError(f"{path}: not a known_answer.json: {error}") from error
    return KnownAnswer(
        path=str(path),
        settings={(one.category, one.temperature, one.top_p, one.top_k, one.max_tokens): one for one in settings},
    )


def calibrate(study: Study, tables: Tables, known: KnownAnswer) -> list[CalibrationRow]:
    """One row for each run (each category of session traffic), position, and tokens per step."""
    rows: list[CalibrationRow] = []
    for (server, boot, run), counters in tables.counters.groupby(["server", "boot", "run"], sort=True):
        name = _workload_name(study, str(counters["workload"].iloc[0]))
        if server not in study.servers:
            raise AnalysisError(f"table counters: server {server!r} is not in the config; it has {sorted(study.servers)}")
        suffix = f", {boot}" if study.servers[str(server)].boots > 1 else ""
        part = tables.of_runs(counters)
        for subject, requests in _subjects(study.workloads[name], str(run), part.requests):
            rows += _compare(
                _Subject(str(server), str(run), subject + suffix),
                requests,
                part.k,
                study.workloads[name],
                known,
                study.analysis.z_limit,
            )
    return rows


@dataclass(frozen=True)
class _Subject:
    server: str
    run: str
    subject: str


def _workload_name(study: Study, name: str) -> str:
    if name not in study.workloads:
        raise AnalysisError(f"table counters: workload {name!r} is not in the config; it has {sorted(study.workloads)}")
    return name


def _subjects(workload: Workload, run: str, requests: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    if workload.sessions is None:
        yield run, requests
        return
    for category in sorted(set(workload.categories) | set(requests["category"].astype(str))):
        yield f"{run}: {category}", requests[requests["category"] == category]


def _compare(
    subject: _Subject, requests: pd.DataFrame, k: int, workload: Workload, known: KnownAnswer, z_limit: float
) -> list[CalibrationRow]:
    quantities = [*(f"share through {position}" for position in range(1, k + 1)), "tokens per step"]
    n = len(requests)
    if n == 0:
        return [_row(subject, quantity, None, 0, None, "no request") for quantity in quantities]
    expected_drafts, expected_at = _expected(requests, k, workload, known)
    if expected_drafts.sum() == 0:
        return [_row(subject, quantity, None, n, None, "no draft is expected") for quantity in quantities]
    exact = expected_at.sum(axis=0) / expected_drafts.sum()
    drafts, accepted_at = numbers(requests, "drafts"), by_position(requests, k)
    errors = requests["error"].notna().to_numpy(dtype=bool)
    known_counts = np.isfinite(np.column_stack([drafts, accepted_at])).all(axis=1)
    failed, lacking = int(errors.sum()), int((~errors & ~known_counts).sum())
    if failed or lacking:
        reason = f"{failed} requests ended in an error, {lacking} more carry no acceptance"
        return [
            _row(subject, quantity, None, n, value, reason)
            for quantity, value in zip(quantities, [*exact, 1 + exact.sum()], strict=True)
        ]
    # Columns: shares through 1..K, then their sum, which is tokens per step less the step's own token.
    y, expected_y = (np.column_stack([at, at.sum(axis=1)]) for at in (accepted_at, expected_at))
    rows = []
    for index, quantity in enumerate(quantities):
        column = _Column(y[:, index], drafts, expected_y[:, index], expected_drafts)
        rows.append(_measured_row(subject, quantity, column, float(index == k), z_limit))
    return rows


def _expected(requests: pd.DataFrame, k: int, workload: Workload, known: KnownAnswer) -> tuple[FloatArray, FloatArray]:
    """Expected drafts (n,) and accepted by position (n, K) of each request."""
    limits = numbers(requests, "max_tokens")
    settings = [
        known.of(str(category), workload, int(limit), k) for category, limit in zip(requests["category"], limits, strict=True)
    ]
    return np.array([one.drafts for one in settings]), np.array([one.accepted for one in settings])


@dataclass(frozen=True)
class _Column:
    """Numerator and denominator of one ratio by request, as measured and as expected; shapes (n,)."""

    y: FloatArray
    x: FloatArray
    expected_y: FloatArray
    expected_x: FloatArray

    def residuals(self) -> FloatArray:
        """What each request adds to the error of the ratio, about its own expectation, summing to zero.

        The mix of categories and limits is fixed by the seed and adds no chance to the result. Without the expectation
        the differences between categories would pass for noise and blunt the comparison; for requests of one
        setting the residuals are those of the plain ratio estimator.
        """
        ratio = self.y.sum() / self.x.sum()
        raw = (self.y - ratio * self.x) - (self.expected_y - ratio * self.expected_x)
        return np.asarray(raw - raw.mean(), dtype=np.float64)


def _measured_row(subject: _Subject, quantity: str, column: _Column, offset: float, z_limit: float) -> CalibrationRow:
    n, total = len(column.x), float(column.x.sum())
    exact = offset + float(column.expected_y.sum() / column.expected_x.sum())
    if total == 0:
        return _row(subject, quantity, 0, n, exact, "no draft was made")
    measured = offset + float(column.y.sum()) / total
    if n < FEWEST_REQUESTS:
        reason = f"{n} requests; a standard error by request needs at least {FEWEST_REQUESTS}"
        return _row(subject, quantity, int(total), n, exact, reason, measured)
    error = standard_error(column.residuals(), total)
    # Requests that are all alike leave residuals of rounding only, no measure of chance.
    if error < np.finfo(np.float64).eps * n:
        return _row(subject, quantity, int(total), n, exact, "the standard error is 0: requests are all alike", measured)
    z = normal_deviate((measured - exact) / error, len(column.residuals()) - 1)
    return CalibrationRow(
        server=subject.server,
        run=subject.run,
        subject=subject.subject,
        quantity=quantity,
        drafts=int(total),
        requests=n,
        exact=rounded(exact),
        measured=rounded(measured),
        standard_error=rounded(error),
        z=rounded(z),
        status="failed" if abs(z) > z_limit else "ok",
        reason=f"|z| is above {z_limit:g}" if abs(z) > z_limit else "",
    )


def _row(
    subject: _Subject, quantity: str, drafts: int | None, requests: int, exact: Any, reason: str, measured: Any = None
) -> CalibrationRow:
    return CalibrationRow(
        server=subject.server,
        run=subject.run,
        subject=subject.subject,
        quantity=quantity,
        drafts=drafts,
        requests=requests,
        exact=None if exact is None else rounded(float(exact)),
        measured=rounded(measured),
        standard_error=None,
        z=None,
        status="unknown",
        reason=reason,
    )
