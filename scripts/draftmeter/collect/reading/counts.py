"""What servers counted as rows of the table counters."""

from collections.abc import Iterable
from typing import Any

from draftmeter.collect.reading.columns import ALL_ENGINES, COUNTED_BY_COUNTERS
from draftmeter.collect.reading.source import Row
from draftmeter.formats.counter_series import CounterResult, Part
from draftmeter.formats.counters import Counters, EngineReading

_COLUMNS = (
    *("drafts", "draft_tokens", "accepted", "generation_tokens", "prompt_tokens", "cached_prompt_tokens"),
    *("requests_finished", "preemptions"),
)


def row_of_reading(source: str, reading: EngineReading) -> Row:
    """One reading of a server: everything since its counters began. When it was read is unknown."""
    return {
        "source": source,
        "model": reading.key.model or None,
        "engine": reading.key.label,
        **_counts(reading.counters),
        "start": reading.began,
        "start_time": reading.start_time,
    }


def row_of_part(source: str, part: Part) -> Row:
    """What was counted between the first and the last scrape of a series."""
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


def describe_result(result: CounterResult) -> dict[str, Any]:
    """What reading.json says of a series of scrapes."""
    return {
        **describe_rows([row_of_part("", part) for part in result.parts]),
        "restarts": [restart._asdict() for restart in result.restarts],
        "warnings": list(result.notes),
    }


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


def _counts(counters: Counters) -> Row:
    positions = counters.accepted_per_position
    return {
        "counted_by": COUNTED_BY_COUNTERS,
        "k": counters.k,
        **{name: getattr(counters, name) for name in _COLUMNS},
        **{f"accepted_{position}": count for position, count in enumerate(positions or (), start=1)},
        "accepted_k_exact": True if positions else None,
    }
