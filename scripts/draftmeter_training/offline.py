"""Acceptance of the trained model on its prompt sets, computed without a server."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from draftmeter_training.agreement import described, replies_to, right_answers
from draftmeter_training.decoder import Decoder
from draftmeter_training.reference import SamplingRule, acceptance, replay, same_steps
from draftmeter_training.tokens import END_ID, prompt_ids


@dataclass(frozen=True)
class Workload:
    """A prompt set and whether reasoning is on."""

    prompts: str
    reasoning: bool


WORKLOADS = {
    "code": Workload("code", reasoning=False),
    "prose": Workload("prose", reasoning=False),
    "evaluation questions": Workload("questions", reasoning=False),
    "questions, reasoning on": Workload("questions", reasoning=True),
    "random words": Workload("words", reasoning=False),
    "random words, reasoning on": Workload("words", reasoning=True),
}
REPLIES = 64
MAX_TOKENS = 256


def offline_acceptance(
    model: Decoder, tokenizer: Tokenizer, prompts: Path, rule: SamplingRule, say: Callable[[str], None]
) -> dict[str, Any]:
    """For each workload: acceptance, its ceiling, the share of right answers, the mean reply, and a replay of itself.

    `prompts` is the folder of the prompt sets; the first REPLIES prompts of each are used, replies end at MAX_TOKENS.
    """
    found: dict[str, Any] = {}
    for name, workload in WORKLOADS.items():
        rows = [json.loads(line) for line in (prompts / f"{workload.prompts}.jsonl").read_text().splitlines()[:REPLIES]]
        asked = [prompt_ids(tokenizer, row["prompt"], workload.reasoning) for row in rows]
        replies = replies_to(model, asked, rule, MAX_TOKENS)
        again = [replay(model, prompt, reply.tokens) for prompt, reply in zip(asked, replies, strict=True)]
        found[name] = {
            **described(acceptance([reply.accepted for reply in replies])),
            "ceiling": described(acceptance([one.ceiling for one in again])),
            "replayed": sum(same_steps(one.accepted, reply.accepted) for one, reply in zip(again, replies, strict=True)),
            "right": right_answers(tokenizer, [reply.tokens for reply in replies], rows),
            "mean_reply_tokens": sum(len(reply.tokens) for reply in replies) / len(replies),
            "ended_by_itself": sum(reply.tokens[-1] == END_ID for reply in replies) / len(replies),
        }
        say(f"offline {name}: {' '.join(f'{share:.3f}' for share in found[name]['through'])}, right {found[name]['right']}")
    return found
