"""The known-answer model: an exact Markov chain, so that the acceptance a server should count is known in closed form.

Every token belongs to one group, groups never mix, and the next token depends on the current one alone. The draft is the
most probable next token, applied K times. A draft token d after t is accepted with probability Q[t, d], Q being the
served distribution; after a rejection the token comes from the rest of the row (speculative sampling with a
deterministic draft, Leviathan et al. 2023, arXiv:2211.17192). So the expected counts of a reply follow by propagating
the distribution of "tokens emitted so far, last token" from the first token to the end of the reply.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from draftmeter.study import KnownAnswerModel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

LEVELS = 4
TOKENS_PER_LEVEL = 8
# Where the tokens that are not drafted go: mostly to level 0, where drafts start.
REST_TO_LEVEL = (0.7, 0.1, 0.1, 0.1)
# Level 3 follows a whole accepted draft; a low chance there keeps replies from circling along the drafted path.
CHANCE_AFTER_WHOLE_DRAFT = 0.35
CHANCE_OF_END_AFTER_CLOSING = 0.5
# Only these tokens of a level may be followed by the end: spread over all rows, it would fall to every top_p truncation.
TOKENS_BEFORE_END = 2
# Logits are float32: a truncation threshold closer than this to a cumulative probability could fall on either side.
TRUNCATION_MARGIN = 1e-6

END, PAD = 0, 1
FIRST_OF_GROUP = 2


class KnownAnswerError(ValueError):
    """A known-answer model or setting without an unambiguous answer."""


@dataclass(frozen=True)
class Setting:
    """What decides the acceptance of a request: its group of tokens, its sampling settings and its reply limit."""

    category: str
    temperature: float
    top_p: float
    top_k: int
    max_tokens: int


@dataclass(frozen=True)
class Expectation:
    """Expected counts of one request, all of them as the server counts (drafts past the end of the reply included)."""

    drafts: float
    accepted: tuple[float, ...]
    emitted_tokens: float
    accepted_past_cut: float


@dataclass(frozen=True)
class Chain:
    """One group as a Markov chain.

    `matrix` has shape (S, S), rows summing to 1, over the states end, pad, the levels' tokens and the closing token;
    `start` has shape (S,): the distribution of the first token. At `temperature` the model serves exactly these.
    """

    name: str
    matrix: FloatArray
    start: FloatArray
    temperature: float

    @cached_property
    def draft(self) -> IntArray:
        """Shape (S,): the token that the head drafts after each token."""
        return np.asarray(self.matrix.argmax(axis=1), dtype=np.int64)


def build_chain(model: KnownAnswerModel, name: str) -> Chain:
    """The chain of group `name`; the same model seed gives the same matrix."""
    group = model.groups[name]
    rng = np.random.default_rng([model.seed, sorted(model.groups).index(name)])
    size = FIRST_OF_GROUP + LEVELS * TOKENS_PER_LEVEL + 1
    closing = size - 1
    matrix = np.zeros((size, size))
    # What follows the end of text is drafted and verified too before the server cuts the reply, so it has a row.
    matrix[END, END], matrix[END, PAD] = 0.7, 0.3
    matrix[PAD, END] = 1.0
    spread = np.linspace(-0.04, 0.04, TOKENS_PER_LEVEL)
    for level in range(LEVELS):
        chance = group.chances[level] if level < len(group.chances) else CHANCE_AFTER_WHOLE_DRAFT
        drafted = _states((level + 1) % LEVELS)[rng.permutation(TOKENS_PER_LEVEL)]
        offsets = rng.permutation(spread)
        for number, state in enumerate(_states(level)):
            ends = group.end_of_text * TOKENS_PER_LEVEL / TOKENS_BEFORE_END if number < TOKENS_BEFORE_END else 0.0
            _fill_row(matrix[state], int(drafted[number]), chance + offsets[number], ends, rng)
    matrix[closing, END] = CHANCE_OF_END_AFTER_CLOSING
    matrix[closing, _states(0)] = (1 - CHANCE_OF_END_AFTER_CLOSING) / TOKENS_PER_LEVEL
    start = np.zeros(size)
    start[_states(0)] = rng.dirichlet(np.full(TOKENS_PER_LEVEL, 8.0))
    second, first = np.sort(matrix, axis=1)[:, -2:].T
    if np.any(second > 0.95 * first):
        raise KnownAnswerError(f"models: group {name} has a row without a clear most probable token; raise its chances")
    return Chain(name=name, matrix=matrix, start=start, temperature=model.temperature)


def expect(chain: Chain, setting: Setting, draft_tokens: int) -> Expectation:
    """Expected counts of one request of `setting` with `draft_tokens` tokens per draft (K)."""
    served = served_distribution(chain.matrix, chain.temperature, setting)
    first = served_distribution(chain.start[None, :], chain.temperature, setting)[0]
    size = len(first)
    # occupancy[n, t]: expected number of drafts made after n emitted tokens of which the last is t.
    occupancy = np.zeros((setting.max_tokens + draft_tokens + 2, size))
    occupancy[1] = first
    occupancy[1, END] = 0.0
    outcomes = list(_outcomes(served, chain.draft, draft_tokens))
    drafts = past_cut = 0.0
    accepted = np.zeros(draft_tokens)
    emitted = 1.0
    for count in range(1, setting.max_tokens):
        here = occupancy[count]
        drafts += here.sum()
        room = setting.max_tokens - count
        for outcome in outcomes:
            weight = here[:, None] * outcome.probability
            j = outcome.accepted
            mass = weight.sum()
            accepted[:j] += mass
            kept = np.minimum(outcome.until_end, room)
            emitted += float((weight * kept).sum())
            past_cut += float((weight * np.maximum(j - kept, 0)).sum())
            goes_on = (outcome.until_end > j) & (np.arange(size) != END)[None, :]
            if j + 1 < room:
                occupancy[count + j + 1] += np.where(goes_on, weight, 0.0).sum(axis=0)
    return Expectation(float(drafts), tuple(float(x) for x in accepted), float(emitted), float(past_cut))


@dataclass(frozen=True)
class _Outcome:
    """One number of accepted tokens j. Arrays have shape (S, S): from the step's last token to its new last token.

    `until_end` counts the step's tokens up to and with the first end of text, or j+1 where there is none.
    """

    accepted: int
    probability: FloatArray
    until_end: IntArray


def _outcomes(served: FloatArray, draft: IntArray, draft_tokens: int) -> Iterable[_Outcome]:
    size = len(draft)
    reached = np.ones(size)
    at = np.arange(size)
    end_seen = np.full(size, np.iinfo(np.int64).max)
    for j in range(draft_tokens + 1):
        rows = served[at]
        if j < draft_tokens:
            token = draft[at]
            chance = rows[np.arange(size), token]
            last = rows.copy()
            last[np.arange(size), token] = 0.0
        else:
            last = rows
        until_end = np.broadcast_to(np.minimum(end_seen, j + 1)[:, None], (size, size))
        yield _Outcome(j, reached[:, None] * last, until_end)
        if j < draft_tokens:
            reached = reached * chance
            end_seen = np.where((token == END) & (end_seen > j + 1), j + 1, end_seen)
            at = token


def served_distribution(rows: FloatArray, model_temperature: float, setting: Setting) -> FloatArray:
    """Rows as the server samples them: temperature, then the top_k most probable, then top_p of what is left.

    As in vLLM, a token is cut by top_p when it and all less probable ones together hold at most 1 - top_p.
    Raises :class:`KnownAnswerError` where float32 could decide the cut differently.
    """
    with np.errstate(divide="ignore"):
        logits = np.log(rows) * (model_temperature / setting.temperature)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    if setting.top_k:
        kth = np.sort(weights, axis=1)[:, -min(setting.top_k, weights.shape[1])]
        weights = np.where(weights >= kth[:, None], weights, 0.0)
    probabilities = weights / weights.sum(axis=1, keepdims=True)
    if setting.top_p < 1:
        order = np.argsort(probabilities, axis=1, kind="stable")
        cumulative = np.cumsum(np.take_along_axis(probabilities, order, axis=1), axis=1)
        if np.any(np.abs(cumulative - (1 - setting.top_p)) < TRUNCATION_MARGIN):
            raise KnownAnswerError(
                f"group {setting.category}: top_p {setting.top_p} falls on the edge of a token; change the model's seed"
            )
        cut = cumulative <= 1 - setting.top_p
        cut[:, -1] = False
        keep = np.zeros_like(cut)
        np.put_along_axis(keep, order, ~cut, axis=1)
        probabilities = np.where(keep, probabilities, 0.0)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
    return np.asarray(probabilities, dtype=np.float64)


def _states(level: int) -> IntArray:
    return FIRST_OF_GROUP + level * TOKENS_PER_LEVEL + np.arange(TOKENS_PER_LEVEL)


def _fill_row(row: FloatArray, drafted: int, chance: float, ends: float, rng: np.random.Generator) -> None:
    """Fill one row: `chance` to the drafted token, `ends` each to the end of text and to the closing token, the rest spread."""
    for level, share in enumerate(REST_TO_LEVEL):
        row[_states(level)] = share * rng.dirichlet(np.full(TOKENS_PER_LEVEL, 8.0))
    row[drafted] = 0.0
    row *= (1 - chance - 2 * ends) / row.sum()
    row[drafted] = chance
    row[END] = row[-1] = ends
