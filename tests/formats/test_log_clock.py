"""Times of a log: year, zone, New Year, midnight, 29 February, and time that runs backwards."""

import io
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftmeter.formats.log import Known, LogReading, read_log
from made_up_server import PREFIX, engine_line, speculation_line

STAMP = "11-30 05:11:52"


def read(lines: list[str], **known: Any) -> LogReading:
    return read_log(io.BytesIO("".join(f"{line}\n" for line in lines).encode()), Known(**known))


def ends(reading: LogReading) -> list[float | None]:
    return reading.table()["end"].to_pylist()


def line(time: datetime, outer: str = "", hours: float = 0) -> str:
    return outer + speculation_line(f"{time + timedelta(hours=hours):%m-%d %H:%M:%S}", [1, 2, 3, 4])


def test_times_use_the_zone_and_the_nominal_window() -> None:
    reading = read([speculation_line("11-30 07:11:52", [1, 2, 3, 4])], zone="+02:00", year=2031, log_interval_s=2.0)
    end = datetime(2031, 11, 30, 5, 11, 52, tzinfo=UTC).timestamp()
    (row,) = reading.table().to_pylist()
    assert (row["start"], row["end"], row["window_s"]) == (end - 2, end, 2.0)
    assert (reading.found.zone, reading.found.zone_from, reading.found.log_interval_from) == ("+02:00", "given", "given")
    assert "zone" not in reading.found.unknown


zones = st.integers(-12 * 4, 14 * 4).map(lambda quarters: timezone(timedelta(minutes=15 * quarters)))
starts = st.datetimes(datetime(2030, 12, 30), datetime(2033, 1, 3)).map(lambda time: time.replace(microsecond=0, tzinfo=UTC))


def text(zone: timezone) -> str:
    return f"{datetime(2031, 1, 1, tzinfo=zone):%z}"[:3] + ":" + f"{datetime(2031, 1, 1, tzinfo=zone):%z}"[3:]


@given(starts, st.integers(0, 3600), zones, st.sampled_from(["near_start", "near", "year"]))
def test_the_year_follows_from_what_is_known(first: datetime, seconds: int, zone: timezone, by: str) -> None:
    """New Year in UTC, New Year in the zone of the log, and 29 February of 2032 are all among these."""
    times = [first + timedelta(seconds=seconds * step) for step in range(3)]
    known = {"near_start": first, "near": times[-1] + timedelta(minutes=3), "year": first.astimezone(zone).year}
    lines = [line(time.astimezone(zone)) for time in times]
    reading = read(lines, zone=text(zone), **{by: known[by]})
    assert ends(reading) == [time.timestamp() for time in times]
    assert not reading.found.warnings


@given(starts, zones, st.integers(0, 90))
def test_a_container_that_names_its_zone_settles_zone_and_year(first: datetime, zone: timezone, late: int) -> None:
    times = [first + timedelta(hours=5 * step) for step in range(4)]
    lines = [line(t.astimezone(zone), f"{t + timedelta(seconds=late):%Y-%m-%dT%H:%M:%S}.5Z ") for t in times]
    found = read(lines)
    assert ends(found) == [time.timestamp() for time in times]
    assert found.found.zone == text(zone)
    assert "container" in found.found.zone_from and "container" in found.found.year_from
    assert not {"zone", "year"} & found.found.unknown.keys()


def test_every_line_has_its_own_zone_when_clocks_change_and_a_container_says_so() -> None:
    before, after = datetime(2031, 10, 26, 0, 59, 50, tzinfo=UTC), datetime(2031, 10, 26, 1, 0, 10, tzinfo=UTC)
    lines = [line(before, f"{before:%Y-%m-%dT%H:%M:%SZ} ", hours=2), line(after, f"{after:%Y-%m-%dT%H:%M:%SZ} ", hours=1)]
    reading = read(lines)
    assert ends(reading) == [before.timestamp(), after.timestamp()]
    assert any("backwards" in warning for warning in reading.found.warnings)


def test_a_container_without_zone_still_tells_the_year() -> None:
    time = datetime(2031, 11, 30, 5, 11, 52, tzinfo=UTC)
    reading = read([line(time, f"{time:%Y-%m-%d %H:%M:%S}.123 | ")], zone="+00:00")
    assert ends(reading) == [time.timestamp()]


def test_a_record_without_a_time_of_its_own_has_its_container_s() -> None:
    body = speculation_line(STAMP, [1, 2, 3, 4]).split("] ", 1)[1]
    reading = read([f"2031-11-30T05:11:52.9Z {body}", body])
    assert ends(reading) == [datetime(2031, 11, 30, 5, 11, 52, tzinfo=UTC).timestamp(), None]


def test_a_given_zone_that_a_container_contradicts_is_reported() -> None:
    time = datetime(2031, 11, 30, 5, 11, 52, tzinfo=UTC)
    reading = read([line(time, f"{time:%Y-%m-%dT%H:%M:%SZ} ", hours=1)], zone="+02:00")
    assert ends(reading) == [time.timestamp() - 3600]
    assert any("+02:00" in warning and "+01:00" in warning for warning in reading.found.warnings)


def test_without_a_zone_the_times_are_read_as_utc_and_it_is_said() -> None:
    reading = read([speculation_line(STAMP, [1, 2, 3, 4])], year=2031)
    assert ends(reading) == [datetime(2031, 11, 30, 5, 11, 52, tzinfo=UTC).timestamp()]
    assert "UTC" in reading.found.zone_from and "UTC" in reading.found.unknown["zone"]


def test_without_a_year_no_time_is_made_up() -> None:
    reading = read([speculation_line(STAMP, [1, 2, 3, 4])], zone="+00:00")
    (row,) = reading.table().to_pylist()
    assert (row["start"], row["end"]) == (None, None)
    assert "nothing" in reading.found.year_from and "null" in reading.found.unknown["year"]


def test_the_file_s_date_is_not_before_its_last_line() -> None:
    """A log of December that was stored until June is of the December before."""
    for month, year in ((1, 2031), (6, 2031), (11, 2031), (12, 2032)):
        reading = read(
            [speculation_line("12-20 05:00:00", [1, 2, 3, 4])], zone="+00:00", near=datetime(2032, month, 25, tzinfo=UTC)
        )
        assert ends(reading) == [datetime(year, 12, 20, 5, tzinfo=UTC).timestamp()]


def test_a_29_february_settles_the_year_as_well() -> None:
    reading = read([speculation_line("02-29 05:00:00", [1, 2, 3, 4])], zone="+00:00", near=datetime(2035, 1, 1, tzinfo=UTC))
    assert ends(reading) == [datetime(2032, 2, 29, 5, tzinfo=UTC).timestamp()]


def test_a_29_february_in_a_year_that_has_none_has_no_time() -> None:
    reading = read(
        [speculation_line("02-28 05:00:00", [1, 2, 3, 4]), speculation_line("02-29 05:00:00", [1, 2, 3, 4])], year=2031
    )
    assert ends(reading) == [datetime(2031, 2, 28, 5, tzinfo=UTC).timestamp(), None]
    assert any("29 February" in warning for warning in reading.found.warnings)


def test_order_across_several_new_years_and_back() -> None:
    days = ["08-01", "12-31", "01-01", "05-01", "09-01", "12-31", "01-01", "12-31", "01-02"]
    years = [2030, 2030, 2031, 2031, 2031, 2031, 2032, 2031, 2032]
    lines = [speculation_line(f"{day} 00:00:00", [1, 2, 3, 4]) for day in days]
    expected = [datetime.fromisoformat(f"{year}-{day}T00:00:00+00:00").timestamp() for year, day in zip(years, days, strict=True)]
    reading = read(lines, zone="+00:00", near=datetime(2032, 1, 3, tzinfo=UTC))
    assert ends(reading) == expected
    assert any("backwards 1 times" in warning for warning in reading.found.warnings)


def test_time_that_runs_backwards_is_reported_with_its_place_and_the_order_kept() -> None:
    lines = [speculation_line(stamp, [1, 2, 3, 4]) for stamp in ("11-30 05:00:10", "11-30 05:00:20", "11-30 04:00:20")]
    reading = read(lines, year=2031)
    first, second, third = (time or 0.0 for time in ends(reading))
    assert third < first < second
    assert any(f"byte {2 * len(lines[0]) + 2}" in warning for warning in reading.found.warnings)


def test_two_threads_that_print_in_another_order_are_no_time_that_runs_backwards() -> None:
    lines = [engine_line("11-30 05:00:11"), speculation_line("11-30 05:00:10", [1, 2, 3, 4])]
    assert not any("backwards" in warning for warning in read(lines, year=2031).found.warnings)


@pytest.mark.parametrize("seconds", [[10, 20, 30], [10, 20, 31, 40, 600, 610, 621], [10, 21, 30, 41, 50]])
def test_the_window_is_the_usual_spacing_of_the_lines_and_gaps_stay_gaps(seconds: list[int]) -> None:
    start = datetime(2031, 11, 30, 5, tzinfo=UTC)
    times = [start + timedelta(seconds=second) for second in seconds]
    reading = read([line(time) for time in times], year=2031)
    rows = reading.table().to_pylist()
    assert {row["window_s"] for row in rows} == {10.0}
    assert [row["end"] - row["start"] for row in rows] == [10.0] * len(rows)
    assert "usual spacing" in reading.found.log_interval_from


def test_each_process_has_its_own_window() -> None:
    start = datetime(2031, 11, 30, 5, tzinfo=UTC)
    lines = []
    for second in range(0, 60, 5):
        stamp = f"{start + timedelta(seconds=second):%m-%d %H:%M:%S}"
        lines += [speculation_line(stamp, [1, 2, 3, 4])]
        lines += [speculation_line(stamp, [1, 2, 3, 4], prefix=PREFIX.replace("71", "88"))] if second % 20 == 0 else []
    reading = read(lines, year=2031)
    windows = {(row["process"], row["window_s"]) for row in reading.table().to_pylist()}
    assert windows == {("APIServer pid=71", 5.0), ("APIServer pid=88", 20.0)}
    assert "differs" in reading.found.log_interval_from


def test_a_single_line_has_no_window() -> None:
    reading = read([speculation_line(STAMP, [1, 2, 3, 4])], year=2031)
    (row,) = reading.table().to_pylist()
    assert (row["start"], row["window_s"]) == (None, None) and row["end"] is not None
    assert "window lengths" in reading.found.unknown


@pytest.mark.parametrize("zone", ["CET", "+1:00", "+25:00", "01:00", "+01:60"])
def test_a_zone_that_is_no_offset_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match=f"time zone: found '{zone.replace('+', chr(92) + '+')}'"):
        Known(zone=zone)


def test_a_known_time_without_its_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="near_start: found 2031-01-01T00:00:00; expected a time with its zone"):
        Known(near_start=datetime(2031, 1, 1))


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"year": 12}, "year: found 12"),
        ({"log_interval_s": 0.0}, "log interval: found 0.0"),
        ({"log_interval_s": float("nan")}, "log interval: found nan"),
        ({"k": 0}, "K: found 0; expected a number of draft tokens from 1 to 256"),
        ({"k": 257}, "K: found 257"),
    ],
)
def test_what_cannot_be_is_no_knowledge(known: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Known(**known)


@pytest.mark.parametrize(
    "iso",
    [
        "0001-01-01T00:00:00+14:00",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59-12:00",
        "9999-12-31T23:59:59Z",
        "2031-13-45T99:99:99Z",
        "2031-02-29T00:00:00Z",
        "2031-11-30T05:11:52.123456789+99:99",
    ],
)
def test_stamps_of_containers_that_are_no_times_are_passed_over(iso: str) -> None:
    lines = [f"{iso} {speculation_line(stamp, [1, 2, 3, 4])}" for stamp in ("12-31 23:59:59", "01-01 00:00:00", "12-31 23:59:59")]
    assert read(lines).n == 3
    assert read(lines, year=2031, zone="+00:00").n == 3
