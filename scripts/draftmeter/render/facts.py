"""facts.json as this room reads it: strict, so that a missing or misspelt fact is an error and never a blank."""

import difflib
import json
import re
from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError, field_validator, model_validator

from draftmeter.facts import (
    CalibrationRow,
    CheckSummary,
    Claim,
    Comparison,
    Fact,
    Findings,
    ServerDifference,
    SetupRow,
    Structure,
    StudyFacts,
    Table1Row,
    split_key,
)
from draftmeter.strict import Strict

# Keys become targets of links in HTML and labels in typst, which take these characters as they are.
KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class RenderError(ValueError):
    """Something that cannot be rendered: which file or fact, what was found, what would be right."""


class NamedFact(Fact):
    """A fact that knows its key, so that what is printed of it can point at its row in the appendix."""

    key: str


class Facts(Strict):
    """Everything the note may say, and nothing else."""

    study: StudyFacts
    setup: list[SetupRow] = Field(min_length=1)
    differences: list[ServerDifference]
    facts: dict[str, Fact]
    labels: dict[str, str]
    """Of each workload that has facts, what it is called; there are more than in Table 1."""
    structure: Structure
    findings: Findings
    table1: list[Table1Row]
    calibration: list[CalibrationRow]
    checks: dict[str, CheckSummary]
    claims: list[Claim]
    comparison: list[Comparison]

    @field_validator("facts")
    @classmethod
    def _usable_keys(cls, facts: dict[str, Fact]) -> dict[str, Fact]:
        for key in facts:
            if not KEY.fullmatch(key):
                raise ValueError(f"the key {key!r} needs letters, digits and any of _.- alone")
        return facts

    @model_validator(mode="after")
    def _known_subjects(self) -> Self:
        for key in self.facts:
            if split_key(key)[0] not in self.structure.subjects:
                raise ValueError(f"the fact {key!r} is of none of the subjects {', '.join(self.structure.subjects)}")
        return self

    def fact(self, subject: str, quantity: str) -> NamedFact:
        """The fact `<subject>.<quantity>`; raise :class:`RenderError` when facts.json has none."""
        return self.by_key(f"{subject}.{quantity}")

    def by_key(self, key: str) -> NamedFact:
        """The fact of this key; raise :class:`RenderError` when facts.json has none."""
        if key not in self.facts:
            near = difflib.get_close_matches(key, self.facts, n=3)
            raise RenderError(f"facts.json: no fact {key!r}; nearest are {near}; rerun the rule `analyse`")
        return NamedFact(key=key, **dict(self.facts[key]))

    def has(self, subject: str, quantity: str) -> bool:
        """Whether the fact is there, known or not: a figure that does not apply to a study is absent."""
        return f"{subject}.{quantity}" in self.facts

    @property
    def production(self) -> Table1Row:
        """The production row of Table 1; there is exactly one."""
        rows = [row for row in self.table1 if row.role == "production"]
        if len(rows) != 1:
            raise RenderError(f"facts.json, table1: found {len(rows)} rows of role 'production'; there must be one")
        return rows[0]

    @property
    def controlled(self) -> list[Table1Row]:
        """The controlled rows of Table 1, in order."""
        return [row for row in self.table1 if row.role == "controlled"]

    @property
    def k(self) -> int:
        """K of the production workload; 0 where it is not known."""
        return self.positions(self.production.workload)

    def positions(self, subject: str) -> int:
        """K of a subject: how many positions facts.json gives a share for."""
        return self.structure.subjects[subject].k

    def streams(self, workload: str) -> dict[int, str]:
        """The subjects of a workload at each number of streams, ascending."""
        names = self.structure.parts(workload, "streams")
        return {int(self.structure.subjects[name].number or 0): name for name in names}


def read_facts(path: Path) -> Facts:
    """Read facts.json; raise :class:`RenderError` with the file and the key when it is not what this room expects."""
    try:
        return Facts.model_validate(json.loads(path.read_text()))
    except OSError as error:
        raise RenderError(f"{path}: cannot be read: {error.strerror}; it is made by the rule `analyse`") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise RenderError(f"{path}, {key}: {first['msg']}; {error.error_count()} such places in all") from error
    except json.JSONDecodeError as error:
        raise RenderError(f"{path}: not JSON ({error}); delete it and rerun the rule `analyse`") from error
