"""The known-answer model: an exact Markov chain, so that the acceptance a server should count is known in closed form.

Every token belongs to one group, groups never mix, and the next token depends on the current one alone. The draft is the
most probable next token, applied K times. A draft token d after t is accepted with probability Q[t, d], Q being the
served distribution; after a rejection the token comes from the rest of the row (speculative sampling with a
deterministic draft, Leviathan et al. 2023, arXiv:2211.17192). So the expected counts of a reply follow by propagating
the moments of what a step counts along "tokens emitted so far, last token", from the end of the reply to its first token.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from draftmeter.study.schema import CHANCE_SPREAD, END_CONCENTRATION, KnownAnswerModel

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
TOKENS_BEFORE_END = TOKENS_PER_LEVEL // END_CONCENTRATION
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
    """What one request counts: means and covariances of (drafts, accepted at 1..K, tokens emitted after the first).

    `mean` has shape (K+2,), `covariance` (K+2, K+2). Drafts and accepted tokens are the server's: those of the last
    step are counted whole, also past the end of the reply; `accepted_past_cut` is the expected number of the latter.
    """

    mean: FloatArray
    covariance: FloatArray
    accepted_past_cut: float

    @property
    def drafts(self) -> float:
        """Expected drafts."""
        return float(self.mean[0])

    @property
    def accepted(self) -> list[float]:
        """Expected drafts accepted through each position."""
        return [float(value) for value in self.mean[1:-1]]

    @property
    def emitted_tokens(self) -> float:
        """Expected length of the reply."""
        return 1 + float(self.mean[-1])


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
    spread = np.linspace(-CHANCE_SPREAD, CHANCE_SPREAD, TOKENS_PER_LEVEL)
    for level in range(LEVELS):
        chance = group.chances[level] if level < len(group.chances) else CHANCE_AFTER_WHOLE_DRAFT
        drafted = _states((level + 1) % LEVELS)[rng.permutation(TOKENS_PER_LEVEL)]
        offsets = rng.permutation(spread)
        for number, state in enumerate(_states(level)):
            ends = group.end_of_text * END_CONCENTRATION if number < TOKENS_BEFORE_END else 0.0
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
    """Moments of what one request of `setting` counts, with `draft_tokens` tokens per draft (K).

    First and second moments of a reward that adds up along the chain, by backward recursion over the tokens emitted so
    far: with r the counts of one step and V what follows it, E[r + V] and E[(r + V)(r + V)^T].
    """
    served = served_distribution(chain.matrix, chain.temperature, setting)
    first = served_distribution(chain.start[None, :], chain.temperature, setting)[0]
    size, width = len(first), draft_tokens + 2
    outcomes = list(_outcomes(served, chain.draft, draft_tokens))
    mean = np.zeros((setting.max_tokens + 1, size, width))
    second = np.zeros((setting.max_tokens + 1, size, width, width))
    past_cut = np.zeros((setting.max_tokens + 1, size))
    for count in range(setting.max_tokens - 1, 0, -1):
        room = setting.max_tokens - count
        for outcome in outcomes:
            j = outcome.accepted
            kept = np.minimum(outcome.until_end, room)
            # Shape (S, S, K+2): the step's own counts, from its last token before to its last token after.
            reward = np.zeros((size, size, width))
            reward[..., : j + 1] = 1.0
            reward[..., -1] = kept
            goes_on = np.where((outcome.until_end > j) & (np.arange(size) != END), 1.0, 0.0) * (j + 1 < room)
            after = min(count + j + 1, setting.max_tokens)
            later = goes_on[..., None] * mean[after]
            weight = outcome.probability
            mean[count] += np.einsum("st,stw->sw", weight, reward + later)
            cross = np.einsum("st,stw,stv->swv", weight, reward, later)
            second[count] += np.einsum("st,stw,stv->swv", weight, reward, reward) + cross + cross.transpose(0, 2, 1)
            second[count] += np.einsum("st,twv->swv", weight * goes_on, second[after])
            past_cut[count] += (weight * (np.maximum(j - kept, 0) + goes_on * past_cut[after])).sum(axis=1)
    start = np.where(np.arange(size) == END, 0.0, first)
    expected = start @ mean[1]
    covariance = np.einsum("s,swv->wv", start, second[1]) - np.outer(expected, expected)
    return Expectation(mean=expected, covariance=covariance, accepted_past_cut=float(start @ past_cut[1]))


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
