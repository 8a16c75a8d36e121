"""The fitted curve beside the autocorrelations that it was fitted to."""

import numpy as np
import pytest

from draftmeter.stats.estimate import Estimate
from draftmeter.stats.memory import Component, DecayFit, fitted_autocorrelation


def test_fitted_curve_is_the_decay_less_what_the_mean_takes() -> None:
    fit = DecayFit((Component(Estimate(0.5, 0.4, 0.6, 100), Estimate(20.0, 10.0, 40.0, 100)),), 0.5, 0.0, 0.0)
    long = fitted_autocorrelation(fit, [10.0, 40.0], 10.0, 10**9)
    assert long == pytest.approx([0.5 * np.exp(-0.5), 0.5 * np.exp(-2)], abs=1e-6)
    lost = (1 + 2 * 0.5 / np.expm1(0.5)) / 100
    short = fitted_autocorrelation(fit, [10.0, 40.0], 10.0, 100)
    assert short == pytest.approx([(value - lost) / (1 - lost) for value in long], abs=1e-6)
