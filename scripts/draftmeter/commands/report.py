"""`draftmeter report`: the headline figures of any sources in the terminal, or as JSON."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from draftmeter.commands.arguments import UnusableInput, add_settings, settings_of, whole

if TYPE_CHECKING:
    from draftmeter.collect.inputs import Settings
    from draftmeter.collect.source import Source

MIN_DRAFTS = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `report` takes."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a log, /metrics text, record, folder of tables or of these; -")
    parser.add_argument("--json", action="store_true", help="all figures with their definitions, and why any is unknown")
    parser.add_argument(
        "--min-drafts", type=whole, default=MIN_DRAFTS, metavar="N", help="drafts that an interval needs to count (default 500)"
    )
    add_settings(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the figures; the exit code."""
    from draftmeter.commands.terminal import show  # noqa: PLC0415  pyarrow and numpy are slow to import

    sources, not_read = read_all(arguments.paths, settings_of(arguments))
    reported = report(sources, arguments.min_drafts)
    reported["not_read"] = not_read
    if arguments.json:
        print(json.dumps(reported, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False))
    else:
        show(reported, sys.stdout)
        for line in not_read:
            print(f"draftmeter report: not read: {line}", file=sys.stderr)
    return 0


def report(sources: "Sequence[Source]", min_drafts: int) -> dict[str, Any]:
    """The quantities of each source, and of all together where they can be added up."""
    from draftmeter.analyse.counts import Counts, IntervalSeries, pooled  # noqa: PLC0415
    from draftmeter.analyse.quantities import (  # noqa: PLC0415
        as_data,
        values_of,
        values_of_intervals,
        values_of_reading,
    )
    from draftmeter.commands.parts import parts_of  # noqa: PLC0415

    def figures(counts: Counts, series: IntervalSeries | None) -> dict[str, Any]:
        values = values_of_reading(counts) | values_of(counts) | values_of_intervals(counts, series, min_drafts)
        return as_data(values, counts)

    found = [(source, parts_of(source)) for source in sources]
    parts = [(source, part, len(of_source) > 1) for source, of_source in found for part in of_source]
    described = [
        {
            "source": part.name,
            "model": part.model if several else None,
            "kind": source.kind,
            "counted_by": part.counts.counted_by,
            "figures": figures(part.counts, part.series),
            "notes": list(part.counts.notes),
            "warnings": source.found.get("warnings", []),
            "unknown": source.found.get("unknown", {}),
            "refused": source.found.get("refused_count", 0),
        }
        for source, part, several in parts
    ]
    pool: dict[str, Any] | None = None
    if len(parts) > 1:
        result = _why_apart(sources) or pooled([part for _, part, _ in parts])
        if isinstance(result, str):
            pool = {"figures": None, "notes": [], "unknown": result}
        else:
            counts, series = result
            pool = {
                "figures": figures(counts, series),
                "notes": list(counts.notes),
                "counted_by": counts.counted_by,
                "unknown": None,
            }
    return {"min_drafts": min_drafts, "sources": described, "pooled": pool}


def _why_apart(sources: "Sequence[Source]") -> str | None:
    """Why nothing is said of all sources together, before their counts are looked at.

    None if nothing forbids it.
    """
    from draftmeter.collect.texts import NOT_ADDED  # noqa: PLC0415

    reasons = (source.found[NOT_ADDED] for source in sources if NOT_ADDED in source.found)
    return next((f"not pooled: {reason}" for reason in reasons), None)


def read_all(paths: Sequence[str], settings: "Settings") -> "tuple[list[Source], list[str]]":
    """Every usable source below `paths`, and a line for what is not.

    Raises :class:`UnusableInput` if there is none.
    """
    from draftmeter.collect.inputs import InputError  # noqa: PLC0415
    from draftmeter.collect.read import read_usable  # noqa: PLC0415
    from draftmeter.collect.texts import join_texts  # noqa: PLC0415

    try:
        sources, not_read = read_usable(paths, settings, written_tables=True)
    except InputError as error:
        raise UnusableInput(str(error)) from error
    if not sources:
        more = f" (and {len(not_read) - 1} more)" if len(not_read) > 1 else ""
        raise UnusableInput(f"{not_read[0]}{more}" if not_read else f"{', '.join(paths)}: no file in it")
    return join_texts(sources), not_read
