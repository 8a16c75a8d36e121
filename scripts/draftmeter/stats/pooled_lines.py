"""All drafts of the lines of a log together, with intervals from blocks of lines: what :mod:`pooled` does with clusters."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from draftmeter.stats.blocks import Blocks, plan_blocks
from draftmeter.stats.collection import Collection
from draftmeter.stats.figures import acceptance_memory, add_pooled
from draftmeter.stats.lines import Lines, LinesError
from draftmeter.stats.positions import EqualityTest, equality_test_of
from draftmeter.stats.resample import PLAIN, BlockEstimate, Part

FloatArray = NDArray[np.float64]

PREFIX = "pooled."


@dataclass(frozen=True)
class ByBlocks:
    """Estimates by name: those of `pooled_names`, and `tokens_per_step_at_1` .. `_(K-1)`; and the test of equal chances."""

    estimates: dict[str, BlockEstimate]
    equality: EqualityTest


def pooled_by_blocks(lines: Lines, min_drafts: int, confidence: float, resamples: int, seed: int) -> ByBlocks:
    """Of `lines` (at least one). Their blocks remember as the acceptance of those with at least `min_drafts` drafts does."""
    if len(lines) == 0:
        raise LinesError("found no line with a draft token; pooled figures need at least one")
    memory = acceptance_memory(lines, lines.at_least(min_drafts))
    together = Collection(plan_blocks(memory, lines.boot), confidence, resamples, seed)
    add_pooled(together, lines)
    if lines.k is not None and lines.k > 1:
        together.add([], partial(shorter_drafts_part, lines=lines, prefix=PREFIX))
    estimates, joints = together.estimated()
    return ByBlocks(
        estimates={name.removeprefix(PREFIX): found for name, found in estimates.items()},
        equality=equality_test_of(joints[f"{PREFIX}accepted_over_drafted"], PREFIX),
    )


def shorter_drafts_part(blocks: Blocks, lines: Lines, prefix: str) -> Part:
    """`<prefix>tokens_per_step_at_k` for k = 1..K-1: 1 + the shares through 1..k, over the lines that say their drafts."""
    assert lines.accepted_at is not None
    known = np.isfinite(lines.drafts)
    counts = np.column_stack([lines.drafts, lines.accepted_at[:, :-1]])
    sums = blocks.sums(np.where(known[:, None], counts, 0.0))

    def function(resampled: FloatArray) -> FloatArray:
        return np.asarray(1 + np.cumsum(resampled[:, 1:], axis=1) / resampled[:, :1], dtype=np.float64)

    with np.errstate(divide="ignore", invalid="ignore"):
        values = function(sums.sum(axis=0)[None])[0]
    names = tuple(f"{prefix}tokens_per_step_at_{k}" for k in range(1, counts.shape[1]))
    presence = np.repeat(blocks.sums(known.astype(np.float64)), len(names), axis=1)
    return Part(names, tuple(values.tolist()), (PLAIN,) * len(names), sums, function, presence)
