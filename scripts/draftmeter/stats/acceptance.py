"""Acceptance from counts: drafts accepted through each position, and what that makes of a step.

Notation: D drafts of up to K tokens; accepted_k of them with at least k tokens accepted,
accepted_0 = D. The accepted tokens are then sum_k accepted_k. Where the denominator is zero the
value is None: unknown, never zero.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class CountsError(ValueError):
    """Counts that no server can produce: which, what was found, what would be right."""


@dataclass(frozen=True)
class Ratio:
    """`numerator` / `denominator`, or None where the denominator is zero."""

    value: float | None
    numerator: float
    denominator: float


def share_through(drafts: float, accepted_at: ArrayLike) -> tuple[Ratio, ...]:
    """Share of drafts accepted through position k, accepted_k / D, for k = 1..K.

    `accepted_at` has shape (K,). A draft shorter than k tokens counts as not accepted through k.
    """
    accepted = _checked(drafts, accepted_at)
    return tuple(_ratio(count, drafts) for count in accepted)


def chance_at(drafts: float, accepted_at: ArrayLike) -> tuple[Ratio, ...]:
    """Chance of acceptance at k given acceptance through k-1: accepted_k / accepted_(k-1).

    `accepted_at` has shape (K,). A draft that ended at k-1 counts as not accepted at k.
    """
    accepted = _checked(drafts, accepted_at)
    before = [drafts, *accepted[:-1]]
    return tuple(_ratio(count, base) for count, base in zip(accepted, before, strict=True))


def accepted_over_drafted(accepted: float, drafted: float) -> Ratio:
    """Accepted tokens over draft tokens, unverified ones included."""
    if not 0 <= accepted <= drafted:
        raise CountsError(f"accepted tokens: found {accepted:g} of {drafted:g} drafted; needs 0 <= accepted <= drafted")
    return _ratio(accepted, drafted)


def tokens_per_step(drafts: float, accepted: float) -> Ratio:
    """The verifier's tokens per step, 1 + accepted / D: each step adds one of the main model."""
    if drafts < 0 or accepted < 0:
        raise CountsError(f"found {drafts:g} drafts and {accepted:g} accepted tokens; counts cannot be negative")
    return _ratio(drafts + accepted, drafts)


def emitted_tokens_per_step(drafts: float, reply_tokens: float, replies: float) -> Ratio:
    """Tokens that steps brought to the client, per step: (reply tokens - replies) / D.

    The first token of each reply comes from its prefill, without a draft, and is left out. Below
    tokens per step by the accepted tokens that were cut at the end of replies.
    """
    if not 0 <= replies <= reply_tokens:
        raise CountsError(f"found {reply_tokens:g} reply tokens in {replies:g} replies; a reply has at least one token")
    return _ratio(reply_tokens - replies, drafts)


def shorter_drafts(shares: ArrayLike) -> tuple[float, ...]:
    """Tokens per step with drafts of 1, 2, ... K tokens, from the measured `shares` through 1..K.

    1 + s_1 + ... + s_k for drafts cut after k tokens: exact, since no position knows of those
    behind it.
    """
    through = np.asarray(shares, dtype=np.float64)
    if through.ndim != 1 or len(through) == 0 or np.any((through < 0) | (through > 1)) or np.any(np.diff(through) > 0):
        raise CountsError(f"shares: found {through.tolist()}; needs numbers from 0 to 1 that do not rise, one for each position")
    return tuple((1 + np.cumsum(through)).tolist())


def accepted_variance(shares: ArrayLike) -> float:
    """Variance V of the accepted tokens of one draft, from the shares s_k through 1..K.

    V = sum_k (2k - 1) s_k - (sum_k s_k)^2, since E[A] = sum_k P(A >= k) and
    E[A^2] = sum_k (2k - 1) P(A >= k) for A in 0..K.
    """
    s = np.asarray(shares, dtype=np.float64)
    return float(np.sum((2 * np.arange(1, len(s) + 1) - 1) * s) - s.sum() ** 2)


def names_along_the_draft(k: int) -> list[str]:
    """What :func:`along_the_draft` gives: chance_1..K, rise_2..K and, for K > 1, chance_slope."""
    positions = range(1, k + 1)
    names = [f"chance_{position}" for position in positions] + [f"rise_{position}" for position in positions[1:]]
    return [*names, "chance_slope"] if k > 1 else names


def along_the_draft(chances: FloatArray) -> FloatArray:
    """The chances (r, K), the rise of each to the one before, and their slope; shape (r, 2 K).

    The slope is that of least squares over positions. One chance stays alone: shape (r, 1). A
    chance that is unknown (nan) leaves what is made of it unknown, and no more.
    """
    k = chances.shape[1]
    if k == 1:
        return chances
    centred = np.arange(k) - (k - 1) / 2
    slope = (chances * centred).sum(axis=1) / (centred @ centred)
    return np.column_stack([chances, np.diff(chances, axis=1), slope])


def _ratio(numerator: float, denominator: float) -> Ratio:
    value = None if denominator == 0 else float(numerator) / float(denominator)
    return Ratio(value=value, numerator=float(numerator), denominator=float(denominator))


def _checked(drafts: float, accepted_at: ArrayLike) -> FloatArray:
    accepted = np.asarray(accepted_at, dtype=np.float64)
    if accepted.ndim != 1 or len(accepted) == 0:
        raise CountsError(f"accepted by position: found shape {accepted.shape}; needs (K,) with K >= 1")
    if not np.all(np.isfinite(accepted)) or not np.isfinite(drafts):
        raise CountsError(f"found {drafts} drafts, accepted by position {accepted.tolist()}; every count must be known")
    steps = [drafts, *accepted.tolist()]
    if steps[-1] < 0 or any(later > earlier for earlier, later in pairwise(steps)):
        raise CountsError(
            f"found {drafts:g} drafts, accepted by position {accepted.tolist()}; "
            "counts cannot be negative, nor rise along the draft"
        )
    return accepted
