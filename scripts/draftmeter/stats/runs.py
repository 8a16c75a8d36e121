"""Runs of a workload beside each other: other clients' tokens, and acceptance by streams."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats  # type: ignore[import-untyped]

from draftmeter.stats.acceptance import CountsError
from draftmeter.stats.estimate import Estimate, t_estimate

FEWEST_RUNGS = 3


@dataclass(frozen=True)
class OtherClients:
    """Tokens generated for others, as shares of the server's; None where it generated none."""

    by_run: tuple[float | None, ...]
    all_runs: float | None
    kept: tuple[bool, ...]
    """Runs at or below the limit."""


@dataclass(frozen=True)
class StreamsSlope:
    """Change of acceptance for each doubling of the streams, one point a number of streams."""

    estimate: Estimate
    """Its `n` counts the numbers of streams."""
    rungs: int
    same_prompts: bool
    """Whether every rung sent the same prompts; if not, a trend may be that of the prompts."""


def other_clients(generated: ArrayLike, own: ArrayLike, limit: float = 0.01) -> OtherClients:
    """Of the generation counter and the own reply tokens of each run, shape (n,).

    (counter - own) / counter, of each run and of all together; runs whose share is at most `limit`
    are kept. A negative share says that the counter lost tokens.
    """
    counter, ours = np.asarray(generated, dtype=np.float64), np.asarray(own, dtype=np.float64)
    if counter.shape != ours.shape or counter.ndim != 1 or np.any(counter < 0) or np.any(ours < 0):
        raise CountsError(f"found counters {counter.shape}, own tokens {ours.shape}; needs one count of both for each run")
    shares = [_other(float(c), float(o)) for c, o in zip(counter, ours, strict=True)]
    kept = np.array([share is not None and share <= limit for share in shares], dtype=np.bool_)
    return OtherClients(
        by_run=tuple(shares),
        all_runs=_other(float(counter.sum()), float(ours.sum())),
        kept=tuple(kept.tolist()),
    )


def _other(counter: float, own: float) -> float | None:
    return None if counter == 0 else (counter - own) / counter


def relative_gap(found: float, counted: float) -> float | None:
    """found / counted - 1; None where nothing was counted."""
    return None if counted == 0 else found / counted - 1


def streams_slope(
    streams: ArrayLike, accepted: ArrayLike, drafted: ArrayLike, prompts: ArrayLike, confidence: float
) -> StreamsSlope:
    """Least squares of acceptance on log2(streams) over rungs.

    Runs (shape (n,)) of equal streams are pooled first: they make a rung. The error comes from how
    the rungs scatter around the line, with rungs - 2 degrees of freedom: runs differ by more than
    the luck of their drafts. `prompts` labels the prompt set of each run.
    """
    rungs, position = np.unique(np.asarray(streams, dtype=np.float64), return_inverse=True)
    y, n = (np.bincount(position, np.asarray(column, dtype=np.float64), len(rungs)) for column in (accepted, drafted))
    if np.any(rungs < 1):
        raise CountsError(f"streams: found {rungs.tolist()}; needs at least one")
    same = len(np.unique(np.asarray(prompts))) == 1
    if np.any(n == 0) or len(rungs) < 2:
        reason = "a rung made no draft" if np.any(n == 0) else f"{len(rungs)} number of streams; a slope needs two"
        return StreamsSlope(Estimate(None, None, None, len(rungs), reason), len(rungs), same)
    share, freedom = y / n, len(rungs) - 2
    if np.ptp(share) == 0:  # scipy has no error for a constant; replies to the same seeds can be the same on every rung
        slope, stderr = 0.0, 0.0
    else:
        fit = stats.linregress(np.log2(rungs), share)
        slope, stderr = float(fit.slope), float(fit.stderr)
    if len(rungs) < FEWEST_RUNGS:
        reason = f"no interval: {len(rungs)} numbers of streams, {FEWEST_RUNGS} are needed"
        return StreamsSlope(Estimate(slope, None, None, len(rungs), reason), len(rungs), same)
    method = f"{confidence:.0%} t interval from how the numbers of streams scatter around the line"
    return StreamsSlope(t_estimate(slope, stderr, freedom, confidence, len(rungs), method), len(rungs), same)
