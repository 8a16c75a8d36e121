"""Rows of the table counters: since a start, between two readings, or over a series of scrapes."""

from collections.abc import Iterable
from typing import Any

from draftmeter.collect.columns import ALL_ENGINES, COUNTED_BY_COUNTERS, position_names
from draftmeter.collect.source import Row
from draftmeter.formats.counter_series import CounterResult, Part
from draftmeter.formats.counters import Counters, EngineReading, add_up
from draftmeter.formats.metrics import Metrics, difference

_COLUMNS = (
    *("drafts", "draft_tokens", "accepted", "generation_tokens", "prompt_tokens", "cached_prompt_tokens"),
    *("requests_finished", "preemptions"),
)


def rows_since_start(source: str, metrics: Metrics) -> list[Row]:
    """One reading: everything since the counters began. When it was read is unknown."""
    return [{**_row(source, reading), "start": reading.began, "start_time": reading.start_time} for reading in metrics.rows()]


def rows_between(source: str, before: Metrics, after: Metrics) -> list[Row]:
    """What was counted between two readings of one server; below 0 where a counter fell.

    Raises :class:`draftmeter.formats.metrics.MetricsError` if the engines or K differ.
    """
    rises = difference(before, after)
    rows: list[Row] = []
    for reading in after.rows():
        of_model = [rise for key, rise in rises.items() if key.model == reading.key.model]
        counters = add_up(of_model) if reading.key.engine == ALL_ENGINES else rises[reading.key]
        rows.append({**_row(source, reading, counters), "start_time": reading.start_time})
    return rows


def rows_of_series(source: str, result: CounterResult) -> list[Row]:
    """What was counted between the first and the last scrape of a series."""
    return [_row_of_part(source, part) for part in result.parts]


def describe_rows(rows: Iterable[Row]) -> dict[str, Any]:
    """Models, engines and K of rows of counters, as reading.json says them."""
    rows = list(rows)
    ks = sorted({row["k"] for row in rows if row["k"] is not None})
    return {
        "models": sorted({row["model"] for row in rows if row["model"] is not None}),
        "engines": [row["engine"] for row in rows if row["engine"] != ALL_ENGINES],
        "k": ks[0] if len(ks) == 1 else None,
        "k_from": _k_from(ks),
    }


def _k_from(ks: list[int]) -> str:
    if len(ks) > 1:
        return f"unknown: the counters of the models or engines have K = {', '.join(map(str, ks))}"
    return "the positions of the counters" if ks else "unknown: there are no counters by position"


def _row(source: str, reading: EngineReading, counters: Counters | None = None) -> Row:
    """A row of the engine of `reading`, with other counts than its own where some are given."""
    key = reading.key
    return {"source": source, "model": key.model or None, "engine": key.label, **_counts(counters or reading.counters)}


def _row_of_part(source: str, part: Part) -> Row:
    return {
        "source": source,
        "model": part.model or None,
        "engine": part.engine,
        **_counts(part.counters),
        "start": part.start,
        "end": part.end,
        "seconds": part.seconds,
        "restarts": part.restarts,
        "start_time": part.start_time,
    }


def _counts(counters: Counters) -> Row:
    positions = counters.accepted_per_position or ()
    return {
        "counted_by": COUNTED_BY_COUNTERS,
        "k": counters.k,
        **{name: getattr(counters, name) for name in _COLUMNS},
        **dict(zip(position_names(len(positions)), positions, strict=True)),
        "accepted_k_exact": True if positions else None,
    }
