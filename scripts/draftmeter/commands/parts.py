"""Sources as collect read them become the parts of a pool, as analyse takes them."""

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from draftmeter.analyse.counts import IntervalSeries, Part, counts_of_row, counts_of_series
from draftmeter.collect.columns import ALL_ENGINES, COUNTED_BY_LINES, positions_of
from draftmeter.collect.source import METRICS_TEXT, METRICS_TEXTS, Source

WORDING_OF_COUNTERS = "counters"
_NEEDED = {"process", "k", "drafts", "drafts_exact", "drafted", "accepted", "accepted_k_exact", "window_s", "wording"}
_POSITION = re.compile(r"accepted_\d+")


def parts_of(source: Source) -> list[Part]:
    """One part for each model of a source, all its engines together."""
    totals = [row for row in source.counters if row.get("engine") == ALL_ENGINES]
    intervals = _intervals(source)
    since_start = source.kind == METRICS_TEXT
    parts = []
    for row in totals:
        chosen = intervals
        if chosen is not None and len(totals) > 1:
            chosen = chosen.filter(pc.equal(chosen.column("process"), f"model {row.get('model')}"))
        series = None if chosen is None or chosen.num_rows == 0 else _series(chosen)
        if row["counted_by"] == COUNTED_BY_LINES and series is not None:
            counts = counts_of_series(series, row.get("k"), row.get("seconds"))
        else:
            counts = counts_of_row(row, row.get("k"), _reasons(source), name=source.name)
        parts.append(Part.of_row(source.name, row, counts, series, since_start=since_start))
    return parts


def _intervals(source: Source) -> pa.Table | None:
    """The columns of the intervals that quantities need; None where there are none."""
    tables = [
        batch.select([name for name in batch.column_names if name in _NEEDED or _POSITION.fullmatch(name)])
        for batch in source.batches()
    ]
    return pa.concat_tables(tables, promote_options="default") if tables else None


def _series(table: pa.Table) -> IntervalSeries:
    def column(name: str) -> NDArray[np.float64]:
        if name not in table.column_names:
            return np.full(table.num_rows, np.nan)
        values: Any = table.column(name).cast(pa.float64()).to_numpy()
        return np.asarray(values, dtype=np.float64)

    counters = set(table.column("wording").unique().to_pylist()) == {WORDING_OF_COUNTERS}
    return IntervalSeries.of(column, positions_of(table.column_names), counters=counters)


def _reasons(source: Source) -> dict[str, str]:
    """Why counts are unknown, as far as what was found says so."""
    found = source.found
    reasons: dict[str, str] = {}
    if found.get("k") is None and found.get("k_from"):
        reasons["k"] = found["k_from"].removeprefix("unknown: ")
    if source.kind in {METRICS_TEXT, METRICS_TEXTS}:
        reasons |= {"seconds": "a /metrics text does not say when it was read", "restarts": "one reading shows none"}
        if problems := "; ".join(found.get("warnings", [])):
            counted = ("drafts", "draft_tokens", "accepted", "accepted_of_drafts", "drafted_of_drafts", "accepted_at")
            reasons |= dict.fromkeys(counted, problems)
    return reasons
