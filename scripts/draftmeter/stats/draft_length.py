"""What a draft length is worth: tokens a step brings, what a step costs, and the best length for a load.

Notation: B requests run at once, K draft tokens a step, K = 0 without speculation; E_K tokens a step
brings on average. A step of B requests verifies B (K + 1) positions and makes K drafting passes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls  # type: ignore[import-untyped]

FloatArray = NDArray[np.float64]

PARAMETERS = 4


class CostError(ValueError):
    """Step times that no cost model can be fitted to: what was found, what would be right."""


def geometric_tokens(chance: float, k: int) -> float:
    """E_K where every draft token is accepted with the same chance a: 1 + a + ... + a^K.

    This is (1 - a^(K+1)) / (1 - a) of Leviathan et al. (2023), equation 1; it rises to 1 / (1 - a).
    """
    if not 0 <= chance <= 1 or k < 0:
        raise CostError(f"found a chance of {chance:g} and K = {k}; needs a chance from 0 to 1 and K of 0 or more")
    return float(np.sum(chance ** np.arange(k + 1)))


@dataclass(frozen=True)
class StepCost:
    """Seconds of a step: verify_s + verify_token_s B (K + 1) + K (draft_s + draft_request_s B)."""

    verify_s: float
    verify_token_s: float
    draft_s: float
    draft_request_s: float

    def step_s(self, running: ArrayLike, k: ArrayLike) -> FloatArray:
        """Seconds of a step of `running` requests at draft length `k`, of the shape that both broadcast to."""
        parameters = [self.verify_s, self.verify_token_s, self.draft_s, self.draft_request_s]
        return np.asarray(_design(running, k) @ np.array(parameters), dtype=np.float64)

    def speedup(self, tokens: float, running: float, k: int) -> float:
        """Tokens per second with drafts of `k` that bring `tokens` a step, over those without speculation."""
        return float(tokens * self.step_s(running, 0) / self.step_s(running, k))

    def simple_speedup(self, tokens: float, k: int) -> float:
        """The same where a pass costs the same for any number of positions: E_K (v0 + v1) / (K d + v0 + K v1).

        v0, v1 and d are those of one running request.
        """
        drafting = self.draft_s + self.draft_request_s
        alone = self.verify_s + self.verify_token_s
        cost = k * drafting + self.verify_s + k * self.verify_token_s
        return tokens * alone / cost


def fit_step_cost(running: ArrayLike, k: ArrayLike, step_s: ArrayLike) -> StepCost:
    """The cost model that fits measured step times, shape (n,) each, by non-negative least squares.

    Residuals are relative, so that a short step counts as much as a long one. Raises
    :class:`CostError` for fewer than four different (B, K), without a draft length of 0, or with a
    time that is not above 0.
    """
    requests, lengths, times = (np.asarray(one, dtype=np.float64) for one in (running, k, step_s))
    if not requests.shape == lengths.shape == times.shape or requests.ndim != 1:
        raise CostError(f"found shapes {requests.shape}, {lengths.shape}, {times.shape}; needs one (n,) for all")
    if not np.all(np.isfinite(times)) or np.any(times <= 0) or np.any(requests < 1) or np.any(lengths < 0):
        raise CostError("needs step times above 0, at least one running request, and draft lengths of 0 or more")
    measured = {(request, length) for request, length in zip(requests, lengths, strict=True)}
    if len(measured) < PARAMETERS:
        raise CostError(f"found {len(measured)} combinations of load and draft length; the model needs {PARAMETERS}")
    if not np.any(lengths == 0):
        raise CostError("found no step without speculation (draft length 0); the model starts from it")
    if np.linalg.matrix_rank(_design(requests, lengths)) < PARAMETERS:
        raise CostError("the loads and draft lengths do not tell the parts of the cost apart; two of each are needed")
    found, _ = nnls(_design(requests, lengths) / times[:, None], np.ones(len(times)))
    return StepCost(*map(float, found))


def left_out_errors(running: ArrayLike, k: ArrayLike, step_s: ArrayLike) -> Mapping[int, FloatArray]:
    """Relative errors of the model at each draft length above 0 when it is fitted to all others.

    By draft length, in the order of its rows: predicted over measured, less 1. A length without which
    no model can be fitted is missing.
    """
    requests, lengths, times = (np.asarray(one, dtype=np.float64) for one in (running, k, step_s))
    errors: dict[int, FloatArray] = {}
    for length in np.unique(lengths[lengths > 0]):
        out = lengths == length
        try:
            model = fit_step_cost(requests[~out], lengths[~out], times[~out])
        except CostError:
            continue
        errors[int(length)] = model.step_s(requests[out], lengths[out]) / times[out] - 1
    return errors


def _design(running: ArrayLike, k: ArrayLike) -> FloatArray:
    """The columns of the model's parameters, shape (..., 4)."""
    requests, lengths = np.broadcast_arrays(np.asarray(running, dtype=np.float64), np.asarray(k, dtype=np.float64))
    columns = [np.ones_like(requests), requests * (lengths + 1), lengths, lengths * requests]
    return np.asarray(np.stack(columns, axis=-1), dtype=np.float64)
