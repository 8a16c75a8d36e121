"""What was really drafted at each position, from the steps of requests; null where the steps do not agree with the counts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.collect.records import requests_table
from made_up_records import request

# Five steps of up to three tokens: the fourth holds one token and the last two, as where a grammar refuses the rest.
ACCEPTED, DRAFTED = [3, 0, 1, 1, 2], [3, 3, 3, 1, 2]


def row_of(accepted: list[int] | None, drafted: list[int] | None, k: int = 3, **changes: Any) -> dict[str, Any]:
    """The row of one request with these steps, whose other counts agree with them unless changed."""
    steps = accepted or []
    histogram = [steps.count(number) for number in range(k + 1)]
    counts = {"drafts": len(steps), "draft_tokens": sum(drafted or []), "accepted_tokens": sum(steps)}
    values = {"per_step_accepted": accepted, "per_step_drafted": drafted, **counts} | changes
    (row,) = requests_table("", [request(1, histogram, **values)], k).to_pylist()
    return row


def eligible(row: dict[str, Any], k: int = 3) -> list[int | None]:
    return [row[f"eligible_{position}"] for position in range(1, k + 1)]


def test_pauses_are_added_up_and_steps_are_none() -> None:
    rows = [
        request(1, [1, 0, 0, 0], chunk_times=[0.1, 0.2, 0.9, 1.0, 2.5]),
        request(2, [1, 0, 0, 0], chunk_times=[3.0]),
        request(3, [1, 0, 0, 0], chunk_times=[]),
    ]
    assert [row["paused_s"] for row in requests_table("", rows, 3).to_pylist()] == [pytest.approx(2.2), 0.0, None]


def test_steps_by_hand() -> None:
    row = row_of(ACCEPTED, DRAFTED)
    # At 2: of the four drafts whose first token was accepted the one of one token was never asked. At 3: of the two whose
    # second was accepted the one of two tokens was not.
    assert eligible(row) == [5, 3, 1]
    assert [row[f"accepted_{position}"] for position in (1, 2, 3)] == [4, 2, 1]
    assert eligible(row_of([], [])) == [0, 0, 0]


@pytest.mark.parametrize(
    "changes",
    [
        {"per_step_accepted": None},
        {"per_step_drafted": None},
        {"per_step_drafted": DRAFTED[:-1]},
        {"per_step_drafted": [3, 3, 3, 0, 3]},
        {"per_step_drafted": [4, 3, 3, 1, 1]},
        {"per_step_accepted": [3, -1, 2, 1, 2]},
        {"per_step_accepted": [3, 0, 2, 0, 2]},
        {"drafts": 6},
        {"drafts": None},
        {"draft_tokens": 13},
        {"accepted_tokens": 8},
    ],
)
def test_steps_that_contradict_the_counts_are_unknown(changes: dict[str, Any]) -> None:
    row = row_of(ACCEPTED, DRAFTED, **changes)
    assert eligible(row) == [None] * 3 and row["accepted_1"] == 4


def test_without_a_histogram_nothing_is_known_by_position() -> None:
    (row,) = requests_table("", [request(1, None, per_step_accepted=ACCEPTED, per_step_drafted=DRAFTED)], 3).to_pylist()
    assert eligible(row) == [None] * 3 and row["accepted_1"] is None


steps = st.integers(1, 6).flatmap(
    lambda k: st.lists(st.integers(0, k).flatmap(lambda d: st.tuples(st.integers(0, d), st.just(d)))).map(lambda one: (k, one))
)


@given(steps)
def test_properties_of_any_steps(case: tuple[int, list[tuple[int, int]]]) -> None:
    k, pairs = case
    row = row_of([a for a, _ in pairs], [d for _, d in pairs], k)
    found = eligible(row, k)
    accepted = [len(pairs)] + [row[f"accepted_{position}"] for position in range(1, k + 1)]
    assert all(accepted[at + 1] <= found[at] <= accepted[at] for at in range(k))
    # What was checked: every accepted token, and one more in each draft that was not accepted to its end.
    assert sum(found) == sum(min(a + 1, d) for a, d in pairs)


@given(st.lists(st.integers(0, 3)))
def test_full_drafts_hold_a_token_wherever_the_one_before_was_accepted(accepted: list[int]) -> None:
    row = row_of(accepted, [3] * len(accepted))
    assert eligible(row) == [len(accepted), row["accepted_1"], row["accepted_2"]]
