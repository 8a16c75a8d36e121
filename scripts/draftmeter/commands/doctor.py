"""`draftmeter doctor`: what a live server, a config, a log or a record offers a study, and what
not.
"""

import argparse
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftmeter.commands.arguments import UnusableInput, add_settings, settings_of

if TYPE_CHECKING:
    from draftmeter.commands.availability import Availability

POSSIBLE, NOT_POSSIBLE = 0, 1
LARGEST_CONFIG = 1 << 20
_CONFIG = re.compile(r"^(study|servers|sources|models):", re.MULTILINE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `doctor` takes."""
    parser.add_argument("subject", metavar="URL|CONFIG|LOG|RECORD", help="a server's address, or a file or folder")
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    parser.add_argument(
        "--probe", action="store_true", help="send a live server one short request, to see its per-request metrics"
    )
    add_settings(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what is there; 0 if a study is possible, 1 if not."""
    subject: str = arguments.subject
    if "://" in subject:
        found = [_of_server(subject, arguments.probe)]
    elif arguments.probe:
        raise UnusableInput(f"--probe is for a live server; found {subject}")
    elif _is_config(Path(subject)):
        from draftmeter.commands.availability import of_config  # noqa: PLC0415  slow to import

        found = of_config(Path(subject))
    else:
        from draftmeter.commands.availability import of_source  # noqa: PLC0415
        from draftmeter.commands.report import read_all  # noqa: PLC0415

        sources, _ = read_all([subject], settings_of(arguments))
        found = [of_source(source) for source in sources]
    if arguments.json:
        data: list[dict[str, Any]] = [availability.as_data() for availability in found]
        print(json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False))
    else:
        print("\n\n".join("\n".join(availability.lines()) for availability in found))
    return POSSIBLE if all(availability.possible for availability in found) else NOT_POSSIBLE


def _is_config(path: Path) -> bool:
    """A small text whose lines begin with a key of a config."""
    if path.suffix in {".yaml", ".yml"}:
        return path.is_file()
    if not path.is_file() or path.stat().st_size > LARGEST_CONFIG:
        return False
    return _CONFIG.search(path.read_bytes().decode(errors="replace")) is not None


def _of_server(url: str, probe: bool) -> "Availability":
    from draftmeter.commands.availability import of_server  # noqa: PLC0415
    from draftmeter.measure.examine import examine  # noqa: PLC0415
    from draftmeter.measure.http import API_KEY_VARIABLE, AddressError, parse_address  # noqa: PLC0415

    try:
        address = parse_address(url, os.environ.get(API_KEY_VARIABLE))
    except AddressError as error:
        raise UnusableInput(str(error)) from error
    found = examine(address, probe=probe)
    if found.metrics is None:
        raise UnusableInput(f"{address.url}/metrics: {found.errors['/metrics']}")
    return of_server(found)
