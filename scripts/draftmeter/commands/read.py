"""`draftmeter read`: files or a Prometheus server's history to tables, and what was found in them."""

import argparse
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from draftmeter.collect.reading.settings import Settings
from draftmeter.commands.arguments import UnusableInput, add_settings, duration, settings_of

FAILED = 1
ARCHIVE = "archive.yaml"
RECORDS = "records"
"""Folder below --out for what a Prometheus server has stored: one watched record for each scraped server."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `read` takes."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a log, /metrics text, record or folder; - is standard input")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the tables and reading.json")
    add_settings(parser)
    history = parser.add_argument_group("a Prometheus server's history, instead of paths")
    history.add_argument("--prometheus", metavar="URL", help="address of the Prometheus server")
    history.add_argument("--selector", metavar="SELECTOR", help="which series, such as '{job=\"vllm\"}'")
    history.add_argument(
        "--from", dest="start", metavar="TIME", help="first moment: 2026-01-31T00:00Z, Unix seconds, or 24h for a day ago"
    )
    history.add_argument("--to", dest="end", metavar="TIME", help="last moment, or now")
    history.add_argument(
        "--step", type=duration, metavar="TIME", help="the scrape interval, such as 15s (else found from the samples)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the tables; the exit code."""
    from draftmeter.collect.reading.inputs import InputError  # noqa: PLC0415  pyarrow is slow to import
    from draftmeter.collect.reading.reading import read_paths  # noqa: PLC0415

    if arguments.out.exists() and not arguments.out.is_dir():
        raise UnusableInput(f"--out: {arguments.out} is a file; expected a folder, or a name that is not there yet")
    paths = _paths(arguments)
    try:
        reading = read_paths(paths, settings_of(arguments), arguments.out)
    except InputError as error:
        raise UnusableInput(str(error)) from error
    except OSError as error:
        print(f"draftmeter read: {arguments.out} cannot be written: {error}", file=sys.stderr)
        return FAILED
    for line in reading.remarks:
        print(f"draftmeter read: {line}", file=sys.stderr)
    rows = ", ".join(f"{name} {n:,}" for name, n in reading.rows.items())
    sources = "1 source" if reading.sources == 1 else f"{reading.sources} sources"
    print(f"{arguments.out}: {rows} rows, from {sources}; see {arguments.out / 'reading.json'}")
    if "-" not in paths:
        _write_archive([Path(path) for path in paths], settings_of(arguments), arguments.out / ARCHIVE)
    return 0


def _write_archive(paths: Sequence[Path], settings: Settings, out: Path) -> None:
    """A config with which Snakemake makes Table 1, Figure 1 and the note of the same files; none where it cannot."""
    import yaml  # noqa: PLC0415  slow to import

    from draftmeter.strict import write_atomically  # noqa: PLC0415
    from draftmeter.study.archive import SourceSettings, archive_of  # noqa: PLC0415
    from draftmeter.study.schema import ConfigError  # noqa: PLC0415

    try:
        config = archive_of(paths, SourceSettings(**asdict(settings)))
    except ConfigError as error:
        print(f"draftmeter read: no {out.name}: {error}", file=sys.stderr)
        return
    write_atomically(out, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
    print(f"table, figure and note of the same: snakemake --configfile {out} --directory {out.parent}")


def _paths(arguments: argparse.Namespace) -> Sequence[str]:
    asked = {"--selector": arguments.selector, "--from": arguments.start, "--to": arguments.end}
    if arguments.prometheus is None:
        if given := [name for name, value in (asked | {"--step": arguments.step}).items() if value is not None]:
            raise UnusableInput(f"{given[0]} goes with --prometheus URL")
        if not arguments.paths:
            raise UnusableInput("no PATH given; give files or folders, - for standard input, or --prometheus URL")
        paths: Sequence[str] = arguments.paths
        return paths
    if arguments.paths:
        raise UnusableInput("found both a PATH and --prometheus; read them one after the other, into folders of their own")
    if missing := [name for name, value in asked.items() if value is None]:
        raise UnusableInput(f"--prometheus needs {', '.join(missing)} as well")
    return _history(arguments)


def _history(arguments: argparse.Namespace) -> Sequence[str]:
    """Fetch the records of a Prometheus server; their folders."""
    from draftmeter.measure.prometheus_history import HistoryError, fetch_history, history_time  # noqa: PLC0415

    try:
        now = time.time()
        start, end = (history_time(_signed(text), now) for text in (arguments.start, arguments.end))
        folders = fetch_history(arguments.prometheus, arguments.selector, start, end, arguments.step, arguments.out / RECORDS)
    except (HistoryError, OSError) as error:
        raise UnusableInput(str(error)) from error
    return [str(folder) for folder in folders]


def _signed(text: str) -> str:
    """A time before now is -24h; argparse would take that for an option, so that 24h means it too."""
    return f"-{text}" if re.fullmatch(r"\d+(\.\d+)?[smhdw]", text) else text
