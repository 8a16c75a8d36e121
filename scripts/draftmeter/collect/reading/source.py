"""One source as it was read: rows for the tables, and what reading.json says of it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

Row = dict[str, Any]

LOG, METRICS_TEXT, STUDY, WATCHED, NOTHING = "vLLM log", "/metrics text", "study record", "watched record", "nothing usable"


def _none() -> Iterator[pa.Table]:
    return iter(())


@dataclass
class Source:
    """`counters` are rows of the table counters, `requests` its requests as a table, or null where it has none.

    `kind` is one of the names above. `found` is what reading.json says of the source, as plain data. `unusable` says why
    there is nothing to be had from the source; it is null otherwise.
    """

    name: str
    kind: str
    found: dict[str, Any]
    counters: list[Row] = field(default_factory=list)
    requests: pa.Table | None = None
    unusable: str | None = None
    make_batches: Callable[[], Iterable[pa.Table]] = _none

    def batches(self) -> Iterator[pa.Table]:
        """The intervals in file order, in pieces: the columns of the table intervals, as far as the source has them."""
        for table in self.make_batches():
            names = pa.repeat(pa.scalar(self.name, pa.string()), table.num_rows)
            yield table.add_column(0, "source", names)


def unusable(name: str, reason: str, **found: Any) -> Source:
    """A source of which nothing can be had."""
    return Source(name, NOTHING, {"kind": NOTHING, **found, "reason": reason}, unusable=reason)
