"""Reading statistics lines: what was planted in generated lines comes back, and nothing else is taken for one."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.collect.loglines import Interval, LogError, is_statistics_line, read_intervals
from made_up_server import PREFIX, engine_line, speculation_line

START = datetime(2031, 11, 30, 5, 11, 40, tzinfo=UTC)
STAMP = "11-30 05:11:52"


def read(lines: list[str], *, k: int = 3, zone: str = "+00:00", start: datetime = START) -> list[Interval]:
    return read_intervals(lines, zone=zone, start=start, log_interval_s=2.0, k=k)


def histograms(largest: int) -> st.SearchStrategy[list[int]]:
    counts = st.integers(1, 6).flatmap(lambda k: st.lists(st.integers(0, largest), min_size=k + 1, max_size=k + 1))
    return counts.filter(lambda histogram: sum(histogram) > 0)


@given(histograms(100))
def test_counts_of_a_short_interval_come_back_exactly(histogram: list[int]) -> None:
    k = len(histogram) - 1
    (interval,) = read([engine_line(STAMP), speculation_line(STAMP, histogram)], k=k)
    at = tuple(sum(histogram[position:]) for position in range(1, k + 1))
    assert (interval.drafts, interval.drafts_exact) == (sum(histogram), True)
    assert (interval.drafted, interval.accepted) == (k * sum(histogram), sum(at))
    assert (interval.accepted_k, interval.accepted_k_exact) == (at, True)
    assert (interval.line, interval.k, interval.window_s) == (2, k, 2.0)


@given(histograms(20_000))
def test_counts_of_a_long_interval_come_back_to_the_rounding_or_exactly(histogram: list[int]) -> None:
    k, drafts = len(histogram) - 1, sum(histogram)
    (interval,) = read([speculation_line(STAMP, histogram)], k=k)
    at = tuple(sum(histogram[position:]) for position in range(1, k + 1))
    assert (interval.drafts, interval.drafts_exact) == (drafts, True)
    if interval.accepted_k_exact:
        assert interval.accepted_k == at
    for found, planted in zip(interval.accepted_k, at, strict=True):
        assert found is not None and abs(found - planted) <= 0.0005 * drafts + 1


@given(histograms(300), st.data())
def test_short_drafts_are_noticed_or_within_the_rounding_of_the_mean(histogram: list[int], data: st.DataObject) -> None:
    k, drafts = len(histogram) - 1, sum(histogram)
    accepted = sum(n * count for n, count in enumerate(histogram))
    drafted = data.draw(st.integers(max(accepted, drafts, 1), k * drafts))
    (interval,) = read([speculation_line(STAMP, histogram, drafted=drafted)], k=k)
    assert (interval.drafted, interval.accepted) == (drafted, accepted)
    if interval.drafts is None:
        assert accepted / drafts <= 0.005
    elif accepted > 0:
        # The printed mean leaves this range of drafts, whichever way they were found.
        mean = float(f"{1 + accepted / drafts:.2f}") - 1
        assert accepted / (mean + 0.0051) - 1 <= interval.drafts <= accepted / max(mean - 0.0051, 1e-9) + 1


def test_real_drafts_that_are_short_are_not_called_exact() -> None:
    (interval,) = read([speculation_line(STAMP, [100, 100, 100, 100], drafted=1140)])
    assert not interval.drafts_exact and not interval.accepted_k_exact
    assert interval.drafts == 400


def test_the_engine_line_before_it_belongs_to_a_speculation_line() -> None:
    (interval,) = read([engine_line(STAMP, running=5, waiting=2), speculation_line(STAMP, [1, 2, 3, 4])])
    assert (interval.running, interval.waiting) == (5, 2)
    assert (interval.prompt_tokens_per_s, interval.generation_tokens_per_s) == (0.5, 30.0)
    assert (interval.kv_cache_usage, interval.prefix_cache_hit_rate) == (0.013, 0.125)


def test_the_second_may_end_between_the_two_lines() -> None:
    (interval,) = read([engine_line(STAMP, running=5), speculation_line("11-30 05:11:53", [1, 2, 3, 4])])
    assert interval.running == 5


@pytest.mark.parametrize(
    "lines",
    [
        [speculation_line(STAMP, [1, 2, 3, 4])],
        [engine_line("11-30 05:11:50"), speculation_line(STAMP, [1, 2, 3, 4])],
        [engine_line("11-30 05:11:54"), speculation_line(STAMP, [1, 2, 3, 4])],
        [engine_line(STAMP, prefix=PREFIX.replace("71", "72")), speculation_line(STAMP, [1, 2, 3, 4])],
        [speculation_line(STAMP, [1, 2, 3, 4]), engine_line(STAMP)],
    ],
    ids=["none", "of the interval before", "time running backwards", "of another process", "after it"],
)
def test_without_its_engine_line_an_interval_knows_no_running_requests(lines: list[str]) -> None:
    (interval,) = read(lines)
    assert (interval.running, interval.waiting) == (None, None)
    assert (interval.prompt_tokens_per_s, interval.kv_cache_usage, interval.prefix_cache_hit_rate) == (None, None, None)


def test_two_processes_in_one_log_are_told_apart() -> None:
    other = PREFIX.replace("71", "88")
    lines = [
        engine_line(STAMP, running=1),
        engine_line(STAMP, running=9, prefix=other),
        speculation_line(STAMP, [1, 0, 0, 0]),
        speculation_line(STAMP, [2, 0, 0, 0], prefix=other),
    ]
    assert [(interval.drafts, interval.running) for interval in read(lines)] == [(1, 1), (2, 9)]


def test_one_engine_line_serves_one_speculation_line() -> None:
    lines = [engine_line(STAMP), speculation_line(STAMP, [1, 2, 3, 4]), speculation_line(STAMP, [1, 2, 3, 4])]
    assert [interval.running for interval in read(lines)] == [2, None]


def test_unknown_keys_and_missing_optional_ones_are_tolerated() -> None:
    busy = engine_line(STAMP).replace(
        "CPU KV cache usage: 1.3%, Prefix cache hit rate: 12.5%",
        "Deferred: 1 reqs, KV fetch: 2 waiting to start, 1 in progress, 0 completed waiting, Preemptions: 3, "
        "GPU KV cache usage: 45.6%, External prefix cache hit rate: 99.0%, MM cache hit rate: 88.0%",
    )
    deep = speculation_line(STAMP, [1, 2, 3, 4]) + ", Current speculative depth: 7"
    (interval,) = read([busy, deep])
    assert (interval.kv_cache_usage, interval.prefix_cache_hit_rate) == (0.456, None)
    assert interval.drafts == 10


def test_rate_first_wording_reads_the_same() -> None:
    """Versions 0.9.2 to 0.10.1 print the rate first and no throughputs."""
    line = (
        "INFO 11-30 05:11:52 [metrics.py:86] SpecDecoding metrics: Draft acceptance rate: 66.7%, "
        "Mean acceptance length: 3.00, Accepted: 20 tokens, Drafted: 30 tokens, "
        "Per-position acceptance rate: 0.900, 0.700, 0.400"
    )
    (interval,) = read([line])
    assert (interval.drafts, interval.accepted_k, interval.accepted_k_exact) == (10, (9, 7, 4), True)


def test_several_engines_in_one_line() -> None:
    line = engine_line(STAMP).replace("Engine 000: ", "002 Engines Aggregated: ")
    assert read([line, speculation_line(STAMP, [1, 2, 3, 4])])[0].running == 2


def test_nothing_accepted_and_a_single_draft() -> None:
    (interval,) = read([speculation_line(STAMP, [1, 0, 0, 0])])
    assert (interval.drafts, interval.accepted_k, interval.accepted_k_exact) == (1, (0, 0, 0), True)


def test_times_use_the_zone_and_the_nominal_window() -> None:
    (interval,) = read([speculation_line("11-30 07:11:52", [1, 2, 3, 4])], zone="+02:00")
    assert interval.end == datetime(2031, 11, 30, 5, 11, 52, tzinfo=UTC).timestamp()
    assert interval.start == interval.end - 2.0


@given(st.datetimes(datetime(2030, 12, 30), datetime(2033, 1, 3)), st.integers(0, 3600), st.integers(-12, 14))
def test_the_year_follows_from_the_start_of_the_run(start: datetime, seconds: int, hours: int) -> None:
    """New Year in UTC, New Year in the zone of the log, and 29 February of 2032 are all among these."""
    first = start.replace(microsecond=0, tzinfo=UTC)
    times = [first + timedelta(seconds=seconds * step) for step in range(3)]
    stamps = [f"{time + timedelta(hours=hours):%m-%d %H:%M:%S}" for time in times]
    lines = [speculation_line(stamp, [1, 2, 3, 4]) for stamp in stamps]
    intervals = read(lines, zone=f"{'-' if hours < 0 else '+'}{abs(hours):02d}:00", start=first)
    assert [interval.end for interval in intervals] == [time.timestamp() for time in times]


@pytest.mark.parametrize("line", [engine_line(STAMP), speculation_line(STAMP, [1, 2, 3, 4])])
def test_statistics_lines_are_recognised(line: str) -> None:
    assert is_statistics_line(line) and is_statistics_line(line + "\n")
    assert is_statistics_line(line.split(") ", 1)[1])  # a server in one process prints no prefix
    assert is_statistics_line(line.replace("[", "[v1/metrics/"))


@pytest.mark.parametrize(
    "line",
    [
        "",
        '(APIServer pid=71) INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK',
        PREFIX.format(stamp=STAMP, source="logger.py:39") + "SpecDecoding metrics: my secret",
        PREFIX.format(stamp=STAMP, source="logger.py:39") + engine_line(STAMP),
        "please explain: " + speculation_line(STAMP, [1, 2, 3, 4]),
        PREFIX.format(stamp=STAMP, source="loggers.py:199") + "Engine 000: Iteration(7): 1 context requests",
        PREFIX.format(stamp=STAMP, source="metrics.py:140") + "DiffusionDecoding metrics: Committed: 3 tokens",
        speculation_line(STAMP, [1, 2, 3, 4]) + "\nand a prompt",
    ],
)
def test_other_lines_are_not_kept_whatever_they_quote(line: str) -> None:
    assert not is_statistics_line(line)


GOOD = speculation_line(STAMP, [1, 2, 3, 4])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "line 2: found ''; expected a line such as"),
        ("INFO: something else", "line 2: found 'INFO: something else'"),
        (GOOD[: GOOD.index(", Per-position")], "line 2: no 'Per-position acceptance rate"),
        (GOOD.replace("Drafted: 30 tokens", "Drafted: nan tokens"), "line 2: found 'Drafted: nan tokens'"),
        (GOOD.replace("Drafted: 30 tokens, ", ""), "line 2: no 'Drafted: ...' found"),
        (GOOD.replace("Drafted: 30", "Drafted: 12"), "line 2: found 20 accepted of 12 drafted tokens"),
        (GOOD.replace("0.900, 0.700, 0.400", "0.900, 0.700"), "line 2: found 2 positions"),
        (GOOD.replace("0.900", "nan"), "line 2: found"),
        (GOOD.replace("0.900", "1.100"), "line 2: found the rate '1.100'"),
        (GOOD.replace("length: 3.00", "length: 5.00"), "line 2: found the mean '5.00'"),
        (GOOD.replace("length: 3.00", "length: nan"), "line 2: found the mean 'nan'"),
        (GOOD.replace("Accepted: 20", "Accepted: 0"), "line 2: found 0 accepted tokens, but a mean of 3.00"),
        (GOOD.replace("Drafted: ", "Accepted: "), "line 2: found .* expected a new 'key: value' pair"),
        (GOOD.replace("11-30", "13-30"), "line 2: found the time"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(line: str, message: str) -> None:
    with pytest.raises(LogError, match=message):
        read([GOOD, line])


def test_a_malformed_engine_line_is_named() -> None:
    with pytest.raises(LogError, match="line 1: found 'Running: many reqs'"):
        read([engine_line(STAMP).replace("Running: 2", "Running: many"), GOOD])


def test_a_zone_that_is_no_offset_is_refused() -> None:
    with pytest.raises(LogError, match=r"time zone: found 'CET'"):
        read([GOOD], zone="CET")


def test_an_empty_log_has_no_intervals() -> None:
    assert read([]) == []
