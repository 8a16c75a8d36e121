"""The curve of a fitted decay, to stand beside the autocorrelations that it was fitted to."""

from collections.abc import Sequence

import numpy as np

from draftmeter.stats.autocorrelation import DecayFit

# Of the variance: how much of it a mean of few intervals can take away.
MOST_LOST = 0.5


def fitted_autocorrelation(fit: DecayFit, lags_s: Sequence[float], interval_s: float, n: int) -> list[float]:
    """Expected sample autocorrelations of `n` intervals at the lags (all above 0).

    The sum of weight * exp(-lag / time), r, becomes (r - d) / (1 - d): the mean is estimated too, and takes with it the
    part d of the variance that is its own, (1 + 2 sum over lags of r) / n.
    """
    lags = np.asarray(lags_s, dtype=np.float64)
    weights = np.array([one.weight for one in fit.components])
    times = np.array([one.time_s for one in fit.components])
    r = np.exp(-lags[:, None] / times) @ weights
    of_mean = (1 + 2 * float(np.sum(weights / np.expm1(interval_s / times)))) / n
    lost = min(of_mean, MOST_LOST)
    return [float(value) for value in (r - lost) / (1 - lost)]
