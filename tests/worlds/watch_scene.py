"""A made-up server for tests of `draftmeter watch`: /metrics from numbers that a test plants, and every way to fail."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path

from rich.console import Console

from draftmeter.commands.watch_panel import shown
from draftmeter.formats.counter_series import CounterResult, counter_series
from draftmeter.formats.metrics import read_metrics
from draftmeter.measure.http import parse_address
from draftmeter.measure.watch.watching import Wanted, watch
from draftmeter.record.watched import ScrapeRow, read_scrapes
from made_up_server import ServerState, exposition, speculation_line

EVERY_S = 0.1
HISTOGRAM = [3, 2, 1, 4]  # of ten drafts, K = 3: 3 with none accepted, ... 4 with all
SECRET = "sk-a-secret-that-must-not-be-stored"
PAGE = "<html>a page</html>\n"


class FakeServer:
    """A server on loopback. `truth` is all that it ever counted, over its restarts."""

    def __init__(self) -> None:
        self.started = time.time() - 3600
        self.state = ServerState(histogram=[0, 0, 0, 0])
        self.counted_before = [0, 0, 0, 0]
        self.version: str | None = "0.32.0"
        self.answer: str | None = None
        """Instead of the metrics."""
        self.status = 200
        self.delay_s = 0.0
        self.drips = False
        self.breaks_off = False
        self.garbles = False
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        """Method, path and headers of every request."""
        self.answered: list[str] = []
        """Every text of /metrics that was sent."""
        self.port = 0
        self._serve()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def draft(self, times: int = 1) -> None:
        """Ten drafts, so many times."""
        self.state.histogram = [old + times * new for old, new in zip(self.state.histogram, HISTOGRAM, strict=True)]
        self.state.generation_tokens += 24 * times

    @property
    def truth(self) -> list[int]:
        return [old + new for old, new in zip(self.counted_before, self.state.histogram, strict=True)]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def start(self) -> None:
        """Begin again on the same port, with counters at 0."""
        self.counted_before = self.truth
        self.state = ServerState(histogram=[0, 0, 0, 0])
        self.started = time.time()
        self._serve()

    def wait_for_scrapes(self, count: int) -> None:
        """Wait until so many more scrapes were answered."""
        wanted = len(self.answered) + count
        wait_until(lambda: len(self.answered) >= wanted)

    def text(self) -> str:
        return exposition(self.state, start_time=self.started, also=["vllm:something_else"])

    def _serve(self) -> None:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.asked.append((self.command, self.path, dict(self.headers)))
                time.sleep(fake.delay_s)
                if self.path == "/version":
                    self._send(200 if fake.version else 404, f'{{"version": "{fake.version}"}}')
                elif self.path == "/metrics":
                    text = fake.text() if fake.answer is None else fake.answer
                    self._send(fake.status, text)
                    fake.answered.append(text)
                else:
                    self._send(404, "")

            def _send(self, status: int, text: str) -> None:
                body = text.encode()
                if fake.garbles:
                    self.wfile.write(b"what is this\r\n\r\n")
                    return
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    if fake.drips:
                        for byte in body:
                            self.wfile.write(bytes([byte]))
                            time.sleep(0.05)
                    self.wfile.write(body[: -5 if fake.breaks_off else None])
                except OSError:
                    pass  # the client has gone

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until something is so; fail after ten seconds."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "waited ten seconds"
        time.sleep(0.005)


@contextmanager
def fake_server() -> Iterator[FakeServer]:
    server = FakeServer()
    try:
        yield server
    finally:
        server.stop()


def counted(record: Path) -> CounterResult:
    """What the scrapes of a record add up to."""
    read = [row for row in rows(record) if row.text is not None]
    result, _ = counter_series([row.t for row in read], [read_metrics(row.text or "") for row in read], EVERY_S)
    return result


def histogram(record: Path) -> list[int]:
    """Drafts with 0, 1, ... K accepted tokens, from the record's counters."""
    counters = counted(record).parts[0].counters
    through = [counters.drafts or 0, *(counters.accepted_per_position or ())]
    return [count - after for count, after in zip(through, [*through[1:], 0], strict=True)]


def logged(number: int, prefix: str = "") -> str:
    """A SpecDecoding line that can be told apart: `number` times ten drafts."""
    stamp = time.strftime("%m-%d %H:%M:%S", time.gmtime())
    return prefix + speculation_line(stamp, [number * count for count in HISTOGRAM])


def rows(record: Path) -> list[ScrapeRow]:
    return list(read_scrapes(record))


@dataclass
class Watch:
    """A watch in this process: what a test asks for; the rest is as it would be without options."""

    out: Path
    url: str
    key: str | None = None
    log: Path | None = None
    wait: bool = False
    every_s: float | None = EVERY_S
    for_s: float | None = None
    zone: str | None = None

    def run(self) -> str:
        """Watch in this thread; return what was shown."""
        wanted = Wanted(parse_address(self.url, self.key), self.out, self.every_s, self.for_s, self.log, self.zone, self.wait)
        text = StringIO()
        watch(wanted, shown(Console(file=text)))
        return text.getvalue()

    def run_while(self, meanwhile: Callable[[], object]) -> str:
        """Watch until something that goes on in another thread is over."""

        before = rows(self.out)

        def act() -> None:
            wait_until(lambda: rows(self.out) > before)
            try:
                meanwhile()
            finally:
                os.kill(os.getpid(), signal.SIGTERM)  # as an operator would; the watch hears it by now

        thread = threading.Thread(target=act)
        thread.start()
        try:
            return self.run()
        finally:
            thread.join()
