"""Conversations to learn from and to be measured with: code, prose, questions, essays, each with or without thinking."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from draftmeter_training import essays, questions
from draftmeter_training.corpus import CodeFile, Corpus

Rng = np.random.Generator

MIXTURE = {"code": 0.44, "prose": 0.20, "question": 0.08, "reasoning": 0.16, "essay": 0.09, "thinking": 0.03}
"""Share of the documents' tokens that each kind gets in training."""


@dataclass(frozen=True)
class Conversation:
    """One request and its reply. `thinking` is null with reasoning off. `learn_prompt`: whether the prompt is learnt too."""

    prompt: str
    reply: str
    thinking: str | None = None
    learn_prompt: bool = True
    whole: bool = True
    """Whether the reply ends where it ends, or was cut."""


def code(rng: Rng, corpus: Corpus) -> Conversation:
    """The start of a piece of Python to go on with, and how it goes on up to the end of a statement."""
    sizes = np.array([len(file.lines) for file in corpus.code], dtype=float)
    while True:
        file = corpus.code[int(rng.choice(len(corpus.code), p=sizes / sizes.sum()))]
        found = _piece(rng, file)
        if found is not None:
            head, rest = found
            return Conversation(f"Go on with this Python code:\n{head}", rest)


def _piece(rng: Rng, file: CodeFile) -> tuple[str, str] | None:
    start = int(rng.choice(file.starts))
    split = start + int(rng.integers(3, 13))
    wanted = split + int(rng.integers(8, 50))
    end = next((line for line in file.starts if line >= wanted), len(file.lines))
    head, rest = file.lines[start:split], file.lines[split : min(end, split + 90)]
    head_text, rest_text = "\n".join(head).strip("\n"), "\n".join(rest).rstrip()
    return (head_text, rest_text) if rest_text.strip() and head_text.strip() else None


def prose(rng: Rng, corpus: Corpus) -> Conversation:
    """The start of a text to go on with, or a question about what documentation explains."""
    passage = corpus.prose[int(rng.integers(len(corpus.prose)))]
    if passage.about is not None and rng.random() < 0.4:
        return Conversation(f"What is {passage.about}?", passage.text)
    ends = [match.end() for match in re.finditer(r"\s+", passage.text)]
    split = ends[min(int(rng.integers(10, 50)), len(ends) // 2)]
    return Conversation(f"Go on with this text:\n{passage.text[:split].rstrip()}", passage.text[split:].lstrip(" "))


def question(rng: Rng, held_out: bool) -> Conversation:
    """A question answered at once."""
    asked = questions.ask(rng, held_out)
    return Conversation(asked.text, asked.reply, learn_prompt=False)


def reasoning(rng: Rng, held_out: bool) -> Conversation:
    """A question that is thought through before it is answered."""
    asked = questions.ask(rng, held_out)
    return Conversation(asked.text, asked.reply, "\n".join(asked.steps), learn_prompt=False)


def essay(rng: Rng, with_thinking: bool) -> Conversation:
    """Random words and a text about them."""
    prompt, thinking, reply = essays.essay(rng)
    return Conversation(prompt, reply, thinking if with_thinking else None, learn_prompt=False)


def thinking(rng: Rng, corpus: Corpus) -> Conversation:
    """Code, prose or random words with reasoning on: what is asked, put in own words, then the reply."""
    kind = int(rng.integers(3))
    if kind == 0:
        return essay(rng, with_thinking=True)
    plain = code(rng, corpus) if kind == 1 else prose(rng, corpus)
    last = plain.prompt.splitlines()[-1].strip()
    task = "The request is to go on with Python code." if kind == 1 else "The request is about a text."
    return Conversation(plain.prompt, plain.reply, f"{task}\nIt ends with: {last}\nI go on from there.")


def makers(corpus: Corpus, held_out: bool) -> dict[str, Callable[[Rng], Conversation]]:
    """A maker of conversations for each kind of the mixture."""
    return {
        "code": lambda rng: code(rng, corpus),
        "prose": lambda rng: prose(rng, corpus),
        "question": lambda rng: question(rng, held_out),
        "reasoning": lambda rng: reasoning(rng, held_out),
        "essay": lambda rng: essay(rng, with_thinking=False),
        "thinking": lambda rng: thinking(rng, corpus),
    }
