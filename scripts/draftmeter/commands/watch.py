"""`draftmeter watch`: record a live server, read-only."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from draftmeter.commands.arguments import UnusableInput, zone
from draftmeter.measure.watch.address import API_KEY_VARIABLE, AddressError, parse_address
from draftmeter.measure.watch.durations import DurationError, parse_duration

if TYPE_CHECKING:
    from draftmeter.measure.watch.view import Formulas

FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `watch` takes."""
    parser.add_argument(
        "url", metavar="URL", help="address of the server, such as http://localhost:8000; only GET requests are made"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="RECORD", help="folder of the record; an earlier one is continued"
    )
    parser.add_argument(
        "--log", type=Path, metavar="FILE", help="the server's log; followed from its end, only statistics lines are kept"
    )
    parser.add_argument(
        "--for", dest="for_s", type=_duration, metavar="TIME", help="how long, such as 29h or 1h30m (else until Ctrl-C)"
    )
    parser.add_argument(
        "--every", dest="every_s", type=_duration, metavar="TIME", help="pace of the scrapes (10s, or the record's)"
    )
    parser.add_argument("--zone", type=zone, metavar="OFFSET", help="UTC offset of the log's time stamps (else it is measured)")
    parser.add_argument("--wait", action="store_true", help="begin even if the server does not answer yet")


def run(arguments: argparse.Namespace) -> int:
    """Watch until the time is over or a signal comes; 0 then, 1 if the record cannot be written."""
    from rich.console import Console  # noqa: PLC0415  start-up of the other commands stays short

    from draftmeter.formats.log import WORDS, statistics_text  # noqa: PLC0415
    from draftmeter.measure.watch.followed import Kept, LogFileError  # noqa: PLC0415
    from draftmeter.measure.watch.watching import ServerUnusable, Wanted, watch  # noqa: PLC0415
    from draftmeter.record.watched import WatchedError  # noqa: PLC0415

    try:
        wanted = Wanted(
            address=parse_address(arguments.url, os.environ.get(API_KEY_VARIABLE)),
            out=arguments.out,
            every_s=arguments.every_s,
            for_s=arguments.for_s,
            log=arguments.log,
            zone=arguments.zone,
            wait=arguments.wait,
        )
        watch(wanted, Kept(WORDS, statistics_text), _formulas(), Console())
    except (AddressError, LogFileError, ServerUnusable, WatchedError) as error:
        raise UnusableInput(str(error)) from error
    except OSError as error:
        print(f"draftmeter watch: the record in {arguments.out} cannot be written: {error.strerror or error}", file=sys.stderr)
        return FAILED
    return 0


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except DurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _formulas() -> "Formulas":
    """The ratios that the view shows, null where a count is not known or the counts are none that a server can produce."""
    from draftmeter.formats.counters import Counters  # noqa: PLC0415
    from draftmeter.measure.watch.view import Formulas  # noqa: PLC0415
    from draftmeter.stats.acceptance import CountsError, accepted_over_drafted, chance_at, tokens_per_step  # noqa: PLC0415

    def acceptance(counted: Counters) -> float | None:
        if counted.accepted is None or counted.draft_tokens is None:
            return None
        try:
            return accepted_over_drafted(counted.accepted, counted.draft_tokens).value
        except CountsError:
            return None

    def chances(counted: Counters) -> list[float | None]:
        if counted.drafts is None or counted.accepted_per_position is None:
            return []
        try:
            return [ratio.value for ratio in chance_at(counted.drafts, counted.accepted_per_position)]
        except CountsError:
            return []

    def per_step(counted: Counters) -> float | None:
        if counted.drafts is None or counted.accepted is None:
            return None
        return tokens_per_step(counted.drafts, counted.accepted).value

    return Formulas(acceptance, chances, per_step)
