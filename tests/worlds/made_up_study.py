"""A small measured study made up from a known-answer config: tables, known answers and records with a planted truth."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from draftmeter.analyse.tables import RUNS
from draftmeter.collect.records import describe_run
from draftmeter.record.run import Record
from draftmeter.strict import write_json
from draftmeter.study.config import parse_study
from draftmeter.study.plan import boot_names
from draftmeter.study.schema import Study

CONFIG = Path(__file__).parents[2] / "config" / "calibration.yaml"
K = 3
MOST_REQUESTS = 40
LINES = 200
SESSIONS = 15
OF_DRAFTS = ("drafts", "draft_tokens", "accepted_tokens", *(f"accepted_{position}" for position in range(1, K + 1)))


def small_study(**analysis: Any) -> Study:
    """That config with few resamples; `analysis` replaces settings of the analysis.

    A right server is at the limit of z in no run that anyone sees, rather than in one of a hundred.
    """
    config = yaml.safe_load(CONFIG.read_text())
    few = {"resamples": 120, "min_drafts": 100, "min_drafts_sensitivity": [20, 200], "z_limit": 6}
    config["analysis"] |= few | analysis
    return parse_study(config)


def shares_of(study: Study, category: str) -> np.ndarray:
    """The planted shares through 1..K of a category: the products of its group's chances in the config."""
    model = next(model for model in study.models.values() if hasattr(model, "groups"))
    return np.cumprod(model.groups[category].chances)


def mean_drafts(max_tokens: int) -> float:
    """Expected drafts of a request."""
    return max_tokens / 8


def covariance(shares: np.ndarray, drafts: float) -> np.ndarray:
    """Of (drafts, accepted through 1..K, emitted after the first) for a Poisson number of drafts, each with these shares.

    A sum over a Poisson number of equal parts x has the covariance E[number] E[x x^T].
    """
    parts = np.array([[1.0] + [float(k <= accepted) for k in range(1, K + 1)] + [accepted + 1.0] for accepted in range(K + 1)])
    chances = -np.diff([1, *shares, 0])
    return drafts * np.einsum("j,jw,jv->wv", chances, parts, parts)


@dataclass
class MadeUp:
    """The five tables of a study and its known answers."""

    study: Study
    counters: pd.DataFrame
    intervals: pd.DataFrame
    requests: pd.DataFrame
    checks: pd.DataFrame
    runs: pd.DataFrame
    known_answer: dict[str, Any]

    def write(self, folder: Path) -> tuple[dict[str, Path], Path]:
        """Write the tables and known_answer.json; return their paths."""
        tables = {}
        for name in ("counters", "intervals", "requests", "checks", "runs"):
            tables[name] = folder / f"{name}.parquet"
            getattr(self, name).to_parquet(tables[name], index=False)
        write_json(folder / "known_answer.json", self.known_answer)
        return tables, folder / "known_answer.json"


def make_up(study: Study, seed: int = 0) -> MadeUp:
    """Requests whose drafts have the planted shares; counters are their sums; lines drift slowly."""
    rng = np.random.default_rng(seed)
    counters, requests, checks, intervals = [], [], [], []
    for server, boot in _boots(study):
        for run in study.servers[server].runs:
            identity = {"server": server, "boot": boot, "attempt": 1, "run": run}
            rows = _requests(study, rng, identity)
            if study.servers[server].speculative is None:
                rows = [row | dict.fromkeys(OF_DRAFTS) for row in rows]
            requests += rows
            counters.append(_counters(study, identity, rows))
            checks += _checks(identity)
            if study.runs[run].workload == study.report.production:
                intervals += _lines(rng, identity, study.servers[server].log_interval_s, study.report.production)
    return MadeUp(
        study=study,
        counters=pd.DataFrame(counters),
        intervals=pd.DataFrame(intervals),
        requests=pd.DataFrame(requests),
        checks=pd.DataFrame(checks),
        runs=runs_of(_records(study)),
        known_answer=known_answer(study),
    )


def runs_of(records: Iterable[Record]) -> pd.DataFrame:
    """The table runs of these records."""
    return pd.DataFrame(
        [
            {
                **{name: getattr(record, name) for name in ("server", "boot", "attempt", "run", "workload")},
                "source": f"{record.server}/{record.boot}/attempt-{record.attempt}/{record.run}",
                **describe_run(record, []),
            }
            for record in records
        ]
    )


def runs_of_files(counters: pd.DataFrame) -> pd.DataFrame:
    """The table runs of stored files, of which nothing is known but what their counters say."""
    known = ["server", "boot", "attempt", "run", "workload", "source", "streams", "model", "engine_version"]
    return counters[known].reindex(columns=[*RUNS, "study"])


def known_answer(study: Study) -> dict[str, Any]:
    """known_answer.json with the planted truth."""
    settings = []
    for workload in study.workloads.values():
        sampling = workload.sampling
        for category in workload.categories:
            for limit in sampling.max_tokens:
                shares, drafts = shares_of(study, category), mean_drafts(limit)
                settings.append(
                    {
                        "category": category,
                        "temperature": sampling.temperature,
                        "top_p": sampling.top_p,
                        "top_k": sampling.top_k,
                        "max_tokens": limit,
                        "drafts": drafts,
                        "accepted": (drafts * shares).tolist(),
                        "emitted_tokens": 1 + drafts * (1 + shares.sum()),
                        "covariance": covariance(shares, drafts).tolist(),
                    }
                )
    return {"model": {"source": "made up"}, "settings": settings}


def _boots(study: Study) -> list[tuple[str, str]]:
    return [(server, boot) for server in study.servers for boot in boot_names(study, server)]


def _requests(study: Study, rng: np.random.Generator, identity: dict[str, Any]) -> list[dict[str, Any]]:
    run = study.runs[identity["run"]]
    workload = study.workloads[run.workload]
    rows = []
    for number in range(200 if run.passes is None else min(run.passes * workload.set_size, MOST_REQUESTS)):
        category = workload.categories[int(rng.integers(len(workload.categories)))]
        limit = workload.sampling.max_tokens[int(rng.integers(len(workload.sampling.max_tokens)))]
        shares = shares_of(study, category)
        drafts = int(rng.poisson(mean_drafts(limit)))
        outcomes = rng.multinomial(drafts, -np.diff([1, *shares, 0]))
        at = [int(outcomes[position:].sum()) for position in range(1, K + 1)]
        rows.append(
            {
                **identity,
                "workload": run.workload,
                "request_id": f"request-{number:04d}",
                "session_id": f"session-{number % SESSIONS}" if workload.sessions else f"session-{number}",
                # Every run of a workload sends the same prompts; those of sessions have a history of their own.
                "prompt_sha256": f"{10**6 * bool(workload.sessions) + number:064x}",
                "category": category,
                "max_tokens": limit,
                "t_sent": 1.8e9 + 4 * number - 0.5,
                "t_first": 1.8e9 + 4 * number,
                "t_last": 1.8e9 + 4 * number + 12,
                "prompt_tokens": 40 + 3 * (number % 20),
                "cached_tokens": 16 * (number % 3),
                "reply_tokens": 1 + drafts + sum(at),
                "paused_s": 0.0,
                "reply_token_sha256": f"{identity['run']} {number}",
                "score": None,
                "drafts": drafts,
                "draft_tokens": K * drafts,
                "accepted_tokens": sum(at),
                "error": None,
                **{f"accepted_{position}": count for position, count in enumerate(at, start=1)},
            }
        )
    return rows


def _counters(study: Study, identity: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    run = study.runs[identity["run"]]
    baseline = study.servers[identity["server"]].speculative is None
    sums = {name: None if baseline else sum(row[name] for row in rows) for name in OF_DRAFTS}
    # A server without speculation is known to make no draft; where it would have accepted one nobody knows.
    known = dict.fromkeys(("drafts", "draft_tokens", "accepted_tokens"), 0) if baseline else {}
    accepted = {"accepted": (sums | known)["accepted_tokens"]}
    return {
        "source": "/".join(map(str, identity.values())),
        **identity,
        "workload": run.workload,
        "streams": run.streams,
        "model": "known-answer",
        "engine_version": "0.0.1",
        "counted_by": "counters",
        "restarts": 0,
        "k": 0 if baseline else K,
        **{name: count for name, count in (sums | known | accepted).items() if name != "accepted_tokens"},
        "generation_tokens": sum(row["reply_tokens"] for row in rows),
        "prompt_tokens": sum(row["prompt_tokens"] for row in rows),
        "reasoning": study.workloads[run.workload].reasoning,
        "seconds": 400.0,
        "requests_finished": len(rows),
    }


def _checks(identity: dict[str, Any]) -> list[dict[str, Any]]:
    common = {**identity, "unit": "tokens", "tolerance": 0.0}
    return [
        {**common, "check": "accepted against requests", "expected": 5.0, "found": 5.0, "residual": 0.0, "status": "ok",
         "reason": ""},
        {**common, "check": "lines against counters", "expected": 5.0, "found": None, "residual": None,
         "status": "unknown", "reason": "the log has no line of this run"},
    ]  # fmt: skip


def _lines(rng: np.random.Generator, identity: dict[str, Any], window: float, workload: str) -> list[dict[str, Any]]:
    rows, latent = [], 0.0
    for number in range(LINES):
        latent = 0.3 * latent + rng.normal()
        chance = 0.75 + 0.05 * np.tanh(latent)
        drafts = int(rng.integers(10, 600))
        outcomes = rng.multinomial(drafts, -np.diff([1, chance, chance**2, chance**3, 0]))
        at = [int(outcomes[position:].sum()) for position in range(1, K + 1)]
        end = 1.8e9 + window * (number + 1) + (40 if number > LINES // 2 else 0)
        rows.append(
            {
                **identity,
                "workload": workload,
                "offset": 300 * number,
                "process": "APIServer pid=1",
                "engine": "0",
                "wording": "0.10.2+",
                "start": end - window,
                "end": end,
                "window_s": float(window),
                "k": K,
                "drafts": drafts,
                "drafts_exact": True,
                "drafted": K * drafts,
                "accepted": sum(at),
                "accepted_k_exact": True,
                "running": number % 4,
                **{f"accepted_{position}": count for position, count in enumerate(at, start=1)},
            }
        )
    return rows


def _records(study: Study) -> Iterator[Record]:
    """The record of each run, in the order of servers, boots and runs."""
    for server, boot in _boots(study):
        for order, run in enumerate(study.servers[server].runs, start=1):
            yield Record.model_validate(_record(study, server, boot, run, order))


def _record(study: Study, server: str, boot: str, run: str, order: int) -> dict[str, Any]:
    config, name = study.servers[server], study.runs[run].workload
    revision = dict.fromkeys(("revision", "tokenizer_revision", "draft_revision"), "0" * 40)
    return {
        "study": study.study.name,
        "study_kind": study.study.kind,
        "server": server,
        "boot": boot,
        "attempt": 1,
        "replicate": 1,
        "run": run,
        "order": order,
        "fingerprint": "f" * 64,
        "server_arguments": [],
        "server_environment": {},
        "model": {"name": config.model, "source": study.models[config.model].source, **revision},
        "precision": config.precision,
        "speculative": config.speculative and config.speculative.model_dump(mode="json"),
        "attention_backend": "TEST_ATTN",
        "workload": name,
        "workload_label": study.workloads[name].label,
        "reasoning": study.workloads[name].reasoning,
        "sampling": study.workloads[name].sampling.model_dump(mode="json"),
        "streams": study.runs[run].streams,
        "prompts_sha256": "0" * 64,
        "engine_version": "0.0.1",
        "corrections": ["made_up_correction"],
        "log_interval_s": float(config.log_interval_s),
        "time_zone": "+00:00",
        "clock_offset_s": 0.0,
        "host": {"processor": "Made-up CPU", "cores": 2, "memory_bytes": 8 * 2**30},
        "gpu": [],
        "driver": None,
        "packages": {},
        "git_commit": None,
        "git_dirty": None,
        "server_start_s": 1.0,
        "start": "2031-01-01T00:00:00+00:00",
        "end": "2031-01-01T00:10:00+00:00",
        "requests": 1,
        "errors": 0,
    }
