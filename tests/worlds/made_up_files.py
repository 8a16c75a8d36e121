"""Stored files of a made-up server, with the numbers that they must give."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from draftmeter.record.watched import ScrapeRow, Session, Watched, write_watched
from made_up_server import ServerState, engine_line, exposition, speculation_line

HISTOGRAMS = ([10, 20, 30, 40], [40, 30, 20, 10], [5, 5, 5, 5], [100, 0, 0, 900])
NOISE = '(APIServer pid=71) INFO:     127.0.0.1:4711 - "POST /v1/chat/completions HTTP/1.1" 200 OK'
START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def log_text(histograms: Sequence[Sequence[int]] = HISTOGRAMS) -> str:
    """A log of ten-second intervals with other lines between them; the first interval ends at 03-01 12:00:10."""
    lines = ["INFO 03-01 11:59:00 [api_server.py:1] vLLM API server version 0.32.0"]
    for number, histogram in enumerate(histograms, start=1):
        stamp = f"03-01 12:{number // 6:02d}:{number % 6}0"
        lines += [NOISE, engine_line(stamp, running=number), speculation_line(stamp, histogram), NOISE]
    return "".join(f"{line}\n" for line in lines)


def drafts_of(histograms: Sequence[Sequence[int]] = HISTOGRAMS) -> int:
    return sum(map(sum, histograms))


def accepted_of(histograms: Sequence[Sequence[int]] = HISTOGRAMS) -> list[int]:
    """Accepted tokens at position 1, 2, ... K."""
    k = len(histograms[0]) - 1
    return [sum(sum(histogram[position:]) for histogram in histograms) for position in range(1, k + 1)]


def write_watched_record(
    folder: Path, histograms: Sequence[Sequence[int]] = HISTOGRAMS, *, log: str | None = None, restart_at: int | None = None
) -> Path:
    """One scrape every ten seconds, from an idle server on; with `restart_at` the counters begin anew before that interval."""
    folder.mkdir(parents=True)
    total = [0] * len(histograms[0])
    start_time, generated = START.timestamp() - 100, 0
    rows = [ScrapeRow(t=START.timestamp(), text=exposition(ServerState(total), start_time=start_time))]
    for number, histogram in enumerate(histograms, start=1):
        t = START.timestamp() + 10 * number
        if number == restart_at:
            total, generated, start_time = [0] * len(total), 0, t - 8
        total = [before + count for before, count in zip(total, histogram, strict=True)]
        generated += sum((n + 1) * count for n, count in enumerate(histogram))
        rows.append(ScrapeRow(t=t, text=exposition(ServerState(total, generation_tokens=generated), start_time=start_time)))
    (folder / "scrapes.jsonl").write_text("".join(row.line() for row in rows) + '{"t": 17')
    if log is not None:
        (folder / "server.log").write_text(log)
    watched = Watched(
        url="http://localhost:8000",
        every_s=10.0,
        log=None if log is None else "server.log",
        time_zone="+00:00",
        log_interval_s=10.0,
        engine_version="0.32.0",
        models=["made-up"],
        k=len(histograms[0]) - 1,
        notes=[],
        sessions=[Session(start=START)],
        draftmeter_version="0",
    )
    write_watched(folder, watched)
    return folder
