"""Offline reference: speculative sampling with greedy drafts in plain PyTorch, and the replay of a server's own output."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from draftmeter_training.decoder import DEPTH, Decoder, Past
from draftmeter_training.tokens import END_ID, PAD_ID


@dataclass(frozen=True)
class SamplingRule:
    """As a request states it; temperature 0 is greedy, top_k 0 and top_p 1 keep everything."""

    temperature: float = 0.7
    top_p: float = 1.0
    top_k: int = 0


@dataclass(frozen=True)
class Reply:
    """The tokens of a reply, cut at the end token (kept) or the limit, and the drafts accepted at each step.

    The counts are the verifier's: those of the last step may lie past the cut.
    """

    tokens: list[int]
    accepted: list[int]


def probabilities(logits: Tensor, rule: SamplingRule) -> Tensor:
    """The distribution that is sampled from, over the last dimension: temperature, then top_k, then top_p."""
    if rule.temperature == 0:
        return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).float()
    logits = logits / rule.temperature
    if rule.top_k:
        least = logits.topk(rule.top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < least, float("-inf"))
    if rule.top_p < 1:
        ordered, order = logits.sort(dim=-1)
        drop = ordered.softmax(-1).cumsum(-1) <= 1 - rule.top_p
        drop[..., -1] = False
        logits = logits.masked_fill(torch.zeros_like(drop).scatter(-1, order, drop), float("-inf"))
    return logits.softmax(-1)


@torch.no_grad()
def speculate(model: Decoder, prompts: Sequence[Sequence[int]], rule: SamplingRule, max_tokens: int, seed: int) -> list[Reply]:
    """Replies to all `prompts` (token ids, at least two each), drafted by the head, verified by the decoder.

    A draft d is accepted with the probability that the decoder gives it; at the first refusal the token is sampled from
    the rest of the distribution, after a whole draft from the next one (Leviathan et al. 2023, for a greedy draft).
    """
    generator = torch.Generator().manual_seed(seed)
    rows = len(prompts)
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    longest = int(lengths.max())
    past = model.new_past(rows, longest + max_tokens + 2 * DEPTH + 2)
    tokens = torch.full((rows, longest), PAD_ID)
    for row, prompt in enumerate(prompts):
        tokens[row, : len(prompt)] = torch.tensor(prompt)
    positions = torch.arange(longest).expand(rows, -1)
    hidden = model(tokens, positions, past)
    every = torch.arange(rows)
    bonus = _sample(probabilities(model.lm_head(hidden[every, lengths - 1]), rule), generator)
    following = torch.cat((tokens[:, 1:], tokens[:, :1]), dim=1)
    following[every, lengths - 1] = bonus
    drafts = _draft(model, past[-1], hidden, following, positions, lengths - 1)
    emitted: list[list[int]] = [[int(token)] for token in bonus]
    accepted: list[list[int]] = [[] for _ in prompts]
    at = lengths.clone()
    while any(running := [not _is_over(reply, max_tokens) for reply in emitted]):
        block = torch.cat((bonus[:, None], drafts), dim=1)
        positions = at[:, None] + torch.arange(DEPTH + 1)
        hidden = model(block, positions, past)
        wanted = probabilities(model.lm_head(hidden), rule)
        chance = wanted[:, :DEPTH].gather(2, drafts[..., None])[..., 0]
        kept = (torch.rand(chance.shape, generator=generator) < chance).long().cumprod(dim=1).sum(dim=1)
        rest = wanted[every, kept]
        refused = kept < DEPTH
        rest[every[refused], drafts[every[refused], kept[refused]]] = 0
        bonus = _sample(rest, generator)
        following = torch.cat((drafts, bonus[:, None]), dim=1)
        following[every, kept] = bonus
        for row in (row for row, runs in enumerate(running) if runs):
            accepted[row].append(int(kept[row]))
            emitted[row] += following[row, : int(kept[row]) + 1].tolist()
        drafts = _draft(model, past[-1], hidden, following, positions, kept)
        # A reply that is over stays where it is, so that it never outgrows the keys and values.
        at = torch.where(torch.tensor(running), at + kept + 1, at)
    return [Reply(_cut(reply, max_tokens), steps) for reply, steps in zip(emitted, accepted, strict=True)]


def _draft(model: Decoder, past: Past, hidden: Tensor, following: Tensor, positions: Tensor, last: Tensor) -> Tensor:
    """The head's drafts, shape (rows, DEPTH), for chains that start at index `last` (rows,) of the block."""
    every = torch.arange(len(last))
    state = model.head.apply_once(model.embed_tokens(following), hidden, positions, past)[every, last][:, None]
    place = positions[every, last][:, None]
    drafts = [model.lm_head(model.head.norm(state)).argmax(-1)]
    for _ in range(DEPTH - 1):
        place = place + 1
        state = model.head.apply_once(model.embed_tokens(drafts[-1]), state, place, past)
        drafts.append(model.lm_head(model.head.norm(state)).argmax(-1))
    return torch.cat(drafts, dim=1)


def _sample(distribution: Tensor, generator: torch.Generator) -> Tensor:
    return torch.multinomial(distribution, 1, generator=generator)[:, 0]


def _is_over(reply: list[int], max_tokens: int) -> bool:
    return END_ID in reply or len(reply) >= max_tokens


def _cut(reply: list[int], max_tokens: int) -> list[int]:
    end = reply.index(END_ID) + 1 if END_ID in reply else len(reply)
    return reply[: min(end, max_tokens)]


@dataclass(frozen=True)
class Replay:
    """What the known text of one reply implies. `accepted`: drafts accepted at each step, of the last one as far as the
    text goes; `ceiling`: the same if the drafts were the decoder's own first choices along the text."""

    accepted: list[int]
    ceiling: list[int]


@torch.no_grad()
def replay(model: Decoder, prompt: Sequence[int], reply: Sequence[int]) -> Replay:
    """Recompute the drafts along a reply: with a greedy draft, a token is accepted exactly if it is the one sampled."""
    text = torch.tensor([[*prompt, *reply, *([PAD_ID] * (DEPTH + 1))]])
    hidden = model(text[:, :-1])
    starts = torch.arange(len(prompt) - 1, len(prompt) + len(reply) - 1)
    outputs = model.head.chains(model.embed_tokens(text), hidden, starts)
    drafts = torch.stack([model.lm_head(model.head.norm(output))[0].argmax(-1) for output in outputs], dim=1)
    chosen = model.lm_head(hidden)[0].argmax(-1)
    choices = torch.stack([chosen[starts + depth + 1] for depth in range(DEPTH)], dim=1)
    truth = torch.stack([text[0, starts + depth + 2] for depth in range(DEPTH)], dim=1)
    return Replay(_walk((drafts == truth).tolist(), len(reply)), _walk((choices == truth).tolist(), len(reply)))


def _walk(matches: list[list[bool]], length: int) -> list[int]:
    """Accepted drafts at each step from one match (index in the reply, depth) to the next, for a reply of `length` tokens."""
    accepted, at = [], 0
    while at < length - 1:
        kept = 0
        while kept < DEPTH and at + kept + 1 < length and matches[at][kept]:
            kept += 1
        accepted.append(kept)
        at += kept + 1
    return accepted


def same_steps(replayed: Sequence[int], counted: Sequence[int]) -> bool:
    """Whether a server's accepted counts are the replayed ones at every step but the last, which may lie past the text."""
    return len(replayed) == len(counted) and list(replayed[:-1]) == list(counted[:-1])


@dataclass(frozen=True)
class Acceptance:
    """Share of drafts accepted through 1..DEPTH with standard errors over replies, and accepted over drafted tokens."""

    replies: int
    drafts: int
    through: list[float]
    standard_error: list[float]

    @property
    def accepted_over_drafted(self) -> float:
        """Accepted tokens over drafted tokens."""
        return sum(self.through) / DEPTH

    @property
    def tokens_per_step(self) -> float:
        """Tokens that a step yields: the accepted ones and one more."""
        return 1 + sum(self.through)


def acceptance(counts: Sequence[Sequence[int]]) -> Acceptance:
    """Shares over the steps of many replies, one sequence of accepted counts a reply. Raises ValueError without any step."""
    drafts = torch.tensor([float(len(steps)) for steps in counts])
    if not drafts.sum():
        raise ValueError("acceptance: no reply has a step")
    through, errors = [], []
    for depth in range(1, DEPTH + 1):
        accepted = torch.tensor([float(sum(step >= depth for step in steps)) for steps in counts])
        share = accepted.sum() / drafts.sum()
        through.append(float(share))
        errors.append(float((accepted - share * drafts).square().sum().sqrt() / drafts.sum()))
    return Acceptance(len(counts), int(drafts.sum()), through, errors)
