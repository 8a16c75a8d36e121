"""Does a server count what the weights imply? Its replies replayed offline, and acceptance of text made without it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tokenizers import Tokenizer

from draftmeter.measure.prompts import is_right
from draftmeter_training.decoder import Decoder
from draftmeter_training.reference import Acceptance, SamplingRule, acceptance, replay, same_steps, speculate

ROWS_AT_ONCE = 16
SEED = 17


@dataclass(frozen=True)
class ServedReply:
    """What a server said of one request: token ids of the prompt and the reply, drafts that it accepted at each step."""

    prompt: list[int]
    reply: list[int]
    accepted: list[int]


def agreement(
    model: Decoder, tokenizer: Tokenizer, served: Sequence[ServedReply], rows: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Requests whose accepted counts the replay repeats, acceptance counted and in the text, and right answers.

    `rows` are the prompts of a prompt set, in the order of `served`; those with a key reply are questions.
    """
    replays = [replay(model, one.prompt, one.reply) for one in served]
    agree = [same_steps(again.accepted, one.accepted) for one, again in zip(served, replays, strict=True)]
    steps = [len(one.accepted) for one in served]
    return {
        "requests": len(served),
        "agree": sum(agree),
        "disagree": [number for number, same in enumerate(agree) if not same],
        "steps": sum(steps),
        "counted": described(acceptance([one.accepted for one in served])),
        "in_text": described(acceptance([again.accepted for again in replays])),
        "ceiling": described(acceptance([again.ceiling for again in replays])),
        "right": right_answers(tokenizer, [one.reply for one in served], rows),
    }


def independent(model: Decoder, prompts: Sequence[Sequence[int]], rule: SamplingRule, max_tokens: int) -> dict[str, Any]:
    """Acceptance of replies that the reference generates itself, with its own random numbers."""
    replies = replies_to(model, prompts, rule, max_tokens)
    return described(acceptance([reply.accepted for reply in replies]))


def replies_to(model: Decoder, prompts: Sequence[Sequence[int]], rule: SamplingRule, max_tokens: int) -> list[Any]:
    """A reply of the reference to each prompt, some rows at once."""
    done = []
    for first in range(0, len(prompts), ROWS_AT_ONCE):
        done += speculate(model, prompts[first : first + ROWS_AT_ONCE], rule, max_tokens, SEED + first)
    return done


def right_answers(tokenizer: Tokenizer, replies: Sequence[Sequence[int]], rows: Sequence[dict[str, Any]]) -> float | None:
    """The share of questions whose reply is right; null where the prompts are no questions."""
    judged = [
        is_right(tokenizer.decode(list(reply), skip_special_tokens=False), row["reply"])
        for reply, row in zip(replies, rows, strict=True)
        if "reply" in row
    ]
    return sum(judged) / len(judged) if judged else None


def described(found: Acceptance) -> dict[str, Any]:
    """Plain values of an acceptance."""
    return {
        **asdict(found),
        "accepted_over_drafted": found.accepted_over_drafted,
        "tokens_per_step": found.tokens_per_step,
    }
