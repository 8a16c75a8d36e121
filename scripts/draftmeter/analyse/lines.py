"""The log lines of the production workload as arrays, and what every figure made of them has in common."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftmeter.analyse.facts import AnalysisError, rounded
from draftmeter.analyse.tables import Tables, by_position, numbers, run_labels
from draftmeter.facts import Fact
from draftmeter.stats.intervals import qualifying
from draftmeter.stats.uncertainty import BlockIntervals

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

SUBJECT = "production_intervals"
INTERVAL_COLUMNS = ["server", "boot", "attempt", "run", "line", "start", "drafts", "acceptance"]


@dataclass(frozen=True)
class Intervals:
    """Log lines of the production workload in order of time: n of them, K positions.

    `series` numbers the continuous runs; blocks and lags never cross from one to another. `accepted_at` is None where a
    line gives no acceptance by position.
    """

    rows: list[dict[str, Any]]
    series: IntArray
    end: FloatArray
    drafts: FloatArray
    drafted: FloatArray
    accepted: FloatArray
    accepted_at: FloatArray | None
    exact: BoolArray
    """Whether drafts and drafts by position follow exactly from the line, or were recovered from rounded numbers."""
    window_s: FloatArray
    k: int

    @property
    def acceptance(self) -> FloatArray:
        """Accepted over drafted of each interval; shape (n,)."""
        return self.accepted / self.drafted

    def at_least(self, min_drafts: int) -> "Intervals":
        """The intervals with at least `min_drafts` drafts."""
        keep = qualifying(self.drafts, min_drafts)
        return Intervals(
            rows=[row for row, kept in zip(self.rows, keep, strict=True) if kept],
            series=self.series[keep],
            end=self.end[keep],
            drafts=self.drafts[keep],
            drafted=self.drafted[keep],
            accepted=self.accepted[keep],
            accepted_at=None if self.accepted_at is None else self.accepted_at[keep],
            exact=self.exact[keep],
            window_s=self.window_s[keep],
            k=self.k,
        )

    @property
    def source(self) -> str:
        """Where the figures come from, in words."""
        inexact = int((~self.exact).sum())
        return "log lines" + (f" ({inexact} with counts recovered from rounded numbers)" if inexact else "")

    def by_series(self, values: FloatArray) -> list[FloatArray]:
        """`values` (shape (n, ...)) split into the continuous series."""
        return [values[self.series == number] for number in np.unique(self.series)]


def production_lines(tables: Tables) -> Intervals:
    """The lines of the production records in `tables`, sorted by record and time."""
    labels = run_labels(tables.intervals)
    table = tables.intervals.assign(_label=labels).sort_values(["_label", "end", "line"], kind="stable")
    k = tables.k
    for column in ("end", "window_s", "k", "drafted", "accepted"):
        if np.isnan(numbers(table, column)).any():
            raise AnalysisError(f"table intervals: column {column} has a null; every line of the collect step says it")
    wrong = sorted({int(value) for value in numbers(table, "k")} - {k})
    if wrong:
        raise AnalysisError(f"table intervals: found lines with K = {wrong} in records with K = {k}; rerun the collect step")
    accepted_at = by_position(table, k)
    names = ["server", "boot", "attempt", "run", "line", "start"]
    columns = [table[name].tolist() for name in names]
    exact = [numbers(table, column) == 1 for column in ("drafts_exact", "accepted_k_exact")]
    return Intervals(
        rows=[dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)],
        series=np.unique(table["_label"].to_numpy(dtype=str), return_inverse=True)[1].astype(np.int64),
        end=numbers(table, "end"),
        drafts=numbers(table, "drafts"),
        drafted=numbers(table, "drafted"),
        accepted=numbers(table, "accepted"),
        accepted_at=None if np.isnan(accepted_at).any() else accepted_at,
        exact=exact[0] & exact[1],
        window_s=numbers(table, "window_s"),
        k=k,
    )


def interval_rows(lines: Intervals, min_drafts: int) -> list[dict[str, Any]]:
    """One row for each qualifying interval, for Figure 1a."""
    chosen = lines.at_least(min_drafts)
    values = zip(chosen.rows, chosen.drafts, chosen.acceptance, strict=True)
    return [{**row, "drafts": int(drafts), "acceptance": rounded(float(acceptance))} for row, drafts, acceptance in values]


def block_method(blocks: BlockIntervals, confidence: float, element: str = "intervals") -> str:
    """How a bootstrap interval was made, in words; empty where there is none."""
    if blocks.resamples == 0:
        return ""
    return (
        f"; {confidence:.0%} interval from {blocks.resamples} stationary bootstraps in blocks of {blocks.block_length} "
        f"{element} ({blocks.effective_blocks:.0f} effective blocks)"
    )


def memory(intervals: Intervals) -> list[FloatArray]:
    """What decides the block length, one array (n_s, 2) a series: acceptance and its squared deviation."""
    x = intervals.acceptance
    return intervals.by_series(np.column_stack([x, (x - x.mean()) ** 2]))


def described(value: float | None, intervals: Intervals, unit: str, definition: str, unknown: str | None = None) -> Fact:
    """A description of the lines themselves: no estimate of anything else, so without an interval."""
    return Fact(
        value=rounded(value),
        low=None,
        high=None,
        method=intervals.source,
        n=len(intervals.drafts),
        n_unit="intervals",
        unit=unit,
        definition=definition,
        unknown="the log has no line with drafts" if value is None and unknown is None else unknown,
    )
