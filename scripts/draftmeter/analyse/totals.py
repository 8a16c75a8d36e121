"""What a workload adds up to: its counts over all records, from counters or else from log lines."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from draftmeter.analyse.clusters import Requests
from draftmeter.analyse.interval_series import recovered
from draftmeter.analyse.tables import Tables, by_position, numbers, position_columns, run_labels
from draftmeter.stats.acceptance import CountsError

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

COUNTERS = "server counters"
NO_COUNTERS = "there are no counters, and the log's lines do not say it"


@dataclass(frozen=True)
class Totals:
    """Counts summed over records; a total is None where a record lacks it. `accepted_at` has shape (K,)."""

    records: int
    source: str
    """Where they come from, in words."""
    lacking: str
    """Why a total is None, in words."""
    drafts: float | None
    draft_tokens: float | None
    accepted: float | None
    drafted_of_drafts: float | None
    accepted_of_drafts: float | None
    """Both are of `drafts` alone: lines of a log that do not show theirs are in the other totals only."""
    accepted_at: FloatArray | None
    generation_tokens: float | None
    prompt_tokens: float | None
    requests_finished: float | None
    eligible_at: FloatArray | None = None
    """Drafts that hold a token at 1..K with all tokens before it accepted, where some draft is short and requests say it."""

    @classmethod
    def none(cls, records: int, k: int) -> "Totals":
        """Counts of a server that did nothing."""
        return cls(records, COUNTERS, "it is not known", 0, 0, 0, 0, 0, np.zeros(k), None, None, None)


def totals_of(tables: Tables, k: int) -> Totals:
    """The totals of the records in `tables`; raise :class:`CountsError` for a counter that fell."""
    if tables.counted_by == "lines":
        return _totals_of_lines(tables, k)
    rows = tables.totals

    def total(column: str) -> float | None:
        values = numbers(rows, column)
        if (values < 0).any():
            record = run_labels(rows).iloc[int(np.nanargmin(values))]
            raise CountsError(f"counter {column} fell by {-np.nanmin(values):g} during {record}")
        return None if np.isnan(values).any() else float(values.sum())

    at = [total(column) for column in position_columns(k)]
    drafted, accepted = total("draft_tokens"), total("accepted")
    return Totals(
        records=len(rows),
        source=COUNTERS,
        lacking="a record lacks this counter",
        drafts=total("drafts"),
        draft_tokens=drafted,
        accepted=accepted,
        drafted_of_drafts=drafted,
        accepted_of_drafts=accepted,
        accepted_at=None if k == 0 or None in at else np.array(at, dtype=np.float64),
        generation_tokens=total("generation_tokens"),
        prompt_tokens=total("prompt_tokens"),
        requests_finished=total("requests_finished"),
    )


def with_short_drafts(totals: Totals, requests: Requests) -> Totals:
    """The totals with what was really drafted, by the steps of own requests where these hold every draft that was counted."""
    if requests.eligible_at is None or totals.accepted_at is None or totals.drafts is None:
        return totals
    counted = [totals.drafts, totals.draft_tokens, *totals.accepted_at]
    own = [requests.columns["drafts"].sum(), requests.columns["draft_tokens"].sum(), *requests.accepted_at.sum(axis=0)]
    eligible = requests.eligible_at.sum(axis=0)
    full = np.array_equal(eligible, [totals.drafts, *totals.accepted_at[:-1]])
    return totals if counted != own or full else replace(totals, eligible_at=eligible)


def telling(lines: pd.DataFrame, k: int) -> BoolArray:
    """Rows of the table intervals that figures by draft are made of: those that show drafts and positions, or else drafts.

    Drafts and shares must be of the same lines.
    """
    drafts, at = np.isfinite(numbers(lines, "drafts")), np.isfinite(by_position(lines, k)).all(axis=1)
    placed: BoolArray = drafts & at & (k > 0)
    return placed if placed.any() else drafts


def _totals_of_lines(tables: Tables, k: int) -> Totals:
    """Sums over log lines; what is by draft or position, over those lines that show it."""
    lines = tables.intervals
    drafts, drafted, accepted = (numbers(lines, name) for name in ("drafts", "drafted", "accepted"))
    at, used = by_position(lines, k), telling(lines, k)
    placed = bool(k and used.any() and np.isfinite(at[used]).all())
    exact = (numbers(lines, "drafts_exact") == 1) & (numbers(lines, "accepted_k_exact") == 1)
    hidden = int((~used).sum())
    left_out = f" ({hidden} of {len(lines)}, not showing it, left out of all that is by draft)" if hidden else ""
    return Totals(
        records=len(tables.totals),
        source="sums of log lines" + (left_out if used.any() else "") + recovered(int((used & ~exact).sum())),
        lacking=NO_COUNTERS,
        drafts=float(drafts[used].sum()) if used.any() else None,
        draft_tokens=float(drafted.sum()),
        accepted=float(accepted.sum()),
        drafted_of_drafts=float(drafted[used].sum()) if used.any() else None,
        accepted_of_drafts=float(accepted[used].sum()) if used.any() else None,
        accepted_at=at[used].sum(axis=0) if placed else None,
        generation_tokens=None,
        prompt_tokens=None,
        requests_finished=None,
    )
