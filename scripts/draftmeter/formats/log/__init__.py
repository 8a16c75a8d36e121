"""Logs of vLLM servers of any version, carried here in any way: their statistics lines, and nothing else of them."""

from draftmeter.formats.log.found import Known, LogFound, RefusedRecord
from draftmeter.formats.log.reading import LogReading, read_log
from draftmeter.formats.log.text import is_statistics_line, statistics_text

__all__ = ["Known", "LogFound", "LogReading", "RefusedRecord", "is_statistics_line", "read_log", "statistics_text"]
