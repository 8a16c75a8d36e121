"""A port of the loopback interface for one server, which no other boot gets meanwhile."""

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

HOST = "127.0.0.1"
TRIES = 20


class PortTaken(Exception):
    """Why a port cannot be had, as the end of a sentence that names it."""


@contextmanager
def reserved_port(wanted: int | None) -> Iterator[int]:
    """The `wanted` port, or any free one, reserved for the time of the block. Raises
    :class:`PortTaken`.

    A server binds its port long after it was told which. Until then the port is free to everyone:
    boots keep out of each other's way by a lock on a file of the port's number, which the kernel
    gives back when its process ends. Another program may still take it; the server then says so.
    """
    lock = _locked(wanted)
    try:
        yield int(Path(lock.lock_file).stem)
    finally:
        lock.release()


def shared_folder() -> Path:
    """Where the boots of one user on this machine meet; it is made if it is not there."""
    folder = Path(tempfile.gettempdir()) / f"draftmeter-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _locked(wanted: int | None) -> FileLock:
    for _ in range(TRIES):
        with socket.socket() as probe:
            # As the server itself does: a port is not taken because connections of an earlier boot
            # still linger on it.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, wanted or 0))
            except OSError as error:
                raise PortTaken(f"is taken by another process ({error.strerror})") from error
            lock = FileLock(shared_folder() / f"{probe.getsockname()[1]}.lock", fallback_to_soft=False)
            try:
                lock.acquire(blocking=False)
            except Timeout:
                if wanted is not None:
                    raise PortTaken("is reserved by another boot of this machine, whose server is starting") from None
            else:
                return lock
    raise PortTaken(f"none of {TRIES} that were free could be reserved")
