"""Studies with planted findings: production traffic of a simulated server, controlled workloads with planted chances."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from draftmeter.analyse.comparison import read_published
from draftmeter.analyse.estimates import Estimates, estimate
from draftmeter.analyse.tables import Tables, check_tables
from draftmeter.stats.blocks import acceptance_blocks
from draftmeter.stats.intervals import IntervalSeries, interval_series
from draftmeter.stats.simulate import PUBLISHED_LIKE, Server, Traffic, accepted_drafts, simulate
from draftmeter.study.archive import Archive, archive_of
from draftmeter.study.config import parse_config
from made_up_study import runs_of_files

PUBLISHED = Path(__file__).parents[2] / "config" / "published.yaml"
K = 3
POSITIONS = [f"accepted_{position}" for position in range(1, K + 1)]
STARTED = 1.8e9
PROMPTS = 60
DRAFTS = 200
MIN_DRAFTS = 500
TRIES = 50
ENOUGH_BLOCKS = 40
"""Twice as many as an interval needs: some figures are of a part of the lines."""


@dataclass(frozen=True)
class Planted:
    """What is planted: the production server and how long it ran, and the chance of every token of each controlled run."""

    server: Server = PUBLISHED_LIKE
    slots: int = 3000
    high: float = 0.88
    low: float = 0.70
    synthetic: dict[int, float] = field(default_factory=lambda: {1: 0.80, 8: 0.80, 32: 0.80, 64: 0.80})
    """By number of streams."""
    others: dict[int, int] = field(default_factory=dict)
    """Generated tokens of other clients, by number of streams of the synthetic workload."""
    long_enough: bool = False
    """Whether the traffic has blocks for its intervals, as that of :func:`long_traffic`."""


def config(
    min_drafts: int = MIN_DRAFTS, sensitivity: tuple[int, ...] = (100, 1000), resamples: int = 300, confidence: float = 0.95
) -> Archive:
    """An archive with the published study's controlled workloads, as far as they are planted."""
    plain = archive_of([Path("nightly.log")])
    labels = {"pair-on": "Reasoning on", "pair-off": "Reasoning off", "synthetic": "Random words"}
    plain["workloads"] |= {name: {"label": label, "clusters": "prompts"} for name, label in labels.items()}
    plain["analysis"] |= {"min_drafts": min_drafts, "min_drafts_sensitivity": list(sensitivity), "resamples": resamples}
    plain["analysis"]["confidence"] = confidence
    published = {"pair-on": "pair_reasoning_on", "pair-off": "pair_reasoning_off", "synthetic": "synthetic"}
    plain["report"] |= {"controlled": list(labels), "published": published}
    parsed = parse_config(plain)
    assert isinstance(parsed, Archive)
    return parsed


def analysed(planted: Planted, archive: Archive | None = None, seed: int = 1) -> Estimates:
    """The estimates of a study with these findings."""
    tables = tables_of(planted, seed)
    check_tables(tables)
    return estimate(archive or config(), tables, None, read_published(PUBLISHED))


def tables_of(planted: Planted, seed: int) -> Tables:
    """Its tables. The production server has counters and a log, and no own requests."""
    rng = np.random.default_rng(seed)
    log = _lines(planted, rng)
    counters, requests = [_counted_lines(log, planted)], []
    runs = [("pair-on", 4, planted.low), ("pair-off", 4, planted.high)]
    runs += [("synthetic", streams, chance) for streams, chance in planted.synthetic.items()]
    for workload, streams, chance in runs:
        rows = _requests(workload, streams, chance, rng)
        requests += rows
        others = planted.others.get(streams, 0) if workload == "synthetic" else 0
        counters.append(_counted_requests(workload, streams, rows, others))
    checks = ["check", "expected", "found", "residual", "unit", "tolerance", "status", "reason"]
    return Tables(
        runs=runs_of_files(pd.DataFrame(counters)),
        counters=pd.DataFrame(counters),
        intervals=pd.DataFrame(log),
        requests=pd.DataFrame(requests),
        checks=pd.DataFrame(columns=["server", "boot", "attempt", "run", *checks]),
    )


def _run(server: str, run: str) -> dict[str, Any]:
    return {"server": server, "boot": "boot-1", "attempt": 1, "run": run}


def long_traffic(server: Server, slots: int, rng: np.random.Generator) -> Traffic:
    """The first traffic with blocks enough for its intervals: luck alone makes one in some forty seem too short."""
    for _ in range(TRIES):
        traffic = simulate(server, slots, rng)
        if has_blocks(as_lines(traffic, server.interval_s)):
            return traffic
    raise AssertionError(f"none of {TRIES} traffics has blocks for its intervals: plant more slots or a shorter memory")


def has_blocks(seen: IntervalSeries) -> bool:
    """Whether its memory leaves blocks for the intervals of all figures."""
    return len(seen) > ENOUGH_BLOCKS * acceptance_blocks(seen, seen.at_least(MIN_DRAFTS)).memory


def as_lines(traffic: Traffic, interval_s: float = 10.0, **changed: object) -> IntervalSeries:
    """Its log; `changed` replaces columns."""
    columns = {
        "end": traffic.end,
        "drafts": traffic.drafts,
        "accepted": traffic.accepted,
        "drafted": traffic.drafted,
        "window_s": interval_s,
        "accepted_at": traffic.accepted_at,
        "running": traffic.running,
    }
    return interval_series(**(columns | changed))


def _lines(planted: Planted, rng: np.random.Generator) -> list[dict[str, Any]]:
    server = planted.server
    traffic = (long_traffic if planted.long_enough else simulate)(server, planted.slots, rng)
    rows = zip(traffic.end, traffic.drafts, traffic.accepted_at, traffic.running, strict=True)
    return [
        {
            **_run("production", "traffic"),
            "workload": "traffic",
            "offset": 300 * number,
            "process": "APIServer pid=1",
            "engine": "0",
            "wording": "0.10.2+",
            "start": STARTED + end - server.interval_s,
            "end": STARTED + end,
            "window_s": server.interval_s,
            "k": K,
            "drafts": int(drafts),
            "drafts_exact": True,
            "drafted": K * int(drafts),
            "accepted": int(at.sum()),
            "accepted_k_exact": True,
            "running": int(running),
            **dict(zip(POSITIONS, map(int, at), strict=True)),
        }
        for number, (end, drafts, at, running) in enumerate(rows)
    ]


def _counted_lines(lines: list[dict[str, Any]], planted: Planted) -> dict[str, Any]:
    drafts, accepted = (sum(line[name] for line in lines) for name in ("drafts", "accepted"))
    return _counted("traffic", None, "production", lines) | {
        "drafts": drafts,
        "draft_tokens": K * drafts,
        "accepted": accepted,
        "generation_tokens": drafts + accepted + 1000,
        "prompt_tokens": 10**6,
        "requests_finished": 1000,
        "seconds": planted.slots * planted.server.interval_s,
    }


def _counted_requests(workload: str, streams: int, rows: list[dict[str, Any]], others: int) -> dict[str, Any]:
    return _counted(workload, streams, "controlled", rows) | {
        "drafts": sum(row["drafts"] for row in rows),
        "draft_tokens": sum(row["draft_tokens"] for row in rows),
        "accepted": sum(row["accepted_tokens"] for row in rows),
        "generation_tokens": sum(row["reply_tokens"] for row in rows) + others,
        "prompt_tokens": sum(row["prompt_tokens"] for row in rows),
        "requests_finished": len(rows),
        "seconds": 60.0,
    }


def _counted(workload: str, streams: int | None, server: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    run = _run(server, workload if streams is None else f"{workload}-{streams}")
    return {
        "source": "/".join(map(str, run.values())),
        **run,
        "workload": workload,
        "streams": streams,
        "model": "m",
        "engine_version": "0.32.0",
        "reasoning": {"pair-on": "on", "pair-off": "off"}.get(workload),
        "counted_by": "counters",
        "restarts": 0,
        "k": K,
        **{name: sum(row[name] for row in rows) for name in POSITIONS},
    }


def _requests(workload: str, streams: int, chance: float, rng: np.random.Generator) -> list[dict[str, Any]]:
    """One request a prompt; the pair and each number of streams send the same prompts."""
    chances = np.clip(chance + 0.02 * rng.standard_normal((PROMPTS, 1)), 0.01, 0.99) * np.ones(K)
    at = accepted_drafts(np.full(PROMPTS, DRAFTS), chances, rng)
    rows = []
    for number, accepted_at in enumerate(at):
        accepted = int(accepted_at.sum())
        rows.append(
            {
                **_run("controlled", f"{workload}-{streams}"),
                "workload": workload,
                "request_id": f"request-{number}",
                "session_id": f"request-{number}",
                "prompt_sha256": f"{10**6 * (workload == 'synthetic') + number:064x}",
                "category": "text",
                "max_tokens": 1024,
                "t_sent": STARTED,
                "t_first": STARTED,
                "t_last": STARTED + 10.0,
                "prompt_tokens": 100 + number,
                "cached_tokens": number % 2 * 50,
                "reply_tokens": 1 + DRAFTS + accepted,
                "paused_s": None,
                "reply_token_sha256": None,
                "score": None,
                "drafts": DRAFTS,
                "draft_tokens": K * DRAFTS,
                "accepted_tokens": accepted,
                "error": None,
                **dict(zip(POSITIONS, map(int, accepted_at), strict=True)),
            }
        )
    return rows
