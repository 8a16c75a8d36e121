"""Reading /metrics texts: planted counters come back; what is missing is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.formats.counters import Counters, EngineReading, add_up, fallen
from draftmeter.formats.metrics import MetricsError, difference, quiet, read_strict
from made_up_server import ServerState, exposition

COUNT = st.integers(0, 10**10)


def server(text: str) -> EngineReading:
    """The sum over the engines of a text that must have no problems."""
    return read_strict(text).rows()[0]


def change_between(before: str, after: str) -> Counters:
    return add_up(list(difference(read_strict(before), read_strict(after)).values()))


@st.composite
def states(draw: st.DrawFn, k: int) -> ServerState:
    return ServerState(
        histogram=draw(st.lists(COUNT, min_size=k + 1, max_size=k + 1)),
        generation_tokens=draw(COUNT),
        prompt_tokens=draw(COUNT),
        cached_prompt_tokens=draw(COUNT),
        finished={"stop": draw(COUNT), "length": draw(COUNT), "abort": draw(COUNT)},
        running=draw(st.integers(0, 99)),
        waiting=draw(st.integers(0, 99)),
    )


@given(st.data(), st.integers(1, 5), st.integers(1, 3))
def test_counters_come_back_summed_over_engines(data: st.DataObject, k: int, engines: int) -> None:
    planted = [data.draw(states(k)) for _ in range(engines)]
    reading = server(exposition(*planted))
    scrape = reading.counters
    assert scrape.k == k
    assert scrape.drafts == sum(sum(state.histogram) for state in planted)
    assert scrape.draft_tokens == k * scrape.drafts
    assert scrape.accepted_per_position == tuple(map(sum, zip(*(s.accepted_at() for s in planted), strict=True)))
    assert scrape.accepted == sum(scrape.accepted_per_position)
    assert scrape.generation_tokens == sum(state.generation_tokens for state in planted)
    assert scrape.prompt_tokens == sum(state.prompt_tokens for state in planted)
    assert scrape.cached_prompt_tokens == sum(state.cached_prompt_tokens for state in planted)
    assert scrape.requests_finished == sum(sum(state.finished.values()) for state in planted)
    assert (reading.running, reading.waiting) == (sum(s.running for s in planted), sum(s.waiting for s in planted))
    assert reading.start_time == 1796000000.25


@given(st.data())
def test_difference_is_what_was_added(data: st.DataObject) -> None:
    first, added = data.draw(states(3)), data.draw(states(3))
    second = ServerState(
        histogram=[a + b for a, b in zip(first.histogram, added.histogram, strict=True)],
        generation_tokens=first.generation_tokens + added.generation_tokens,
        prompt_tokens=first.prompt_tokens + added.prompt_tokens,
        finished={reason: first.finished[reason] + added.finished[reason] for reason in first.finished},
        cached_prompt_tokens=first.cached_prompt_tokens + added.cached_prompt_tokens,
    )
    change = change_between(exposition(first), exposition(second))
    assert change.drafts == sum(added.histogram)
    assert change.accepted_per_position == tuple(added.accepted_at())
    assert change.generation_tokens == added.generation_tokens
    assert change.cached_prompt_tokens == added.cached_prompt_tokens
    assert change.requests_finished == sum(added.finished.values())
    assert change.preemptions == 0


def test_families_that_a_server_may_lack_are_null() -> None:
    text = exposition(ServerState([1, 2, 3, 4]), start_time=None, without=["vllm:prefix_cache_hits", "vllm:num_preemptions"])
    scrape = server(text)
    assert (scrape.counters.cached_prompt_tokens, scrape.counters.preemptions, scrape.start_time) == (None, None, None)
    assert change_between(text, text).cached_prompt_tokens is None


def test_large_counters_print_with_an_exponent_and_stay_exact() -> None:
    text = exposition(ServerState([0, 0, 0, 1378852]))
    assert "1.378852e+06" in text
    assert server(text).counters.drafts == 1378852


SPECULATION_FAMILIES = [
    "vllm:spec_decode_num_drafts",
    "vllm:spec_decode_num_draft_tokens",
    "vllm:spec_decode_num_accepted_tokens",
    "vllm:spec_decode_num_accepted_tokens_per_pos",
]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (exposition(ServerState([1, 2]), without=SPECULATION_FAMILIES), "speculation is off"),
        (exposition(ServerState([1, 2]), without=SPECULATION_FAMILIES[3:]), "predates per-position counters"),
        (exposition(ServerState([1, 2]), without=SPECULATION_FAMILIES[:1]), "no vllm:spec_decode_num_drafts_total"),
        (exposition(ServerState([1, 2]), without=["vllm:generation_tokens"]), "no vllm:generation_tokens_total"),
        (exposition(ServerState([1, 2]), also=["vllm:spec_decode_efficiency"]), "V0 engine"),
        ("# nothing of interest\nup 1.0\n", "expected the /metrics text of a vLLM server"),
        ("", "cut short"),
        (exposition(ServerState([1, 2]))[:-5], "cut short"),
        ("<html><body>404</body></html>\n", "not a Prometheus text"),
        (exposition(ServerState([1, 2])).replace('position="0"', 'position="1"'), "expected 0, 1, ... K-1"),
        (exposition(ServerState([1, 2])).replace('position="0"', 'position="a"'), "whole number"),
        (exposition(ServerState([1, 2])).replace("position=", "place="), "whole number"),
    ],
)
def test_unusable_texts_are_refused_with_the_cause(text: str, message: str) -> None:
    with pytest.raises(MetricsError, match=message):
        read_strict(text)


@pytest.mark.parametrize("value", ["1.5", "-1.0", "NaN", "+Inf"])
def test_a_counter_that_is_no_count_is_refused(value: str) -> None:
    lines = exposition(ServerState([1, 2])).splitlines(keepends=True)
    text = "".join(
        f"{line.rsplit(' ', 1)[0]} {value}\n" if line.startswith("vllm:spec_decode_num_drafts_total") else line for line in lines
    )
    with pytest.raises(MetricsError, match="whole number of 0 or more"):
        read_strict(text)


def test_quiet_needs_idle_gauges_and_still_counters() -> None:
    idle = exposition(ServerState([1, 2, 3, 4], generation_tokens=20))
    busy = exposition(ServerState([1, 2, 3, 4], generation_tokens=20, running=1))
    queued = exposition(ServerState([1, 2, 3, 4], generation_tokens=20, waiting=1))
    one_step_later = exposition(ServerState([1, 2, 3, 5], generation_tokens=20))
    one_token_later = exposition(ServerState([1, 2, 3, 4], generation_tokens=21))
    assert quiet(idle, idle)
    for other in (busy, queued, one_step_later, one_token_later):
        assert not quiet(idle, other)
        assert not quiet(other, idle)
    assert not quiet(busy, busy)


def test_difference_is_after_minus_before_whatever_happened_between() -> None:
    first = exposition(ServerState([5, 5], generation_tokens=9))
    second = exposition(ServerState([4, 7], generation_tokens=2), start_time=1796000900.0)
    change = change_between(first, second)
    assert (change.drafts, change.accepted, change.generation_tokens) == (1, 2, -7)
    assert server(second).start_time == 1796000900.0
    assert fallen(server(first).counters, server(second).counters) == ["generation_tokens"]
    assert change_between(second, first).accepted_per_position == (-2,)


def test_difference_refuses_another_k() -> None:
    with pytest.raises(MetricsError, match="K must not change"):
        change_between(exposition(ServerState([5, 5])), exposition(ServerState([9, 9, 9])))
