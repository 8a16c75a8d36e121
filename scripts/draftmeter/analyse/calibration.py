"""Exact acceptance of the known-answer model beside what was measured, in standard errors.

For a set of requests the exact share through k is sum E[accepted_k] / sum E[drafts]: expectations and covariances are known
for each request from its category, sampling settings and reply limit. The standard error is exact too: requests are
independent, so that the variance of sum(accepted_k - share * drafts) is the sum of each request's own.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ConfigDict, ValidationError

from draftmeter.analyse.facts import AnalysisError, rounded
from draftmeter.analyse.tables import Tables, by_position, numbers, run_labels
from draftmeter.facts import CalibrationRow
from draftmeter.strict import Strict
from draftmeter.study.archive import Archive, StoredWorkload
from draftmeter.study.schema import Sampling, Study, Workload

FloatArray = NDArray[np.float64]

# Below this many drafts a share is not near enough to normal for its z value to be read as one.
FEWEST_DRAFTS = 100
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
    emitted_tokens: float
    covariance: list[list[float]]
    """Of (drafts, accepted through 1..K, tokens emitted after the first)."""

    def mean(self) -> list[float]:
        """In the order of `covariance`."""
        return [self.drafts, *self.accepted, self.emitted_tokens - 1]


@dataclass(frozen=True)
class KnownAnswer:
    """The settings of known_answer.json, looked up by everything that decides a request's acceptance."""

    path: str
    settings: dict[tuple[str, float, float, int, int], Setting]

    def of(self, category: str, sampling: Sampling, max_tokens: int, k: int) -> Setting:
        """The setting of a request; raise :class:`AnalysisError` where there is none, or of another K."""
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


def calibrate(study: Study | Archive, tables: Tables, known: KnownAnswer) -> list[CalibrationRow]:
    """One row for each run (each category of session traffic) and each position, for tokens per step, verified and emitted.

    Of runs of a known-answer model alone. The table runs says how their requests were sampled; what no record describes has
    no exact figures.
    """
    boots = tables.counters.groupby("server")["boot"].nunique().to_dict()
    rows: list[CalibrationRow] = []
    described = tables.described
    calibrating = described[described["of_known_answer"].astype(bool)].sort_values(["server", "boot", "run"], kind="stable")
    for label, run in zip(run_labels(calibrating), calibrating.to_dict("records"), strict=True):
        part = tables.of_runs(calibrating[run_labels(calibrating) == label])
        suffix = f", {run['boot']}" if boots[run["server"]] > 1 else ""
        for subject, requests in _subjects(study.workloads[run["workload"]], run["run"], part.requests):
            rows += _compare(
                _Subject(run["server"], run["run"], subject + suffix),
                requests,
                part.k,
                _sampling(label, run["sampling"]),
                known,
                study.analysis.z_limit,
            )
    return rows


def _sampling(label: str, text: str) -> Sampling:
    try:
        return Sampling.model_validate(json.loads(text))
    except ValidationError as error:
        raise AnalysisError(f"table runs, {label}, sampling: {error}") from error


@dataclass(frozen=True)
class _Subject:
    server: str
    run: str
    subject: str


def _subjects(workload: Workload | StoredWorkload, run: str, requests: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    if workload.clusters == "prompts":
        yield run, requests
        return
    planned = workload.categories if isinstance(workload, Workload) else []
    for category in sorted({*planned, *requests["category"].astype(str)}):
        yield f"{run}: {category}", requests[requests["category"] == category]


def _compare(
    subject: _Subject, requests: pd.DataFrame, k: int, sampling: Sampling, known: KnownAnswer, z_limit: float
) -> list[CalibrationRow]:
    quantities = _quantities(k)
    n = len(requests)
    if n == 0:
        return [_row(subject, name, None, 0, None, "no request") for name in quantities]
    limits = numbers(requests, "max_tokens")
    settings = [
        known.of(str(category), sampling, int(limit), k) for category, limit in zip(requests["category"], limits, strict=True)
    ]
    expected = np.array([setting.mean() for setting in settings]).sum(axis=0)
    if expected[0] == 0:
        return [_row(subject, name, None, n, None, "no draft is expected") for name in quantities]
    covariance = np.array([setting.covariance for setting in settings]).sum(axis=0)
    counts = np.column_stack([numbers(requests, "drafts"), by_position(requests, k), numbers(requests, "reply_tokens") - 1])
    errors = requests["error"].notna().to_numpy(dtype=bool)
    failed, lacking = int(errors.sum()), int((~errors & ~np.isfinite(counts).all(axis=1)).sum())
    if failed or lacking:
        reason = f"{failed} requests ended in an error, {lacking} more carry no acceptance"
        return [
            _row(subject, name, None, n, offset + weights @ expected / expected[0], reason)
            for name, (weights, offset) in quantities.items()
        ]
    compared = _Compared(counts.sum(axis=0), expected, covariance, n)
    return [_measured_row(subject, name, compared, *terms, z_limit) for name, terms in quantities.items()]


def _quantities(k: int) -> dict[str, tuple[FloatArray, float]]:
    """By name: weights w and offset o of the ratio o + w.counts / drafts, counts as in a setting's mean."""
    position = np.eye(k + 2)
    quantities = {f"share through {number}": (position[number], 0.0) for number in range(1, k + 1)}
    quantities["tokens per step"] = (position[1 : k + 1].sum(axis=0), 1.0)
    quantities["emitted tokens per step"] = (position[k + 1], 0.0)
    return quantities


@dataclass(frozen=True)
class _Compared:
    """Sums over the requests of a subject: counts as measured and as expected (K+2,), their covariance (K+2, K+2)."""

    counts: FloatArray
    expected: FloatArray
    covariance: FloatArray
    requests: int


def _measured_row(
    subject: _Subject, quantity: str, compared: _Compared, weights: FloatArray, offset: float, z_limit: float
) -> CalibrationRow:
    drafts, n = float(compared.counts[0]), compared.requests
    share = float(weights @ compared.expected / compared.expected[0])
    if drafts < FEWEST_DRAFTS:
        reason = f"{drafts:g} drafts; a comparison needs at least {FEWEST_DRAFTS}"
        measured = offset + float(weights @ compared.counts) / drafts if drafts else None
        return _row(subject, quantity, int(drafts), n, offset + share, reason, measured)
    measured = float(weights @ compared.counts) / drafts
    difference = weights - share * np.eye(len(weights))[0]
    error = float(np.sqrt(difference @ compared.covariance @ difference)) / drafts
    if error == 0:
        return _row(subject, quantity, int(drafts), n, offset + share, "the model leaves nothing to chance", offset + measured)
    z = (measured - share) / error
    return CalibrationRow(
        server=subject.server,
        run=subject.run,
        subject=subject.subject,
        quantity=quantity,
        drafts=int(drafts),
        requests=n,
        exact=rounded(offset + share),
        measured=rounded(offset + measured),
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
