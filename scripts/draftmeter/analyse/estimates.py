"""From tables to what results/estimates holds: the facts, the rows of Table 1 and of Figure 1, the calibration."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from draftmeter.analyse.calibration import KnownAnswer, calibrate
from draftmeter.analyse.facts import AnalysisError, rounded
from draftmeter.analyse.fifths import fifth_rows
from draftmeter.analyse.lines import interval_rows, production_lines
from draftmeter.analyse.production import production_facts, production_fifths
from draftmeter.analyse.setup import setup_rows
from draftmeter.analyse.table1 import workload_facts
from draftmeter.analyse.tables import Tables, numbers
from draftmeter.facts import CalibrationRow, Fact
from draftmeter.record import Record
from draftmeter.study import Study

COUNTS = ("drafts", "draft_tokens", "accepted", "requests")


@dataclass(frozen=True)
class Estimates:
    """`facts` is the content of facts.json; the rest are the rows of the csv files, and Table 1's columns."""

    facts: dict[str, Any]
    table1_columns: list[str]
    table1: list[dict[str, Any]]
    intervals: list[dict[str, Any]]
    fifths: list[dict[str, Any]]
    calibration: list[CalibrationRow]


def estimate(study: Study, tables: Tables, records: Iterable[Record], known: KnownAnswer | None) -> Estimates:
    """Everything the analysis has to say. `known` is given exactly for a known-answer study."""
    if (study.study.kind == "known_answer") != (known is not None):
        raise AnalysisError(
            f"study.kind: found {study.study.kind} {'without' if known is None else 'with'} a known_answer.json; "
            "a known-answer study needs one, another must not have one"
        )
    facts = _all_workloads(study, tables)
    production = tables.of_workload(study.report.production)
    lines = production_lines(production)
    fifths = production_fifths(lines, study.analysis, study.study.seed)
    facts |= production_facts(lines, fifths, production, study.analysis, study.study.seed)
    calibration = [] if known is None else calibrate(study, tables, known)
    columns, table1 = _table1(study, facts)
    content = {
        "study": {
            "name": study.study.name,
            "title": study.study.title,
            "kind": study.study.kind,
            "seed": study.study.seed,
            "scale": study.study.scale,
            "z_limit": study.analysis.z_limit,
            "authors": study.report.authors,
        },
        "setup": [row.model_dump(mode="json") for row in setup_rows(records)],
        "facts": {key: fact.model_dump(mode="json") for key, fact in facts.items()},
        "table1": [_keys_of(row, facts) for row in table1],
        "calibration": [row.model_dump(mode="json") for row in calibration],
        "checks": summarise_checks(tables.checks),
    }
    return Estimates(
        facts=content,
        table1_columns=columns,
        table1=table1,
        intervals=interval_rows(lines, study.analysis.min_drafts),
        fifths=fifth_rows(fifths),
        calibration=calibration,
    )


def summarise_checks(checks: pd.DataFrame) -> dict[str, Any]:
    """By check: how many records were ok, failed or unknown, and the largest residual without its sign."""
    summary: dict[str, Any] = {}
    for name, rows in checks.groupby("check", sort=True):
        residuals = [abs(value) for value in numbers(rows, "residual") if value == value]  # noqa: PLR0124
        counts = {status: int((rows["status"] == status).sum()) for status in ("ok", "failed", "unknown")}
        units = sorted(set(rows["unit"].astype(str)))
        largest = rounded(max(residuals)) if residuals else None
        summary[str(name)] = {**counts, "max_abs_residual": largest, "unit": "; ".join(units)}
    return summary


def _all_workloads(study: Study, tables: Tables) -> dict[str, Fact]:
    measured = set(tables.counters["workload"].astype(str))
    strangers = sorted(measured - set(study.workloads))
    if strangers:
        raise AnalysisError(f"table counters: workload {strangers[0]!r} is not in the config; it has {sorted(study.workloads)}")
    reported = [study.report.production, *study.report.controlled]
    for workload in reported:
        if workload not in measured:
            raise AnalysisError(f"table counters: no record of workload {workload!r}, which the report needs; measure it first")
    facts: dict[str, Fact] = {}
    for workload in [*dict.fromkeys(reported), *sorted(measured - set(reported))]:
        part = tables.of_workload(workload)
        cluster = "prompts" if study.workloads[workload].sessions is None else "sessions"
        facts |= workload_facts(workload, part, cluster, study.analysis.confidence)
        streams = numbers(part.counters, "streams")
        for number in sorted({int(value) for value in streams if value == value}):  # noqa: PLR0124
            subject = f"{workload}.streams_{number}"
            runs = part.of_runs(part.counters[streams == number])
            facts |= workload_facts(subject, runs, cluster, study.analysis.confidence)
    return facts


def _table1(study: Study, facts: dict[str, Fact]) -> tuple[list[str], list[dict[str, Any]]]:
    """Columns and rows of table1.csv: values with the ends of their intervals, production first."""
    roles = dict.fromkeys(study.report.controlled, "controlled")
    roles = {study.report.production: "production"} | roles
    columns, rows = ["workload", "label", "role"], []
    for workload, role in roles.items():
        row: dict[str, Any] = {"workload": workload, "label": study.workloads[workload].label, "role": role}
        for quantity, fact in _own_facts(workload, facts).items():
            row[quantity] = int(fact.value) if quantity in COUNTS and fact.value is not None else fact.value
            if quantity not in COUNTS:
                row[f"{quantity}_low"], row[f"{quantity}_high"] = fact.low, fact.high
        columns += [column for column in row if column not in columns]
        rows.append(row)
    return columns, rows


def _keys_of(row: dict[str, Any], facts: dict[str, Fact]) -> dict[str, Any]:
    """A row of Table 1 for facts.json: its counts, and for each quantity the key of its fact."""
    keys = {quantity: f"{row['workload']}.{quantity}" for quantity in _own_facts(row["workload"], facts)}
    named = {name: row[name] for name in ("workload", "label", "role")}
    return named | {q: row[q] if q in ("drafts", "draft_tokens") else key for q, key in keys.items()}


def _own_facts(workload: str, facts: dict[str, Fact]) -> dict[str, Fact]:
    prefix = f"{workload}."
    own = {key.removeprefix(prefix): fact for key, fact in facts.items() if key.startswith(prefix)}
    return {quantity: fact for quantity, fact in own.items() if "." not in quantity}
