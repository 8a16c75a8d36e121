"""The requests of a study record as rows of the table requests."""

from collections.abc import Sequence

import pyarrow as pa

from draftmeter.collect.reading.columns import REQUESTS, table_of
from draftmeter.collect.reading.source import Row
from draftmeter.record import RequestRow

_NO_COLUMN = {"chunk_times", "acceptance_histogram", "per_step_accepted", "per_step_drafted"}


def requests_table(source: str, rows: Sequence[RequestRow], k: int | None) -> pa.Table:
    """One row a request; acceptance by position follows from its histogram, and is null where that has no K + 1 counts."""
    return table_of([_row(source, row, k) for row in rows], REQUESTS, k or 0)


def _row(source: str, row: RequestRow, k: int | None) -> Row:
    values = {"source": source, **row.model_dump(exclude=_NO_COLUMN), "n_chunks": len(row.chunk_times)}
    histogram = row.acceptance_histogram
    if k is not None and histogram is not None and len(histogram) == k + 1:
        values |= {f"accepted_{position}": sum(histogram[position:]) for position in range(1, k + 1)}
    return values
