"""How often a server started, and which attempts its records are of."""

from collections.abc import Iterable

import pandas as pd
import pytest

from draftmeter.analyse.facts import AnalysisError
from draftmeter.analyse.setup import setup_rows as rows_of
from draftmeter.analyse.tables import COUNTERS, INTERVALS, Tables
from draftmeter.facts import SetupRow
from draftmeter.record.run import Record
from made_up_records import record
from made_up_study import runs_of


def setup_rows(records: Iterable[Record]) -> list[SetupRow]:
    runs = runs_of(records)
    counters = runs.reindex(columns=COUNTERS)
    return rows_of(Tables(counters, pd.DataFrame(columns=INTERVALS), pd.DataFrame(), pd.DataFrame(), runs))


def test_a_boot_finished_in_two_attempts_is_two_starts() -> None:
    records = [
        record("pair", boot="boot-1", attempt=1),
        record("traffic", boot="boot-1", attempt=3),
        record("evaluation", boot="boot-1", attempt=3),
        record("pair", boot="boot-2", attempt=1, replicate=2),
        record("pair", boot="boot-10", attempt=2, replicate=10),
    ]
    (row,) = setup_rows(reversed(records))
    assert row.starts == 4
    assert row.attempts == ["boot-1 (attempts 1 and 3)", "boot-10 (attempt 2)"]


def test_boots_that_finished_at_once_name_no_attempt() -> None:
    (row,) = setup_rows([record("pair"), record("traffic"), record("pair", boot="boot-2", replicate=2)])
    assert (row.starts, row.attempts) == (2, [])


def test_a_server_without_speculation_has_no_method_and_no_draft_tokens() -> None:
    (row,) = setup_rows([record("pair", speculative=None), record("evaluation", speculative=None)])
    assert (row.method, row.k) == ("none", 0)
    with pytest.raises(AnalysisError, match=r"records of server production: found num_speculative_tokens \[0, 3\]"):
        setup_rows([record("pair"), record("evaluation", speculative=None)])


def test_what_computed_is_known_from_the_records() -> None:
    assert [row.processor for row in setup_rows([record("pair"), record("pair", server="other", gpu=["A GPU"])])] == [
        "GPU",
        "CPU",
    ]


def test_starts_of_another_server_are_its_own() -> None:
    rows = setup_rows([record("pair", server="production"), record("pair", server="controlled", attempt=2)])
    assert [(row.server, row.starts, row.attempts) for row in rows] == [
        ("controlled", 1, ["boot-1 (attempt 2)"]),
        ("production", 1, []),
    ]
