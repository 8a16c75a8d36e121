"""A facts.json with made-up figures, for tests of the render room. No number here was ever measured."""

import csv
import json
from pathlib import Path
from typing import Any

K = 3
# Label, share through 1..K, drafts, numbers of streams.
WORKLOADS: dict[str, tuple[str, list[float], int, list[int]]] = {
    "traffic": ("Made-up traffic", [0.71, 0.52, 0.39], 120_000, []),
    "evaluation": ("Made-up evaluation set", [0.60, 0.40, 0.28], 30_000, [8]),
    "reasoning": ("Made-up reasoning prompts", [0.62, 0.41, 0.27], 34_000, [1, 8, 32]),
    "synthetic": ("Made-up random words", [0.83, 0.69, 0.57], 41_000, [1, 16]),
    "pair-on": ("Made-up pair, reasoning on", [0.62, 0.40, 0.29], 6_500, [4]),
    "pair-off": ("Made-up pair, reasoning off", [0.82, 0.70, 0.58], 6_000, [4]),
}
COUNTED = "server counters, after minus before"
BY_REQUEST = "server counters; 95% t interval, linearised, own requests in clusters by prompt"
BY_BLOCK = "log lines; 95% interval from 1000 stationary bootstraps in blocks of 4 intervals (37 effective blocks)"
TOO_SHORT = "too short: 12.5 effective blocks (150 intervals in blocks of 12), at least 20 are needed"

Fact = dict[str, Any]


def made_up_facts(kind: str = "known_answer") -> dict[str, Any]:
    """All of facts.json, as plain data that a test may change."""
    facts: dict[str, Fact] = {}
    for name, (_, shares, drafts, streams) in WORKLOADS.items():
        facts |= _below(name, _workload_facts(shares, drafts))
        for number in streams:
            facts |= _below(f"{name}.streams_{number}", _workload_facts(shares, drafts // len(streams) + number))
    facts |= _below("production_intervals", _production_facts())
    return {
        "study": {
            "name": "made-up",
            "title": "A made-up study",
            "kind": kind,
            "seed": 7,
            "scale": 0.5,
            "z_limit": 4.0,
            "authors": ["A. Nobody"],
        },
        "setup": [_setup_row("controlled"), _setup_row("production")],
        "facts": facts,
        "table1": [
            {
                "workload": name,
                "label": label,
                "role": "production" if name == "traffic" else "controlled",
                "drafts": drafts,
                "draft_tokens": K * drafts,
                "tokens_per_step": f"{name}.tokens_per_step",
            }
            for name, (label, _, drafts, _) in WORKLOADS.items()
        ],
        "calibration": _calibration() if kind == "known_answer" else [],
        "checks": {
            "counters never fall": _check("counters", 0.0),
            "drafts of the counters and of the requests": _check("drafts", 0.0),
            "one plus the shares is the mean length": _check("tokens", 4.4e-16),
        },
    }


def fail_calibration(facts: dict[str, Any]) -> dict[str, Any]:
    """`facts` with one comparison outside its limit."""
    facts["calibration"][2] |= {"z": 9.7, "measured": 0.4288, "status": "failed", "reason": "|z| is above 4"}
    return facts


def forget(facts: dict[str, Any], key: str, reason: str) -> dict[str, Any]:
    """`facts` with one fact that is unknown."""
    facts["facts"][key] |= {"value": None, "low": None, "high": None, "unknown": reason}
    return facts


def made_up_intervals() -> list[float]:
    """Acceptance of 120 intervals, two humps, no chance involved."""
    return [0.40 + 0.10 * ((number * 37 % 61) / 61) + (0.17 if number % 3 else 0.0) for number in range(120)]


def write_inputs(folder: Path, facts: dict[str, Any]) -> dict[str, Path]:
    """facts.json and the three tables that the render room reads, as files in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ("facts.json", "table1.csv", "figure1_intervals.csv", "figure1_fifths.csv")
    paths = {name: folder / name for name in names}
    paths["facts.json"].write_text(json.dumps(facts, indent=1))
    columns = ["workload", "label", "role", "drafts"]
    write_csv(paths["table1.csv"], columns, [[row[name] for name in columns] for row in facts["table1"]])
    write_csv(paths["figure1_intervals.csv"], ["acceptance"], [[value] for value in made_up_intervals()])
    fifths = []
    for fifth in range(1, 6):
        for k in range(1, K + 1):
            chance = facts["facts"][f"production_intervals.fifth_{fifth}.chance_{k}"]
            equal = facts["facts"][f"production_intervals.fifth_{fifth}.equal_chance_{k}"]
            fifths.append([fifth, k, chance["value"], chance["low"], chance["high"], equal["value"]])
    columns = ["fifth", "position", "chance", "low", "high", "equal_chances"]
    write_csv(paths["figure1_fifths.csv"], columns, fifths)
    return paths


def write_csv(path: Path, columns: list[str], rows: list[list[Any]]) -> None:
    """A table with empty cells for what is unknown."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([["" if value is None else value for value in row] for row in rows])


def _below(subject: str, facts: dict[str, Fact]) -> dict[str, Fact]:
    return {f"{subject}.{quantity}": fact for quantity, fact in facts.items()}


def _fact(value: float, unit: str, definition: str, method: str, half: float | None = None, **rest: Any) -> Fact:
    return {
        "value": value,
        "low": None if half is None else value - half,
        "high": None if half is None else value + half,
        "method": method,
        "n": rest.get("n", 40),
        "n_unit": rest.get("n_unit", "prompts"),
        "unit": unit,
        "definition": definition,
        "unknown": rest.get("unknown"),
    }


def _workload_facts(shares: list[float], drafts: int) -> dict[str, Fact]:
    before = [1.0, *shares]
    steps = 1 + sum(shares)
    formula = sum(shares[0] ** power for power in range(K + 1))
    facts = {
        "drafts": _fact(drafts, "count", "drafts verified", COUNTED),
        "draft_tokens": _fact(K * drafts, "count", "tokens drafted", COUNTED),
        "accepted": _fact(round(sum(shares) * drafts), "count", "draft tokens accepted", COUNTED),
        "requests": _fact(40, "count", "requests that the server finished", COUNTED),
        "accepted_over_drafted": _fact(sum(shares) / K, "fraction", "accepted over drafted", BY_REQUEST, 0.009),
    }
    for k, share in enumerate(shares, start=1):
        definition = f"drafts accepted through position {k}, over all drafts"
        facts[f"share_through_{k}"] = _fact(share, "fraction", definition, BY_REQUEST, 0.011)
    for k, share in enumerate(shares, start=1):
        definition = f"drafts accepted through position {k}, over those accepted before it"
        facts[f"chance_{k}"] = _fact(share / before[k - 1], "fraction", definition, BY_REQUEST, 0.012)
    rates = {
        "tokens_per_step": (steps, "tokens", "1 + accepted draft tokens per draft"),
        "emitted_tokens_per_step": (steps - 0.02, "tokens", "generated tokens, less one a request, per draft"),
        "formula_first_position": (formula, "tokens", "1 + a + a^2 + a^3 with a the share through 1"),
        "formula_error": (formula / steps - 1, "relative", "(1 + a + a^2 + a^3) over tokens per step, less 1"),
    }
    return facts | {name: _fact(*rate, BY_REQUEST, 0.004) for name, rate in rates.items()}


def _production_facts() -> dict[str, Fact]:
    lines: dict[str, Any] = {"n": 150, "n_unit": "intervals"}
    facts = {
        "lines": _fact(150, "count", "statistics lines with drafts in the server's log", "log lines", **lines),
        "hours_with_lines": _fact(0.083, "h", "time that the lines cover", "log lines", **lines),
        "lines_vs_counters_gap": _fact(-0.0021, "relative", "lines over counters, less 1", "log lines", **lines),
        **_threshold_facts(100),
    }
    for lag, value in ((1, 0.61), (3, 0.30)):
        definition = f"correlation of acceptance with itself {lag} interval(s) later ({2 * lag} s)"
        facts[f"autocorrelation_{lag}"] = _fact(value, "correlation", definition, BY_BLOCK, 0.1, n=119, n_unit="pairs")
    for fifth in range(1, 6):
        for k in range(1, K + 1):
            chance, equal = 0.52 + 0.07 * fifth + 0.02 * k, 0.70 + 0.012 * (fifth - 3) + 0.02 * k
            text = f"chance at position {k} in fifth {fifth}"
            part = {
                f"chance_{k}": _fact(chance, "fraction", text, BY_BLOCK, 0.015, **lines),
                f"equal_chance_{k}": _fact(equal, "fraction", f"{text}, equal chances", "simulation", 0.001, **lines),
            }
            facts |= _below(f"fifth_{fifth}", part)
    for threshold in (20, 200):
        facts |= _below(f"t{threshold}", _threshold_facts(threshold))
    return facts


def _threshold_facts(min_drafts: int) -> dict[str, Fact]:
    rule = f"intervals with at least {min_drafts} drafts"
    lines: dict[str, Any] = {"n": 150, "n_unit": "intervals"}
    short = lines | {"unknown": TOO_SHORT}
    return {
        "qualifying": _fact(150 - min_drafts // 4, "count", rule, "log lines", **lines),
        "share_of_lines": _fact(0.83, "fraction", f"{rule}, over all lines", "log lines", **lines),
        "share_of_draft_tokens": _fact(0.96, "fraction", f"draft tokens in {rule}", "log lines", **lines),
        "p10": _fact(0.41, "fraction", f"10th percentile over {rule}", BY_BLOCK, 0.02, **lines),
        "p90": _fact(0.66, "fraction", f"90th percentile over {rule}", BY_BLOCK, 0.02, **lines),
        "sd_pp": _fact(9.1, "percentage points", f"standard deviation over {rule}", "log lines", **short),
        "sampling_sd_pp": _fact(1.7, "percentage points", f"the same over {rule}, equal chances", "log lines", **short),
        "variance_ratio": _fact(28.6, "ratio", f"their ratio squared over {rule}", "log lines", **short),
        "min": _fact(0.33, "fraction", f"lowest of {rule}", "log lines", **lines),
        "max": _fact(0.74, "fraction", f"highest of {rule}", "log lines", **lines),
    }


def _setup_row(server: str) -> dict[str, Any]:
    return {
        "server": server,
        "model": "made-up-model",
        "model_revision": "0123456789abcdef" * 4,
        "precision": "float32",
        "method": "mtp",
        "k": K,
        "engine_version": "vllm 0.0.0",
        "attention_backend": None,
        "log_interval_s": 2.0,
        "corrections": ["made-up-correction"],
        "starts": 1,
        "attempts": [],
        "hardware": "Made-up processor with a long name, 2 cores, 8 GiB",
        "driver": None,
        "git_commit": "fedcba9876543210fedcba9876543210fedcba98 (with uncommitted changes)",
    }


def _check(unit: str, largest: float) -> dict[str, Any]:
    return {"ok": 13, "failed": 0, "unknown": 0, "max_abs_residual": largest, "unit": unit}


def _calibration() -> list[dict[str, Any]]:
    rows = []
    for number, (name, (_, shares, drafts, _)) in enumerate(WORKLOADS.items()):
        quantities = [*((f"share through {k}", share) for k, share in enumerate(shares, start=1))]
        for index, (quantity, exact) in enumerate([*quantities, ("tokens per step", 1 + sum(shares))]):
            z = 0.6 * (number - 2) - 0.3 * index
            rows.append(
                {
                    "server": "production" if name == "traffic" else "controlled",
                    "run": name,
                    "subject": "traffic: A" if name == "traffic" else name,
                    "quantity": quantity,
                    "drafts": drafts,
                    "requests": 40,
                    "exact": exact,
                    "measured": exact + 0.004 * z,
                    "standard_error": 0.004,
                    "z": z,
                    "status": "ok",
                    "reason": "",
                }
            )
    return rows
