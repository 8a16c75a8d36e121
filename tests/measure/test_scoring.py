"""When a reply counts as right: what it says first, after any thinking, is what the right reply says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.measure.client import _Reply
from draftmeter.measure.prompts import Turn, is_right


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("The answer is 12.", "The answer is 12."),
        ("The answer is 12", "The answer is 12."),
        ("The answer is 12, I think.", "The answer is 12."),
        ("<think>\nThe answer is 3.\n</think>\nThe  answer\nis 12.", "The answer is 12."),
    ],
)
def test_a_right_reply(reply: str, right: str) -> None:
    assert is_right(reply, right)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "The answer is 123.",
        "The answer is 1",
        "I think the answer is 12.",
        "<think>The answer is 12.</think>The answer is 13.",
    ],
)
def test_a_wrong_reply(reply: str) -> None:
    assert not is_right(reply, "The answer is 12.")


@given(st.text(), st.text(min_size=1))
def test_any_text_is_judged(reply: str, right: str) -> None:
    assert is_right(reply, right) in (True, False)


@pytest.mark.parametrize(
    ("right", "error", "score"), [("xx", None, 1.0), ("xy", None, 0.0), (None, None, None), ("xx", "the stream broke off", None)]
)
def test_a_request_is_scored_where_a_right_reply_is_known_and_its_own_is_whole(
    right: str | None, error: str | None, score: float | None
) -> None:
    turn = Turn("r", "s", 1, "c", "prompt", seed=1, max_tokens=2, right_reply=right)
    reply = _Reply(text="xx")
    assert reply.row(turn, {"messages": []}, due=0.0, sent=0.0, error=error).score == score
