"""The command `draftmeter`: read stored files, report their figures, ask what is there, watch a live server.

Exit codes: 0, 1 for a failed check, 2 for input that cannot be used (with one line on standard error that says why).
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from types import FrameType, ModuleType
from typing import NamedTuple, NoReturn

from draftmeter.commands import doctor, read, report, watch
from draftmeter.commands.arguments import UnusableInput
from draftmeter.commands.startup import load_pyarrow_alone

UNUSABLE = 2
INTERRUPTED = 130


class Command(NamedTuple):
    """A module with `add_arguments` and `run`, and what --help says of it."""

    module: ModuleType
    help: str
    description: str
    example: str
    tables: bool
    """Whether it works with pyarrow's tables."""


COMMANDS = {
    "read": Command(
        read,
        "stored logs, /metrics texts and records, or a Prometheus server's history, to tables",
        "Read logs, /metrics texts, records and folders of them (plain, .gz, .zst, or - for standard input) into the tables\n"
        "intervals, counters and requests (parquet and csv), with a reading.json that says what was found in each file, what\n"
        "was refused, and what cannot be known. With --prometheus, read what a Prometheus server has stored.",
        "draftmeter read logs/ --zone +01:00 --out tables",
        tables=True,
    ),
    "report": Command(
        report,
        "the headline figures of logs, /metrics texts, records or tables",
        "Print acceptance, chance by position and tokens per step of each source, also at every shorter draft; where there are\n"
        "several sources, of all of them together. Takes what `draftmeter read` takes, and the folders that it writes.",
        "draftmeter report logs/server.log metrics.txt --json",
        tables=True,
    ),
    "doctor": Command(
        doctor,
        "what a live server, a config, a log or a record offers a study, and what not",
        "Say which sources are there (counters, counters by position, per-request metrics, log lines), the engine and its\n"
        "version, K, the log interval, and what a study could and could not say. A live server gets GET requests only, with\n"
        "the key in DRAFTMETER_API_KEY if there is one. Exit code 0 if a study is possible, 1 if not.",
        "draftmeter doctor http://localhost:8000",
        tables=False,
    ),
    "watch": Command(
        watch,
        "record a live server, read-only",
        "Record a live server's counters, and the statistics lines of its log, into a record that every other command reads.",
        "draftmeter watch http://localhost:8000 --log server.log --for 29h --out records/production",
        tables=False,
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    if argv is None and COMMANDS[arguments.command].tables:
        load_pyarrow_alone()
        signal.signal(signal.SIGTERM, _end)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except UnusableInput as error:
        print(f"draftmeter {arguments.command}: {error}", file=sys.stderr)
        return UNUSABLE
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain again when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED


def _end(number: int, _: FrameType | None) -> NoReturn:
    """End as an exception, so that half-written files go."""
    sys.exit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="draftmeter",
        description="Measures speculative decoding where it runs: how many draft tokens a vLLM server really accepts.",
        epilog="draftmeter COMMAND --help explains each command, with an example.",
    )
    parser.add_argument("--version", action="version", version=f"draftmeter {version('draftmeter')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        one = commands.add_parser(
            name,
            help=command.help,
            description=command.description,
            epilog=f"example:\n  {command.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.module.add_arguments(one)
        one.set_defaults(run=command.module.run)
    return parser
