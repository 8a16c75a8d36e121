"""What the note's template may use: every name, and all figures as facts."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from markupsafe import Markup

from draftmeter.facts import PRODUCTION_INTERVALS, CalibrationRow, Fact, Findings, SetupRow, Table1Row
from draftmeter.render.appendix import Appendix
from draftmeter.render.beside import beside_context
from draftmeter.render.claims import claims_context
from draftmeter.render.escaping import escape_markdown
from draftmeter.render.facts import Facts, NamedFact
from draftmeter.render.numbers import duration, percent
from draftmeter.render.setup_table import build_setup_table

# vLLM's own default of VLLM_LOG_STATS_INTERVAL; the note says so when a study asked for more lines.
DEFAULT_LOG_INTERVAL_S = 10.0
THIRDS = [f"{kind}_third_{third}" for kind in ("prompt", "cached") for third in (1, 2, 3)]
HOW_MANY = ("none", "one", "two", "three", "four", "all")
# What a finding adds to the title of a note on a served model.
TITLE_VARIATION = {"above": "varying beyond chance", "below": "varying no more than by chance"}
TITLE_POSITIONS = {"above": "with chances that rise along the draft", "below": "with chances that fall along the draft"}


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
