"""What the note's template may use: every name, and all figures as facts.

What was found is decided in the analysis; here it is put into rows, lists and words.
"""

from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from markupsafe import Markup

from draftmeter.facts import (
    PRODUCTION_INTERVALS,
    CalibrationRow,
    Comparison,
    Fact,
    Findings,
    SetupRow,
    Side,
    Table1Row,
    split_key,
)
from draftmeter.render.facts import Facts, NamedFact
from draftmeter.render.printing import as_printed, duration, escape_markdown, percent, plain
from draftmeter.render.tables import build_setup_table

# vLLM's own default of VLLM_LOG_STATS_INTERVAL; the note says so when a study asked for more lines.
DEFAULT_LOG_INTERVAL_S = 10.0
THIRDS = [f"{kind}_third_{third}" for kind in ("prompt", "cached") for third in (1, 2, 3)]
HOW_MANY = ("none", "one", "two", "three", "four", "all")
# What a finding adds to the title of a note on a served model.
TITLE_VARIATION = {"above": "varying beyond chance", "below": "varying no more than by chance"}
TITLE_POSITIONS = {"above": "with chances that rise along the draft", "below": "with chances that fall along the draft"}
MOST_CLAIM_FIGURES = 5
# Of claims, in words for one and for several.
OUTCOMES = {"holds": ("holds", "hold"), "fails": ("fails", "fail"), "cannot tell": ("cannot be told", "cannot be told")}
# What facts of a part of a subject are of, by its kind and its number.
PARTS = {
    "streams": "streams {:g}",
    "undisturbed": "under 1 percent",
    "threshold": "at least {:g} drafts",
    "fifth": "fifth {:g}",
}


@dataclass(frozen=True)
class FactRow:
    """One fact: its key below the group's subject, and the names of its definition, its method and its reason."""

    key: str
    quantity: str
    fact: NamedFact
    notes: list[str]


@dataclass(frozen=True)
class FactGroup:
    """The facts of one subject with those nested in it."""

    title: str
    rows: list[FactRow]


@dataclass(frozen=True)
class Appendix:
    """All facts in groups; the texts that they share, each with the name it goes by (D1, M1, U1, ...)."""

    groups: list[FactGroup]
    definitions: dict[str, str]
    methods: dict[str, str]
    reasons: dict[str, str]


@dataclass(frozen=True)
class LagRow:
    """One lag of the autocorrelation in words, with its fact."""

    words: str
    fact: NamedFact


@dataclass(frozen=True)
class StreamsRow:
    """One rung of a workload that ran at several numbers of streams."""

    label: str
    streams: int
    subject: str


def note_context(facts: Facts, appendix: Appendix) -> dict[str, Any]:
    """Every name that the template may use, but for those of one form of the note."""
    workload = facts.production.workload
    running = facts.structure.running
    return {
        "study": facts.study,
        "facts": facts,
        "fact": facts.fact,
        "has": facts.has,
        "of": partial(facts.fact, workload),
        "over": partial(facts.fact, PRODUCTION_INTERVALS),
        "calibrating": facts.study.kind == "known_answer",
        "findings": facts.findings,
        "margins": facts.findings.margins,
        "title_endings": title_endings(facts.findings),
        "intervals": PRODUCTION_INTERVALS,
        "thresholds": [PRODUCTION_INTERVALS, *facts.structure.parts(PRODUCTION_INTERVALS, "threshold")],
        "lags": [LagRow(duration(lag.seconds), facts.fact(PRODUCTION_INTERVALS, lag.quantity)) for lag in facts.structure.lags],
        "running": [facts.fact(PRODUCTION_INTERVALS, mean.quantity) for mean in running],
        "running_names": [f"{mean.requests or 'none'}{' or more' if mean.or_more else ''}" for mean in running],
        "separator": separator,
        "names": server_names,
        "named": named_servers,
        **_workloads(facts),
        **_setup(facts),
        **_positions(facts),
        **_streams(facts),
        **claims_context(facts),
        **beside_context(facts),
        **_calibration_summary(facts.calibration),
        **_unknowns(facts),
        "checks": facts.checks,
        "checks_failed": sum(check.failed for check in facts.checks.values()),
        "checks_unknown": sum(check.unknown for check in facts.checks.values()),
        "fact_groups": appendix.groups,
        **_citation(facts),
    }


def title_endings(findings: Findings) -> list[str]:
    """What the findings add to the title of a note on a served model; nothing where they cannot be told."""
    endings = [TITLE_VARIATION.get(findings.variation), TITLE_POSITIONS.get(findings.positions)]
    return [ending for ending in endings if ending is not None]


def separator(loop: Any) -> Markup:
    """What follows an item of a running list: comma, `and`, or nothing."""
    if loop.last:
        return Markup("")
    return Markup(" and " if loop.revindex == 2 else ", ")


def server_names(rows: list[SetupRow]) -> Markup:
    """The servers of `rows` as a running list, escaped."""
    names = [escape_markdown(row.server) for row in rows]
    return Markup(" and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names))


def named_servers(rows: list[SetupRow]) -> Markup:
    """The servers of `rows` for a sentence in which their names alone would read as words."""
    return Markup("the server named " if len(rows) == 1 else "the servers named ") + server_names(rows)


def _workloads(facts: Facts) -> dict[str, Any]:
    lowest, highest = _extreme_workloads(facts)
    others = [row for row in facts.table1 if _some(facts, row.workload, "other_clients_share")]
    return {
        "production": facts.production,
        "controlled": facts.controlled,
        "lowest": lowest,
        "highest": highest,
        "by_lines": [row for row in facts.table1 if row.counted_by == "lines"],
        "others": others,
        "thirds": [name for name in THIRDS if facts.has(facts.production.workload, name)],
    }


def _some(facts: Facts, subject: str, quantity: str) -> bool:
    return facts.has(subject, quantity) and (facts.fact(subject, quantity).value or 0.0) > 0


def _setup(facts: Facts) -> dict[str, Any]:
    table = build_setup_table(facts)
    return {
        "setup": facts.setup,
        "differences": facts.differences,
        "setup_table": table.rows,
        "unsaid": table.unsaid,
        "recorded": [row for row in facts.setup if row.source is None],
        "stored": [row for row in facts.setup if row.source is not None],
        "default_log_interval_s": DEFAULT_LOG_INTERVAL_S,
    }


def _positions(facts: Facts) -> dict[str, Any]:
    k, workload = facts.k, facts.production.workload
    sides = facts.findings.positions_in_fifths
    shorter = [f"tokens_per_step_at_{count}" for count in range(1, k)]
    return {
        "k": k,
        "fifths_told": HOW_MANY[sides.count("above") + sides.count("below")],
        "fifths_rising": HOW_MANY[sides.count("above")],
        "fifths_falling": HOW_MANY[sides.count("below")],
        "shorter": [name for name in shorter if facts.fact(workload, name).value is not None],
    }


def _streams(facts: Facts) -> dict[str, Any]:
    """Every number of streams of every workload of Table 1, in its order."""
    rows = [
        StreamsRow(row.label, streams, subject)
        for row in facts.table1
        for streams, subject in facts.streams(row.workload).items()
    ]
    return {
        "streams": [row for row in rows if sum(other.label == row.label for other in rows) > 1],
        "stream_rows": [
            rows[0] for rows in ([row for row in rows if row.streams == n] for n in sorted({r.streams for r in rows}))
        ],
        "slopes": [row for row in facts.table1 if facts.has(row.workload, "streams_slope")],
    }


def _extreme_workloads(facts: Facts) -> tuple[Table1Row | None, Table1Row | None]:
    """The controlled workloads with the smallest and the largest accepted part, where known."""
    known = []
    for row in facts.controlled:
        value = facts.fact(row.workload, "accepted_over_drafted").value
        if value is not None:
            known.append((value, row))
    if not known:
        return None, None
    return min(known, key=lambda pair: pair[0])[1], max(known, key=lambda pair: pair[0])[1]


def _unknowns(facts: Facts) -> dict[str, int]:
    every: list[Fact] = list(facts.facts.values())
    return {
        "unknown_facts": sum(fact.value is None for fact in every),
        "unknown_intervals": sum(fact.value is not None and fact.unknown is not None for fact in every),
    }


def _calibration_summary(rows: list[CalibrationRow]) -> dict[str, Any]:
    return {
        "passed": sum(row.status == "ok" for row in rows),
        "failed": sum(row.status == "failed" for row in rows),
        "not_compared": sum(row.status == "unknown" for row in rows),
        "compared": sum(row.status != "unknown" for row in rows),
        "largest_z": max((abs(row.z) for row in rows if row.z is not None), default=None),
    }


def _citation(facts: Facts) -> dict[str, str]:
    title = facts.study.title
    accepted = facts.fact(facts.production.workload, "accepted_over_drafted").value
    if facts.study.kind == "served_model" and accepted is not None:
        title += ": " + ", ".join([f"{percent(accepted)} of draft tokens accepted", *title_endings(facts.findings)])
    return {
        "bibtex_key": facts.study.name,
        "bibtex_title": title,
        "bibtex_authors": " and ".join(facts.study.authors),
    }


@dataclass(frozen=True)
class SpeedRow:
    """One workload at one number of streams that ran with speculation and without."""

    label: str
    streams: int
    subject: str
    speedup: NamedFact
    side: Side
    """On which side of 1 the whole interval lies: faster or slower with speculation."""


@dataclass(frozen=True)
class LabelledSubject:
    """A workload by its label."""

    label: str
    subject: str


def beside_context(facts: Facts) -> dict[str, Any]:
    """The names that the template uses for speed, replies, and servers beside the study; all empty where there is nothing."""
    speeds = _speeds(facts)
    known = [row for row in speeds if row.speedup.value is not None]
    sure = [row for row in known if row.speedup.low is not None] or known
    calibrating = {row.server for row in facts.calibration} if facts.study.kind == "served_model" else set()
    calibrators = [row for row in facts.setup if row.server in calibrating]
    others = [row for row in facts.setup if row.server not in calibrating]
    compared = [row for row in others if row.source is None]
    return {
        "speeds": speeds,
        "speeds_known": known,
        "faster": _by_workload(speeds, "above"),
        "slower": _by_workload(speeds, "below"),
        "untold": _by_workload(speeds, "cannot tell", "unknown"),
        "least_sped": min(sure, key=lambda row: row.speedup.value or 0.0, default=None),
        "most_sped": max(sure, key=lambda row: row.speedup.value or 0.0, default=None),
        "baselines": [row for row in facts.setup if row.k == 0],
        "calibrators": calibrators,
        "calibrated_alike": len({(row.engine_version, row.hardware) for row in [*calibrators, *compared]}) == 1,
        "on_cpu": {row.processor for row in compared} == {"CPU"},
        "same_replies": _having(facts, "same_replies"),
        "scored": _having(facts, "score"),
    }


def _speeds(facts: Facts) -> list[SpeedRow]:
    rows = []
    for workload, label in facts.labels.items():
        for streams, subject in facts.streams(workload).items():
            if facts.has(subject, "speedup"):
                speedup = facts.fact(subject, "speedup")
                rows.append(SpeedRow(label, streams, subject, speedup, facts.findings.speedups[subject]))
    return rows


def _by_workload(speeds: list[SpeedRow], *sides: Side) -> list[list[SpeedRow]]:
    """Those on one of the `sides`, the rows of one workload together."""
    chosen = [row for row in speeds if row.side in sides]
    return [list(rows) for _, rows in groupby(chosen, key=lambda row: row.label)]


def _having(facts: Facts, quantity: str) -> list[LabelledSubject]:
    return [LabelledSubject(label, name) for name, label in facts.labels.items() if facts.has(name, quantity)]


@dataclass(frozen=True)
class ClaimFigure:
    """A figure that a claim rests on; `fact` is None where this study has none."""

    name: str
    fact: NamedFact | None


@dataclass(frozen=True)
class ClaimRow:
    """One claim with its figures, the decisive one first; `more` are not listed."""

    name: str
    statement: str
    outcome: str
    figures: list[ClaimFigure]
    more: int
    region: str
    reason: str


@dataclass(frozen=True)
class ComparisonRow:
    """A published value beside its fact."""

    name: str
    fact: NamedFact
    printed: str
    note: str


def claims_context(facts: Facts) -> dict[str, Any]:
    """The names that the template uses for claims and comparison; both are empty in a known-answer study."""
    rows = []
    for claim in facts.claims:
        keys = sorted(claim.facts, key=lambda key: key != claim.decisive)
        figures = [
            ClaimFigure(readable_name(key, facts), facts.by_key(key) if key in facts.facts else None)
            for key in keys[:MOST_CLAIM_FIGURES]
        ]
        more = max(len(keys) - MOST_CLAIM_FIGURES, 0)
        rows.append(ClaimRow(claim.name, claim.statement, claim.outcome, figures, more, claim.region, claim.reason))
    return {
        "claims": rows,
        "claims_by": {name: sum(row.outcome == outcome for row in rows) for outcome, (name, _) in OUTCOMES.items()},
        "claims_plural": dict(OUTCOMES.values()),
        "comparison": [
            ComparisonRow(readable_name(row.key, facts), facts.by_key(row.key), _printed(facts, row), row.note)
            for row in facts.comparison
        ],
    }


def readable_name(key: str, facts: Facts) -> str:
    """A key of a fact as words: `traffic.streams_8.share_through_1` is `Traffic, streams 8, share through 1`.

    What is of the production workload or of its intervals does not say so, but for intervals that were joined to longer ones.
    """
    name, quantity = split_key(key)
    words = quantity.removesuffix("_pp").replace("_", " ")
    subject = facts.structure.subjects.get(name)
    whole, part = name, ""
    if subject is not None and subject.part_of is not None:
        whole, part = subject.part_of, PARTS[subject.kind].format(subject.number)
    whole_subject = facts.structure.subjects.get(whole)
    if whole_subject is not None and whole_subject.kind == "intervals":
        length = "" if whole_subject.number is None else f"intervals of {plain(whole_subject.number)} s"
        return ", ".join(filter(None, [words, part, length]))
    labels = {row.workload: row.label for row in facts.controlled} | {facts.production.workload: ""}
    return ", ".join(filter(None, [labels.get(whole, whole), part, words]))


def _printed(facts: Facts, row: Comparison) -> str:
    return as_printed(row.published, row.printed, facts.by_key(row.key).unit)


def build_appendix(facts: Facts) -> Appendix:
    """Rows in the order of facts.json. Links point at a row by `fact-<key>` and at a text by its name."""
    definitions: dict[str, str] = {}
    methods: dict[str, str] = {}
    reasons: dict[str, str] = {}
    groups: dict[str, list[FactRow]] = {}
    for key in facts.facts:
        fact = facts.by_key(key)
        subject, _ = split_key(key)
        whole = facts.structure.subjects[subject].part_of or subject
        notes = [
            definitions.setdefault(fact.definition, f"D{len(definitions) + 1}"),
            methods.setdefault(fact.method, f"M{len(methods) + 1}"),
        ]
        if fact.unknown is not None:
            notes.append(reasons.setdefault(fact.unknown, f"U{len(reasons) + 1}"))
        groups.setdefault(whole, []).append(FactRow(key, key.removeprefix(f"{whole}."), fact, notes))
    return Appendix(
        [FactGroup(_title(subject, facts.labels), rows) for subject, rows in groups.items()], definitions, methods, reasons
    )


def _title(subject: str, labels: dict[str, str]) -> str:
    return f"{labels[subject]} ({subject})" if subject in labels else subject
