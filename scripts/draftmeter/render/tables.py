"""Table 1, acceptance by workload with production first, as Markdown and LaTeX from the facts; and
the table of servers."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftmeter.facts import Fact, Table1Row
from draftmeter.render.environment import latex_environment, markdown_environment, render_template
from draftmeter.render.facts import Facts, RenderError
from draftmeter.render.printing import plain

SETUP_NAMES = {
    "source": "Read from",
    "model": "Model",
    "precision": "Precision",
    "method": "Draft method",
    "k": "Draft tokens per step",
    "engine_version": "Engine version",
    "attention_backend": "Attention backend",
    "log_interval_s": "Log interval (s)",
    "corrections": "Corrections active",
    "starts": "Starts",
    "attempts": "Boots that took several attempts",
    "processor": "Kind of processor",
    "hardware": "Hardware",
    "driver": "Driver",
    "model_revision": "Model revision",
    "git_commit": "Commit of the instrument",
}


@dataclass(frozen=True)
class Row:
    """One workload of Table 1 with its facts; `share_through[k - 1]` is None where the workload drafts fewer than k.

    `k_known`: whether it is known how many it drafts; where it is not, it has no fact for any position.
    """

    label: str
    role: str
    drafts: Fact
    draft_tokens: Fact
    accepted_over_drafted: Fact
    share_through: list[Fact | None]
    tokens_per_step: Fact
    formula_error: Fact
    k_known: bool
    counted_by: str


@dataclass(frozen=True)
class Table1:
    """The rows in printed order, the most draft tokens per step of any row, and why a figure is unknown."""

    kind: str
    k: int
    rows: list[Row]
    unknowns: list[tuple[str, str, str]]
    """(label, quantity, reason), in the order of the cells; reasons stand below the table, each once a workload."""


def build_table1(facts: Facts) -> Table1:
    """Collect Table 1 from the facts; a missing fact is an error, one that is null is listed with its reason."""
    ordered = [facts.production, *facts.controlled]
    k = max(facts.positions(row.workload) for row in ordered)
    rows = [_row(facts, row, k) for row in ordered]
    return Table1(facts.study.kind, k, rows, [unknown for row in rows for unknown in _unknowns(row)])


def check_same_analysis(facts: Facts, table1_csv: Path) -> str:
    """Return the text of table1.csv after checking that its rows are those of facts.json, in the same order."""
    text = table1_csv.read_text()
    rows = list(csv.DictReader(io.StringIO(text)))
    if not rows or "workload" not in rows[0]:
        raise RenderError(f"{table1_csv}: found no column 'workload' or no row; it is made by the rule `analyse`")
    found = [row["workload"] for row in rows]
    expected = [row.workload for row in facts.table1]
    if found != expected:
        raise RenderError(f"{table1_csv}: found the workloads {found}, but facts.json has {expected}; rerun `analyse`")
    return text


def render_table1_markdown(
    table: Table1, template: Path, *, linked: bool = False, places: Mapping[str, str] | None = None, wide: str = ""
) -> str:
    """Table 1 as a Markdown table with its caption and the reasons of unknown figures.

    In the note its figures are `linked` to their rows in the appendix, where `places` are the ids of the reasons; `wide` is
    what makes a line of Markdown so long that columns take their widths from their dashes.
    """
    environment = markdown_environment(template.parent, linked=linked, places=places)
    return render_template(environment, template.name, table=table, wide=wide)


def render_table1_latex(table: Table1, template: Path) -> str:
    """Table 1 as a LaTeX fragment for booktabs."""
    return render_template(latex_environment(template.parent), template.name, table=table)


def _row(facts: Facts, row: Table1Row, k: int) -> Row:
    own_k = facts.positions(row.workload)

    def fact(quantity: str) -> Fact:
        return facts.fact(row.workload, quantity)

    return Row(
        label=row.label,
        role=row.role,
        drafts=fact("drafts"),
        draft_tokens=fact("draft_tokens"),
        accepted_over_drafted=fact("accepted_over_drafted"),
        share_through=[fact(f"share_through_{position}") for position in range(1, own_k + 1)] + [None] * (k - own_k),
        tokens_per_step=fact("tokens_per_step"),
        formula_error=fact("formula_first_position_error"),
        k_known=own_k > 0,
        counted_by=row.counted_by,
    )


def _unknowns(row: Row) -> list[tuple[str, str, str]]:
    named = [
        ("drafts", row.drafts),
        ("draft tokens", row.draft_tokens),
        ("accepted over drafted", row.accepted_over_drafted),
        *((f"share through {position}", fact) for position, fact in enumerate(row.share_through, start=1)),
        ("tokens per step", row.tokens_per_step),
        ("error of the formula", row.formula_error),
    ]
    names: dict[str, list[str]] = {}
    for name, fact in named:
        if fact is not None and fact.value is None:
            names.setdefault(fact.unknown or "", []).append(name)
    accepted = row.accepted_over_drafted
    if accepted.value is not None and accepted.low is None and accepted.unknown is not None:
        names.setdefault(accepted.unknown.removeprefix("no interval: "), []).append("interval")
    return [(row.label, ", ".join(found), reason) for reason, found in names.items()]


@dataclass(frozen=True)
class SetupTable:
    """Rows of (key, name, one text a server), and the names of properties that no file says."""

    rows: list[tuple[str, str, list[str]]]
    unsaid: list[str]


def build_setup_table(facts: Facts) -> SetupTable:
    """A property beyond the contract is shown under its own key.

    Where there are stored files alone, properties that none of them says are left out, and come as a list of their own.
    """
    servers = [row.model_dump() for row in facts.setup]
    found = {key for server in servers for key in server} - {"server"}
    stored = [server["source"] is not None for server in servers]
    if not any(stored):
        found -= {"source"}
    unsaid = {key for key in found if all(stored) and all(server[key] in (None, []) for server in servers)}
    servers = [server | {"source": server["source"] or "its records"} for server in servers]
    # Of a server that makes no drafts that is no number.
    servers = [server | {"k": "none" if server["k"] == 0 else server["k"]} for server in servers]
    keys = [key for key in SETUP_NAMES if key in found - unsaid] + sorted(found - unsaid - set(SETUP_NAMES))
    rows = [(key, SETUP_NAMES.get(key, key), [_text(server.get(key)) for server in servers]) for key in keys]
    return SetupTable(rows, [SETUP_NAMES[key].lower() for key in SETUP_NAMES if key in unsaid - {"attempts", "git_commit"}])


def _text(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "none"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return plain(value)
    return str(value)
