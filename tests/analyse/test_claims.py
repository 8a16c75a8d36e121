"""Constructed studies with opposite findings: each published claim holds, fails or is left open as what was planted says."""

from dataclasses import replace
from typing import Any

import pytest
import yaml

from chance import CERTAIN
from draftmeter.analyse.claims import Condition, PublishedClaim, judge
from draftmeter.analyse.facts import AnalysisError, fact
from draftmeter.analyse.regions import Region
from draftmeter.facts import Fact
from draftmeter.stats.simulate import PUBLISHED_LIKE, Decay, Load, Steps
from simulated_study import PUBLISHED, Planted, analysed, config

NAMES = list(yaml.safe_load(PUBLISHED.read_text())["claims"])
RISING, FALLING, EQUAL = (0.79, 0.81, 0.84), (0.86, 0.82, 0.78), (0.82, 0.82, 0.82)
BUSY = Load(0.5, 5)


def judged(planted: Planted, confidence: float = 0.95) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The claims by name, and the facts they rest on."""
    content = analysed(planted, config(confidence=confidence)).facts
    assert [claim["name"] for claim in content["claims"]] == NAMES
    for claim in content["claims"]:
        assert claim["reason"] and claim["region"] and claim["statement"].endswith(".")
        if claim["decisive"] is not None:
            decisive = content["facts"][claim["decisive"]]
            assert [claim[name] for name in ("value", "low", "high", "unit")] == [
                decisive[name] for name in ("value", "low", "high", "unit")
            ]
    return {claim["name"]: claim for claim in content["claims"]}, content["facts"]


# What is planted lies so far from the ends of the regions that seven standard errors of the estimate do not reach them:
# five of luck, and two of the interval.
def test_findings_like_the_published_ones_hold() -> None:
    server = replace(PUBLISHED_LIKE, chances=RISING, decays=(Decay(0.6, 15.0),), load=BUSY)
    claims, _ = judged(Planted(server, slots=15_000, low=0.70, high=0.88, long_enough=True))
    for name in (
        "production_between_groups",
        "overdispersed",
        "drift_gone",
        "chance_does_not_fall",
        "formula_checked",
        "formula_accepted_over_drafted_low",
        "reasoning_lowers",
    ):
        assert claims[name]["outcome"] == "holds", (name, claims[name])
    assert claims["two_groups"]["outcome"] == "fails"  # other groups were planted
    assert claims["chance_does_not_fall"]["facts"][0] == "traffic.rise_2"
    assert len(claims["chance_does_not_fall"]["facts"]) == 12


def test_opposite_findings_fail() -> None:
    server = replace(
        PUBLISHED_LIKE,
        chances=FALLING,
        decays=(Decay(0.9, 900.0),),
        load=BUSY,
        steps=Steps(per_s=80, sd_log=0.2, correlation=0.95),
        load_effect=-0.08,
    )
    streams = {1: 0.89, 2: 0.905, 4: 0.92, 8: 0.935, 16: 0.95}
    claims, _ = judged(Planted(server, slots=30_000, low=0.95, high=0.90, synthetic=streams, long_enough=True))
    for name in (
        "production_between_groups",
        "drift_gone",
        "chance_does_not_fall",
        "formula_first_position",
        "load_flat",
        "reasoning_lowers",
        "synthetic_no_stream_trend",
        "tokens_per_step_and_step_rate_weak",
    ):
        assert claims[name]["outcome"] == "fails", (name, claims[name])
    assert claims["chance_does_not_fall"]["high"] < 0
    assert claims["load_flat"]["low"] > 1.5
    assert claims["idle_end_higher"]["outcome"] == claims["overdispersed"]["outcome"] == "holds"


def test_equal_chances_without_variation_are_left_open() -> None:
    # The truth is the end of a region. Of 95% intervals one in twenty would leave it out; of these no one does.
    quiet = replace(PUBLISHED_LIKE, chances=EQUAL, between_sd=0.0, decays=(), load=BUSY)
    claims, facts = judged(Planted(quiet, slots=12_000, long_enough=True), confidence=CERTAIN)
    for name in ("overdispersed", "drift_gone", "idle_end_higher", "chance_does_not_fall"):
        assert claims[name]["outcome"] == "cannot tell", (name, claims[name])
    assert claims["overdispersed"]["low"] < 1 < claims["overdispersed"]["high"]
    # In the highest fifth the chance falls along the draft, as it must when intervals are sorted by luck alone.
    assert facts["production_intervals.fifth_5.rise_3"]["value"] < 0
    assert "where sorting by acceptance alone makes a fall" in claims["chance_does_not_fall"]["region"]
    for name in ("load_flat", "formula_first_position", "synthetic_no_stream_trend"):
        assert claims[name]["outcome"] == "holds", (name, claims[name])


def test_a_short_log_leaves_open_what_takes_intervals_of_time() -> None:
    claims, _ = judged(Planted(slots=20))
    for name in ("overdispersed", "drift_gone", "load_flat", "idle_end_higher", "tokens_per_step_and_step_rate_weak"):
        assert claims[name]["outcome"] == "cannot tell"
    assert "too short" in claims["overdispersed"]["reason"]
    assert claims["reasoning_lowers"]["outcome"] == "holds"


def test_what_the_study_has_not_is_left_open_and_said() -> None:
    archive = config()
    report = archive.report.model_copy(update={"controlled": [], "published": {}})
    alone = archive.model_copy(update={"report": report})
    claims = {claim["name"]: claim for claim in analysed(Planted(slots=1500), alone).facts["claims"]}
    assert claims["production_between_groups"]["reason"].startswith("it takes two controlled workloads")
    assert claims["two_groups"]["reason"] == "there is no controlled workload"
    assert claims["reasoning_lowers"]["reason"].startswith("the study has no pair")
    assert claims["synthetic_no_stream_trend"]["reason"].startswith("no controlled workload stands beside")
    for name in ("production_between_groups", "two_groups", "reasoning_lowers", "synthetic_no_stream_trend"):
        assert (claims[name]["outcome"], claims[name]["facts"], claims[name]["decisive"]) == ("cannot tell", [], None)


def figure(value: float, low: float | None = None, high: float | None = None) -> Fact:
    return fact(value, low=low, high=high, unit="ratio", definition="d", method="m", n=1, n_unit="lines", unknown="too short")


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(0.1, 0.9, "holds"), (1.1, 1.2, "fails"), (0.9, 1.1, "cannot tell"), (-3, 3, "cannot tell"), (0.0, 0.5, "cannot tell")],
)
def test_outcome_by_where_the_interval_lies(low: float, high: float, outcome: str) -> None:
    (claim,) = judge(
        [PublishedClaim("q", "S.", [Condition("a", (Region(0.0, 1.0),))])], {"a": figure(0.5, low, high)}, {"q": "inside"}
    )
    assert (claim.outcome, claim.decisive, claim.region) == (outcome, "a", "inside")


def test_ends_that_belong_to_the_region_and_several_regions() -> None:
    facts = {"a": figure(0.2, 0.0, 0.4), "b": figure(2.5, 2.4, 2.6), "c": figure(1.5, 1.4, 1.6)}
    regions = (Region(0.0, 1.0, closed=True), Region(2.0, 3.0, closed=True))
    conditions = [Condition(key, regions) for key in "abc"]
    assert judge([PublishedClaim("q", "S.", conditions[:2])], facts, {"q": "r"})[0].outcome == "holds"
    (claim,) = judge([PublishedClaim("q", "S.", conditions)], facts, {"q": "r"})
    assert (claim.outcome, claim.decisive, claim.facts) == ("fails", "c", ["a", "b", "c"])


def test_a_region_with_uncertain_ends() -> None:
    condition = Condition("a", (Region(0.4, 0.6),), beyond=(Region(0.2, 0.8),))
    for low, high, outcome in ((0.45, 0.55, "holds"), (0.3, 0.5, "cannot tell"), (0.85, 0.9, "fails")):
        assert judge([PublishedClaim("q", "S.", [condition])], {"a": figure(0.5, low, high)}, {"q": "r"})[0].outcome == outcome


def test_no_interval_or_no_fact_is_left_open_unless_another_figure_fails() -> None:
    facts = {"a": figure(0.5), "b": figure(5, 4, 6)}
    conditions = [Condition(key, (Region(0.0, 1.0),)) for key in ("a", "x")]
    (claim,) = judge([PublishedClaim("q", "S.", conditions)], facts, {"q": "r"})
    assert (claim.outcome, claim.decisive, claim.value) == ("cannot tell", "a", 0.5)
    assert claim.reason == "the figure has no interval: too short"
    (claim,) = judge([PublishedClaim("q", "S.", [*conditions, Condition("b", (Region(0.0, 1.0),))])], facts, {"q": "r"})
    assert (claim.outcome, claim.decisive, claim.reason) == ("fails", "b", "the interval lies outside the region")


def test_other_claims_than_the_published_ones_are_refused() -> None:
    with pytest.raises(AnalysisError, match="the published claims are q, z"):
        judge([PublishedClaim("q", "S.", [])], {}, {"q": "r", "z": "r"})
