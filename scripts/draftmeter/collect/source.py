"""One source as it was read: rows for the tables, and what reading.json says of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from draftmeter.collect.inputs import STUDY_RECORD, WATCHED_RECORD

if TYPE_CHECKING:
    from draftmeter.collect.reconcile import Check
    from draftmeter.formats.metrics import Metrics

Row = dict[str, Any]

LOG, METRICS_TEXT, METRICS_TEXTS, NOTHING = "vLLM log", "/metrics text", "two /metrics texts", "nothing usable"
STUDY, WATCHED = STUDY_RECORD, WATCHED_RECORD


def _none() -> Iterator[pa.Table]:
    return iter(())


@dataclass
class Source:
    """`counters` are rows of the table counters, `requests` is a table, None where there are none.

    `kind` is one of the names above. `found` is what reading.json says of the source, as plain
    data. `unusable` says why there is nothing to be had from the source; it is None otherwise. Of a
    study's record, `run` is its row of the table runs, `checks` are its cross-checks, and
    `problems` say what a record that draftmeter wrote should not have.
    """

    name: str
    kind: str
    found: dict[str, Any]
    counters: list[Row] = field(default_factory=list)
    requests: pa.Table | None = None
    unusable: str | None = None
    run: Row = field(default_factory=dict)
    checks: "Sequence[Check]" = ()
    problems: Sequence[str] = ()
    metrics: "Metrics | None" = None
    """The reading of a /metrics text, which may be one of several of its server."""
    make_batches: Callable[[], Iterable[pa.Table]] = _none

    @property
    def lacking(self) -> str | None:
        """Why no figure can be made of it; None where one can."""
        if self.unusable is not None or self.counters:
            return self.unusable
        if self.found.get("cumulative"):
            return "only cumulative records of a V0 engine, which say nothing of an interval"
        return "no drafts in it"

    def batches(self) -> Iterator[pa.Table]:
        """The intervals in file order, in pieces: such columns of the table as the source has."""
        for table in self.make_batches():
            names = pa.repeat(pa.scalar(self.name, pa.string()), table.num_rows)
            yield table.add_column(0, "source", names)


def unusable(name: str, reason: str, **found: Any) -> Source:
    """A source of which nothing can be had."""
    return Source(name, NOTHING, {"kind": NOTHING, **found, "reason": reason}, unusable=reason)
