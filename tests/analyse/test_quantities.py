"""The catalogue of quantities: no impossible value, and the same ones in facts and in `report`."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from draftmeter.analyse.counts import Counts, IntervalSeries, Part, counts_of_series, pooled
from draftmeter.analyse.facts import rounded
from draftmeter.analyse.quantities import catalogue, values_of
from draftmeter.analyse.tables import Tables
from draftmeter.analyse.workload import workload_facts
from draftmeter.collect.inputs import Settings
from draftmeter.collect.tables import CollectError, build_tables
from draftmeter.commands.report import read_all, report
from draftmeter.facts import Fact
from draftmeter.stats.pooled import pooled_names, pooled_values
from draftmeter.study.archive import StoredSource
from draftmeter.study.config import parse_config
from made_up_server import ServerState, exposition
from simulated_study import config

ROOT = Path(__file__).parents[2]
ARCHIVE = ROOT / "config" / "archive"


def counters(
    k: int, drafts: float, drafted: float, at: list[float], generated: float | None = None, finished: float | None = None
) -> Counts:
    return Counts("counters", k, drafts, drafted, sum(at), sum(at), tuple(at), drafted, generated, 5.0, finished)


@st.composite
def possible(draw: st.DrawFn) -> Counts:
    """What servers can count, with short drafts, steps without one, and counts that are lacking."""
    k = draw(st.integers(1, 5))
    lengths = draw(st.lists(st.integers(0, k), max_size=5))
    drafts = [(length, draw(st.integers(0, length)), draw(st.integers(1, 40))) for length in lengths if length]
    at = [float(sum(n for _, accepted, n in drafts if accepted >= position)) for position in range(1, k + 1)]
    made = float(sum(n for _, _, n in drafts))
    drafted = float(sum(length * n for length, _, n in drafts))
    cut, others, finished = (float(draw(st.integers(0, most))) for most in (20, 200, 20))
    generated = max(made + sum(at) - cut, 0.0) + others + finished
    found = counters(k, made, drafted, at, generated, finished)
    lacking = draw(st.sets(st.sampled_from(["drafts", "accepted_at", "generation_tokens", "requests_finished", "accepted"])))
    if "accepted" in lacking:
        lacking = lacking | {"accepted_of_drafts"}
    return replace(found, **dict.fromkeys(lacking))


def any_count() -> st.SearchStrategy[float | None]:
    return st.one_of(st.none(), st.integers(-3, 60).map(float))


@st.composite
def anything(draw: st.DrawFn) -> Counts:
    """Counts without any sense, as a broken source could give them."""
    k = draw(st.integers(0, 4))
    at = draw(st.one_of(st.none(), st.lists(st.integers(-3, 60).map(float), min_size=k, max_size=k).map(tuple)))
    drafts, drafted, accepted, generated, prompt, finished = (draw(any_count()) for _ in range(6))
    several = draw(st.booleans()) and k > 1
    return Counts(
        "counters", None if several or not k else k, drafts, drafted, accepted, accepted, None if several or not k else at,
        drafted, generated, prompt, finished, longest=k if several else None,
    )  # fmt: skip


def assert_possible(counts: Counts) -> None:
    found = values_of(counts)
    k = counts.k or counts.longest
    for name, one in found.items():
        assert (one.value is None) == (one.unknown is not None), name
        if one.value is None:
            assert one.unknown
            continue
        assert math.isfinite(one.value), name
        if one.unit == "fraction":
            assert 0 <= one.value <= 1, name
        if k and (
            name.startswith(("tokens_per_step", "formula_")) or name in ("emitted_tokens_per_step", "tokens_per_decode_step")
        ):
            assert one.unit == "relative" or 0 <= one.value <= k + 1 + 1e-9, name
        if one.unit == "percentage points":
            assert -100 <= one.value <= 100, name
        if one.unit == "count":
            assert one.value >= 0, name


@settings(deadline=None)
@given(possible())
def test_what_a_server_can_count_makes_possible_values(counts: Counts) -> None:
    assert counts.contradiction is None
    assert_possible(counts)
    found = {name: one.value for name, one in values_of(counts).items()}
    names = ("tokens_per_step", "emitted_tokens_per_step", "tokens_per_decode_step")
    verified, emitted, over_all = (found[name] for name in names)
    if emitted is not None and verified is not None:
        assert emitted <= verified and over_all == pytest.approx(emitted)
    if over_all is not None and verified is not None:
        assert over_all <= verified + 1e-9


@settings(deadline=None)
@given(anything())
def test_no_counts_make_an_impossible_value(counts: Counts) -> None:
    assert_possible(counts)


@settings(deadline=None)
@given(st.integers(1, 5).flatmap(lambda k: st.lists(st.integers(0, 50), min_size=k + 1, max_size=k + 1)))
def test_the_catalogue_and_the_resampled_statistics_have_one_formula(falling: list[int]) -> None:
    drafts, *at = sorted(map(float, falling), reverse=True)
    k = len(at)
    found = values_of(counters(k, drafts, k * drafts, at))
    with np.errstate(divide="ignore", invalid="ignore"):
        values = pooled_values(np.array([[k * drafts, sum(at), sum(at), drafts, *at]]))[0]
    of_statistics = dict(zip(pooled_names(k), values.tolist(), strict=True))
    factors = {quantity.name: quantity.factor for quantity in catalogue(k)}
    assert of_statistics.keys() <= found.keys()
    for name, value in of_statistics.items():
        one = found[name].value
        assert one == (pytest.approx(factors[name] * value, abs=1e-12) if math.isfinite(value) else None), name


def test_names_are_unique_and_in_one_order() -> None:
    for k in range(6):
        names = [quantity.name for quantity in catalogue(k)]
        assert len(set(names)) == len(names)
        assert [name for name in names if name.startswith("share_through")] == [f"share_through_{n}" for n in range(1, k + 1)]
    signed = {quantity.name for quantity in catalogue(2) if quantity.signed}
    assert {"rise_2", "chance_slope", "emitted_minus_verified", "formula_checked_error"} <= signed
    assert not {"drafts", "chance_1", "tokens_per_step"} & signed


def test_tokens_of_steps_without_a_draft_are_not_those_of_drafts() -> None:
    """Two drafts with one accepted token make three tokens at most; the server generated 101."""
    found = values_of(counters(1, 2, 2, [1], 101, 1))
    assert found["tokens_per_step"].value == 1.5
    reason = "98 of 101 generated tokens came from steps without a draft, or are a prompt's first token"
    for name in ("emitted_tokens_per_step", "emitted_minus_verified"):
        assert (found[name].value, found[name].unknown) == (None, reason)
    # 100 tokens of 2 steps with a draft and 97 without.
    assert found["tokens_per_decode_step"].value == 100 / 99
    assert "at most so many" in found["tokens_per_decode_step"].definition
    assert (
        values_of(counters(1, 2, 2, [1], 101))["tokens_per_decode_step"].unknown == "the source does not show finished requests"
    )


def test_one_token_more_than_drafts_can_make_is_said() -> None:
    """How many first tokens of running requests are in it is not known: no tolerance."""
    drafts, at = 1000.0, [500.0]
    whole = values_of(counters(1, drafts, drafts, at, 1500 + 10, 10))["emitted_tokens_per_step"]
    assert whole.value == 1.5
    more = values_of(counters(1, drafts, drafts, at, 1501 + 10, 10))["emitted_tokens_per_step"]
    assert more.value is None and more.unknown is not None and more.unknown.startswith("11 of 1511 generated tokens")


def test_a_chance_over_drafts_that_cannot_all_hold_the_token_is_unknown() -> None:
    """Eleven tokens in ten drafts: one at most holds a second, and eight were accepted so far."""
    found = values_of(counters(2, 10, 11, [8, 1], 20, 1))
    assert found["chance_1"].value == 0.8 and found["share_through_2"].value == 0.1
    for name in ("chance_2", "rise_2", "chance_slope", "accepted_over_checked", "formula_checked"):
        assert found[name].value is None and "at most 1 of 10 can hold a token at position 2" in (found[name].unknown or "")
    by_requests = replace(counters(2, 10, 11, [8, 1], 20, 1), eligible_at=(10.0, 1.0))
    assert values_of(by_requests)["chance_2"].value == 1


def series(*intervals: tuple[int, float, float, float, list[float]]) -> IntervalSeries:
    """Intervals of (K, drafts, drafted, accepted, accepted by position)."""
    widest = max(len(at) for *_, at in intervals)
    rows = [(*numbers, *at, *[math.nan] * (widest - len(at))) for *numbers, at in intervals]
    k, drafts, drafted, accepted, *positions = np.array(rows, dtype=float).T
    known = np.isfinite(drafts)
    return IntervalSeries(drafts, drafted, accepted, np.column_stack(positions), known, np.full(len(k), 10.0), k)


def test_tokens_per_step_over_a_change_of_k_and_nothing_by_position() -> None:
    counts = counts_of_series(series((2, 10, 20, 10, [7, 3]), (1, 10, 10, 8, [8])), None, 20.0)
    found = values_of(counts)
    assert (found["drafts"].value, found["accepted"].value, found["tokens_per_step"].value) == (20, 18, 1.9)
    assert counts.reason("k") == "K changed from 2 to 1" and counts.notes[0].startswith("K changed from 2 to 1")
    for name in ("share_through_1", "chance_2", "tokens_per_step_at_1", "formula_checked"):
        assert (found[name].value, found[name].unknown) == (None, "K changed from 2 to 1")
    back = counts_of_series(series((2, 10, 20, 10, [7, 3]), (1, 10, 10, 8, [8]), (2, 1, 2, 0, [0, 0])), None, 20.0)
    assert back.reason("k") == "K changed from 2 to 1 to 2"
    in_turn = counts_of_series(series(*[(2, 10, 20, 10, [7, 3]), (1, 10, 10, 8, [8])] * 3), None, 20.0)
    assert in_turn.reason("accepted_at") == "the intervals have K = 1, 2, in turn"


def test_drafts_of_a_log_without_positions_are_known() -> None:
    """By draft: over intervals with drafts and positions; with drafts alone where none has both."""
    nan = math.nan
    without = counts_of_series(series((2, 10, 20, 10, [nan, nan]), (2, nan, 10, 8, [nan, nan])), None, 20.0)
    assert (without.drafts, without.accepted_of_drafts, without.accepted, without.accepted_at) == (10, 10, 18, None)
    assert without.reason("accepted_at") == "no interval shows its acceptance by position"
    some = counts_of_series(series((2, 10, 20, 10, [nan, nan]), (2, 5, 10, 8, [5, 3])), None, 20.0)
    assert (some.drafts, some.accepted_of_drafts, some.accepted, some.accepted_at) == (5, 8, 18, (5, 3))
    assert "1 of 2 intervals, with 66.67% of the draft tokens, do not show their drafts or" in some.notes[0]


def part(name: str, model: str | None, counts: Counts) -> Part:
    return Part(name, model, counts, None, 0.0, 10.0, False, None)


def test_two_models_are_not_pooled() -> None:
    one = counters(1, 10, 10, [5])
    result = pooled([part("a", "small", one), part("b", "large", one)])
    assert result == "not pooled: the sources are of the models large, small, and acceptance is pooled over one model only"
    assert not isinstance(pooled([part("a", "small", one), part("b", None, one)]), str)


def facts_of_texts(folder: Path, **texts: str) -> dict[str, Fact]:
    """The facts of a workload whose records are /metrics texts."""
    for name, text in texts.items():
        (folder / f"{name}.prom").write_text(text)
    paths = {f"{name}.prom": str(folder / f"{name}.prom") for name in texts}
    sources = [StoredSource(given=name, at=path, workload="traffic", settings=None) for name, path in paths.items()]
    built = build_tables([], sources)
    tables = Tables(built.counters, built.intervals, built.requests, built.checks, built.runs)
    return workload_facts("traffic", tables, "sessions", config().analysis, 1)


EARLIER, LATER = ServerState([40, 30, 20, 10], 200, 50, 10, {"stop": 1}), ServerState([80, 60, 40, 20], 400, 100, 20, {"stop": 2})


@pytest.mark.parametrize("start_time", [5.0, None])
def test_two_readings_of_one_server_are_what_happened_between_them(tmp_path: Path, start_time: float | None) -> None:
    texts = [exposition(state, start_time=start_time) for state in (EARLIER, LATER)]
    if start_time is None:
        texts = ["".join(line for line in text.splitlines(keepends=True) if "_created" not in line) for text in texts]
    facts = facts_of_texts(tmp_path, one=texts[0], two=texts[1])
    assert facts["traffic.drafts"].value == 200 - 100
    assert facts["traffic.share_through_1"].value == 0.6


def test_readings_of_two_starts_are_refused_and_of_two_models_unknown(tmp_path: Path) -> None:
    later = exposition(LATER, start_time=9.0)
    with pytest.raises(CollectError, match=r"one\.prom .*two\.prom .*neither added up nor subtracted"):
        facts_of_texts(tmp_path, one=exposition(EARLIER, start_time=5.0), two=later)
    other = later.replace('model_name="made-up"', 'model_name="other"')
    facts = facts_of_texts(tmp_path, one=exposition(EARLIER, start_time=5.0), two=other)
    assert "models made-up, other" in (facts["traffic.drafts"].unknown or "")


def test_the_archive_is_reported_as_its_facts_say() -> None:
    """Every quantity that `report` and the facts both have, for each workload, digit for digit."""
    archive = parse_config(yaml.safe_load((ROOT / "config" / "archive.yaml").read_text()))
    built = build_tables(sorted(ARCHIVE.rglob("boot.json")))
    tables = Tables(built.counters, built.intervals, built.requests, built.checks, built.runs)
    drafting = tables.counters[tables.drafting]
    records = {name: rows["source"].tolist() for name, rows in drafting.groupby("workload")}
    compared = 0
    for workload, places in records.items():
        cluster = archive.workloads[workload].clusters
        facts = workload_facts(workload, tables.of_workload(workload), cluster, archive.analysis, 1)
        sources, not_read = read_all([str(ARCHIVE / "records" / place) for place in places], Settings())
        reported = report(sources, 100)
        figures = (reported["pooled"] or reported["sources"][0])["figures"]
        assert not not_read and figures is not None, workload
        own = {key.removeprefix(f"{workload}."): fact for key, fact in facts.items()}
        shared = own.keys() & figures.keys()
        assert {quantity.name for quantity in catalogue(int(figures["k"]["value"]))} <= shared
        for name in shared:
            assert own[name].value == rounded(figures[name]["value"]), f"{workload}.{name}"
            assert own[name].unit == figures[name]["unit"]
        compared += len(shared)
    assert len(records) == 15 and compared > 300
