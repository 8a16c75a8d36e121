"""Log lines against counters of the same server and time."""

from collections.abc import Sequence
from typing import Any

from draftmeter.collect.reading.columns import ALL_ENGINES
from draftmeter.collect.reading.source import Row


def lines_against_counters(counters: Sequence[Row], lines: Sequence[Row]) -> dict[str, Any]:
    """What both say of draft tokens and accepted tokens, and the difference, lines less counters: below 0, log is missing.

    `unknown` is why there is no difference where there is none.
    """
    counted, summed = _total(counters), _total(lines)
    return {name: _compared(counted.get(name), summed.get(name)) for name in ("draft_tokens", "accepted")}


def _compared(counters: int | None, lines: int | None) -> dict[str, Any]:
    unknown = None
    if lines is None:
        unknown = "there are no log lines with drafts"
    elif counters is None:
        unknown = "there is no such counter, or several models have one"
    difference = None if counters is None or lines is None else lines - counters
    return {"counters": counters, "lines": lines, "difference": difference, "unknown": unknown}


def _total(rows: Sequence[Row]) -> Row:
    """The row of all engines, if there is only one model."""
    totals = [row for row in rows if row["engine"] == ALL_ENGINES]
    return totals[0] if len(totals) == 1 else {}
