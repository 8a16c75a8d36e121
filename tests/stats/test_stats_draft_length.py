"""Draft length: the formula's known values, and a cost model that recovers what was planted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.stats.draft_length import CostError, StepCost, fit_step_cost, geometric_tokens, left_out_errors

PLANTED = StepCost(verify_s=0.010, verify_token_s=0.0006, draft_s=0.003, draft_request_s=0.0002)
LOADS = np.repeat([1.0, 8.0, 32.0], 4)
LENGTHS = np.tile([0.0, 1.0, 3.0, 5.0], 3)


@pytest.mark.parametrize(
    ("k", "tokens"), [(1, 1.80), (2, 2.44), (3, 2.95), (4, 3.36), (5, 3.69), (8, 4.33), (12, 4.73), (20, 4.95)]
)
def test_formula_at_a_chance_of_eight_tenths(k: int, tokens: float) -> None:
    assert geometric_tokens(0.8, k) == pytest.approx(tokens, abs=0.005)
    assert geometric_tokens(0.8, k) == pytest.approx((1 - 0.8 ** (k + 1)) / 0.2)


def test_the_values_of_a_circulating_article_are_not_the_formula() -> None:
    """4.40, 4.82 and 4.99 at K = 8, 12 and 20, and 88% of the limit at K = 8: 86.6% is right."""
    for k, printed in ((8, 4.40), (12, 4.82), (20, 4.99)):
        assert geometric_tokens(0.8, k) < printed - 0.03
    assert geometric_tokens(0.8, 8) / 5 == pytest.approx(0.866, abs=0.0005)


@given(st.floats(0, 1), st.integers(0, 64))
def test_formula_lies_between_one_token_and_all(chance: float, k: int) -> None:
    assert 1 <= geometric_tokens(chance, k) <= k + 1
    assert geometric_tokens(1.0, k) == k + 1
    assert geometric_tokens(0.0, k) == 1


def test_a_planted_cost_is_found() -> None:
    found = fit_step_cost(LOADS, LENGTHS, PLANTED.step_s(LOADS, LENGTHS))
    for name in ("verify_s", "verify_token_s", "draft_s", "draft_request_s"):
        assert getattr(found, name) == pytest.approx(getattr(PLANTED, name), rel=1e-6)
    assert found.step_s(8, 3) == pytest.approx(0.010 + 0.0006 * 8 * 4 + 3 * (0.003 + 0.0002 * 8))


@pytest.mark.parametrize("seed", range(10))
def test_step_times_with_noise_are_predicted_within_it(seed: int) -> None:
    noise = np.exp(0.01 * np.random.default_rng(seed).standard_normal(len(LOADS)))
    errors = left_out_errors(LOADS, LENGTHS, PLANTED.step_s(LOADS, LENGTHS) * noise)
    assert set(errors) == {1, 3, 5}
    # A fit to nine points with 1% noise, and the noise of the three that it predicts: seven times as much is certain.
    assert max(np.abs(error).max() for error in errors.values()) < 0.07


def test_speedup_counts_tokens_and_time() -> None:
    assert PLANTED.speedup(1.0, 8, 0) == 1
    assert PLANTED.speedup(2.0, 8, 3) == pytest.approx(2.0 * PLANTED.step_s(8, 0) / PLANTED.step_s(8, 3))
    free = StepCost(0.01, 0.0, 0.0, 0.0)
    assert free.speedup(2.95, 64, 3) == free.simple_speedup(2.95, 3) == pytest.approx(2.95)
    # At many running requests the verification of every draft token is paid: a long draft loses.
    assert PLANTED.speedup(geometric_tokens(0.5, 8), 64, 8) < 1 < PLANTED.speedup(geometric_tokens(0.9, 3), 1, 3)


@pytest.mark.parametrize(
    ("running", "k", "step_s", "says"),
    [
        ([1, 8, 1], [0, 0, 3], [0.01, 0.02, 0.03], "found 3 combinations"),
        ([1, 8, 1, 8], [1, 1, 3, 3], [0.01] * 4, "no step without speculation"),
        ([1, 1, 1, 1], [0, 1, 3, 5], [0.01] * 4, "two of each are needed"),
        ([1, 8, 1, 8], [0, 0, 3, 3], [0.01, 0.01, 0.01, 0.0], "step times above 0"),
        ([1, 8, 1, 8], [0, 0, 3, 3], [0.01, 0.01, 0.01, np.nan], "step times above 0"),
        ([1, 8], [0, 0, 3], [0.01, 0.01, 0.01], "needs one"),
    ],
)
def test_what_cannot_be_fitted_is_refused(running: list[float], k: list[float], step_s: list[float], says: str) -> None:
    with pytest.raises(CostError, match=says):
        fit_step_cost(running, k, step_s)
