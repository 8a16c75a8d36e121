"""A log as a source: its intervals, and their sums as counts by lines."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from draftmeter.collect.reading.inputs import Opened
from draftmeter.collect.reading.settings import Settings
from draftmeter.collect.reading.source import LOG, Source, unusable
from draftmeter.collect.reading.sums import rows_of_lines
from draftmeter.formats.log import Known, LogFound, read_log

NO_STATISTICS = "no statistics lines"


def read_log_file(name: str, opened: Opened, settings: Settings) -> Source:
    """Read an opened log; a file without any record of vLLM's statistics, whole or refused, is unusable."""
    with opened.stream as stream:
        reading = read_log(stream, _known(settings, opened.modified))
    file = {"compression": opened.compression, "damage": opened.damage}
    if reading.found.format == NO_STATISTICS and not reading.found.refused_count:
        damage = f"; {opened.damage}" if opened.damage else ""
        return unusable(name, f"neither a /metrics text nor a log with statistics lines of vLLM{damage}", **file)
    found = {"kind": LOG, **describe_log(reading.found), **file}
    source = Source(name, LOG, found, make_batches=reading.batches)
    source.counters = rows_of_lines(name, source.batches())
    return source


def describe_log(found: LogFound) -> dict[str, Any]:
    """What reading.json says of a log."""
    return asdict(found)


def _known(settings: Settings, modified: datetime | None) -> Known:
    return Known(zone=settings.zone, year=settings.year, near=modified, log_interval_s=settings.log_interval_s, k=settings.k)
