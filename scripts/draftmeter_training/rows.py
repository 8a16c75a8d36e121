"""Rows of tokens to train on: whole conversations one after the other, drawn by kind, the same for the same seed and step."""

from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from draftmeter_training.conversations import MIXTURE, makers
from draftmeter_training.corpus import Corpus
from draftmeter_training.tokens import PAD_ID, conversation_ids, prompt_ids

TRAINING, HELD_OUT = 1, 2


@dataclass(frozen=True)
class Rows:
    """`tokens` (rows, length) and `learnt`, of the same shape: whether a token counts in the loss."""

    tokens: Tensor
    learnt: Tensor

    def split(self, rows: int) -> list["Rows"]:
        """Parts of `rows` rows each."""
        return [Rows(*part) for part in zip(torch.split(self.tokens, rows), torch.split(self.learnt, rows), strict=True)]


def training_rows(corpus: Corpus, tokenizer: Tokenizer, seed: int, step: int, shape: tuple[int, int]) -> Rows:
    """The rows of one step. A row starts with a conversation and is cut at its end; kinds are drawn to fill their shares."""
    rng = np.random.default_rng([seed, TRAINING, step])
    make = makers(corpus, held_out=False)
    kinds, shares = list(MIXTURE), np.array(list(MIXTURE.values()))
    used = np.zeros(len(kinds))
    tokens, learnt = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=bool)
    for row in range(shape[0]):
        ids: list[int] = []
        counts: list[bool] = []
        while len(ids) < shape[1]:
            # Documents differ in length: draw the kind that lags most behind its share, with some chance in it.
            lag = shares - used / max(used.sum(), 1) + rng.gumbel(scale=0.1, size=len(kinds))
            kind = int(lag.argmax())
            some, learn = conversation_ids(tokenizer, make[kinds[kind]](rng))
            used[kind] += min(len(some), shape[1] - len(ids))
            ids += some
            counts += learn
        tokens[row], learnt[row] = ids[: shape[1]], counts[: shape[1]]
    return Rows(torch.from_numpy(tokens), torch.from_numpy(learnt))


def held_out_rows(corpus: Corpus, tokenizer: Tokenizer, seed: int, kind: str, shape: tuple[int, int]) -> Rows:
    """One held-out conversation of `kind` a row, padded; only the reply counts."""
    rng = np.random.default_rng([seed, HELD_OUT, list(MIXTURE).index(kind)])
    make = makers(corpus, held_out=True)[kind]
    tokens, learnt = np.full(shape, PAD_ID, dtype=np.int64), np.zeros(shape, dtype=bool)
    for row in range(shape[0]):
        conversation = make(rng)
        ids, _ = conversation_ids(tokenizer, conversation)
        prompt = len(prompt_ids(tokenizer, conversation.prompt, conversation.thinking is not None))
        size = min(len(ids), shape[1])
        tokens[row, :size] = ids[:size]
        learnt[row, prompt:size] = True
    return Rows(torch.from_numpy(tokens), torch.from_numpy(learnt))
