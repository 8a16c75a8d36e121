"""Batches that are kept in memory while their rows are few, and in a temporary file from then on."""

import pickle
import tempfile
from collections.abc import Iterator
from typing import IO, Generic, TypeVar

MOST_ROWS_IN_MEMORY = 100_000

Batch = TypeVar("Batch")


class Store(Generic[Batch]):
    """Batches, appended one by one and read again in the same order. The file goes when the store goes."""

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._rows_in_memory = 0
        self._in_file = 0
        self._file: IO[bytes] | None = None
        self.rows = 0

    def append(self, batch: Batch, rows: int) -> None:
        """Add a batch of this many rows."""
        self.rows += rows
        self._batches.append(batch)
        self._rows_in_memory += rows
        if self._rows_in_memory > MOST_ROWS_IN_MEMORY:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="draftmeter-")  # noqa: SIM115 (it lives as long as the store)
        self._file.seek(0, 2)
        for batch in self._batches:
            pickle.dump(batch, self._file, protocol=5)
        self._in_file += len(self._batches)
        self._batches, self._rows_in_memory = [], 0

    def __iter__(self) -> Iterator[Batch]:
        """The batches in order; none may be appended meanwhile."""
        place = 0
        for _ in range(self._in_file):
            assert self._file is not None
            # Two iterations may take turns.
            self._file.seek(place)
            batch: Batch = pickle.load(self._file)
            place = self._file.tell()
            yield batch
        yield from self._batches
