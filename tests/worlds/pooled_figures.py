"""The figures that the analysis makes of counts, by name."""

import numpy as np
from numpy.typing import ArrayLike

from draftmeter.stats.pooled import pooled_names, pooled_values


def figures(drafts: float, accepted_at: ArrayLike, eligible_at: ArrayLike | None = None) -> dict[str, float]:
    """Of drafts that are full unless `eligible_at` says otherwise; shapes (K,)."""
    at = np.asarray(accepted_at, dtype=np.float64)
    sums = np.concatenate([[len(at) * drafts, at.sum(), at.sum(), drafts], at])
    eligible = None if eligible_at is None else np.asarray(eligible_at, dtype=np.float64)[None]
    with np.errstate(divide="ignore", invalid="ignore"):
        values = pooled_values(sums[None], eligible)[0]
    return dict(zip(pooled_names(len(at)), values.tolist(), strict=True))
