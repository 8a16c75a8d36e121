"""Logs of vLLM servers of any version, carried here in any way: their statistics lines, and nothing else of them."""

from draftmeter.formats.log.entry import is_statistics_line, statistics_text
from draftmeter.formats.log.found import LogFound, RefusedEntry
from draftmeter.formats.log.known import Known
from draftmeter.formats.log.read import LogReading, read_log
from draftmeter.formats.log.wordings import WORDS

__all__ = [
    "WORDS",
    "Known",
    "LogFound",
    "LogReading",
    "RefusedEntry",
    "is_statistics_line",
    "read_log",
    "statistics_text",
]
