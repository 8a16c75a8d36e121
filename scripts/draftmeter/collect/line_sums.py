"""Sums over a log's intervals: what its lines add up to, never passed off as counters."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from draftmeter.collect.columns import ALL_ENGINES, COUNTED_BY_LINES, position_names, positions_of

_UNKNOWN_ENGINE = "unknown"


@dataclass
class LineSums:
    """Sums over some intervals; a sum is None where one of them is unknown."""

    intervals: int = 0
    drafted: int | None = 0
    accepted: int | None = 0
    drafts: int | None = 0
    accepted_at: dict[str, int | None] = field(default_factory=dict)
    exact: bool = True
    ks: set[int | None] = field(default_factory=set)
    start: float | None = None
    end: float | None = None

    def add(self, batch: pa.Table) -> None:
        """Take the intervals of one batch in."""
        if batch.num_rows == 0:
            return
        self.intervals += batch.num_rows
        self.drafted = _sum(self.drafted, _total(batch, "drafted"))
        self.accepted = _sum(self.accepted, _total(batch, "accepted"))
        self.drafts = _sum(self.drafts, _total(batch, "drafts"))
        for name in position_names(positions_of(batch.schema.names)):
            self.accepted_at[name] = _sum(self.accepted_at.get(name, 0), _total(batch, name))
        exact = [pc.all(batch.column(name), skip_nulls=False).as_py() for name in ("drafts_exact", "accepted_k_exact")]
        self.exact &= all(exact)
        self.ks |= set(batch.column("k").unique().to_pylist())
        self.start = _known(min, self.start, pc.min(batch.column("start")).as_py())
        self.end = _known(max, self.end, pc.max(batch.column("end")).as_py())

    def row(self, source: str, engine: str) -> dict[str, Any]:
        """The sums as a row of the table counters, counted by lines."""
        k = next(iter(self.ks)) if len(self.ks) == 1 else None
        # Positions that some intervals lack add up to nothing that means acceptance.
        positions = self.accepted_at if k is not None else dict.fromkeys(self.accepted_at)
        return {
            "source": source,
            "engine": engine,
            "counted_by": COUNTED_BY_LINES,
            "k": k,
            "drafts": self.drafts,
            "draft_tokens": self.drafted,
            "accepted": self.accepted,
            **positions,
            "accepted_k_exact": self.exact,
            "start": self.start,
            "end": self.end,
            "seconds": None if self.start is None or self.end is None else self.end - self.start,
        }


def rows_of_lines(source: str, batches: Iterable[pa.Table]) -> list[dict[str, Any]]:
    """One row for all intervals, and one for each engine if they name several.

    There is no row without intervals.
    """
    total, engines = LineSums(), dict[str, LineSums]()
    for batch in batches:
        total.add(batch)
        for name in batch.column("engine").unique().to_pylist():
            is_name = pc.equal(pc.fill_null(batch.column("engine"), _UNKNOWN_ENGINE), name or _UNKNOWN_ENGINE)
            engines.setdefault(name or _UNKNOWN_ENGINE, LineSums()).add(batch.filter(is_name))
    if total.intervals == 0:
        return []
    several = sorted(engines.items()) if len(engines) > 1 else []
    return [total.row(source, ALL_ENGINES), *(sums.row(source, name) for name, sums in several)]


def _total(batch: pa.Table, name: str) -> int | None:
    """The sum of a column, None where one of its values is."""
    total: int | None = pc.sum(batch.column(name), skip_nulls=False).as_py()
    return total


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _known(choose: Callable[..., float], *values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None
