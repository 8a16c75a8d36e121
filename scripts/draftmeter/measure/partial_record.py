"""The record of a run in progress: its files grow as the run goes, and its folder gets its name
when it is whole.
"""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

from draftmeter.formats.log import WORDS, is_statistics_line
from draftmeter.measure.watch.followed_log import FollowedLog, Kept
from draftmeter.measure.watch.recording import append_whole, open_to_append
from draftmeter.record.run import PARTIAL, Record, RequestRow
from draftmeter.record.watched import SERVER_LOG
from draftmeter.strict import write_atomically, write_json

WHOLE_LINES = Kept(WORDS, lambda line: line if is_statistics_line(line) else None)
"""Of a log of ours the statistics lines are kept as they are: nothing stands in front."""

_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room there"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "make it writable"),
}


class NotWritten(RuntimeError):
    """A record that cannot be written: where, why, and what to do."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into :class:`NotWritten`, of `path`."""
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "mend that")
        raise NotWritten(
            f"{path}: cannot be written: {(error.strerror or str(error)).lower()}; {remedy} and start again: "
            "runs that are finished stay as they are, this one is measured anew"
        ) from error


class PartialRecord:
    """``<run>.partial`` in `folder`, from the run's start on. Methods raise :class:`NotWritten`.

    Whatever breaks the run, what was measured until then stays there: the rows of `requests.jsonl`
    in the order of their ends, the statistics lines that the server printed to `log` since the
    start.
    """

    def __init__(self, folder: Path, record: Record, log: Path) -> None:
        self.record = record
        self.requests = 0
        self.failed: list[str] = []
        """What went wrong with each request that failed, in a sentence that opens with its id."""
        self._whole = folder / record.run
        self._path = folder / f"{record.run}{PARTIAL}"
        self._first_sent: float | None = None
        self._last_received: float | None = None
        self._places: list[tuple[str, int, int]] = []
        """Of each row in requests.jsonl: its request's id, where it begins, its length in bytes."""
        self._end = 0
        with writing(self._path):
            self._path.mkdir(parents=True)
            write_json(self._path / "record.json", record)
            self._rows = open_to_append(self._path / "requests.jsonl")
            self._lines = open_to_append(self._path / SERVER_LOG)
            self._log = FollowedLog(log, WHOLE_LINES, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            with suppress(NotWritten):
                self.take_lines()
        self._log.close()
        os.close(self._lines)
        os.close(self._rows)

    def write_metrics(self, moment: Literal["before", "after"], text: str) -> None:
        """Keep a text of /metrics."""
        with writing(self._path):
            write_atomically(self._path / f"metrics-{moment}.prom", text)

    def add(self, row: RequestRow) -> None:
        """Append the row of a request that has ended."""
        line = json.dumps(row.model_dump(mode="json"), separators=(",", ":")) + "\n"
        with writing(self._path):
            append_whole(self._rows, line)
        self._places.append((row.request_id, self._end, len(line.encode())))
        self._end += len(line.encode())
        self.requests += 1
        self._first_sent = min(row.t_sent, self._first_sent or row.t_sent)
        if row.t_last is not None:
            self._last_received = max(row.t_last, self._last_received or row.t_last)
        if row.error is not None:
            self.failed.append(f"{row.request_id}: {row.error}")

    def take_lines(self) -> None:
        """Append the statistics lines that are new in the server's log."""
        with writing(self._path):
            if lines := self._log.new_lines():
                append_whole(self._lines, "".join(f"{line}\n" for line in lines))

    def finish(self, **found: Any) -> None:
        """Complete the record with `found`, put its rows in the order of their ids, and give the
        folder its name.
        """
        self.take_lines()
        described = self.record.model_copy(
            update={
                "first_sent": _time(self._first_sent),
                "last_received": _time(self._last_received),
                "requests": self.requests,
                "errors": len(self.failed),
                **found,
            }
        )
        with writing(self._path):
            self._sort_rows()
            write_json(self._path / "record.json", described)
            self._path.rename(self._whole)

    def _sort_rows(self) -> None:
        ordered = self._path / ".requests.jsonl.tmp"
        with ordered.open("wb") as file:
            for _, start, length in sorted(self._places):
                file.write(os.pread(self._rows, length, start))
            file.flush()
            os.fsync(file.fileno())
        ordered.replace(self._path / "requests.jsonl")


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
