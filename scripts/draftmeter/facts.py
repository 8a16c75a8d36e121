"""The parts of facts.json: analyse writes it, render reads it, and both mean the same by its keys."""

from typing import Literal

from pydantic import ConfigDict

from draftmeter.strict import Strict

# Subjects of facts: the intervals of the production workload, and the same prompts with reasoning
# and without.
PRODUCTION_INTERVALS = "production_intervals"
REASONING = "pair"


def split_key(key: str) -> tuple[str, str]:
    """Subject and quantity of a fact: its key is `<subject>.<quantity>`; no quantity holds a dot."""
    subject, _, quantity = key.rpartition(".")
    return subject, quantity


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


class ServerDifference(Strict):
    """One key in which two servers differ that ran some of the same workloads, with what each has."""

    one: str
    other: str
    key: str
    of_one: str
    of_other: str


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


Side = Literal["above", "below", "cannot tell", "unknown"]
"""On which side of a limit a whole confidence interval lies; `unknown` where there is no value."""
Place = Literal["inside", "outside", "cannot tell", "unknown"]
"""Where a whole confidence interval lies, seen from a region; `unknown` where there is no value."""


class Margins(Strict):
    """The margins, draftmeter's own, by which findings are decided."""

    p: float
    """A p value below it speaks against equal chances: what the level of the study's intervals
    leaves to chance."""
    formula: float
    """Relative error up to which the formula counts as close."""
    memory: float
    """A correlation below it counts as gone."""


class Findings(Strict):
    """What the facts allow to be said, each decided by where the confidence interval of one fact
    lies."""

    variation: Side
    """The variance ratio of the production intervals against 1, the luck of drafts."""
    memory: Literal["forgets", "stays", "fades", "none seen", "cannot tell", "unknown"]
    """Correlation at the shortest and the longest lag; `fades` where the longest may be gone or
    not."""
    load: Side
    """The slope of acceptance over running requests against 0."""
    idle: Side
    """Acceptance at no running request less that at some, against 0."""
    positions: Side
    """The slope of the chance along the draft against 0; `unknown` also for drafts of one token."""
    positions_in_fifths: list[Side]
    """The same in each fifth of the production intervals, the lowest first; empty where there are
    none."""
    equal_chances: Literal["rejected", "not rejected", "unknown"]
    """By the p value of the test that the chance is the same at all positions."""
    formula: Place
    """The error of the formula fed with the first-position rate, seen from the margin around 0."""
    formula_checked: Place
    formula_accepted_over_drafted: Place
    reasoning: Side | None
    """Acceptance with reasoning less without, against 0; null where no prompts were sent with
    both."""
    streams: dict[str, Side]
    """By workload that ran at several numbers of streams: the slope of its acceptance over them
    against 0."""
    speedups: dict[str, Side]
    """By subject that ran with speculation and without: its speed-up against 1."""
    margins: Margins


class Subject(Strict):
    """What facts are of; its name is the part of their keys before the last dot."""

    kind: Literal["workload", "streams", "undisturbed", "reasoning", "intervals", "threshold", "fifth"]
    """A workload, and of it the runs at one number of streams, or those that no other client
    disturbed; workloads on the same prompts; intervals, and of them those with more or fewer
    drafts, or a fifth of them by acceptance."""
    part_of: str | None
    """The subject that it is a part of; null for a whole."""
    number: float | None
    """Of a part: its streams, the fewest drafts of its intervals, or which fifth, 1 the lowest. Of
    intervals that were joined to longer ones: their length in seconds."""
    k: int
    """Positions whose shares it has facts of; 0 where they are not known, or none of its quantities
    is a share."""


class Lag(Strict):
    """One lag of the autocorrelation of the production intervals."""

    seconds: float
    quantity: str


class RunningMean(Strict):
    """The mean acceptance of the production intervals at whose end so many requests were
    running."""

    requests: int
    or_more: bool
    quantity: str


class Structure(Strict):
    """What there are facts of, in order, so that nobody has to read it out of their keys."""

    subjects: dict[str, Subject]
    """By name; a whole stands before its parts."""
    lags: list[Lag]
    """From the shortest to the longest."""
    running: list[RunningMean]
    """From none running to the most."""

    def parts(self, whole: str, kind: str) -> list[str]:
        """Names of the parts of this kind that the subject `whole` has, in order."""
        return [name for name, subject in self.subjects.items() if subject.part_of == whole and subject.kind == kind]
