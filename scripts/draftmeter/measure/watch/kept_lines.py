"""The statistics lines of a watched server's log: followed, stored, and gone on with after a restart, none lost or doubled."""

import os
from pathlib import Path
from typing import Self

from draftmeter.measure.watch.followed import FollowedLog, Kept, Mark
from draftmeter.measure.watch.recording import append_whole, open_to_append
from draftmeter.record.watched import SERVER_LOG, WatchedError, first_problem
from draftmeter.strict import Strict, write_json

LOG_POSITION = "log-position.json"


class LogPosition(Strict):
    """log-position.json: up to where the log was read when server.log had `kept_bytes` bytes."""

    mark: Mark
    kept_bytes: int


class KeptLines:
    """Follows the log at `path` and stores what is `kept` of it in the record at `folder`."""

    def __init__(self, folder: Path, path: Path, kept: Kept) -> None:
        self._position = folder / LOG_POSITION
        before = _read_position(self._position)
        self._log = FollowedLog(path, kept, None if before is None else before.mark)
        self._place_lost = self._log.place_lost()
        self._lines = open_to_append(folder / SERVER_LOG)
        if before is not None and not self._place_lost and os.fstat(self._lines).st_size > before.kept_bytes:
            # Written by a session that was killed before it noted its position: these lines are read again.
            os.ftruncate(self._lines, before.kept_bytes)
        self._note_position()

    def take(self) -> list[str]:
        """Store the lines that are new; they are returned too."""
        lines = self._log.new_lines()
        if lines:
            append_whole(self._lines, "".join(f"{line}\n" for line in lines))
            self._note_position()
        return lines

    @property
    def problem(self) -> str | None:
        """Why the log could not be read when it was looked at last; null if it could."""
        return self._log.problem

    def place_lost(self) -> bool:
        """Whether, since this was asked last, lines of the log may have been missed: it was replaced or truncated."""
        lost = self._place_lost or self._log.place_lost()
        self._place_lost = False
        return lost

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._note_position()
        self._log.close()
        os.close(self._lines)

    def _note_position(self) -> None:
        write_json(self._position, LogPosition(mark=self._log.mark(), kept_bytes=os.fstat(self._lines).st_size))


def _read_position(path: Path) -> LogPosition | None:
    if not path.exists():
        return None
    try:
        return LogPosition.model_validate_json(path.read_bytes())
    except ValueError as error:
        problem = first_problem(error)
        raise WatchedError(f"{path}: not a position in a log: {problem}; remove it to follow the log from its end") from error
