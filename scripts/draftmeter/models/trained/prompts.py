"""Prompt sets of held-out text and questions, one JSON object a line: prompt, category, and for questions what is right."""

import json
from pathlib import Path

import numpy as np

from draftmeter.models.trained import questions
from draftmeter.models.trained.conversations import code, essay, prose
from draftmeter.models.trained.corpus import Corpus

SEED = 11
COUNT = 256
MOST_CHARACTERS = 900
"""Longest prompt: with a reply of 512 tokens a conversation of one turn stays within the model's context."""


def prompt_sets(held_out: Corpus) -> dict[str, list[dict[str, str]]]:
    """COUNT different prompts of each category, none of which training has seen."""
    rng = np.random.default_rng(SEED)
    sets: dict[str, list[dict[str, str]]] = {"code": [], "prose": [], "questions": [], "words": []}
    seen: set[str] = set()
    for category, rows in sets.items():
        while len(rows) < COUNT:
            row = _draw(category, rng, held_out)
            if row["prompt"] not in seen and len(row["prompt"]) <= MOST_CHARACTERS:
                seen.add(row["prompt"])
                rows.append(row)
    return sets


def _draw(category: str, rng: np.random.Generator, held_out: Corpus) -> dict[str, str]:
    if category == "questions":
        asked = questions.ask(rng, held_out=True)
        return {"prompt": asked.text, "category": category, "answer": asked.answer, "reply": asked.reply}
    made = {"code": lambda: code(rng, held_out), "prose": lambda: prose(rng, held_out), "words": lambda: essay(rng, False)}
    return {"prompt": made[category]().prompt, "category": category}


def write_prompt_sets(held_out: Corpus, folder: Path) -> None:
    """One file a category, in `folder` (created)."""
    folder.mkdir(parents=True, exist_ok=True)
    for category, rows in prompt_sets(held_out).items():
        (folder / f"{category}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
