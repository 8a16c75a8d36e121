"""A real Prometheus server scrapes made-up vLLM servers; its history gives back exactly what they counted."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from draftmeter.formats.counter_series import CounterResult, CounterSeries, Row
from draftmeter.formats.metrics import read_metrics
from draftmeter.measure.prometheus_history import HistoryError, fetch_history
from draftmeter.record.watched import read_scrapes, read_watched
from made_up_server import ServerState, exposition
from real_prometheus import prometheus, wait_for

SCRAPES, RESTART_AT, SILENT_AT = 11, 7, (4, 5)
NOISE = 'vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf",model_name="made-up"} 5.0\nsomething_else_total 7.0\n'


class MadeUpServer:
    """Counts a little more at each scrape, is silent for two, restarts once, then stands still; it remembers what it counted."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.scrapes = 0
        self.started = time.time() - 1000
        self.histogram = [size * 10**6, 0, 0, 0]
        self.generated = 17
        self.baseline: list[int] | None = None
        self.counted_before = [0] * 5

    def _counts(self) -> list[int]:
        at = [sum(self.histogram[k:]) for k in range(4)]
        return [*at, self.generated]

    def counted(self) -> list[int]:
        """Drafts, accepted at 1, 2 and 3, and generated tokens since the first scrape, what a restart lost left out."""
        baseline = self.baseline or [0] * 5
        return [before + now - base for before, now, base in zip(self.counted_before, self._counts(), baseline, strict=True)]

    def answer(self) -> str | None:
        """The /metrics text of this scrape; null for none."""
        self.scrapes += 1
        if self.scrapes in SILENT_AT:
            return None
        if self.scrapes == RESTART_AT:
            self.counted_before, self.baseline = self.counted(), [0] * 5
            self.histogram, self.generated, self.started = [0, 0, 0, 0], 0, time.time() - 0.1
        if self.baseline is None:
            self.baseline = self._counts()
        elif self.scrapes <= SCRAPES:
            step = self.scrapes * self.size
            self.histogram = [n + more for n, more in zip(self.histogram, (step, 2 * step, 3, step + 1), strict=True)]
            self.generated += 7 * step
        state = ServerState(self.histogram, generation_tokens=self.generated, running=1)
        return NOISE + exposition(state, start_time=self.started)


@contextmanager
def served(answer: Callable[[], str | None]) -> Iterator[int]:
    """The port of the loopback interface at which every path is answered with this text, or an error for none."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = answer()
            self.send_response(503 if text is None else 200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def read_record(folder: Path) -> tuple[CounterResult, list[Row]]:
    series = CounterSeries(read_watched(folder).every_s)
    rows = [line for row in read_scrapes(folder) for line in series.add(row.t, read_metrics(row.text or ""))]
    return series.result(), rows


def test_the_history_of_a_real_prometheus_server_gives_back_every_count(tmp_path: Path) -> None:
    servers = [MadeUpServer(1), MadeUpServer(1000)]
    with served(servers[0].answer) as one, served(servers[1].answer) as other, prometheus(tmp_path, [one, other]) as url:
        began = time.time()
        wait_for(lambda: all(server.scrapes >= SCRAPES + 2 for server in servers), 25, "Prometheus does not scrape")
        folders = fetch_history(url, '{job="vllm",rack="r1"}', began - 60, time.time(), None, tmp_path / "history")
        assert [folder.name for folder in folders] == [f"127_0_0_1_{port}" for port in sorted((one, other))]
        with pytest.raises(HistoryError, match="already there"):
            fetch_history(url, '{job="vllm"}', began - 60, time.time(), None, tmp_path / "history")
        with pytest.raises(HistoryError, match=r'match \{job="other"\} between .*; it has some of the jobs vllm'):
            fetch_history(url, '{job="other"}', began - 60, time.time(), None, tmp_path / "nothing")
        with pytest.raises(HistoryError, match="none of any server in this time"):
            fetch_history(url, "", began - 86400 * 9, began - 86400 * 8, None, tmp_path / "nothing")
        with pytest.raises(HistoryError, match=r"400 Bad Request: .*(parse error|error parsing)"):
            fetch_history(url, '{job=~"("}', began - 60, time.time(), None, tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    for port, server in ((one, servers[0]), (other, servers[1])):
        folder = tmp_path / "history" / f"127_0_0_1_{port}"
        watched = read_watched(folder)
        assert (watched.source, watched.every_s, watched.models, watched.k) == ("prometheus", 1.0, ["made-up"], 3)
        assert (watched.url, watched.instance) == (url, f"127.0.0.1:{port}")
        result, rows = read_record(folder)
        (part,) = result.parts
        positions = part.counters.accepted_per_position or ()
        assert [part.counters.drafts, *positions, part.counters.generation_tokens] == server.counted()
        assert (part.restarts, len(result.restarts)) == (1, 1)
        assert part.start_time == pytest.approx(server.started)
        # No interval ends with scrape 6, after the gap, or 7, after the restart; nothing is drafted after scrape 11.
        possible = [4 * (n * server.size) + 4 for n in (2, 3, 8, 9, 10, 11)]
        assert {row["drafts"] for row in rows} <= set(possible)
        assert len(rows) >= 4
        assert "rack" not in (folder / "scrapes.jsonl").read_text()
