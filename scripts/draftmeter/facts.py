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
    archive: bool
    """Whether it is made of stored files, and measured nothing itself."""
    scale: float | None
    """Multiplies the size of every run; null for an archive, which has none."""
    confidence: float
    """Level of every interval, between 0 and 1."""
    z_limit: float
    """Standard errors by which a measured figure may differ from the exact one."""
    authors: list[str]


class SetupRow(Strict):
    """One server. A property that differs between its records holds every value found, separated by semicolons; null: unknown."""

    server: str
    model: str | None
    model_revision: str | None
    precision: str | None
    method: str | None
    """"none" for a server without speculation."""
    k: int | None
    """Draft tokens per step; 0 for a server without speculation."""
    engine_version: str | None
    attention_backend: str | None
    log_interval_s: float | None
    corrections: list[str] | None
    starts: int | None
    """Starts of the server that left a record: a boot that was interrupted is finished by another start."""
    attempts: list[str]
    """Boots that took more than one attempt, each with the attempts whose records are used."""
    processor: str | None
    """CPU or GPU: what the server computed on."""
    hardware: str | None
    driver: str | None
    git_commit: str | None
    source: str | None
    """The file or folder that all this was read from, where no record of a study describes the server; it says no more."""


class Table1Row(Strict):
    """One row of Table 1; its figures are the facts of the subject `workload`."""

    model_config = ConfigDict(extra="allow")

    workload: str
    label: str
    role: Literal["production", "controlled"]
    counted_by: Literal["counters", "lines"]
    """What its totals are: differences of the server's counters, or sums of its log lines where there are no counters."""


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


class Claim(Strict):
    """One claim of the published study, judged: it holds with the interval inside its region, and fails with it outside.

    Where several figures decide, `value`, `low`, `high` and `unit` are those of the fact `decisive`: the first one that
    fails, or else cannot tell, or else lies nearest to the end of its region.
    """

    name: str
    statement: str
    outcome: Literal["holds", "fails", "cannot tell"]
    facts: list[str]
    """Keys of the facts that were looked at; those that `cannot tell` for want of a fact name it all the same."""
    decisive: str | None
    """Key of one of them; null where none has a value."""
    value: float | None
    low: float | None
    high: float | None
    unit: str
    region: str
    """In words, with whose margin it is."""
    reason: str
    """How the outcome follows, in a sentence part that can stand after the outcome."""


class Comparison(Strict):
    """The published value of a figure, beside the fact `key` of this study."""

    key: str
    published: float
    """In the unit of the fact."""
    printed: str
    """As it was printed: its digits say how well it is known."""
    note: str
    """What makes the two not quite the same thing; empty where nothing does."""
