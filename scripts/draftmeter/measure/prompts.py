"""Prompts and session schedules of a workload, made from seeds: the same config gives the same
requests everywhere.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from draftmeter.strict import canonical_json
from draftmeter.study.plan import RunPlan, derive_seed
from draftmeter.study.schema import PromptFile, PromptSet, RandomWords, Sessions

THINKING_ENDS = "</think>"


def is_right(reply: str, right: str) -> bool:
    """Whether `reply`, its thinking part left out, begins with what the right reply says; spaces and a last full stop aside."""
    said = " ".join(reply.rsplit(THINKING_ENDS, maxsplit=1)[-1].split())
    wanted = " ".join(right.split()).rstrip(".")
    return re.match(rf"{re.escape(wanted)}(?!\w)", said) is not None


CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"


class PromptError(ValueError):
    """Prompts that cannot be used: which file, what was found, what would be right."""


@dataclass(frozen=True)
class Turn:
    """One request to send: what the user says, and the settings that differ between requests."""

    request_id: str
    session_id: str
    turn: int
    category: str
    text: str
    seed: int
    max_tokens: int
    think_time_s: float = 0.0
    """Pause between the reply before and this request."""
    right_reply: str | None = None
    """What a right reply says; None where nothing is known to be right."""


@dataclass(frozen=True)
class Prompt:
    """What a user says. Without a category (None) the workload decides; `reply` is the right one,
    None where none is known.
    """

    text: str
    category: str | None = None
    reply: str | None = None


@dataclass(frozen=True)
class Session:
    """Turns that are sent one after the other, each with the conversation so far; `due_s` counts
    from the run's start.
    """

    due_s: float
    turns: list[Turn] = field(default_factory=list)


def fixed_turns(plan: RunPlan) -> list[Turn]:
    """The requests of a run's passes, in the order in which they are sent.

    A request follows from its prompt and its pass alone, and is named after both: runs of one workload that make
    another number of passes, at any number of streams and on any server, share the requests of the passes that both make.
    """
    if plan.passes is None:
        raise ValueError(f"run {plan.run}: has no number of passes")
    prompts = list(enumerate(first_prompts(plan.prompts, plan.set_size)))
    return [_request(plan, at, number, prompt) for at in range(1, plan.passes + 1) for number, prompt in prompts]


def _request(plan: RunPlan, at: int, number: int, prompt: Prompt) -> Turn:
    rng = np.random.default_rng(derive_seed(plan.seed, "settings", at, number))
    name = f"{plan.workload_name}-{at:04d}-{number:05d}"
    return Turn(
        request_id=name,
        session_id=name,
        turn=1,
        category=prompt.category or str(rng.choice(_categories(plan))),
        text=prompt.text,
        seed=derive_seed(plan.seed, "request", at, number),
        max_tokens=int(rng.choice(plan.workload.sampling.max_tokens)),
        right_reply=prompt.reply,
    )


def check_prompts(plan: RunPlan) -> None:
    """Raise :class:`PromptError` now if the run's prompts could not be had later, when a server is
    already up.
    """
    if plan.workload.sessions is None:
        fixed_turns(plan)
    else:
        _session_prompts(plan)


def first_prompts(prompts: PromptSet, count: int) -> list[Prompt]:
    """The first `count` prompts of a set."""
    if isinstance(prompts, PromptFile):
        found = _read_prompt_file(prompts)
        if len(found) < count:
            raise PromptError(
                f"prompts {prompts.path}: has {len(found)} prompts; a pass needs {count} (set_size of the workload)"
            )
        return found[:count]
    # The seed is the set's own: workloads that share a set send the same prompts.
    rng = np.random.default_rng(derive_seed("prompts", canonical_json(prompts)))
    return [Prompt(_random_text(prompts, rng)) for _ in range(count)]


def sessions(plan: RunPlan) -> Iterator[Session]:
    """Production-style traffic: sessions that arrive at a varying rate, with pauses and a mix of
    categories that drifts; in the order in which they are due, each made when it is asked for.

    The weights of the categories follow an Ornstein-Uhlenbeck process with correlation time
    `category_time_s`, pushed through a softmax; arrivals are a Poisson process whose rate swings
    between half and one and a half times its mean.
    """
    settings = plan.workload.sessions
    if settings is None or plan.duration_s is None:
        raise ValueError(f"run {plan.run}: is not session traffic")
    rng = np.random.default_rng(plan.seed)
    categories, prompts = _categories(plan), _session_prompts(plan)
    drift = _drift(plan.duration_s, settings.category_time_s, len(categories), rng)
    number, due, second = 0, 0.0, 0
    log_weights = next(drift)
    while True:
        swing = 1 + 0.5 * np.sin(2 * np.pi * due / (4 * settings.category_time_s))
        due += float(rng.exponential(60 / (settings.sessions_per_minute * swing)))
        if due >= plan.duration_s:
            return
        if due % (settings.pause_every_s + settings.pause_s) >= settings.pause_every_s:
            continue
        while second < int(due):
            second, log_weights = second + 1, next(drift)
        weights = np.exp(2.0 * log_weights)
        category = str(rng.choice(categories, p=weights / weights.sum()))
        yield Session(due_s=due, turns=_session_turns(plan, settings, number, category, prompts.get(category, []), rng))
        number += 1


class PromptsHash:
    """One hash for the prompts of a run, in order: the sha256 of all texts as one JSON list, which
    is never held.
    """

    def __init__(self) -> None:
        self._digest = hashlib.sha256(b"[")
        self._separator = b""

    def add(self, text: str) -> None:
        """Take the next text."""
        self._digest.update(self._separator + canonical_json(text).encode())
        self._separator = b","

    def hexdigest(self) -> str:
        """The hash of the texts so far."""
        whole = self._digest.copy()
        whole.update(b"]")
        return whole.hexdigest()


def _drift(duration_s: float, correlation_s: float, categories: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Log weights of the categories for each second, shape (categories,), unit variance. All of
    `rng`'s draws are made at the first.
    """
    keep = np.exp(-1 / correlation_s)
    steps = rng.normal(size=(int(duration_s) + 1, categories))
    drift = steps[0]
    yield drift
    for step in steps[1:]:
        drift = keep * drift + np.sqrt(1 - keep**2) * step
        yield drift


def _session_prompts(plan: RunPlan) -> dict[str, list[Prompt]]:
    """The prompts of a file by category, those that session traffic draws from; none where prompts
    are made as it goes.
    """
    if not isinstance(plan.prompts, PromptFile):
        return {}
    rows = _read_prompt_file(plan.prompts)
    found = {category: [row for row in rows if row.category in (category, None)] for category in _categories(plan)}
    empty = [category for category, some in found.items() if not some]
    if empty:
        raise PromptError(f"prompts {plan.prompts.path}: has no prompt of category {empty[0]!r}, which run {plan.run} sends")
    return found


def _session_turns(
    plan: RunPlan, settings: Sessions, number: int, category: str, prompts: list[Prompt], rng: np.random.Generator
) -> list[Turn]:
    count = int(rng.integers(settings.turns[0], settings.turns[1] + 1))
    return [
        Turn(
            request_id=f"{plan.run}-{number:05d}-{turn}",
            session_id=f"{plan.run}-{number:05d}",
            turn=turn,
            category=category,
            text=_turn_text(plan.prompts, prompts, rng),
            seed=derive_seed(plan.seed, "session", number, turn),
            max_tokens=int(rng.choice(plan.workload.sampling.max_tokens)),
            think_time_s=0.0 if turn == 1 else float(rng.uniform(settings.think_time_s[0], settings.think_time_s[1])),
        )
        for turn in range(1, count + 1)
    ]


def _turn_text(prompts: PromptSet, of_category: list[Prompt], rng: np.random.Generator) -> str:
    if isinstance(prompts, RandomWords):
        return _random_text(prompts, rng)
    return of_category[int(rng.integers(len(of_category)))].text


def _categories(plan: RunPlan) -> list[str]:
    """The workload's categories; a workload without any is its own."""
    return plan.workload.categories or [plan.workload_name]


def _random_text(prompts: RandomWords, rng: np.random.Generator) -> str:
    """Words of one to three syllables, then the instruction."""
    count = int(rng.integers(prompts.words[0], prompts.words[1] + 1))
    ends = np.cumsum(rng.integers(1, 4, size=count))
    letters = np.empty((ends[-1], 2), np.uint8)
    for column, alphabet in enumerate((CONSONANTS, VOWELS)):
        letters[:, column] = rng.choice(np.frombuffer(alphabet.encode(), np.uint8), size=ends[-1])
    text = letters.tobytes().decode()
    words = [text[start:end] for start, end in pairwise([0, *(2 * ends).tolist()])]
    return " ".join([*words, prompts.instruction]).strip()


def _read_prompt_file(prompts: PromptFile) -> list[Prompt]:
    path = Path(prompts.path)
    if prompts.sha256 == "unresolved":
        raise PromptError(f"prompts {path}: sha256 is unresolved; put the hash of the file that you mean into the config")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PromptError(f"prompts {path}: cannot be read: {error.strerror}") from error
    found = hashlib.sha256(data).hexdigest()
    if found != prompts.sha256:
        raise PromptError(f"prompts {path}: sha256 is {found}; the config says {prompts.sha256}")
    rows = []
    for number, line in enumerate(data.decode().splitlines(), start=1):
        try:
            row = json.loads(line)
            given = {key: str(row[key]) for key in ("category", "reply") if key in row}
            rows.append(Prompt(str(row["prompt"]), **given))
        except (ValueError, KeyError, TypeError) as error:
            raise PromptError(f"prompts {path}, line {number}: needs a JSON object with the key prompt: {error}") from error
    return rows
