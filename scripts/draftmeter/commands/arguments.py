"""What several commands take: settings that a file may not say itself, and values such as 10s or
+01:00.
"""

import argparse
import re

from draftmeter.collect.reading.settings import INTERVALS_FROM, Settings
from draftmeter.formats.utc_offset import parse_utc_offset, utc_offset_text
from draftmeter.measure.watch.durations import DurationError, parse_duration

FIRST_YEAR, LAST_YEAR = 2000, 2999


class UnusableInput(Exception):
    """What the user gave cannot be used; the message is the one line to show. The command ends with
    exit code 2.
    """


def duration(text: str) -> float:
    """Seconds of a text such as 10s, 90m or 1h30m."""
    try:
        return parse_duration(text)
    except DurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def zone(text: str) -> str:
    """An UTC offset such as +01:00; Z and UTC are +00:00."""
    try:
        return utc_offset_text(parse_utc_offset(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def whole(text: str) -> int:
    """A whole number above 0."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"found {text!r}; expected a whole number above 0")
    return int(text)


def year(text: str) -> int:
    """A year of four digits."""
    if not re.fullmatch(r"[0-9]{4}", text) or not FIRST_YEAR <= int(text) <= LAST_YEAR:
        raise argparse.ArgumentTypeError(f"found {text!r}; expected a year such as 2026")
    return int(text)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """The settings that say what files may leave out."""
    known = parser.add_argument_group("what the files may not say themselves")
    known.add_argument("--zone", type=zone, metavar="OFFSET", help="UTC offset of the time stamps in logs, such as +01:00")
    known.add_argument("--year", type=year, metavar="YEAR", help="year of the first line of each log (stamps show none)")
    known.add_argument(
        "--log-interval",
        type=duration,
        metavar="TIME",
        help="the servers' log interval, such as 10s (else the modal spacing of lines)",
    )
    known.add_argument("--k", type=whole, metavar="K", help="draft tokens per step, where a file does not show them")
    known.add_argument(
        "--intervals",
        choices=INTERVALS_FROM,
        default="auto",
        help="intervals of a watched record: from its log lines, from its counters, or from lines where it has some (auto)",
    )


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The settings that :func:`add_settings` asked for."""
    return Settings(
        zone=arguments.zone,
        year=arguments.year,
        log_interval_s=arguments.log_interval,
        k=arguments.k,
        intervals=arguments.intervals,
    )
