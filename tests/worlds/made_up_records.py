"""Whole records on disk from planted requests, so that a test knows every number that the tables must hold."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from draftmeter.record.run import Boot, BootRun, Record, RequestRow, Revision
from draftmeter.strict import canonical_json, write_json
from made_up_server import ServerState, engine_line, exposition, speculation_line

START = datetime(2031, 12, 31, 23, 59, 50, tzinfo=UTC)


def request(number: int, histogram: Sequence[int] | None, **changes: Any) -> RequestRow:
    """A request whose drafts are those of `histogram`, all of them full."""
    known = histogram is not None
    accepted = sum(n * count for n, count in enumerate(histogram)) if known else None
    drafts = sum(histogram) if known else None
    values: dict[str, Any] = {
        "request_id": f"request-{number:04d}",
        "session_id": f"session-{number // 2}",
        "turn": number % 2,
        "category": "AB"[number % 2],
        "seed": number,
        "max_tokens": 128,
        "prompt_sha256": f"{number:064x}",
        "t_due": START.timestamp() + number,
        "t_sent": START.timestamp() + number,
        "t_first": START.timestamp() + number + 0.125,
        "t_last": START.timestamp() + number + 0.5,
        "chunk_times": [0.125, 0.25, 0.5],
        "prompt_tokens": 20,
        "cached_tokens": 4,
        "reasoning_tokens": None,
        "reply_tokens": drafts + accepted if known else None,
        "finish_reason": "length",
        "acceptance_histogram": list(histogram) if known else None,
        "drafts": drafts,
        "draft_tokens": drafts * (len(histogram) - 1) if known else None,
        "accepted_tokens": accepted,
        "per_step_accepted": None,
        "per_step_drafted": None,
        "reply_token_sha256": "0" * 64,
    }
    return RequestRow(**{**values, **changes})


def random_requests(count: int, *, k: int = 3, seed: int = 7) -> list[RequestRow]:
    """`count` requests with 20 to 60 drafts each."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        histogram = [0] * (k + 1)
        for _ in range(rng.randint(20, 60)):
            histogram[min(k, int(rng.expovariate(0.7)))] += 1
        rows.append(request(number, histogram))
    return rows


def record(run: str, **changes: Any) -> Record:
    """A complete record; `changes` replace its values."""
    values: dict[str, Any] = {
        "study": "made-up",
        "study_kind": "known_answer",
        "server": "production",
        "boot": "boot-1",
        "attempt": 1,
        "replicate": 1,
        "run": run,
        "order": 1,
        "fingerprint": f"fingerprint of {run}",
        "server_arguments": [],
        "server_environment": {},
        "model": Revision(name="m", source="made_up", revision="r", tokenizer_revision="r", draft_revision="r"),
        "precision": "float32",
        "speculative": {"method": "mtp", "num_speculative_tokens": 3},
        "attention_backend": None,
        "workload": run,
        "workload_label": run.title(),
        "reasoning": None,
        "sampling": {},
        "streams": 4,
        "prompts_sha256": "0" * 64,
        "engine_version": "0.32.0",
        "corrections": [],
        "log_interval_s": 2.0,
        "time_zone": "+00:00",
        "clock_offset_s": 0.0,
        "server_start_s": 40.0,
        "host": {},
        "gpu": [],
        "driver": None,
        "packages": {},
        "git_commit": None,
        "git_dirty": None,
        "start": START,
        "end": START + timedelta(seconds=30),
        "first_sent": START + timedelta(seconds=1),
        "last_received": START + timedelta(seconds=21.5),
    }
    return Record(**{**values, **changes})


def server_states(rows: Sequence[RequestRow]) -> tuple[ServerState, ServerState]:
    """The server before and after these requests; it had served others before."""
    histograms = [row.acceptance_histogram for row in rows if row.acceptance_histogram is not None]
    before = ServerState([10] * len(histograms[0]), 100, 200, 30, {"stop": 2, "length": 3})
    after = ServerState(
        [10 + sum(counts) for counts in zip(*histograms, strict=True)],
        100 + sum(row.reply_tokens or 0 for row in rows),
        200 + sum(row.prompt_tokens or 0 for row in rows),
        30 + sum(row.cached_tokens or 0 for row in rows),
        {"stop": 2, "length": 3 + len(rows)},
    )
    return before, after


def log_lines(rows: Sequence[RequestRow]) -> list[str]:
    """Two lines an interval of 2 s, across New Year; each interval holds the drafts of two requests."""
    lines = []
    for number in range(0, len(rows), 2):
        histograms = [row.acceptance_histogram for row in rows[number : number + 2] if row.acceptance_histogram]
        stamp = f"{START + timedelta(seconds=2 + number):%m-%d %H:%M:%S}"
        lines += [
            engine_line(stamp, running=len(histograms)),
            speculation_line(stamp, [sum(counts) for counts in zip(*histograms, strict=True)]),
        ]
    return lines


def write_run(boot_folder: Path, described: Record, rows: Sequence[RequestRow]) -> BootRun:
    """Write a whole record; return its entry for boot.json."""
    path = f"attempt-{described.attempt}/{described.run}"
    folder = boot_folder / path
    before, after = server_states(rows)
    write_json(folder / "record.json", described.model_copy(update={"requests": len(rows), "errors": 0}))
    (folder / "metrics-before.prom").write_text(exposition(before))
    (folder / "metrics-after.prom").write_text(exposition(after))
    (folder / "server.log").write_text("".join(f"{line}\n" for line in log_lines(rows)))
    (folder / "requests.jsonl").write_text("".join(f"{canonical_json(row)}\n" for row in rows))
    return BootRun(run=described.run, attempt=described.attempt, fingerprint=described.fingerprint, path=path)


def write_boot(folder: Path, server: str = "production", boot: str = "boot-1", replicate: int = 1, k: int = 3) -> Path:
    """Write a boot with the runs `pair` (10 requests) and `traffic` (12); return the path of its boot.json."""
    common = {
        "server": server,
        "boot": boot,
        "replicate": replicate,
        "speculative": {"method": "mtp", "num_speculative_tokens": k},
    }
    runs = [
        write_run(folder, record("pair", order=1, reasoning="off", **common), random_requests(10, k=k, seed=1)),
        write_run(folder, record("traffic", order=2, streams=None, **common), random_requests(12, k=k, seed=2)),
    ]
    write_json(folder / "boot.json", Boot(study="made-up", server=server, boot=boot, replicate=replicate, runs=runs))
    return folder / "boot.json"
