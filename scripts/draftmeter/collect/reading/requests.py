"""The requests of a study record as rows of the table requests."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from draftmeter.collect.reading.columns import ELIGIBLE, REQUESTS, position_names, table_of
from draftmeter.collect.reading.source import Row
from draftmeter.record.run import RequestRow

# A reply stands still for so long, in seconds, where a machine or a server is held up; a step takes a fraction of that.
PAUSE_S = 0.5
_NO_COLUMN = {"chunk_times", "acceptance_histogram", "per_step_accepted", "per_step_drafted"}


def requests_table(source: str, rows: Sequence[RequestRow], k: int | None) -> pa.Table:
    """One row a request; acceptance by position follows from its histogram, and is null where that has no K + 1 counts.

    What was really drafted at each position follows from its steps, and is null where they do not agree with its counts.
    `paused_s` is the time in pauses of more than PAUSE_S between two chunks; null for a reply without any chunk.
    """
    return table_of([_row(source, row, k) for row in rows], REQUESTS, k or 0)


def _row(source: str, row: RequestRow, k: int | None) -> Row:
    values = {
        "source": source,
        **row.model_dump(exclude=_NO_COLUMN),
        "n_chunks": len(row.chunk_times),
        "paused_s": _paused_s(row),
    }
    histogram = row.acceptance_histogram
    if k is not None and histogram is not None and len(histogram) == k + 1:
        values |= {f"accepted_{position}": sum(histogram[position:]) for position in range(1, k + 1)}
        values |= dict(zip(position_names(k, ELIGIBLE), _eligible(row, histogram), strict=False))
    return values


def _paused_s(row: RequestRow) -> float | None:
    if not row.chunk_times:
        return None
    between = np.diff(row.chunk_times)
    return float(between[between > PAUSE_S].sum())


def _eligible(row: RequestRow, histogram: list[int]) -> list[int]:
    """Steps whose draft holds at least 1, 2, ... K tokens with all before the last of these accepted; empty if not known."""
    if row.per_step_accepted is None or row.per_step_drafted is None:
        return []
    accepted, drafted = (np.array(steps, dtype=np.int64) for steps in (row.per_step_accepted, row.per_step_drafted))
    k = len(histogram) - 1
    if accepted.shape != drafted.shape or np.any((accepted < 0) | (accepted > drafted) | (drafted > k)):
        return []
    told = (len(accepted), int(drafted.sum()), int(accepted.sum()), np.bincount(accepted, minlength=k + 1).tolist())
    if told != (row.drafts, row.draft_tokens, row.accepted_tokens, histogram):
        return []
    return [int(((drafted >= position) & (accepted >= position - 1)).sum()) for position in range(1, k + 1)]
