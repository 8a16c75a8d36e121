"""The rows of Table 1, whose figures are facts of the workloads."""

from collections.abc import Mapping, Sequence
from typing import Any

from draftmeter.analyse.tables import Measured, Tables
from draftmeter.facts import Fact, Structure

COUNTS = ("drafts", "draft_tokens", "accepted", "requests")


def table1_rows(
    production: Measured,
    controlled: Sequence[Measured],
    labels: Mapping[str, str],
    tables: Tables,
    facts: dict[str, Fact],
    structure: Structure,
) -> tuple[list[str], list[dict[str, Any]]]:
    """Columns and rows of table1.csv: values with the ends of their intervals, production first."""
    roles = {production: "production"} | dict.fromkeys(controlled, "controlled")
    columns, rows = ["workload", "label", "role"], []
    for measured, role in roles.items():
        row: dict[str, Any] = {"workload": measured.name, "label": labels[measured.name], "role": role}
        row["counted_by"] = tables.of(measured).counted_by
        for quantity, fact in _own_facts(measured.name, facts, structure).items():
            row[quantity] = int(fact.value) if quantity in COUNTS and fact.value is not None else fact.value
            if quantity not in COUNTS:
                row[f"{quantity}_low"], row[f"{quantity}_high"] = fact.low, fact.high
        columns += [column for column in row if column not in columns]
        rows.append(row)
    return columns, rows


def keys_of(row: dict[str, Any], facts: dict[str, Fact], structure: Structure) -> dict[str, Any]:
    """A row of Table 1 for facts.json: its counts, and for each quantity the key of its fact."""
    keys = {quantity: f"{row['workload']}.{quantity}" for quantity in _own_facts(row["workload"], facts, structure)}
    named = {name: row[name] for name in ("workload", "label", "role", "counted_by")}
    return named | {q: row[q] if q in ("drafts", "draft_tokens") else key for q, key in keys.items()}


def _own_facts(workload: str, facts: dict[str, Fact], structure: Structure) -> dict[str, Fact]:
    """By quantity, in the order of the columns."""
    positions = range(1, structure.subjects[workload].k + 1)
    quantities = [
        *COUNTS,
        "accepted_over_drafted",
        "accepted_over_checked",
        *(f"share_through_{position}" for position in positions),
        *(f"chance_{position}" for position in positions),
        "tokens_per_step",
        "formula_first_position",
        "formula_first_position_error",
        "emitted_tokens_per_step",
    ]
    own = {quantity: facts.get(f"{workload}.{quantity}") for quantity in quantities}
    return {quantity: fact for quantity, fact in own.items() if fact is not None}
