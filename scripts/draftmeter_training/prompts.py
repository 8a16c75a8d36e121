"""Prompt sets of held-out text and questions, one JSON object a line: prompt, category, and for questions what is right."""

import json
from pathlib import Path

import numpy as np

from draftmeter_training import questions
from draftmeter_training.conversations import code, essay, prose
from draftmeter_training.corpus import Corpus

SEED = 11
CATEGORIES = ("code", "prose", "questions", "words")
COUNT = 256
MIXED_COUNT = 128
MOST_CHARACTERS = 900
"""Longest prompt: with a reply of 512 tokens a conversation of one turn stays within the model's context."""


def prompt_sets(held_out: Corpus) -> dict[str, list[dict[str, str]]]:
    """COUNT prompts of each category, and a set that takes turns among MIXED_COUNT others of each.

    All differ, and training has seen none.
    """
    rng = np.random.default_rng(SEED)
    seen: set[str] = set()
    sets = {category: _new(category, COUNT, rng, held_out, seen) for category in CATEGORIES}
    mixed = [_new(category, MIXED_COUNT, rng, held_out, seen) for category in CATEGORIES]
    return sets | {"mixed": [row for turn in zip(*mixed, strict=True) for row in turn]}


def _new(category: str, count: int, rng: np.random.Generator, held_out: Corpus, seen: set[str]) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = []
    while len(rows) < count:
        row = _draw(category, rng, held_out)
        if row["prompt"] not in seen and len(row["prompt"]) <= MOST_CHARACTERS:
            seen.add(row["prompt"])
            rows.append(row)
    return rows


def _draw(category: str, rng: np.random.Generator, held_out: Corpus) -> dict[str, str]:
    if category == "questions":
        asked = questions.ask(rng, held_out=True)
        return {"prompt": asked.text, "category": category, "answer": asked.answer, "reply": asked.reply}
    made = {"code": lambda: code(rng, held_out), "prose": lambda: prose(rng, held_out), "words": lambda: essay(rng, False)}
    return {"prompt": made[category]().prompt, "category": category}


def write_prompt_sets(held_out: Corpus, folder: Path) -> None:
    """One file a set, in `folder` (created)."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in prompt_sets(held_out).items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
