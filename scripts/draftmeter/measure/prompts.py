"""Prompts and session schedules of a workload, made from seeds: the same config gives the same requests everywhere."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from draftmeter.plan import RunPlan, derive_seed
from draftmeter.strict import canonical_json
from draftmeter.study import PromptFile, PromptSet, RandomWords, Sessions

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


@dataclass(frozen=True)
class Session:
    """Turns that are sent one after the other, each with the conversation so far; `due_s` counts from the run's start."""

    due_s: float
    turns: list[Turn] = field(default_factory=list)


def fixed_turns(plan: RunPlan) -> list[Turn]:
    """The requests of a run with a fixed number of requests, in the order in which they are sent."""
    if plan.requests is None:
        raise ValueError(f"run {plan.run}: has no number of requests")
    prompts = prompt_texts(plan.prompts, plan.requests)
    rng = np.random.default_rng(plan.seed)
    turns = []
    for number, (text, category) in enumerate(prompts):
        turns.append(
            Turn(
                request_id=f"{plan.run}-{number:05d}",
                session_id=f"{plan.run}-{number:05d}",
                turn=1,
                category=category or str(rng.choice(_categories(plan))),
                text=text,
                seed=derive_seed(plan.seed, "request", number),
                max_tokens=int(rng.choice(plan.workload.sampling.max_tokens)),
            )
        )
    return turns


def check_prompts(plan: RunPlan) -> None:
    """Raise :class:`PromptError` now if the run's prompts could not be had later, when a server is already up."""
    if plan.workload.sessions is None:
        fixed_turns(plan)


def prompt_texts(prompts: PromptSet, count: int) -> list[tuple[str, str | None]]:
    """The first `count` prompts of a set with their category (null: the workload decides)."""
    if isinstance(prompts, PromptFile):
        return _read_prompt_file(prompts, count)
    # The seed is the set's own: workloads that share a set send the same prompts.
    rng = np.random.default_rng(derive_seed("prompts", canonical_json(prompts)))
    return [(_random_text(prompts, rng), None) for _ in range(count)]


def sessions(plan: RunPlan) -> list[Session]:
    """Production-style traffic: sessions that arrive at a varying rate, with pauses and a mix of categories that drifts.

    The weights of the categories follow an Ornstein-Uhlenbeck process with correlation time `category_time_s`, pushed
    through a softmax; arrivals are a Poisson process whose rate swings between half and one and a half times its mean.
    """
    settings = plan.workload.sessions
    if settings is None or plan.duration_s is None:
        raise ValueError(f"run {plan.run}: is not session traffic")
    rng = np.random.default_rng(plan.seed)
    categories = _categories(plan)
    drift = _drift(plan.duration_s, settings.category_time_s, len(categories), rng)
    found: list[Session] = []
    due = 0.0
    while True:
        swing = 1 + 0.5 * np.sin(2 * np.pi * due / (4 * settings.category_time_s))
        due += float(rng.exponential(60 / (settings.sessions_per_minute * swing)))
        if due >= plan.duration_s:
            return found
        if due % (settings.pause_every_s + settings.pause_s) >= settings.pause_every_s:
            continue
        weights = np.exp(2.0 * drift[int(due)])
        category = str(rng.choice(categories, p=weights / weights.sum()))
        found.append(Session(due_s=due, turns=_session_turns(plan, settings, len(found), category, rng)))


def prompts_sha256(texts: list[str]) -> str:
    """One hash for the prompts of a run, in order."""
    return hashlib.sha256(canonical_json(texts).encode()).hexdigest()


def _drift(duration_s: float, correlation_s: float, categories: int, rng: np.random.Generator) -> np.ndarray:
    """Log weights of the categories for each second, shape (seconds, categories), unit variance."""
    keep = np.exp(-1 / correlation_s)
    steps = rng.normal(size=(int(duration_s) + 1, categories))
    drift = np.empty_like(steps)
    drift[0] = steps[0]
    for second in range(1, len(steps)):
        drift[second] = keep * drift[second - 1] + np.sqrt(1 - keep**2) * steps[second]
    return drift


def _session_turns(plan: RunPlan, settings: Sessions, number: int, category: str, rng: np.random.Generator) -> list[Turn]:
    count = int(rng.integers(settings.turns[0], settings.turns[1] + 1))
    if not isinstance(plan.prompts, RandomWords):
        raise PromptError(f"run {plan.run}: session traffic takes random_words prompts; found kind {plan.prompts.kind!r}")
    return [
        Turn(
            request_id=f"{plan.run}-{number:05d}-{turn}",
            session_id=f"{plan.run}-{number:05d}",
            turn=turn,
            category=category,
            text=_random_text(plan.prompts, rng),
            seed=derive_seed(plan.seed, "session", number, turn),
            max_tokens=int(rng.choice(plan.workload.sampling.max_tokens)),
            think_time_s=0.0 if turn == 1 else float(rng.uniform(settings.think_time_s[0], settings.think_time_s[1])),
        )
        for turn in range(1, count + 1)
    ]


def _categories(plan: RunPlan) -> list[str]:
    """The workload's categories; a workload without any is its own."""
    return plan.workload.categories or [plan.workload_name]


def _random_text(prompts: RandomWords, rng: np.random.Generator) -> str:
    count = int(rng.integers(prompts.words[0], prompts.words[1] + 1))
    ends = np.cumsum(rng.integers(1, 4, size=count))
    first, second = (rng.choice(list(letters), size=ends[-1]) for letters in (CONSONANTS, VOWELS))
    syllables = np.char.add(first, second)
    words = ["".join(part) for part in np.split(syllables, ends[:-1])]
    return " ".join([*words, prompts.instruction]).strip()


def _read_prompt_file(prompts: PromptFile, count: int) -> list[tuple[str, str | None]]:
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
    lines = data.decode().splitlines()
    if len(lines) < count:
        raise PromptError(f"prompts {path}: has {len(lines)} prompts; the run needs {count}")
    rows = []
    for number, line in enumerate(lines[:count], start=1):
        try:
            row = json.loads(line)
            rows.append((str(row["prompt"]), str(row["category"]) if "category" in row else None))
        except (ValueError, KeyError, TypeError) as error:
            raise PromptError(f"prompts {path}, line {number}: needs a JSON object with the key prompt: {error}") from error
    return rows
