"""Many scrapes of one server: increases over restarts, intervals, engines that come and go; the truth is planted."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.formats.counter_series import CounterResult, CounterSeries, Row, counter_series, scrape_pace
from draftmeter.formats.counters import Counters, EngineKey, EngineReading
from draftmeter.formats.metrics import Metrics, read_metrics
from made_up_server import ServerState, exposition

START = 1796000000.0


def counters(n: int, k: int = 3) -> Counters:
    """What a server shows that drafted `n` times and accepted every first token, half of the second, nothing further."""
    positions = (n, n // 2, *([0] * (k - 2)))[:k]
    return Counters(
        drafts=n,
        draft_tokens=k * n,
        accepted=sum(positions),
        accepted_per_position=positions,
        generation_tokens=2 * n,
        prompt_tokens=5 * n,
        cached_prompt_tokens=n,
        prefix_cache_queries=4 * n,
        requests_finished=n // 10,
        preemptions=0,
    )


def scrape(*engines: Counters, began: float | None = None, replica: str = "", model: str = "m", numbers: str = "0123") -> Metrics:
    readings = [
        EngineReading(EngineKey(model, number, replica), one, running=2, waiting=1, kv_cache_usage=0.25, start_time=began)
        for number, one in zip(numbers, engines, strict=False)
    ]
    return Metrics(tuple(readings), (), False)


def series(scrapes: Sequence[tuple[float, Metrics]], pace_s: float = 10.0) -> tuple[CounterResult, list[Row]]:
    return counter_series([START + t for t, _ in scrapes], [one for _, one in scrapes], pace_s)


def said(result: CounterResult, words: str) -> bool:
    return any(words in note for note in result.notes)


def test_without_a_restart_it_is_last_minus_first() -> None:
    result, rows = series([(0, scrape(counters(100))), (10, scrape(counters(140))), (20, scrape(counters(200)))])
    (part,) = result.parts
    assert part.counters == Counters(100, 300, 150, (100, 50, 0), 200, 500, 100, 400, 10, 0)
    assert (part.engine, part.start, part.end, part.seconds, part.restarts) == ("all", START, START + 20, 20, 0)
    assert part.counters.shares == (1.0, 0.5, 0.0)
    assert result.notes == ()
    assert [row["drafts"] for row in rows] == [40, 60]
    assert rows[0] == {
        **dict.fromkeys(["offset", "process", "since_last_line_s", "extra"]),
        **{"engine": "0", "start": START, "end": START + 10, "window_s": 10.0, "wording": "counters"},
        **{"k": 3, "drafts": 40, "drafts_exact": True, "drafted": 120, "accepted": 60, "accepted_k_exact": True},
        **{"accepted_1": 40, "accepted_2": 20, "accepted_3": 0, "running": 2, "waiting": 1, "kv_cache_usage": 0.25},
        **{"prompt_tokens_per_s": 20.0, "generation_tokens_per_s": 8.0, "prefix_cache_hit_rate": 0.25},
    }


@pytest.mark.parametrize("began", [(None, None), (START - 500, START + 13.5)])
def test_after_a_restart_all_that_the_new_process_counted_is_added(began: tuple[float | None, float | None]) -> None:
    result, rows = series(
        [
            (0, scrape(counters(100), began=began[0])),
            (10, scrape(counters(140), began=began[0])),
            (20, scrape(counters(30), began=began[1])),
            (30, scrape(counters(50), began=began[1])),
        ]
    )
    (part,) = result.parts
    assert (part.counters.drafts, part.counters.accepted_per_position) == (40 + 50, (90, 45, 0))
    assert part.restarts == 1
    (restart,) = result.restarts
    assert (restart.after, restart.before, restart.began) == (START + 10, START + 20, began[1])
    assert part.start_time == began[1]
    assert [row["drafts"] for row in rows] == [40, 20]
    assert said(result, "what it counted between the last scrape and its end is unknown")
    assert said(result, "the increase is in the totals")


def test_a_restart_shows_by_the_start_time_even_if_every_count_rose() -> None:
    result, rows = series(
        [
            (0, scrape(counters(10), began=START - 9)),
            (10, scrape(counters(20), began=START - 9)),
            (20, scrape(counters(90), began=START + 11)),
        ]
    )
    assert result.parts[0].counters.drafts == 10 + 90
    assert len(rows) == 1


def test_a_start_time_that_shows_late_still_tells_the_next_restart() -> None:
    starts = [(10, None), (20, START - 9), (90, START + 15)]
    result, _ = series([(10.0 * i, scrape(counters(n), began=began)) for i, (n, began) in enumerate(starts)])
    assert (result.parts[0].counters.drafts, result.parts[0].restarts) == (10 + 90, 1)


def test_a_restart_of_one_engine_is_one_of_its_server() -> None:
    # Without start times: engine 1 has more counts than before the restart, and only engine 0 shows it.
    result, _ = series(
        [
            (0, scrape(counters(100), counters(10))),
            (10, scrape(counters(140), counters(20))),
            (20, scrape(counters(30), counters(25))),
        ]
    )
    everything, first, second = result.parts
    assert (first.counters.drafts, second.counters.drafts, everything.counters.drafts) == (40 + 30, 10 + 25, 105)
    assert (everything.restarts, first.restarts, second.restarts) == (1, 1, 1)


@pytest.mark.parametrize("family", ["generation_tokens", "spec_decode_num_drafts"])
def test_created_samples_tell_a_restart_too(family: str) -> None:
    def text(n: int, created: float) -> Metrics:
        engine = '{engine="0",model_name="m"}'
        return read_metrics(f"vllm:generation_tokens_total{engine} {n}\nvllm:{family}_created{engine} {created}\n")

    result, _ = series([(0, text(5, START - 9)), (10, text(7, START - 9)), (20, text(9, START + 15))])
    assert result.parts[0].counters.generation_tokens == 2 + 9
    assert result.restarts[0].began == START + 15


def test_an_engine_that_appears_late_and_one_that_disappears() -> None:
    result, rows = series(
        [
            (0, scrape(counters(100), counters(7))),
            (10, scrape(counters(110), counters(9))),
            (20, scrape(counters(120))),
            (30, scrape(counters(130))),
            (40, scrape(counters(140), counters(0), counters(1000), numbers="012")),
            (50, scrape(counters(150), counters(8), counters(1004), numbers="012")),
        ]
    )  # fmt: skip
    everything, first, second, third = result.parts
    # Engine 1 came back with a smaller count: its server restarted, and with it, as nothing says otherwise, engine 0.
    assert first.counters.drafts == 30 + 150
    assert second.counters.drafts == 2 + 8
    assert third.counters.drafts == 1004
    assert everything.counters.drafts == 180 + 10 + 1004
    assert [row["engine"] for row in rows] == ["2 aggregated", "0", "3 aggregated"]
    assert said(result, "engine 2 first appears at")


def test_a_late_engine_is_counted_from_its_first_scrape_unless_it_began_within() -> None:
    before = scrape(counters(10), began=START - 100)
    late = EngineReading(EngineKey("m", "1", "pod=b"), counters(50))
    for began, drafts in ((None, 5), (START - 50, 5), (START + 15, 55)):
        first = Metrics((*before.engines, replace(late, start_time=began)), (), False)
        second = Metrics((*before.engines, replace(late, start_time=began, counters=counters(55))), (), False)
        result, _ = series([(0, before), (10, before), (20, first), (30, second)])
        assert result.parts[2].counters.drafts == drafts
        assert result.parts[2].restarts == 0
        assert said(result, "counted whole" if drafts == 55 else "not included")


def test_servers_that_answer_in_turn_are_counted_each() -> None:
    a, b = START - 500, START - 900
    result, rows = series(
        [(10.0 * n, scrape(counters((100 if n % 2 else 900) + n), began=a if n % 2 else b)) for n in range(10)]
    )  # fmt: skip
    assert result.parts[0].counters.drafts == 8 + 8
    assert (result.restarts, rows) == ((), [])
    assert said(result, "load balancer")


def test_a_server_that_was_there_before_is_no_restart() -> None:
    result, _ = series([(0, scrape(counters(10), began=START - 100)), (10, scrape(counters(500), began=START - 900))])
    assert (result.parts[0].counters.drafts, result.restarts) == (0, ())


def test_counts_that_fall_all_the_time_are_suspicious() -> None:
    result, _ = series([(10.0 * n, scrape(counters(100 if n % 2 else 900))) for n in range(20)])
    assert said(result, "perhaps several servers answer in turn")


def test_gaps_give_no_interval_but_count() -> None:
    result, rows = series(
        [(0, scrape(counters(0))), (10, scrape(counters(1))), (40, scrape(counters(31))), (54.5, scrape(counters(46)))]
    )
    assert result.parts[0].counters.drafts == 46
    assert [(row["start"] - START, row["end"] - START, row["drafts"]) for row in rows] == [(0, 10, 1), (40, 54.5, 15)]
    assert rows[1]["generation_tokens_per_s"] == pytest.approx(30 / 14.5)
    assert rows[1]["window_s"] == 10
    assert said(result, "1 followed the one before after more than 1.5 times the pace of 10 s")


def test_scrapes_in_quick_succession_are_joined() -> None:
    result, rows = series([(t, scrape(counters(int(t)))) for t in (0, 10, 12, 14, 20, 30)])
    assert [(row["start"] - START, row["end"] - START, row["drafts"]) for row in rows] == [
        (0, 10, 10),
        (10, 20, 10),
        (20, 30, 10),
    ]
    assert said(result, "of 6 scrapes, 2 followed the one before within half of the pace of 10 s")


def test_idle_time_gives_no_intervals() -> None:
    result, rows = series([(10.0 * n, scrape(counters(5))) for n in range(4)])
    assert (rows, result.parts[0].counters.drafts) == ([], 0)
    assert said(result, "of 4 scrapes, 3 ended an interval without a draft")


def test_time_that_runs_backwards_is_not_used() -> None:
    result, rows = series(
        [
            (0, scrape(counters(5))),
            (10, scrape(counters(9))),
            (5, scrape(counters(7))),
            (10, scrape(counters(9))),
            (20, scrape(counters(12))),
        ]
    )
    assert (result.parts[0].counters.drafts, [row["drafts"] for row in rows], result.restarts) == (7, [4, 3], ())
    assert said(result, "2 were not later than the one before")


def test_scrapes_that_lack_counts_are_not_used() -> None:
    partly = scrape(replace(counters(12), accepted_per_position=None))
    cut = replace(scrape(counters(13)), cut=True)
    empty = Metrics((), ("no metric of vLLM is in this text",), False)
    result, rows = series(
        [(0, scrape(counters(5))), (10, scrape(counters(9))), (20, partly), (30, cut), (40, empty), (50, scrape(counters(20)))]
    )
    assert result.parts[0].counters == replace(
        counters(15), requests_finished=2, accepted=20 + 10 - 7, accepted_per_position=(15, 8, 0)
    )
    assert [row["drafts"] for row in rows] == [4]
    assert said(result, "of 6 scrapes, 3 were cut short or lacked counts")
    assert said(result, "no metric of vLLM is in this text (in 1 of 6 scrapes)")


def test_another_k_after_a_restart_leaves_the_positions_open() -> None:
    result, rows = series(
        [(0, scrape(counters(5))), (10, scrape(counters(9))), (20, scrape(counters(3, k=5))), (30, scrape(counters(6, k=5)))]
    )
    (part,) = result.parts
    assert (part.counters.drafts, part.counters.k, part.counters.accepted_per_position) == (10, None, None)
    assert [(row["k"], row["drafts"]) for row in rows] == [(3, 4), (5, 3)]
    assert said(result, "K is not the same throughout (3, 5)")


def test_a_restart_without_speculation_adds_no_drafts() -> None:
    off = Counters(generation_tokens=5, prompt_tokens=4, requests_finished=1)
    result, rows = series(
        [
            (0, scrape(counters(50))),
            (10, scrape(counters(90))),
            (20, scrape(off)),
            (30, scrape(replace(off, generation_tokens=9))),
        ]
    )
    part = result.parts[0]
    assert (part.counters.drafts, part.counters.accepted_per_position, part.counters.generation_tokens) == (
        40,
        (40, 20, 0),
        80 + 9,
    )
    # The first process counted preemptions, the second shows none: their sum is not known.
    assert part.counters.preemptions is None
    assert [row["drafts"] for row in rows] == [40]


def test_without_speculation_there_are_no_intervals_but_tokens_count() -> None:
    result, rows = series([(0, scrape(Counters(generation_tokens=5))), (10, scrape(Counters(generation_tokens=9)))])
    assert (rows, result.parts[0].counters.drafts, result.parts[0].counters.generation_tokens) == ([], None, 4)


def test_a_server_that_predates_positions_gives_intervals_without_them() -> None:
    old = [replace(counters(n), accepted_per_position=None) for n in (0, 20)]
    _, (row,) = series([(0, scrape(old[0])), (10, scrape(old[1]))])
    assert (row["drafts"], row["k"], row["accepted"], row["accepted_k_exact"], "accepted_1" in row) == (20, None, 30, None, False)


def test_models_are_kept_apart() -> None:
    def both(n: int) -> Metrics:
        return Metrics(scrape(counters(n), model="a").engines + scrape(counters(3 * n, k=2), model="b").engines, (), False)

    result, rows = series([(0, both(1)), (10, both(11))])
    assert [(part.model, part.engine, part.counters.drafts, part.counters.k) for part in result.parts] == [
        ("a", "all", 10, 3),
        ("b", "all", 30, 2),
    ]
    assert [(row["process"], row["drafts"], row["k"]) for row in rows] == [("model a", 10, 3), ("model b", 30, 2)]


def test_two_models_of_one_k_have_no_sum_over_both() -> None:
    def both(n: int) -> Metrics:
        return Metrics(scrape(counters(n), model="a").engines + scrape(counters(3 * n), model="b").engines, (), False)

    result, rows = series([(0, both(1)), (10, both(11))])
    assert [(part.model, part.engine, part.counters.drafts) for part in result.parts] == [("a", "all", 10), ("b", "all", 30)]
    assert [(row["process"], row["drafts"]) for row in rows] == [("model a", 10), ("model b", 30)]


def test_pace_of_scrapes() -> None:
    assert scrape_pace([START + t for t in (0, 10.02, 20.01, 29.99, 95)]) == 10.0
    assert scrape_pace([0, 0.25, 0.5]) == 0.25
    assert scrape_pace([5.0, 5.0]) is None
    assert scrape_pace([]) is None
    with pytest.raises(ValueError, match="more than 0"):
        CounterSeries(0)


def test_nothing_at_all() -> None:
    assert counter_series([], []) == (CounterResult((), (), ()), [])


def test_texts_come_back_exactly_and_the_pace_is_found() -> None:
    states = [ServerState([n, 2 * n, 3 * n, 4 * n], generation_tokens=70 * n, running=1) for n in (0, 137, 138)]
    texts = [exposition(state) for state in states]
    result, rows = counter_series([START + 10 * n for n in range(3)], map(read_metrics, texts))
    assert (result.parts[0].counters.drafts, len(rows), rows[0]["window_s"]) == (1380, 2, 10.0)


@st.composite
def paths(draw: st.DrawFn) -> tuple[list[tuple[float, Metrics]], list[int]]:
    """Scrapes of a server with two engines that restarts, and what each engine counted as far as scrapes can tell."""
    show_start = draw(st.booleans())
    scrapes: list[tuple[float, Metrics]] = []
    truth, last, t = [0, 0], [0, 0], 0.0
    for life in range(draw(st.integers(1, 4))):
        # Without a start time a restart shows only if a count falls: that of the first engine does.
        most = 1000 if life == 0 or show_start else last[0] - 1
        counts = [draw(st.integers(0, most)) + (life == 0), draw(st.integers(0, 1000))]
        truth = [total + (count if life else 0) for total, count in zip(truth, counts, strict=True)]
        began = t + 1.0 if life else -100.0
        for added in [(0, 0), *draw(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=5))]:
            t += draw(st.sampled_from([2.0, 10.0, 10.0, 10.0, 40.0]))
            counts = [count + more for count, more in zip(counts, added, strict=True)]
            truth = [total + more for total, more in zip(truth, added, strict=True)]
            scrapes.append((t, scrape(*map(counters, counts), began=START + began if show_start else None)))
        last = counts
        if last[0] == 0:
            break
    return scrapes, truth


@given(paths())
def test_planted_increases_come_back(path: tuple[list[tuple[float, Metrics]], list[int]]) -> None:
    scrapes, truth = path
    result, rows = series(scrapes)
    everything, *engines = result.parts
    assert [part.counters.drafts for part in engines] == truth
    assert everything.counters.drafts == sum(truth)
    assert sum(row["drafts"] for row in rows) <= sum(truth)
    steady = all(later - earlier == 10 for (earlier, _), (later, _) in pairwise(scrapes))
    if steady and not result.restarts:
        assert sum(row["drafts"] for row in rows) == sum(truth)
