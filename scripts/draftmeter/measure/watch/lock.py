"""One watching process a record: a lock that ends with its process, however that ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from draftmeter.record.watched import WatchedError

LOCK = "watch.lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold `folder` for the time of the block. Raises :class:`WatchedError` with the process that holds it already.

    The kernel gives the lock back when its process ends, so that a file left behind by a kill holds nobody up. The
    number in the file is only for the message.
    """
    path = folder / LOCK
    file = _take(path)
    try:
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(file)


def _take(path: Path) -> int:
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 20, 0).decode(errors="replace").strip()
            os.close(file)
            raise WatchedError(
                f"{path.parent}: process {holder or 'unknown'} is writing this record; end it first, or give another --out"
            ) from None
        # Whoever had the lock before may have removed the file in the meantime.
        if path.exists() and os.path.samestat(path.stat(), os.fstat(file)):
            return file
        os.close(file)
