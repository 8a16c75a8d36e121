"""What a watch shows, the times and addresses that it takes, and the zone that it measures."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from draftmeter.commands.watch_panel import acceptance, chances, panel, plain_line, shown
from draftmeter.formats.counters import Counters
from draftmeter.formats.metrics import read_metrics
from draftmeter.measure.http import AddressError, parse_address
from draftmeter.measure.watch.durations import DurationError, parse_duration, show_duration
from draftmeter.measure.watch.followed_log import ZoneMeter, stamp_offset
from draftmeter.measure.watch.status import Status, Totals
from made_up_server import ServerState, exposition
from watch_scene import HISTOGRAM, SECRET, logged

START = 1_796_000_000.0


def drafted(times: int) -> ServerState:
    return ServerState(histogram=[times * count for count in HISTOGRAM], running=3, waiting=1)


def totals_of(*counts: int, engines: int = 1, every_s: float = 10.0, starts: tuple[float, ...] = ()) -> Totals:
    totals = Totals(every_s)
    for number, times in enumerate(counts):
        start = starts[number] if starts else START - 100
        text = exposition(*[drafted(times)] * engines, start_time=start, without=[])
        totals.add(START + number * every_s, read_metrics(text))
    return totals


def status(**changes: object) -> Status:
    values = {"url": "http://host:8000", "record": "out", "every_s": 10.0, "started": START, "ends": START + 7200}
    return Status(**{**values, **changes})


def test_a_plain_line_says_everything() -> None:
    line = plain_line(status(scrapes=3, failed=1, lines=5), totals_of(100, 110, 120), START + 65)
    assert line == (
        "accepted 53.3%, chance by position 0.700 0.714 0.800, tokens per step 2.60, running 3, scrapes 3 ok, 1 failed, "
        "restarts 0, log lines 5, 0:01:05 watched, 1:58:55 left"
    )


def test_what_is_not_known_yet_is_not_made_up() -> None:
    line = plain_line(status(ends=None, error="connection refused"), Totals(10.0), START)
    assert line == (
        "accepted –, chance by position –, tokens per step –, running –, scrapes 0 ok, 0 failed, restarts 0, 0:00:00 watched, "
        "no answer now: connection refused"
    )


def test_counts_that_no_server_can_have_show_nothing() -> None:
    impossible = Counters(drafts=5, draft_tokens=15, accepted=20, accepted_per_position=(6, 7, 7))
    assert acceptance(impossible) is None
    assert chances(impossible) == []


def test_totals_of_several_engines_over_a_restart() -> None:
    totals = totals_of(100, 110, 5, 15, engines=2, starts=(START - 100, START - 100, START + 15, START + 15))
    assert totals.counted.drafts == 2 * (10 + 5 + 10) * 10
    assert (totals.restarts, totals.running, totals.waiting) == (1, 6, 2)


def test_the_last_minutes_move_on() -> None:
    totals = totals_of(*range(0, 1000, 10), every_s=30.0)
    assert totals.recent_s == 900
    recent = totals.recent(START + 99 * 30)
    assert [bucket.draft_tokens for bucket in recent] == [300] * 30
    assert [bucket.draft_tokens for bucket in totals.recent(START + 100 * 30)][-2:] == [300, None]


def drawn(totals: Totals, now: float, **changes: object) -> str:
    console = Console(width=110, record=True, file=Path(os.devnull).open("w"))  # noqa: SIM115
    console.print(panel(status(**changes), totals, now))
    return console.export_text()


def test_the_panel_says_everything() -> None:
    text = drawn(totals_of(100, 110, 120), START + 20, scrapes=3, lines=12, engine="made-up, K = 3, vLLM 0.32.0")
    for part in [
        "http://host:8000  made-up, K = 3, vLLM 0.32.0",
        "53.3% of 600 draft tokens",
        "1: 0.700   2: 0.714   3: 0.800",
        "2.600 in 200 drafts",
        "running 3   waiting 1",
        "last 10 minutes",
        "3 ok, 0 failed   restarts of the server: 0",
        "12 statistics lines",
        "0:00:20 watched, 1:59:40 left",
        "record: out",
    ]:
        assert part in text
    assert "connection refused" in drawn(Totals(10.0), START, error="connection refused")


def test_the_sparkline_is_drawn_between_its_lowest_and_highest() -> None:
    totals = Totals(20.0)
    state = [0, 0, 0, 0]
    for number, gained in enumerate([(1, 0, 0, 0), (10, 0, 0, 0), (0, 0, 0, 10), (0, 0, 0, 0), (5, 0, 0, 5)]):
        state = [old + new for old, new in zip(state, gained, strict=True)]
        text = exposition(ServerState(histogram=state), start_time=START - 100)
        totals.add(START + 20 * number, read_metrics(text))
    assert "0.0% ▁█ ▅ 100.0%" in drawn(totals, START + 80)


def test_a_pipe_that_is_closed_does_not_end_the_watch() -> None:
    readable, writable = os.pipe()
    os.close(readable)
    with os.fdopen(writable, "w") as file, shown(Console(file=file)) as view:
        view.say("nobody reads this")
        view.say("nor this")
        view.show(status(), Totals(10.0))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("29h", 104400),
        ("90s", 90),
        ("1h30m", 5400),
        ("2d", 172800),
        ("0.5s", 0.5),
        ("1d2h3m4s", 93784),
        ("1w1d", 691200),
        (" 10s ", 10),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "s", "0s", "-5s", "1m1h", "1h1h", "10 s", "1e3s", "nan", "10S", "1h30", "٣s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(DurationError, match="expected a duration above 0 with its unit, such as 90s, 29h or 1h30m"):
        parse_duration(text)


@given(st.integers(1, 10**7))
def test_a_duration_is_shown_as_it_is(seconds: int) -> None:
    hours, minutes, rest = map(int, show_duration(seconds).split(":"))
    assert hours * 3600 + minutes * 60 + rest == seconds
    assert parse_duration(f"{hours}h{minutes}m{rest}s") == seconds


@pytest.mark.parametrize(
    ("text", "url", "port", "path"),
    [
        ("http://localhost:8000", "http://localhost:8000", 8000, ""),
        ("http://localhost:8000/", "http://localhost:8000", 8000, ""),
        ("HTTP://LocalHost:8000/metrics", "http://localhost:8000", 8000, ""),
        ("https://gateway/models/a/metrics/", "https://gateway/models/a", 443, "/models/a"),
        ("http://gateway:80", "http://gateway", 80, ""),
        ("http://[::1]:8000", "http://[::1]:8000", 8000, ""),
        (f"http://me:{SECRET}@host:8000/x", "http://host:8000/x", 8000, "/x"),
    ],
)
def test_addresses(text: str, url: str, port: int, path: str) -> None:
    address = parse_address(text)
    assert (address.url, address.port, address.path) == (url, port, path)
    assert SECRET not in repr(address)


@pytest.mark.parametrize(
    "text",
    [
        "localhost:8000",
        "localhost",
        "",
        "ftp://host",
        "http://",
        "http:///metrics",
        "http://host:99999",
        "http://host:port",
        "http://host/a b",
        "http://host/\nHost: other",
        f"http://host/?key={SECRET}",
        f"http://host/#{SECRET}",
        f"me:{SECRET}@host:8000",
        f"ftp://me:{SECRET}@host",
        f"http://me:{SECRET}@host:x",
    ],
)
def test_what_is_no_address_is_refused_without_its_secret(text: str) -> None:
    with pytest.raises(AddressError, match=r"^URL: found .*expected ") as refused:
        parse_address(text)
    assert SECRET not in str(refused.value)


def test_an_api_key_that_cannot_be_sent_is_refused_without_saying_it() -> None:
    with pytest.raises(AddressError, match=r"^DRAFTMETER_API_KEY: found a line feed") as refused:
        parse_address("http://host", f"{SECRET}\n")
    assert SECRET not in str(refused.value)
    with pytest.raises(AddressError, match="a name in the URL and DRAFTMETER_API_KEY"):
        parse_address("http://me:x@host", SECRET)


@given(st.integers(-14 * 4, 14 * 4), st.integers(1_500_000_000, 2_500_000_000), st.floats(0, 60))
def test_the_zone_of_a_stamp_is_found_at_any_time_of_the_year(quarters: int, now: int, delay_s: float) -> None:
    stamp = datetime.fromtimestamp(now + quarters * 900, UTC).strftime("%m-%d %H:%M:%S")
    minutes = abs(quarters) * 15
    zone = f"{'-' if quarters < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    assert stamp_offset(f"(APIServer pid=1) INFO {stamp} [loggers.py:1] Engine 000: ...", now + delay_s) == zone


def test_a_zone_is_measured_by_several_arrivals_that_agree() -> None:
    now = time.time()
    meter = ZoneMeter()
    meter.add([logged(1)], now)
    meter.add([], now)
    meter.add([logged(1)], now)
    assert meter.zone is None
    meter.add([logged(1)], now + 400)  # held back in a buffer: tells nothing
    assert meter.zone is None
    meter.add([logged(1)], now)
    assert meter.zone == "+00:00"
    meter.add([logged(1)], now + 3600)
    assert meter.zone is None


@pytest.mark.parametrize("line", ["", "no stamp", "2026-11-30 10:00:00 with a year", "99-99 10:00:00", "02-30 10:00:00"])
def test_a_line_without_a_stamp_tells_no_zone(line: str) -> None:
    assert stamp_offset(line, START) is None
