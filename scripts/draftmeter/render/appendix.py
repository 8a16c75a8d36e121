"""The appendix of all facts: every figure in its row, and what is said of several of them printed once."""

from dataclasses import dataclass

from draftmeter.facts import split_key
from draftmeter.render.facts import Facts, NamedFact


@dataclass(frozen=True)
class Row:
    """One fact: its key below the group's subject, and the names of its definition, its method and its reason."""

    key: str
    quantity: str
    fact: NamedFact
    notes: list[str]


@dataclass(frozen=True)
class Group:
    """The facts of one subject with those nested in it."""

    title: str
    rows: list[Row]


@dataclass(frozen=True)
class Appendix:
    """All facts in groups; the texts that they share, each with the name it goes by (D1, M1, U1, ...)."""

    groups: list[Group]
    definitions: dict[str, str]
    methods: dict[str, str]
    reasons: dict[str, str]


def build_appendix(facts: Facts) -> Appendix:
    """Rows in the order of facts.json. Links point at a row by `fact-<key>` and at a text by its name."""
    definitions: dict[str, str] = {}
    methods: dict[str, str] = {}
    reasons: dict[str, str] = {}
    groups: dict[str, list[Row]] = {}
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
        groups.setdefault(whole, []).append(Row(key, key.removeprefix(f"{whole}."), fact, notes))
    return Appendix(
        [Group(_title(subject, facts.labels), rows) for subject, rows in groups.items()], definitions, methods, reasons
    )


def _title(subject: str, labels: dict[str, str]) -> str:
    return f"{labels[subject]} ({subject})" if subject in labels else subject
