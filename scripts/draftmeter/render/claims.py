"""What stands beside the published study: its claims on this data, and its figures beside these."""

from dataclasses import dataclass
from typing import Any

from draftmeter.facts import Comparison, split_key
from draftmeter.render.facts import Facts, NamedFact
from draftmeter.render.numbers import as_printed, plain

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
