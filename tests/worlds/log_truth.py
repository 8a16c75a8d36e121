"""What a reader of a generated log must find: the expected rows, and how one cell is compared."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

ENGINE_COLUMNS = (
    "engine",
    "running",
    "waiting",
    "prompt_tokens_per_s",
    "generation_tokens_per_s",
    "kv_cache_usage",
    "prefix_cache_hit_rate",
)
TIME_COLUMNS = ("start", "end", "window_s")
# What only the end of a line can tell: a line cut after its counts may lack any of these.
TAIL_COLUMNS = ("k", "drafts", "drafts_exact", "accepted_k_exact", "since_last_line_s", "extra", "wording")
COLUMNS = (
    *("offset", "process", *ENGINE_COLUMNS, *TIME_COLUMNS, *TAIL_COLUMNS),
    *("drafted", "accepted"),
)


@dataclass(frozen=True)
class OrNull:
    """The value, or null."""

    value: Any


@dataclass(frozen=True)
class Near:
    """An estimate: the value to within a tolerance, or null if `or_null`."""

    value: float
    tolerance: float
    or_null: bool = False


@dataclass(frozen=True)
class Keys:
    """A JSON object that has at least these keys, with values that begin so."""

    pairs: Mapping[str, str]


@dataclass(frozen=True)
class Anything:
    """Any cell will do: another check speaks about it."""


class Must(Enum):
    """What has to become of one record: whatever comes of it, a row's numbers are never wrong."""

    ROW = "a row"
    REPORTED = "a row or a refusal"
    ALLOWED = "a row or nothing"
    NOTHING = "no row"


@dataclass
class Row:
    """One planted interval: the cells that a reader must find, and the planted counts behind them."""

    cells: dict[str, Any]
    drafts: int
    accepted_at: Sequence[int]

    def relax(self, columns: Sequence[str]) -> None:
        """Allow null in these columns."""
        for column in columns:
            expected = self.cells.get(column)
            if column in ("drafts_exact", "accepted_k_exact", "extra", "wording"):
                self.cells[column] = Anything()
            elif isinstance(expected, Near):
                self.cells[column] = Near(expected.value, expected.tolerance, or_null=True)
            elif expected is not None and not isinstance(expected, OrNull | Anything):
                self.cells[column] = OrNull(expected)

    def relax_tail(self) -> None:
        """Allow null in everything but the counts and what stands before them."""
        self.relax([*TAIL_COLUMNS, *(column for column in self.cells if _is_position(column))])


@dataclass
class Expected:
    """One record of the file: where it lies (bytes), its text, and what must become of it."""

    start: int
    end: int
    text: str
    must: Must
    row: Row | None
    mentions: bool  # it holds the words of a statistics line, so it may be refused
    contradictory: bool = False  # refused, or read with a warning


@dataclass
class Case:
    """A generated file: its bytes, what is known besides, and the truth."""

    name: str
    content: bytes
    known: dict[str, Any]
    expected: list[Expected]
    cumulative: int | None = None
    warnings: list[str] = field(default_factory=list)
    backwards: bool = False  # time runs backwards somewhere


def _is_position(column: str) -> bool:
    return column.startswith("accepted_") and column.removeprefix("accepted_").isdigit()


def cell_problem(column: str, expected: Any, found: Any) -> str | None:
    """What is wrong with the cell, or None."""
    match expected:
        case Anything():
            right = True
        case OrNull():
            right = found is None or _same(expected.value, found)
        case Near():
            right = expected.or_null if found is None else abs(found - expected.value) <= expected.tolerance
        case Keys():
            kept = json.loads(found or "{}")
            right = all(str(kept.get(key, "")).startswith(value) for key, value in expected.pairs.items())
        case _:
            right = _same(expected, found)
    return None if right else f"{column}: found {found!r}, planted {expected!r}"


def _same(expected: Any, found: Any) -> bool:
    if expected is None or found is None:
        return expected is found
    if isinstance(expected, bool) or isinstance(found, bool | str):
        return bool(expected == found) and type(expected) is type(found)
    return math.isclose(expected, found, rel_tol=1e-9, abs_tol=1e-6)


def row_problems(row: Row, found: Mapping[str, Any]) -> list[str]:
    """Every cell that is not as planted."""
    cells = dict(row.cells)
    positions = {column for column in found if _is_position(column)}
    for column in positions - cells.keys():
        cells[column] = None
    problems = [cell_problem(column, expected, found.get(column)) for column, expected in cells.items()]
    if found["drafts_exact"] and found["drafts"] != row.drafts:
        problems.append(f"drafts: {found['drafts']} is called exact, planted were {row.drafts}")
    if found["accepted_k_exact"]:
        at = [found.get(f"accepted_{position}") for position in range(1, len(row.accepted_at) + 1)]
        if at != list(row.accepted_at):
            problems.append(f"accepted_1...: {at} is called exact, planted were {list(row.accepted_at)}")
    return [problem for problem in problems if problem is not None]


def judge(case: Case, rows: Sequence[Mapping[str, Any]], found: Any) -> list[str]:
    """Everything in which a reading of the case differs from the truth, as sentences; empty if nothing does."""
    problems = []
    taken: dict[int, list[Mapping[str, Any]]] = {}
    last = -1
    for row in rows:
        index = _record_at(case, row["offset"])
        if index is None:
            problems.append(f"a row at offset {row['offset']}, where no record lies: {dict(row)}")
            continue
        taken.setdefault(index, []).append(row)
        if index < last:
            problems.append(f"rows out of file order at offset {row['offset']}")
        last = index
    refused = {}
    for item in found.refused:
        index = _record_at(case, item["offset"])
        if index is None or not case.expected[index].mentions:
            where = "outside the file's records" if index is None else repr(case.expected[index].text[:200])
            problems.append(f"refused at {item['offset']} ({item['reason']}), but this is no statistics record: {where}")
        else:
            refused[index] = item["reason"]
    for index, expected in enumerate(case.expected):
        problems += _record_problems(expected, taken.get(index, []), refused.get(index))
    return problems + _summary_problems(case, rows, found)


def _record_at(case: Case, offset: int | None) -> int | None:
    for index, expected in enumerate(case.expected):
        if offset is not None and expected.start <= offset < max(expected.end, expected.start + 1):
            return index
    return None


def _record_problems(expected: Expected, rows: Sequence[Mapping[str, Any]], refused: str | None) -> list[str]:
    said = f"\n    in {expected.text!r} at {expected.start}"
    if len(rows) > 1:
        return [f"{len(rows)} rows of one record{said}"]
    if rows and expected.row is None:
        return [f"a row of something that is no interval: {dict(rows[0])}{said}"]
    if rows:
        assert expected.row is not None
        wrong = [problem + said for problem in row_problems(expected.row, rows[0])]
        return [*wrong, f"both read and refused ({refused}){said}"] if refused else wrong
    if expected.must is Must.ROW:
        return [f"not read{f', refused: {refused}' if refused else ''}{said}"]
    if expected.must is Must.REPORTED and refused is None:
        return [f"neither read nor refused{said}"]
    return []


def _summary_problems(case: Case, rows: Sequence[Mapping[str, Any]], found: Any) -> list[str]:
    problems = []
    if found.intervals != len(rows):
        problems.append(f"found.intervals is {found.intervals}, but there are {len(rows)} rows")
    if found.refused_count != len(found.refused):
        problems.append(f"found.refused_count is {found.refused_count}, but {len(found.refused)} are listed")
    if case.cumulative is not None and found.cumulative != case.cumulative:
        problems.append(f"found.cumulative is {found.cumulative}, planted were {case.cumulative} records since start")
    if rows and found.format != "vLLM log":
        problems.append(f"found.format is {found.format!r}, but there are rows")
    for item in case.expected:
        read = any(item.start <= row["offset"] < item.end for row in rows) if item.contradictory else False
        if read and not any("contradict" in warning.lower() for warning in found.warnings):
            problems.append(f"read without a warning that it contradicts itself: {item.text!r}; warnings: {found.warnings}")
    for word in case.warnings:
        if not any(word in warning.lower() for warning in found.warnings):
            problems.append(f"no warning speaks of {word!r}; warnings: {found.warnings}")
    for warning in found.warnings:
        if not case.backwards and "backward" in warning.lower():
            problems.append(f"time never ran backwards here, but: {warning}")
    return problems
