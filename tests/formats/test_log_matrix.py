"""Reading generated logs: every cell of every row against what was planted, for every wording, source and trouble."""

import io
import random
from typing import Any

import pytest

from draftmeter.formats.log import Known, LogReading, read_log
from draftmeter.formats.log import read as read_module
from draftmeter.formats.log.usual import Usual
from log_generator import PREFIXES, TROUBLES, WORDINGS, make_case
from log_truth import COLUMNS, Case, judge

Rows = list[dict[str, Any]]


def read(case: Case) -> tuple[LogReading, Rows]:
    reading = read_log(io.BytesIO(case.content), Known(**case.known))
    return reading, [row for batch in reading.batches() for row in batch.to_pylist()]


def check(case: Case) -> list[str]:
    reading, rows = read(case)
    problems = judge(case, rows, reading.found)
    if reading.n != len(rows):
        problems.append(f"n is {reading.n}, but there are {len(rows)} rows")
    problems += [f"no column {column}" for row in rows[:1] for column in COLUMNS if column not in row]
    return problems


def expect_no_problem(case: Case) -> None:
    if problems := check(case):
        wording, prefix, trouble, seed = case.name.split(" / ")
        command = f"python tests/worlds/log_generator.py '{wording}' '{prefix}' '{trouble}' {seed}"
        listed = "\n- ".join(problems[:6])
        pytest.fail(f"{len(problems)} problems; known: {case.known}\n- {listed}\nthe log: {command}", pytrace=False)


# A ninth of all triples, in which every pair occurs; benchmarks/format_matrix.py runs them all.
TRIPLES = [
    (wording, prefix, trouble)
    for w, wording in enumerate(WORDINGS)
    for p, prefix in enumerate(PREFIXES)
    for t, trouble in enumerate(TROUBLES)
    if (w + p + t) % 9 == 0
]


@pytest.mark.parametrize(("wording", "prefix", "trouble"), TRIPLES, ids=lambda value: value.replace(" ", "_"))
def test_every_cell_is_as_planted_or_null_where_it_cannot_be_known(wording: str, prefix: str, trouble: str) -> None:
    expect_no_problem(make_case(wording, prefix, trouble))


@pytest.mark.parametrize("seed", range(120))
def test_troubles_in_combination(seed: int) -> None:
    random_ = random.Random(seed)
    troubles = " + ".join(random_.sample(_COMBINABLE, 2))
    expect_no_problem(make_case(random_.choice(list(WORDINGS)), random_.choice(list(PREFIXES)), troubles, seed))


# A prompt that quotes a whole line can, once broken, look like the line itself: no reader could tell.
_COMBINABLE = [name for name, trouble in TROUBLES.items() if trouble.hostile is None and name != "none"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *[("accepted", 7), ("drafted", 7), ("accepted_1", None), ("drafts", 7), ("k", 9), ("accepted_k_exact", False)],
        *[("end", None), ("start", 0.0), ("window_s", 11.0), ("since_last_line_s", None), ("wording", "2025-04")],
        *[("process", None), ("engine", "1"), ("running", None), ("kv_cache_usage", 0.5), ("extra", "{}")],
    ],
)
def test_the_judge_notices_a_wrong_cell(column: str, value: Any) -> None:
    case = make_case("0.10.2+", "process", "none")
    reading, rows = read(case)
    assert rows[2][column] != value
    rows[2][column] = value
    assert any(problem.startswith(f"{column}: ") for problem in judge(case, rows, reading.found))


def test_the_judge_notices_lost_doubled_and_invented_rows() -> None:
    case = make_case("0.10.2+", "process", "none")
    reading, rows = read(case)
    for wrong in (rows[1:], [*rows, rows[-1]], [{**rows[0], "offset": 0}, *rows], rows[::-1]):
        assert judge(case, wrong, reading.found)


@pytest.mark.parametrize("wording", [wording for wording in WORDINGS if wording.startswith("0.10.2+")])
@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_fast_reader_reads_what_the_careful_one_reads(wording: str, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(wording, prefix, "none", 3)
    fast, rows = read(case)
    monkeypatch.setattr(read_module, "read_usual", lambda window, places: (Usual(), places.all()))
    careful, careful_rows = read(case)
    assert rows == careful_rows and fast.found == careful.found
