"""What training lowers and what it watches: losses of the decoder and its head, and drafts that match held-out text."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from draftmeter_training.decoder import DEPTH, Decoder
from draftmeter_training.rows import Rows

HEAD_WEIGHT = 0.3


@dataclass(frozen=True)
class Losses:
    """Mean cross-entropy in nats a token: of the decoder, and of the head at each depth, shape (DEPTH,)."""

    decoder: Tensor
    head: Tensor

    def total(self) -> Tensor:
        """What training lowers."""
        return self.decoder + HEAD_WEIGHT * self.head.mean()


def losses(model: Decoder, rows: Rows, starts: Tensor, follow_decoder: bool) -> Losses:
    """Losses over the learnt tokens; the head's over the chains that start at `starts`.

    `follow_decoder`: the head learns the decoder's distribution of each token instead of the text's token. That is what
    decides whether a draft is accepted, and it says more than one token does; early on the decoder has nothing to teach.
    """
    hidden = model(rows.tokens[:, :-1])
    logits = model.lm_head(hidden)
    decoder = _mean_loss(logits, rows.tokens[:, 1:], rows.learnt[:, 1:])
    return Losses(decoder, _chain_losses(model, rows, starts, hidden, logits.detach() if follow_decoder else None))


def head_losses(model: Decoder, rows: Rows, starts: Tensor) -> Losses:
    """The same with the decoder as it is: only the head's losses lead anywhere, and the head follows the decoder."""
    with torch.no_grad():
        hidden = model(rows.tokens[:, :-1])
        logits = model.lm_head(hidden)
        decoder = _mean_loss(logits, rows.tokens[:, 1:], rows.learnt[:, 1:])
    return Losses(decoder, _chain_losses(model, rows, starts, hidden, logits))


def _chain_losses(model: Decoder, rows: Rows, starts: Tensor, hidden: Tensor, followed: Tensor | None) -> Tensor:
    outputs = model.head.chains(model.embed_tokens(rows.tokens), hidden, starts)
    head = []
    for depth, output in enumerate(outputs):
        at = starts + depth + 2
        targets = rows.tokens[:, at] if followed is None else followed[:, at - 1].softmax(-1)
        head.append(_mean_loss(model.lm_head(model.head.norm(output)), targets, rows.learnt[:, at]))
    return torch.stack(head)


def _mean_loss(logits: Tensor, targets: Tensor, learnt: Tensor) -> Tensor:
    each = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(0, 1), reduction="none")
    weight = learnt.flatten().float()
    return (each * weight).sum() / weight.sum().clamp(min=1)


@dataclass(frozen=True)
class Watched:
    """On held-out text: the decoder's cross-entropy (nats a token), the share of chains whose first 1..DEPTH drafts are
    the text, and the share whose first 1..DEPTH tokens are the decoder's own first choices (the head's ceiling)."""

    loss: float
    drafts_match: list[float]
    choices_match: list[float]


@torch.no_grad()
def watch(model: Decoder, rows: Rows) -> Watched:
    """Every chain whose tokens all count, greedy throughout."""
    model.eval()
    hidden = model(rows.tokens[:, :-1])
    logits = model.lm_head(hidden)
    loss = _mean_loss(logits, rows.tokens[:, 1:], rows.learnt[:, 1:])
    starts = torch.arange(rows.tokens.shape[1] - DEPTH - 1)
    outputs = model.head.chains(model.embed_tokens(rows.tokens), hidden, starts)
    chosen = logits.argmax(-1)
    counted = rows.learnt[:, starts + DEPTH + 1] & rows.learnt[:, starts + 2]
    drafts, choices = counted.clone(), counted.clone()
    drafts_match, choices_match = [], []
    for depth, output in enumerate(outputs):
        text = rows.tokens[:, starts + depth + 2]
        drafts &= model.lm_head(model.head.norm(output)).argmax(-1) == text
        choices &= chosen[:, starts + depth + 1] == text
        drafts_match.append(float(drafts.sum() / counted.sum()))
        choices_match.append(float(choices.sum() / counted.sum()))
    model.train()
    return Watched(float(loss), drafts_match, choices_match)
