"""Ctrl-C, SIGTERM and SIGHUP as a wish to end, noticed at once while waiting, without cutting anything else short."""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from draftmeter.record.watched import EndedBy

ENDINGS: dict[signal.Signals, EndedBy] = {
    signal.SIGINT: "Ctrl-C",
    signal.SIGTERM: "SIGTERM",
    signal.SIGHUP: "SIGHUP",
}


class Stop:
    """`reason` is null until someone wants the watch to end."""

    def __init__(self) -> None:
        self.reason: EndedBy | None = None
        self._readable, self._writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def wait(self, seconds: float) -> None:
        """Wait so long, or until a signal comes (at once if one came before)."""
        select.select([self._readable], [], [], max(seconds, 0.0))

    def ask(self, reason: EndedBy) -> None:
        """Note the first reason, and end every wait."""
        self.reason = self.reason or reason
        with suppress(BlockingIOError):
            os.write(self._writable, b".")

    def close(self) -> None:
        """Give the pipe back."""
        os.close(self._readable)
        os.close(self._writable)


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Turn the signals into a :class:`Stop` for the time of the block.

    A signal that is ignored stays so: nohup and background shells mean it.
    """
    stop = Stop()

    def handle(number: int, _: FrameType | None) -> None:
        stop.ask(ENDINGS[signal.Signals(number)])

    before = {number: signal.getsignal(number) for number in ENDINGS}
    heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        for number in heard:
            signal.signal(number, before[number])
        stop.close()
