"""The writer of a watched record: holds or continues it, appends scrapes, keeps watch.json up to
date.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from draftmeter.record.watched import (
    SCRAPES,
    WATCH_JSON,
    EndedBy,
    ScrapeRow,
    Watched,
    WatchedError,
    is_watched,
    read_watched,
    write_watched,
)

LOCK = "watch.lock"
BLOCK_BYTES = 2**16


def read_continued(folder: Path, url: str, every_s: float | None, zone: str | None) -> Watched | None:
    """The record in `folder` that a watch of `url` would continue; None if there is none yet.

    Raises :class:`WatchedError` if something else is there, or the record of another server, pace
    or zone.
    """
    if folder.exists() and not folder.is_dir():
        raise WatchedError(f"--out: {folder} is a file; expected a folder, new or of an earlier watch")
    if not is_watched(folder):
        if folder.exists() and any(not _is_left_over(path.name) for path in folder.iterdir()):
            raise WatchedError(f"--out: {folder} holds other files and no watch.json; give a new folder")
        return None
    found = read_watched(folder)
    if found.source != "server" or found.url != url:
        raise WatchedError(f"--out: {folder} is a record of {found.url}, not of {url}; give another folder")
    if every_s is not None and every_s != found.every_s:
        raise WatchedError(f"--every: {folder} has a scrape every {found.every_s:g} s; leave --every out, or give another folder")
    if zone is not None and found.time_zone_from == "--zone" and zone != found.time_zone:
        raise WatchedError(f"--zone: {folder} has {found.time_zone}, not {zone}; leave --zone out, or give another folder")
    return found


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold `folder` for the time of the block. Raises :class:`WatchedError` with the process that
    holds it already.

    The kernel gives the lock back when its process ends, so that a file left behind by a kill holds
    nobody up. The number in the file is only for the message.
    """
    path = folder / LOCK
    lock = FileLock(path, fallback_to_soft=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        holder = path.read_text(errors="replace").strip() if path.exists() else ""
        raise WatchedError(
            f"{folder}: process {holder or 'unknown'} is writing this record; end it first, or give another --out"
        ) from None
    try:
        path.write_text(f"{os.getpid()}\n")
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()


class Recording:
    """A record that is being written; `watched` is what its watch.json says now.

    When the block is left, the last session gets its end, and `ended_by` as what ended it.
    """

    def __init__(self, folder: Path, watched: Watched) -> None:
        self._folder = folder
        self.watched = watched
        self.ended_by: EndedBy = "error"
        write_watched(folder, watched)
        self._scrapes = open_to_append(folder / SCRAPES)

    def append(self, row: ScrapeRow) -> None:
        """Append the row of a scrape."""
        append_whole(self._scrapes, row.line())

    def update(self, **changes: Any) -> None:
        """Change fields of watch.json; it is written only if something is new."""
        changed = self.watched.model_copy(update=changes)
        if changed != self.watched:
            write_watched(self._folder, changed)
            self.watched = changed

    def note(self, sentence: str) -> None:
        """Add a sentence to the record's notes, once."""
        if sentence not in self.watched.notes:
            self.update(notes=[*self.watched.notes, sentence])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._scrapes)
        *before, session = self.watched.sessions
        self.update(sessions=[*before, session.model_copy(update={"end": datetime.now(UTC), "ended_by": self.ended_by})])


def _is_left_over(name: str) -> bool:
    """What a watch that was killed before it wrote its watch.json leaves behind."""
    return name == LOCK or name.startswith(f".{WATCH_JSON}.")


def open_to_append(path: Path) -> int:
    """Open a file of lines to append to it. A last line that a kill cut short is removed, or it
    would spoil the next one.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    size = os.fstat(file).st_size
    end = size
    while end > 0:
        block = os.pread(file, min(BLOCK_BYTES, end), max(end - BLOCK_BYTES, 0))
        last = block.rfind(b"\n") + 1
        end -= len(block) - last
        if last > 0:
            break
    if end < size:
        os.ftruncate(file, end)
    return file


def append_whole(file: int, text: str) -> None:
    """Write all of `text`; a full disk raises OSError."""
    data = text.encode()
    while data:
        data = data[os.write(file, data) :]
