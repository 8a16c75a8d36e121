"""A made-up study of a served model, with a server without speculation and one for calibration, and the facts of such a study."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import yaml

from draftmeter.study.config import parse_study
from draftmeter.study.schema import Study
from made_up_facts import as_analysed, fail_calibration, made_up_facts
from made_up_figures import RISING, fact
from made_up_study import CONFIG, MadeUp, make_up

GREEDY, KNOWN = "greedy", "known"
# Runs that the baseline executes too, and how often as fast each was made with speculation.
FASTER = {"evaluation": 1.6, "reasoning-8": 2.0, "synthetic-8": 1.5, GREEDY: 1.8}
SLOWER = dict.fromkeys(FASTER, 0.7)
MIXED = FASTER | {"reasoning-8": 0.6, "synthetic-8": 1.0}
# The same for the facts of the note: by workload and streams, the speed-up and half the width of its interval.
SPEEDS: dict[str, dict[tuple[str, int], tuple[float, float | None]]] = {
    "faster": {("evaluation", 8): (1.62, 0.1), ("reasoning", 1): (2.04, 0.2), ("reasoning", 8): (1.35, 0.1)},
    "slower": {("evaluation", 8): (0.81, 0.05), ("reasoning", 1): (0.92, 0.03), ("reasoning", 8): (0.55, 0.1)},
    "mixed": {("evaluation", 8): (1.02, 0.1), ("reasoning", 1): (1.71, 0.1), ("reasoning", 8): (0.63, 0.1)},
}


def served_study() -> Study:
    """The made-up study as one of a trained model, with the servers `baseline` and `calibration` beside its two others."""
    config = yaml.safe_load(CONFIG.read_text())
    config["analysis"] |= {"resamples": 100, "min_drafts": 100, "min_drafts_sensitivity": [20, 200]}
    config["study"]["kind"] = "served_model"
    config["models"]["trained"] = {"source": "folder", "path": "a/folder"}
    servers, workloads, runs = config["servers"], config["workloads"], config["runs"]
    workloads[GREEDY] = workloads["evaluation"] | {"label": "Nothing left to chance"}
    workloads[GREEDY]["sampling"] = workloads["evaluation"]["sampling"] | {"temperature": 0}
    workloads[KNOWN] = workloads["evaluation"] | {"label": "Known answer"}
    for name in (GREEDY, KNOWN):
        workloads[name]["set_size"] = 40
        runs[name] = {"workload": name, "streams": 8, "passes": 1}
    servers["calibration"] = servers["controlled"] | {"runs": [KNOWN]}
    for name in ("production", "controlled"):
        servers[name]["model"] = "trained"
    servers["controlled"]["runs"] = [*servers["controlled"]["runs"], GREEDY]
    servers["baseline"] = servers["controlled"] | {"speculative": None, "runs": list(FASTER)}
    return parse_study(config)


def make_up_served(study: Study, speedups: Mapping[str, float], seed: int = 0) -> MadeUp:
    """Tables of the study whose runs got their tokens so many times as fast with speculation.

    A prompt has a pace of its own on both sides; a reply without speculation comes at 20 tokens per second, more or less.
    """
    made_up = make_up(study, seed)
    rng = np.random.default_rng([seed, 1])
    requests = made_up.requests
    prompts = requests["prompt_sha256"].unique()
    pace = requests["prompt_sha256"].map(dict(zip(prompts, np.exp(0.3 * rng.normal(size=len(prompts))), strict=True)))
    speedup = requests["run"].map(speedups).where(requests["server"] != "baseline", 1.0)
    rate = 20 * speedup * pace * np.exp(0.2 * rng.normal(size=len(requests)))
    paired = requests["run"].isin(list(speedups)) & requests["server"].isin(["controlled", "baseline"])
    requests["t_last"] = requests["t_last"].where(~paired, requests["t_sent"] + requests["reply_tokens"] / rate)
    scored = requests["workload"] == "reasoning"
    requests["score"] = np.where(scored, (rng.random(len(requests)) < 0.4).astype(float), np.nan)
    differs = (requests["server"] == "baseline") & (requests["request_id"] < "request-0004")
    requests["reply_token_sha256"] = requests["reply_token_sha256"].where(~differs, "another")
    return made_up


def served_facts(speeds: str = "mixed", calibration: str = "passed") -> dict[str, Any]:
    """facts.json of such a study; `calibration` is passed, failed or none."""
    facts = made_up_facts("served_model", RISING)
    for (workload, streams), (speedup, half) in SPEEDS[speeds].items():
        facts["facts"] |= _speed(f"{workload}.streams_{streams}", speedup, half)
    facts["labels"][GREEDY] = "Made-up certainty"
    facts["facts"][f"{GREEDY}.same_replies"] = fact(0.95, "fraction", "replies that are the same", "own requests", 0.03, n=60)
    facts["facts"][f"{GREEDY}.same_replies_count"] = fact(57, "count", "replies that are the same", "own requests", n=60)
    for name, value in (("score", 0.43), ("score_without", 0.41)):
        facts["facts"][f"reasoning.{name}"] = fact(value, "fraction", f"{name}: answered right", "own requests", 0.1)
    row = facts["setup"][0]
    facts["setup"].insert(0, row | {"server": "baseline", "k": 0, "method": "none"})
    if calibration != "none":
        known = made_up_facts("known_answer")
        known = fail_calibration(known) if calibration == "failed" else known
        facts["calibration"] = [one | {"server": "calibration", "subject": KNOWN} for one in known["calibration"]]
        facts["setup"].insert(1, row | {"server": "calibration", "model": "known-answer"})
    return as_analysed(facts)


def _speed(subject: str, speedup: float, half: float | None) -> dict[str, Any]:
    short = {} if half is not None else {"unknown": "no interval: 5 prompts, at least 8 are needed"}
    one = {"unknown": "no interval: it is of one run", "n": 1, "n_unit": "runs"}
    rate = "tokens per second"
    return {
        f"{subject}.speed_with": fact(21.4 * speedup, rate, "speed with", "own requests", 1.0),
        f"{subject}.speed_without": fact(21.4, rate, "speed without", "own requests", 1.0),
        f"{subject}.first_token_s_with": fact(0.21, "s", "first token with", "own requests", 0.01),
        f"{subject}.first_token_s_without": fact(0.18, "s", "first token without", "own requests", 0.01),
        f"{subject}.paused_share_with": fact(0.0, "fraction", "stood still with", "own requests"),
        f"{subject}.paused_share_without": fact(0.012, "fraction", "stood still without", "own requests"),
        f"{subject}.tokens_per_s_with": fact(150.0 * speedup, rate, "run with", "own requests", **one),
        f"{subject}.tokens_per_s_without": fact(150.0, rate, "run without", "own requests", **one),
        f"{subject}.speedup": fact(speedup, "times", "with over without", "own requests", half, **short),
        f"{subject}.tokens_per_s_ratio": fact(speedup, "times", "run with over without", "own requests", **one),
    }
