"""`draftmeter watch`: record a live server, read-only."""

import argparse
import os
import sys
from pathlib import Path

from draftmeter.commands.arguments import UnusableInput, duration, zone

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
        "--for", dest="for_s", type=duration, metavar="TIME", help="how long, such as 29h or 1h30m (else until Ctrl-C)"
    )
    parser.add_argument(
        "--every", dest="every_s", type=duration, metavar="TIME", help="pace of the scrapes (10s, or the record's)"
    )
    parser.add_argument("--zone", type=zone, metavar="OFFSET", help="UTC offset of the log's time stamps (else it is measured)")
    parser.add_argument("--wait", action="store_true", help="begin even if the server does not answer yet")


def run(arguments: argparse.Namespace) -> int:
    """Watch until the time is over or a signal comes; 0 then, 1 if the record cannot be written."""
    from rich.console import Console  # noqa: PLC0415  start-up of the other commands stays short

    from draftmeter.commands.watch_panel import shown  # noqa: PLC0415
    from draftmeter.measure.http import API_KEY_VARIABLE, AddressError, parse_address  # noqa: PLC0415
    from draftmeter.measure.watch.followed_log import LogFileError  # noqa: PLC0415
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
        watch(wanted, shown(Console()))
    except (AddressError, LogFileError, ServerUnusable, WatchedError) as error:
        raise UnusableInput(str(error)) from error
    except OSError as error:
        print(f"draftmeter watch: the record in {arguments.out} cannot be written: {error.strerror or error}", file=sys.stderr)
        return FAILED
    return 0
