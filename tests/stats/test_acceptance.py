"""Acceptance from counts. Printed figures: those of the study that this project reproduces
(Y. Akinin, AVELIN AI Lab, 2026), each good to its printed digits.
"""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.stats.acceptance import (
    CountsError,
    accepted_over_drafted,
    chance_at,
    emitted_tokens_per_step,
    share_through,
    tokens_per_step,
)
from pooled_figures import figures

K = 3
# Of its production server: share through 1..3, accepted over drafted, tokens per step.
SHARES = [0.799, 0.646, 0.533]
SHARE_ROUNDING = [0.0005] * 3


def reaches(
    function: Callable[..., float], inputs: Sequence[float], halves: Sequence[float], printed: float, half: float
) -> bool:
    """Whether some input within its rounding gives the printed output within its own; monotone in each input."""
    corners = [
        function(*(x + s * h for x, s, h in zip(inputs, signs, halves, strict=True)))
        for signs in product((-1, 1), repeat=len(inputs))
    ]
    return min(corners) <= printed + half and max(corners) >= printed - half


def drafts_with_shares(*shares: float, drafts: float = 1e6) -> tuple[float, list[float]]:
    return drafts, [drafts * share for share in shares]


def test_accounting_of_five_steps() -> None:
    # issue: five steps of four drafts accepting 0, 1, 2, 3, 4.
    accepted = np.array([0, 1, 2, 3, 4])
    at = [int((accepted >= k).sum()) for k in range(1, 5)]
    assert accepted_over_drafted(accepted.sum(), 20).value == 0.5
    step = tokens_per_step(5, accepted.sum())
    assert (step.value, step.numerator, step.denominator) == (3.0, 15.0, 5.0)
    assert emitted_tokens_per_step(5, 16, 1).value == 3.0  # 15 of the steps and 1 of the prefill
    assert [share.value for share in share_through(5, at)] == [0.8, 0.6, 0.4, 0.2]
    assert [chance.value for chance in chance_at(5, at)] == pytest.approx([4 / 5, 3 / 4, 2 / 3, 1 / 2])


def test_published_tokens_per_step() -> None:
    assert reaches(lambda *s: tokens_per_step(1e6, 1e6 * sum(s)).value, SHARES, SHARE_ROUNDING, 2.98, 0.005)
    assert reaches(lambda a: tokens_per_step(1e6, 1e6 * K * a).value, [0.660], [0.0005], 2.98, 0.005)
    # controlled: accepted over drafted 0.530 to 0.706 give 2.59 to 3.12.
    assert reaches(lambda a: tokens_per_step(1e6, 1e6 * K * a).value, [0.530], [0.0005], 2.59, 0.005)
    assert reaches(lambda a: tokens_per_step(1e6, 1e6 * K * a).value, [0.706], [0.0005], 3.12, 0.005)


def test_published_accepted_over_drafted() -> None:
    function = lambda *s: accepted_over_drafted(1e6 * sum(s), 1e6 * K).value  # noqa: E731
    assert reaches(function, SHARES, SHARE_ROUNDING, 0.660, 0.0005)


@pytest.mark.parametrize(("position", "printed"), list(enumerate([0.799, 0.809, 0.825])))
def test_published_chances(position: int, printed: float) -> None:
    function = lambda *s: chance_at(*drafts_with_shares(*s))[position].value  # noqa: E731
    assert reaches(function, SHARES, SHARE_ROUNDING, printed, 0.0005)


def test_published_draft_tokens_of_the_pair() -> None:
    # pair: 40 prompts, mean tokens 393 at 0.545 (on), 375 at 0.706 (off); printed 32,319 from the run report.
    def draft_tokens(tokens_on: float, rate_on: float, tokens_off: float, rate_off: float) -> float:
        steps = (
            40 * tokens / tokens_per_step(1, K * rate).value for tokens, rate in ((tokens_on, rate_on), (tokens_off, rate_off))
        )
        return K * sum(steps)

    assert draft_tokens(393, 0.545, 375, 0.706) == pytest.approx(32_330, abs=5)
    assert reaches(draft_tokens, [393, 0.545, 375, 0.706], [0.5, 0.0005, 0.5, 0.0005], 32_319, 0.5)


def test_published_emitted_beside_verified() -> None:
    # 17,056 requests of 792 tokens; 4.58e6 drafts at 2.98 tokens per step.
    emitted = emitted_tokens_per_step(4.58e6, 17_056 * 792, 17_056)
    assert emitted.numerator + 17_056 == pytest.approx(13.51e6, abs=5e3)
    assert 4.58e6 * tokens_per_step(4.58e6, 4.58e6 * 1.98).value == pytest.approx(13.65e6, abs=5e3)
    assert 0.98 < emitted.value / 2.98 < 1


def test_published_spread_of_tokens_per_step() -> None:
    # thresholds: band_p10_p90 and tokens_per_step_spread; P10 needs a tolerance of 0.01.
    def step(rate: float) -> float:
        return tokens_per_step(1, K * rate).value

    assert step(0.562) == pytest.approx(2.68, abs=0.01)
    assert step(0.757) == pytest.approx(3.27, abs=0.005)
    for low, high, printed in ((0.565, 0.802, 0.26), (0.562, 0.757, 0.22), (0.580, 0.745, 0.18)):
        assert reaches(lambda a, b: step(b) / step(a) - 1, [low, high], [0.0005] * 2, printed, 0.005)


def test_unknown_where_the_denominator_is_zero() -> None:
    assert [share.value for share in share_through(0, [0, 0])] == [None, None]
    assert [chance.value for chance in chance_at(10, [0, 0])] == [0.0, None]
    assert accepted_over_drafted(0, 0).value is None
    assert tokens_per_step(0, 0).value is None
    assert np.isnan(figures(10, [0, 0])["formula_last_terms_error"])
    assert figures(10, [5])["formula_first_position_error"] == 0


@pytest.mark.parametrize(
    ("drafts", "accepted_at", "message"),
    [
        (10, [5, 6], "nor rise"),
        (10, [11, 6], "nor rise"),
        (10, [5, -1], "negative"),
        (10, [], "K >= 1"),
        (10, [[1, 2]], "K >= 1"),
        (10, [5, float("nan")], "must be known"),
    ],
)
def test_impossible_counts_are_refused(drafts: float, accepted_at: list[float], message: str) -> None:
    with pytest.raises(CountsError, match=message):
        share_through(drafts, accepted_at)


def test_more_impossible_counts() -> None:
    with pytest.raises(CountsError, match="12 of 10"):
        accepted_over_drafted(12, 10)
    with pytest.raises(CountsError, match="at least one token"):
        emitted_tokens_per_step(5, 1, 2)
    with pytest.raises(CountsError, match="negative"):
        tokens_per_step(-1, 0)


@given(st.integers(1, 8).flatmap(lambda k: st.lists(st.integers(0, k), min_size=1, max_size=200).map(lambda a: (k, a))))
def test_properties_of_any_drafts(case: tuple[int, list[int]]) -> None:
    k, accepted = case
    drafts = len(accepted)
    at = [sum(count >= position for count in accepted) for position in range(1, k + 1)]
    shares = [share.value for share in share_through(drafts, at)]
    chances = [chance.value for chance in chance_at(drafts, at)]
    assert all(0 <= share <= 1 for share in shares)
    assert shares == sorted(shares, reverse=True)
    known = [chance for chance in chances if chance is not None]
    assert np.prod(known) == pytest.approx(shares[len(known) - 1])
    step = tokens_per_step(drafts, sum(accepted)).value
    assert step == pytest.approx(1 + sum(shares))
    assert step == pytest.approx(1 + k * accepted_over_drafted(sum(accepted), k * drafts).value)
    checked = sum(min(count + 1, k) for count in accepted)
    assert figures(drafts, at)["accepted_over_checked"] == pytest.approx(sum(accepted) / checked)


@given(st.floats(0.05, 0.95), st.integers(1, 8))
def test_formula_is_exact_for_equal_chances(a: float, k: int) -> None:
    shares = [a**position for position in range(1, k + 1)]
    result = figures(1e6, [1e6 * share for share in shares])
    assert result["formula_first_position_error"] == pytest.approx(0, abs=1e-12)
    assert result["formula_checked"] == pytest.approx((1 - a ** (k + 1)) / (1 - a))
    if k > 1:
        assert result["formula_last_terms_error"] == pytest.approx(0, abs=1e-9)
