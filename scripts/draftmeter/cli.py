"""The command `draftmeter`: read stored files, report their figures, ask what is there, watch a live server.

Exit codes: 0, 1 for a failed check, 2 for input that cannot be used (with one line on standard error that says why).
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from types import FrameType, ModuleType
from typing import NamedTuple, NoReturn

from draftmeter.commands import doctor, read, report, watch
from draftmeter.commands.arguments import UnusableInput

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
        _load_pyarrow_alone()
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


class _Absent(MetaPathFinder):
    """Makes one module look as if it were not installed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Refuse the module, leave every other one to the next finder."""
        del path, target
        if name == self._name:
            raise ModuleNotFoundError(f"{name} is left out for now", name=name)
        return None


def _load_pyarrow_alone() -> None:
    """Import pyarrow, and let it look for pandas in vain: it would import it on first use, which takes half a second.

    Afterwards pandas can be imported as usual; only pyarrow goes on without it, unless it is asked for a data frame. This
    is for a process of its own, in which nothing handed to pyarrow can be an object of pandas.
    """
    if "pandas" in sys.modules:
        return
    absent = _Absent("pandas")
    sys.meta_path.insert(0, absent)
    try:
        import pyarrow as pa  # noqa: PLC0415  that is the point

        pa.scalar(0)
    finally:
        sys.meta_path.remove(absent)
