"""The parts of facts.json: analyse writes it, render reads it, and both mean the same by its keys."""

from typing import Literal

from pydantic import ConfigDict

from draftmeter.strict import Strict


class Fact(Strict):
    """A figure; where the value or its interval is null, `unknown` says why. Counts and extremes have no interval."""

    value: float | None
    low: float | None
    high: float | None
    method: str
    n: int
    n_unit: str
    unit: str
    definition: str
    unknown: str | None


class StudyFacts(Strict):
    """Which study the facts are of."""

    name: str
    title: str
    kind: Literal["known_answer", "served_model"]
    seed: int
    scale: float
    z_limit: float
    """Standard errors by which a measured figure may differ from the exact one."""
    authors: list[str]


class SetupRow(Strict):
    """One server. A property that differs between its records holds every value found, separated by semicolons."""

    server: str
    model: str
    model_revision: str
    precision: str
    method: str
    k: int
    engine_version: str
    attention_backend: str | None
    log_interval_s: float
    corrections: list[str]
    starts: int
    """Starts of the server that left a record: a boot that was interrupted is finished by another start."""
    attempts: list[str]
    """Boots that took more than one attempt, each with the attempts whose records are used."""
    hardware: str
    driver: str | None
    git_commit: str | None


class Table1Row(Strict):
    """One row of Table 1; its figures are the facts of the subject `workload`."""

    model_config = ConfigDict(extra="allow")

    workload: str
    label: str
    role: Literal["production", "controlled"]


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


class CheckSummary(Strict):
    """How often one cross-check held over all records, and the largest residual without its sign."""

    ok: int
    failed: int
    unknown: int
    max_abs_residual: float | None
    unit: str
