"""Facts of a workload beyond its drafts: other clients, streams, pairs of prompts, and groups of requests."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from draftmeter.analyse.reasoning import pair_facts
from draftmeter.analyse.streams import facts_of_runs
from draftmeter.analyse.tables import Measured, Tables
from draftmeter.facts import Fact
from draftmeter.stats.pooled import pooled_by_cluster
from draftmeter.stats.ratios import by_groups, clusters_of, mean_of_requests, ratio_of_sums
from draftmeter.stats.simulate import PUBLISHED_LIKE, Decay
from simulated_study import POSITIONS, K, Planted, config, tables_of

ANALYSIS = config().analysis
SHORT = replace(PUBLISHED_LIKE, decays=(Decay(0.6, 15.0),))
RUNGS = {1: 0.80, 8: 0.80, 32: 0.80}


@pytest.fixture(scope="module")
def tables() -> Tables:
    return tables_of(Planted(SHORT, slots=600, synthetic=RUNGS), seed=3)


def facts_of(workload: str, tables: Tables, cluster: str = "prompts") -> dict[str, Fact]:
    facts = facts_of_runs(workload, tables.of_workload(workload), cluster, ANALYSIS, 1)
    return {key.removeprefix(f"{workload}."): fact for key, fact in facts.items()}


def test_intervals_come_from_own_requests_by_prompt(tables: Tables) -> None:
    facts = facts_of("synthetic", tables)
    requests = tables.requests[tables.requests["workload"] == "synthetic"]
    sums = requests.groupby("prompt_sha256")[["drafts", "draft_tokens", *POSITIONS]].sum()
    expected = pooled_by_cluster(sums["drafts"], sums["draft_tokens"], sums[POSITIONS].to_numpy(), 0.95)
    for quantity in ("accepted_over_checked", "chance_2", "formula_checked", "formula_last_terms_error"):
        one = expected.estimates[quantity]
        assert (facts[quantity].value, facts[quantity].low, facts[quantity].high) == pytest.approx((one.value, one.low, one.high))
    for quantity in ("rise_3", "chance_slope"):
        one = expected.estimates[quantity]
        assert (facts[quantity].low, facts[quantity].high) == pytest.approx((100 * one.low, 100 * one.high))
        assert facts[quantity].unit == "percentage points"
    assert facts["equal_chances_p"].value == pytest.approx(expected.equality.p_value)
    assert "own requests in clusters by prompt" in facts["equal_chances_p"].method
    shorter = facts["tokens_per_step_at_2"]
    # The chances of 180 prompts and runs have a standard deviation of 0.02: five standard errors of their mean.
    assert shorter.low < shorter.value < shorter.high and shorter.value == pytest.approx(1 + 0.8 + 0.64, abs=0.03)


def test_groups_of_requests_and_their_weights(tables: Tables) -> None:
    facts = facts_of("pair-on", tables)
    requests = tables.requests[tables.requests["workload"] == "pair-on"]
    columns = [requests[name].to_numpy(dtype=float) for name in ("accepted_tokens", "draft_tokens")]
    labels = clusters_of(requests["prompt_sha256"].to_numpy(dtype=str))
    groups = by_groups(*columns, labels, requests["prompt_tokens"].to_numpy(dtype=float), 0.95, groups=3)
    for number, group in enumerate(groups, start=1):
        one = facts[f"prompt_third_{number}"]
        assert (one.value, one.n, one.n_unit) == (pytest.approx(group.acceptance.value), group.requests, "requests")
        assert one.definition.endswith(f"group {number} of 3 by tokens of the prompt: {group.lowest:.0f} to {group.highest:.0f}")
    # Half of the prompts share nothing and half of them fifty tokens, of ever longer prompts.
    assert facts["cached_third_1"].definition.endswith("0.0% to 0.0%") and facts["cached_third_1"].n == len(requests) / 2
    assert facts["request_weighted_acceptance"].value == pytest.approx(mean_of_requests(*columns, labels, 0.95).value)


def test_equal_requests_make_fewer_groups(tables: Tables) -> None:
    same = replace(tables, requests=tables.requests.assign(prompt_tokens=100, cached_tokens=None))
    facts = facts_of("pair-on", same)
    assert facts["prompt_third_1"].n == 60
    assert facts["prompt_third_2"].unknown == "requests differ by this in 1 group alone; equal ones stay together"
    assert facts["cached_third_1"].unknown == "no request shows the part of the prompt found in the cache"


def test_a_request_that_does_not_say_its_tokens_takes_their_interval(tables: Tables) -> None:
    requests = tables.requests.astype({"prompt_tokens": "Int64", "reply_tokens": "Int64"})
    first = requests.index[requests["workload"] == "pair-on"][0]
    requests.loc[first, ["prompt_tokens", "reply_tokens"]] = pd.NA
    facts = facts_of("pair-on", Tables(tables.counters, tables.intervals, requests, tables.checks, tables.runs))
    for name, lacking in (("mean_prompt_tokens", "prompt"), ("mean_reply_tokens", "reply"), ("emitted_minus_verified", "reply")):
        assert facts[name].value is not None and facts[name].low is None
        assert facts[name].unknown == f"no interval: a request does not say its {lacking} tokens"
    assert facts["other_clients_share"].unknown == "generated tokens or own replies are unknown in 1 of 1 records"
    assert facts["accepted_over_drafted"].low is not None


def test_runs_that_other_clients_disturbed_are_left_out_beside_the_whole() -> None:
    planted = Planted(SHORT, slots=100, synthetic=RUNGS, others={8: 3000, 32: 100})
    tables = tables_of(planted, seed=3)
    facts = facts_of("synthetic", tables)
    counters = tables.counters[tables.counters["workload"] == "synthetic"]
    assert facts["other_clients_share"].value == pytest.approx(3100 / counters["generation_tokens"].sum())
    assert (facts["under_1_percent.runs"].value, facts["under_1_percent.runs"].n) == (2, 3)
    kept = counters[counters["streams"] != 8]
    part = facts["under_1_percent.accepted_over_drafted"]
    assert part.value == pytest.approx(kept["accepted"].sum() / kept["draft_tokens"].sum())
    assert part.low is not None
    assert facts["streams_slope"].n == 2
    whole = facts_of("synthetic", tables_of(replace(planted, others={}), seed=3))
    assert not [name for name in whole if name.startswith("under_1_percent")]
    assert facts["drafts"].value == whole["drafts"].value


def test_a_workload_whose_runs_are_all_disturbed() -> None:
    facts = facts_of(
        "synthetic", tables_of(Planted(SHORT, slots=100, synthetic=RUNGS, others=dict.fromkeys(RUNGS, 9000)), seed=3)
    )
    assert facts["under_1_percent.runs"].value == 0
    assert "under_1_percent.accepted_over_drafted" not in facts
    assert facts["streams_slope"].value is None and facts["streams_slope"].unknown.startswith(
        "no run is known to have at most 1%"
    )


def test_slope_over_streams(tables: Tables) -> None:
    flat = facts_of("synthetic", tables)["streams_slope"]
    assert flat.low < flat.value < flat.high and (flat.n, flat.unit) == (3, "percentage points")
    assert "the sets of prompts differ" not in flat.definition
    steep = Planted(SHORT, slots=100, synthetic={1: 0.70, 2: 0.75, 4: 0.80, 8: 0.85})
    found = facts_of("synthetic", tables_of(steep, seed=3))["streams_slope"]
    assert 0 < found.low < found.value < found.high
    shared = tables.requests["run"] == "synthetic-32"
    other = Tables(*(table.copy() for table in tables.all()))
    other.requests.loc[shared, "prompt_sha256"] = other.requests.loc[shared, "prompt_sha256"] + "0"
    assert "the sets of prompts differ" in facts_of("synthetic", other)["streams_slope"].definition
    assert "streams_slope" not in facts_of("pair-on", tables)
    two = facts_of("synthetic", tables_of(Planted(SHORT, slots=100, synthetic={1: 0.7, 8: 0.8}), seed=3))["streams_slope"]
    assert two.value is not None and two.low is None and two.unknown.startswith("no interval: 2 numbers of streams")


def test_the_pair_by_hand(tables: Tables) -> None:
    facts = pair_facts([*map(Measured, ["pair-on", "pair-off", "synthetic"])], tables, 0.95)
    fact = facts["pair.reasoning_difference_pp"]
    rates = []
    for workload in ("pair-on", "pair-off"):
        requests = tables.requests[tables.requests["workload"] == workload]
        rates.append(requests["accepted_tokens"].to_numpy() / requests["draft_tokens"].to_numpy())
    # Every prompt has as many draft tokens: the difference is that of means, paired by prompt.
    difference = rates[0] - rates[1]
    assert fact.value == pytest.approx(100 * difference.mean())
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    assert (fact.high - fact.low) / 2 == pytest.approx(100 * error * 2.0010, rel=1e-4)
    assert (fact.n, fact.n_unit) == (60, "prompts")
    assert "(pair-on) less without (pair-off)" in fact.definition


def test_pairs_that_are_none(tables: Tables) -> None:
    assert pair_facts([*map(Measured, ["pair-on", "synthetic"])], tables, 0.95) == {}
    assert pair_facts([], tables, 0.95) == {}
    requests = tables.requests.copy()
    requests.loc[requests["workload"] == "pair-on", "prompt_sha256"] += "0"
    apart = Tables(tables.counters, tables.intervals, requests, tables.checks, tables.runs)
    assert pair_facts([*map(Measured, ["pair-on", "pair-off"])], apart, 0.95) == {}


def test_the_pair_on_the_same_prompts_is_preferred(tables: Tables) -> None:
    # A third workload with reasoning sends half of the prompts, on another server.
    half = tables.requests[(tables.requests["workload"] == "pair-on")].head(30).assign(workload="reasoning", server="other")
    row = tables.counters[tables.counters["workload"] == "pair-on"].assign(workload="reasoning", server="other")
    more = Tables(
        pd.concat([row, tables.counters]), tables.intervals, pd.concat([half, tables.requests]), tables.checks, tables.runs
    )
    fact = pair_facts([*map(Measured, ["reasoning", "pair-on", "pair-off"])], more, 0.95)["pair.reasoning_difference_pp"]
    assert "(pair-on)" in fact.definition and fact.n == 60


def test_contradictory_own_requests_leave_the_value_and_say_so(tables: Tables) -> None:
    requests = tables.requests.copy()
    first = requests.index[requests["workload"] == "pair-on"][0]
    requests.loc[first, "accepted_2"] = requests.loc[first, "accepted_1"] + 1
    facts = facts_of("pair-on", Tables(tables.counters, tables.intervals, requests, tables.checks, tables.runs))
    assert facts["chance_2"].value is not None
    assert facts["chance_2"].unknown.startswith("no interval: own requests contradict themselves")


def test_shorter_drafts_are_said(tables: Tables) -> None:
    mine = tables.counters["workload"] == "pair-on"
    counters = tables.counters.copy()
    counters.loc[mine, "draft_tokens"] -= 100
    facts = facts_of("pair-on", Tables(counters, tables.intervals, tables.requests, tables.checks, tables.runs))
    held = (K * 200 * 60 - 100) / (200 * 60)
    assert f"drafts held {held:.4g} of 3 tokens on average" in facts["chance_3"].definition


def with_steps(tables: Tables, cut: int) -> Tables:
    """The pair with reasoning, whose requests say their steps; the last draft of each held one token if `cut` is 1."""
    part = tables.of_workload("pair-on")
    counters, requests = part.counters.copy(), part.requests.copy()
    requests["draft_tokens"] -= (K - 1) * cut
    counters["draft_tokens"] = requests["draft_tokens"].sum()
    requests["eligible_1"] = requests["drafts"]
    requests["eligible_2"] = requests["accepted_1"] - cut  # it was accepted, and there was no second one
    requests["eligible_3"] = requests["accepted_2"]
    return Tables(counters, part.intervals, requests, part.checks, part.runs)


def test_what_was_really_drafted_is_the_denominator_of_the_chance(tables: Tables) -> None:
    short = with_steps(tables, cut=1)
    facts = facts_of("pair-on", short)
    first, second, third = (float(short.requests[name].sum()) for name in POSITIONS)
    drafts = 60 * 200
    chances = [facts[f"chance_{position}"].value for position in (1, 2, 3)]
    assert chances == pytest.approx([first / drafts, second / (first - 60), third / second])
    assert facts["share_through_2"].value == pytest.approx(second / drafts)
    assert facts["rise_2"].value == pytest.approx(100 * (chances[1] - chances[0]))
    checked = drafts + first - 60 + second
    assert facts["accepted_over_checked"].value == pytest.approx((first + second + third) / checked)
    one = facts["chance_2"]
    text = "over those of drafts accepted through position 1 that hold a token there, by the steps of own requests"
    assert one.definition.endswith(text) and "on average" not in one.definition
    assert "what a short one lacks counts as not accepted" in facts["share_through_2"].definition
    expected = ratio_of_sums(short.requests["accepted_2"], short.requests["eligible_2"], 0.95)
    assert (one.low, one.high) == pytest.approx((expected.low, expected.high))


def test_full_drafts_have_one_chance(tables: Tables) -> None:
    plain, full = facts_of("pair-on", tables), facts_of("pair-on", with_steps(tables, cut=0))
    assert full == plain
    assert full["chance_2"].definition == "drafts accepted through position 2, over drafts accepted through position 1"


@pytest.mark.parametrize("reason", ["a request without steps", "other clients", "a request without counts"])
def test_without_the_steps_of_every_draft_the_chance_takes_drafts_as_full(tables: Tables, reason: str) -> None:
    short = with_steps(tables, cut=1)
    first = short.requests.index[0]
    if reason == "a request without steps":
        short.requests.loc[first, "eligible_2"] = np.nan
    elif reason == "other clients":
        short.counters[["drafts", "draft_tokens"]] += [1, 3]
    else:
        nothing = {**short.requests.loc[first], **dict.fromkeys(("drafts", "draft_tokens", "accepted_tokens"), np.nan)}
        short = replace(short, requests=pd.concat([short.requests, pd.DataFrame([nothing])]))
    one = facts_of("pair-on", short)["chance_2"]
    assert one.value == pytest.approx(short.counters["accepted_2"].sum() / short.counters["accepted_1"].sum())
    assert "over drafts accepted through position 1; drafts held " in one.definition
    assert one.definition.endswith("of 3 tokens on average, and what a short one lacks counts as not accepted")


def over_boots(boots: int, seed: int = 3) -> Tables:
    """The workload of random words, measured in several boots that send the same prompts."""
    parts = [tables_of(Planted(SHORT, slots=100, synthetic=RUNGS), seed + boot).of_workload("synthetic") for boot in range(boots)]
    named = [[table.assign(boot=f"boot-{boot}") for table in part.all()] for boot, part in enumerate(parts, start=1)]
    return Tables(*(pd.concat(tables) for tables in zip(*named, strict=True)))


def test_boots_stand_above_the_prompts_that_each_of_them_sends() -> None:
    tables = over_boots(5)
    facts = facts_of("synthetic", tables)
    one = facts["accepted_over_drafted"]
    requests = tables.requests
    counts = [requests[name].to_numpy(dtype=float) for name in ("accepted_tokens", "draft_tokens")]
    clusters = clusters_of(requests["prompt_sha256"].to_numpy(dtype=str), requests["boot"].to_numpy(dtype=str))
    expected = ratio_of_sums(*counts, 0.95, clusters)
    assert (one.value, one.low, one.high) == pytest.approx((expected.value, expected.low, expected.high))
    assert (one.n, one.n_unit) == (60, "prompts")
    words = "own requests in clusters by prompt, crossed with 5 boots, with Satterthwaite's degrees of freedom"
    assert one.method.endswith(words) and facts["equal_chances_p"].method.endswith(words)
    for name in ("request_weighted_acceptance", "prompt_third_1", "emitted_tokens_per_step", "streams_8.chance_2"):
        assert facts[name].low is not None and "crossed with 5 boots" in facts[name].method


def test_a_few_boots_that_send_the_same_prompts_say_too_little_of_boots() -> None:
    facts = facts_of("synthetic", over_boots(3))
    reason = "no interval: 3 boots sent the same prompts, and at least 4 are needed to know how much boots differ"
    for name in ("accepted_over_drafted", "request_weighted_acceptance", "mean_reply_tokens", "tokens_per_step_at_1"):
        assert facts[name].value is not None and facts[name].low is None and facts[name].unknown == reason
    assert facts["equal_chances_p"].value is None and facts["equal_chances_p"].unknown == reason


def test_sessions_lie_within_boots() -> None:
    facts = facts_of("synthetic", over_boots(2), "sessions")
    one = facts["chance_1"]
    assert one.low is not None and one.n_unit == "sessions"
    assert one.method.endswith("own requests in 2 clusters by boot, its sessions within")


def test_drafts_of_one_token_have_no_change_along_them(tables: Tables) -> None:
    one = [table.drop(columns=POSITIONS[1:], errors="ignore") for table in tables.of_workload("pair-on").all()]
    one[0] = one[0].assign(k=1, draft_tokens=one[0]["drafts"], accepted=one[0]["accepted_1"])
    one[2] = one[2].assign(draft_tokens=one[2]["drafts"], accepted_tokens=one[2]["accepted_1"])
    facts = facts_of("pair-on", Tables(*one))
    assert facts["chance_1"].value == facts["share_through_1"].value == facts["accepted_over_checked"].value
    gone = {"rise_2", "chance_slope", "equal_chances_p", "tokens_per_step_at_1", "formula_last_terms_error"}
    assert not gone & facts.keys()
    assert facts["formula_checked_error"].value == pytest.approx(0)
