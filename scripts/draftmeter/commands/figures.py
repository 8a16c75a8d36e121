"""Sources as they were read, for the headline figures: what collect knows becomes what analyse takes."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from draftmeter.analyse.headline import Counts, Lines, counts_of_lines
from draftmeter.analyse.pooling import Part
from draftmeter.collect.columns import ALL_ENGINES, COUNTED_BY_LINES, position_names, positions_of
from draftmeter.collect.source import METRICS_TEXT, METRICS_TEXTS, Row, Source

WORDING_OF_COUNTERS = "counters"
_NEEDED = {"process", "drafts", "drafts_exact", "drafted", "accepted", "accepted_k_exact", "window_s", "wording"}
_POSITION = re.compile(r"accepted_\d+")


def parts_of(source: Source) -> list[Part]:
    """One part for each model of a source, all its engines together."""
    totals = [row for row in source.counters if row.get("engine") == ALL_ENGINES]
    intervals = _intervals(source)
    parts = []
    for row in totals:
        chosen = intervals
        if chosen is not None and len(totals) > 1:
            chosen = chosen.filter(pc.equal(chosen.column("process"), f"model {row.get('model')}"))
        lines = None if chosen is None or chosen.num_rows == 0 else _lines(chosen)
        parts.append(
            Part(
                name=source.name,
                model=row.get("model") if len(totals) > 1 else None,
                counts=_counts(source, row, lines),
                lines=lines,
                start=row.get("start"),
                end=row.get("end"),
                since_start=source.kind == METRICS_TEXT,
                start_time=row.get("start_time") or row.get("start") if source.kind == METRICS_TEXT else row.get("start_time"),
            )
        )
    return parts


def _intervals(source: Source) -> pa.Table | None:
    """The columns of the intervals that figures need; null where there are none."""
    tables = [
        batch.select([name for name in batch.column_names if name in _NEEDED or _POSITION.fullmatch(name)])
        for batch in source.batches()
    ]
    return pa.concat_tables(tables, promote_options="default") if tables else None


def _counts(source: Source, row: Row, lines: Lines | None) -> Counts:
    k: int | None = row.get("k")
    unknown = _reasons(source)
    if row["counted_by"] == COUNTED_BY_LINES and lines is not None:
        return counts_of_lines(lines, k, row.get("seconds"), unknown)
    at = [row.get(name) for name in position_names(k or 0)]
    return Counts(
        counted_by=row["counted_by"],
        k=k,
        drafts=row.get("drafts"),
        draft_tokens=row.get("draft_tokens"),
        accepted=row.get("accepted"),
        accepted_of_drafts=row.get("accepted"),
        accepted_at=tuple(float(value) for value in at if value is not None) if at and None not in at else None,
        generation_tokens=row.get("generation_tokens"),
        requests_finished=row.get("requests_finished"),
        seconds=row.get("seconds"),
        restarts=row.get("restarts"),
        unknown=unknown,
    )


def _reasons(source: Source) -> dict[str, str]:
    """Why figures are unknown, as far as what was found says so."""
    found = source.found
    reasons: dict[str, str] = {}
    if found.get("k") is None and found.get("k_from"):
        reasons["k"] = found["k_from"].removeprefix("unknown: ")
    if source.kind in {METRICS_TEXT, METRICS_TEXTS}:
        reasons |= {"seconds": "a /metrics text does not say when it was read", "restarts": "one reading shows none"}
        problems: Sequence[str] = found.get("warnings", [])
        if problems:
            reasons |= dict.fromkeys(
                ("drafts", "draft_tokens", "accepted", "accepted_of_drafts", "accepted_at"), "; ".join(problems)
            )
    return reasons


def _lines(table: pa.Table) -> Lines:
    # A server whose counters lack one of the two shows nothing that figures of intervals could be made of.
    table = table.filter(pc.and_(table.column("drafted").is_valid(), table.column("accepted").is_valid()))

    def numbers(name: str) -> NDArray[np.float64]:
        if name not in table.column_names:
            return np.full(table.num_rows, np.nan)
        values: Any = table.column(name).cast(pa.float64()).to_numpy()
        return np.asarray(values, dtype=np.float64)

    def truths(name: str) -> NDArray[np.bool_]:
        return np.asarray(pc.fill_null(table.column(name), False).to_numpy(), dtype=np.bool_)

    k = positions_of(table.column_names)
    return Lines(
        drafts=numbers("drafts"),
        exact=truths("drafts_exact") & truths("accepted_k_exact"),
        drafted=numbers("drafted"),
        accepted=numbers("accepted"),
        accepted_at=np.column_stack([numbers(name) for name in position_names(k)]) if k else np.empty((table.num_rows, 0)),
        window_s=numbers("window_s"),
        counters=set(table.column("wording").unique().to_pylist()) == {WORDING_OF_COUNTERS},
    )
