"""Relations between the published figures: does some input within its printed rounding give the printed output?"""

from collections.abc import Callable, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from draftmeter.stats.acceptance import (
    accepted_over_drafted,
    accepted_variance,
    chance_at,
    share_through,
    shorter_drafts,
    tokens_per_step,
)
from draftmeter.stats.intervals import hours_covered, sampling_sd, variance_ratio
from draftmeter.stats.runs import relative_gap
from pooled_figures import figures

DRAFTS = 1e6
K = 3


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    return yaml.safe_load((Path(__file__).parents[2] / "config" / "published.yaml").read_text())


@pytest.fixture(scope="module")
def production(published: dict[str, Any]) -> dict[str, Any]:
    return published["production"]


def reaches(
    function: Callable[..., float], inputs: Sequence[float], halves: Sequence[float], printed: float, half: float
) -> bool:
    """Whether some input within its rounding gives the printed output within its own; `function` monotone in each."""
    corners = [
        function(*(x + sign * h for x, sign, h in zip(inputs, signs, halves, strict=True)))
        for signs in product((-1, 1), repeat=len(inputs))
    ]
    return min(corners) <= printed + half and max(corners) >= printed - half


def counts(*shares: float) -> list[float]:
    return [DRAFTS * share for share in shares]


def test_a_relation_that_does_not_hold_is_not_reached() -> None:
    assert not reaches(lambda a: 1 + 3 * a, [0.66], [0.0005], 3.1, 0.005)


def test_tokens_per_step(production: dict[str, Any]) -> None:
    shares, printed = production["share_through"], production["tokens_per_step"]
    by_share = lambda *s: tokens_per_step(DRAFTS, sum(counts(*s))).value  # noqa: E731
    assert reaches(by_share, shares, [0.0005] * K, printed, 0.005)
    by_rate = lambda a: tokens_per_step(DRAFTS, K * DRAFTS * a).value  # noqa: E731
    assert reaches(by_rate, [production["accepted_over_drafted"]], [0.0005], printed, 0.005)
    assert reaches(lambda *s: shorter_drafts(s)[-1], shares, [0.0005] * K, printed, 0.005)
    rates = lambda *s: accepted_over_drafted(sum(counts(*s)), K * DRAFTS).value  # noqa: E731
    assert reaches(rates, shares, [0.0005] * K, production["accepted_over_drafted"], 0.0005)


@pytest.mark.parametrize("position", range(K))
def test_chances_are_ratios_of_shares(production: dict[str, Any], position: int) -> None:
    function = lambda *s: chance_at(DRAFTS, counts(*s))[position].value  # noqa: E731
    assert reaches(function, production["share_through"], [0.0005] * K, production["chance_at"][position], 0.0005)


def test_shares_are_what_was_counted(production: dict[str, Any]) -> None:
    shares = production["share_through"]
    assert [share.value for share in share_through(DRAFTS, counts(*shares))] == pytest.approx(shares)


def made_of(name: str) -> Callable[..., float]:
    """The figure `name` as the analysis makes it of the shares through 1..K."""
    return lambda *shares: figures(DRAFTS, counts(*shares))[name]


def test_accepted_over_checked(production: dict[str, Any]) -> None:
    function, printed = made_of("accepted_over_checked"), production["accepted_over_checked"]
    assert reaches(function, production["share_through"], [0.0005] * K, printed, 0.0005)


@pytest.mark.parametrize(("rate", "half"), [("first_position", 0.0005), ("checked", 0.0005), ("accepted_over_drafted", 0.005)])
def test_formula(production: dict[str, Any], rate: str, half: float) -> None:
    printed, shares = production["formula"][rate], production["share_through"]
    assert reaches(made_of(f"formula_{rate}"), shares, [0.0005] * K, printed["value"], 0.005)
    assert reaches(made_of(f"formula_{rate}_error"), shares, [0.0005] * K, printed["error"], half)


def test_error_of_the_last_two_terms_needs_a_first_share_near_0_7986(production: dict[str, Any]) -> None:
    printed = production["formula"]["first_position"]["error_last_terms"]
    last = made_of("formula_last_terms_error")
    assert reaches(last, production["share_through"], [0.0005] * K, printed, 0.0005)
    assert last(0.7986, 0.6464, 0.5334) == pytest.approx(printed, abs=0.0006)


def test_sampling_sd_and_variance_ratio(production: dict[str, Any]) -> None:
    shares, at_500 = production["share_through"], production["intervals"][500]
    assert accepted_variance(shares) == pytest.approx(1.4895, abs=5e-5)
    assert sampling_sd(shares, [979.0]) == pytest.approx(np.sqrt(1.4895) / (3 * np.sqrt(979.0)), rel=1e-4)
    # The mean of 1 / n lies between one over the mean of n and 1 / 500.
    mean = at_500["share_of_draft_tokens"] * production["draft_tokens"] / K / at_500["number"]
    least, most = (100 * sampling_sd(shares, np.full(at_500["number"], n)) for n in (mean, 500.0))
    assert least <= at_500["sampling_sd_pp"] + 0.05 and most >= at_500["sampling_sd_pp"] - 0.05
    inputs = [at_500["sd_pp"], at_500["sampling_sd_pp"]]
    assert variance_ratio(*inputs) == pytest.approx(34.2, abs=0.05)
    assert reaches(variance_ratio, inputs, [0.05, 0.05], at_500["variance_ratio"], 0.5)


def test_hours_with_a_draft_line(published: dict[str, Any], production: dict[str, Any]) -> None:
    hours = hours_covered(np.full(production["lines"], float(published["setup"]["log_interval_s"])))
    assert hours == pytest.approx(production["hours_with_lines"], abs=0.05)
    assert hours == pytest.approx(15.77, abs=0.005)


def test_shares_of_intervals_with_many_drafts(production: dict[str, Any]) -> None:
    at_500 = production["intervals"][500]
    assert at_500["number"] / production["lines"] == pytest.approx(at_500["share_of_lines"], abs=0.005)


@pytest.mark.parametrize("threshold", [100, 500, 1000])
def test_tokens_per_step_follow_acceptance(production: dict[str, Any], threshold: int) -> None:
    step = lambda rate: tokens_per_step(1, K * rate).value  # noqa: E731
    at = production["intervals"][threshold]
    ratio = lambda low, high: step(high) / step(low) - 1  # noqa: E731
    assert reaches(ratio, [at["p10"], at["p90"]], [0.0005] * 2, at["tokens_per_step_spread"], 0.005)
    if threshold == 500:
        assert step(at["p10"]) == pytest.approx(at["tokens_per_step_p10"], abs=0.01)
        assert step(at["p90"]) == pytest.approx(at["tokens_per_step_p90"], abs=0.005)
        assert reaches(lambda a, b: b / a - 1, [2.68, 3.27], [0.005] * 2, at["tokens_per_step_spread"], 0.005)


def test_drafts_and_replies(production: dict[str, Any]) -> None:
    assert production["requests_finished"] * production["mean_reply_tokens"] == pytest.approx(13.51e6, abs=5e3)
    assert production["drafts"] * production["tokens_per_step"] == pytest.approx(13.65e6, abs=5e3)
    assert reaches(lambda d: K * d, [production["drafts"]], [5e3], production["draft_tokens"], 5e4)


def test_draft_tokens_of_the_pair(published: dict[str, Any]) -> None:
    pair, rates = published["pair"], published["controlled"]["accepted_over_drafted"]

    def draft_tokens(on: float, rate_on: float, off: float, rate_off: float) -> float:
        tokens = pair["prompts"]["all"]
        return K * sum(tokens * n / tokens_per_step(1, K * rate).value for n, rate in ((on, rate_on), (off, rate_off)))

    replies = pair["mean_reply_tokens"]
    inputs = [replies["reasoning_on"], rates["pair_reasoning_on"], replies["reasoning_off"], rates["pair_reasoning_off"]]
    assert draft_tokens(*inputs) == pytest.approx(32_330, abs=5)
    printed = pair["draft_tokens"]
    assert reaches(draft_tokens, inputs, [0.5, 0.0005, 0.5, 0.0005], printed["run_report"], 0.5)
    # 0.065%, printed as 0.07%.
    assert relative_gap(printed["lines"], printed["run_report"]) == pytest.approx(printed["gap"], abs=5.1e-5)


def test_controlled_tokens_per_step(published: dict[str, Any]) -> None:
    rates, printed = published["controlled"]["accepted_over_drafted"].values(), published["controlled"]["tokens_per_step"]
    step = lambda rate: tokens_per_step(1, K * rate).value  # noqa: E731
    assert reaches(step, [min(rates)], [0.0005], printed["lowest"], 0.005)
    assert reaches(step, [max(rates)], [0.0005], printed["highest"], 0.005)


def test_fifths_and_chances_do_not_fall(production: dict[str, Any]) -> None:
    for chances in (production["chance_at"], *production["fifths"].values()):
        assert all(later >= earlier for earlier, later in pairwise(chances))


def test_every_figure_of_the_source_is_there(published: dict[str, Any]) -> None:
    assert published["source"]["url"].startswith("https://")
    assert set(published["claims"]) >= {"overdispersed", "drift_gone", "load_flat", "chance_does_not_fall", "two_groups"}
    for claim in published["claims"].values():
        assert {"figure", "region"} <= set(claim)
