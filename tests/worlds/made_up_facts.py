"""A facts.json with made-up figures, for tests of the render room. No number here was ever measured."""

import csv
import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

from draftmeter.analyse.findings import find
from draftmeter.analyse.interval_facts import RUNNING_MEANS
from draftmeter.analyse.structure import structure_of
from draftmeter.facts import PRODUCTION_INTERVALS, Fact, Lag, split_key
from made_up_figures import COUNTED, LAGS_S, RISING, Findings, K, below, fact, interval_facts, workload_facts

# Label, share through 1..K, drafts, numbers of streams.
WORKLOADS: dict[str, tuple[str, tuple[float, ...], int, list[int]]] = {
    "traffic": ("Made-up traffic", (), 120_000, []),
    "evaluation": ("Made-up evaluation set", (0.60, 0.40, 0.28), 30_000, [8]),
    "reasoning": ("Made-up reasoning prompts", (0.62, 0.41, 0.27), 34_000, [1, 8, 32]),
    "synthetic": ("Made-up random words", (0.83, 0.69, 0.57), 41_000, [1, 16]),
    "pair-on": ("Made-up pair, reasoning on", (0.62, 0.40, 0.29), 6_500, [4]),
    "pair-off": ("Made-up pair, reasoning off", (0.82, 0.70, 0.58), 6_000, [4]),
}
INTERVALS = 120
# What analyse judges of a served model: claim, the facts that decide it, its outcome by the set of findings.
CLAIMS = {
    "overdispersed": ["production_intervals.variance_ratio"],
    "chance_does_not_fall": ["traffic.chance_slope", "traffic.rise_2", "traffic.rise_3"],
    "reasoning_lowers": ["pair.reasoning_difference_pp"],
}


def made_up_facts(kind: str = "known_answer", found: Findings = RISING) -> dict[str, Any]:
    """All of facts.json, as plain data that a test may change."""
    facts: dict[str, Any] = {}
    for name, (_, shares, drafts, streams) in WORKLOADS.items():
        own = workload_facts(shares or found.shares, drafts, found.slope_pp, found.formula_half)
        facts |= below(name, own)
        for number in streams:
            rung = workload_facts(shares, drafts // len(streams) + number, found.slope_pp, found.formula_half)
            facts |= below(f"{name}.streams_{number}", rung)
        if len(streams) > 1:
            text = "acceptance per doubling of the streams; the prompts of the rungs differ"
            facts[f"{name}.streams_slope"] = fact(-0.3, "percentage points", text, COUNTED, 0.9, n=3, n_unit="streams")
    value, half = found.reasoning_pp
    text = "acceptance with reasoning less without, on the same prompts"
    facts["pair.reasoning_difference_pp"] = fact(value, "percentage points", text, COUNTED, half)
    facts |= below("production_intervals", interval_facts(found))
    return as_analysed(
        {
            "study": {
                "name": "made-up",
                "title": "A made-up study",
                "kind": kind,
                "seed": 7,
                "archive": False,
                "scale": 0.5,
                "confidence": 0.95,
                "z_limit": 4.0,
                "authors": ["A. Nobody"],
            },
            "setup": [_setup_row("controlled"), _setup_row("production")],
            "differences": [
                {"one": "controlled", "other": "production", "key": "the precision", "of_one": "float32", "of_other": "half"}
            ],
            "facts": facts,
            "labels": {name: label for name, (label, *_) in WORKLOADS.items()},
            "table1": [
                {
                    "workload": name,
                    "label": label,
                    "role": "production" if name == "traffic" else "controlled",
                    "counted_by": "counters",
                    "drafts": drafts,
                    "draft_tokens": K * drafts,
                    "tokens_per_step": f"{name}.tokens_per_step",
                }
                for name, (label, _, drafts, _) in WORKLOADS.items()
            ],
            "calibration": _calibration(found) if kind == "known_answer" else [],
            "checks": {
                "counters never fall": _check("counters", 0.0),
                "drafts of the counters and of the requests": _check("drafts", 0.0),
                "one plus the shares is the mean length": _check("tokens", 4.4e-16),
            },
            "claims": _claims(facts) if kind == "served_model" else [],
            "comparison": _comparison() if kind == "served_model" else [],
        }
    )


def as_analysed(facts: dict[str, Any]) -> dict[str, Any]:
    """`facts` with the structure and the findings that the analysis writes beside such facts, as
    far as none is missing."""
    given = {key: Fact.model_validate(one) for key, one in facts["facts"].items()}
    streams: dict[str, list[int]] = {name: [] for name in facts["labels"]}
    for subject in {split_key(key)[0] for key in given}:
        workload, _, number = subject.partition(".streams_")
        if number:
            streams[workload].append(int(number))
    structure = structure_of(
        given,
        streams={name: sorted(numbers) for name, numbers in streams.items()},
        thresholds={PRODUCTION_INTERVALS: [20, 200]},
        joined_s=10.0,
        lags=[Lag(seconds=lag, quantity=f"autocorrelation_{lag}s") for lag in LAGS_S],
        running=RUNNING_MEANS,
    )
    facts["structure"] = structure.model_dump(mode="json")
    # A test may have taken a fact away, to see that the note does not go without it.
    with suppress(KeyError):
        facts["findings"] = find(given, structure, "traffic", facts["study"]["confidence"]).model_dump(mode="json")
    return facts


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
    return [0.40 + 0.10 * ((number * 37 % 61) / 61) + (0.17 if number % 3 else 0.0) for number in range(INTERVALS)]


def write_inputs(folder: Path, facts: dict[str, Any]) -> dict[str, Path]:
    """facts.json and the tables that the render room reads, as files in `folder`, by their
    names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{name}.csv" for name in ("table1", "figure1_intervals", "figure1_fifths", "figure2", "figure3")]
    paths = {name: folder / name for name in ("facts.json", *names)}
    paths["facts.json"].write_text(json.dumps(as_analysed(facts), indent=1))
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
    columns = ["hours", "acceptance", "low", "high", "intervals", "drafts", "running", "series", "boot", "qualifies"]
    write_csv(paths["figure2.csv"], columns, made_up_times())
    columns = ["lag_s", "correlation", "low", "high", "pairs", "fitted"]
    write_csv(paths["figure3.csv"], columns, made_up_correlations())
    return paths


def made_up_times() -> list[list[Any]]:
    """Rows of figure2.csv: two series with a gap between them, running requests unknown for
    some."""
    rows = []
    for number, acceptance in enumerate(made_up_intervals()):
        late = number >= INTERVALS // 2
        hours = (2 * number + (60 if late else 0)) / 3600
        running = number % 7 if number > 5 else None
        rows.append([hours, acceptance, None, None, 1, 300, running, int(late), 0, int(number % 20 > 0)])
    return rows


def made_up_correlations() -> list[list[Any]]:
    """Rows of figure3.csv, one of them without an interval."""
    rows: list[list[Any]] = []
    for lag in (*LAGS_S, 10, 20, 180):
        value = 0.6 * math.exp(-lag / 20)
        ends = [None, None] if lag == 180 else [value - 0.1, value + 0.1]
        rows.append([lag, value + 0.01, *ends, 118, value])
    return sorted(rows)


def write_csv(path: Path, columns: list[str], rows: list[list[Any]]) -> None:
    """A table with empty cells for what is unknown."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([["" if value is None else value for value in row] for row in rows])


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
        "processor": "CPU",
        "hardware": "Made-up processor with a long name, 2 cores, 8 GiB",
        "driver": None,
        "git_commit": "fedcba9876543210fedcba9876543210fedcba98 (with uncommitted changes)",
        "source": None,
    }


def _check(unit: str, largest: float) -> dict[str, Any]:
    return {"ok": 13, "failed": 0, "unknown": 0, "max_abs_residual": largest, "unit": unit}


def _calibration(found: Findings) -> list[dict[str, Any]]:
    rows = []
    for number, (name, (_, shares, drafts, _)) in enumerate(WORKLOADS.items()):
        own = shares or found.shares
        quantities = [*((f"share through {k}", share) for k, share in enumerate(own, start=1))]
        for index, (quantity, exact) in enumerate([*quantities, ("tokens per step", 1 + sum(own))]):
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


def _claims(facts: dict[str, Any]) -> list[dict[str, Any]]:
    limits = {"overdispersed": (1.0, True), "chance_does_not_fall": (0.0, True), "reasoning_lowers": (0.0, False)}
    claims = []
    for name, keys in CLAIMS.items():
        decisive = facts[keys[0]]
        limit, above = limits[name]
        low, high = decisive["low"], decisive["high"]
        outcome = "cannot tell"
        if low is not None and (low > limit or high < limit):
            outcome = "holds" if (low > limit) == above else "fails"
        claims.append(
            {
                "name": name,
                "statement": name.replace("_", " "),
                "outcome": outcome,
                "facts": keys,
                "decisive": keys[0],
                "value": decisive["value"],
                "low": low,
                "high": high,
                "unit": decisive["unit"],
                "region": f"{'above' if above else 'below'} {limit:g}",
                "reason": "the interval says so",
            }
        )
    return claims


def _comparison() -> list[dict[str, Any]]:
    return [
        {"key": "traffic.accepted_over_drafted", "published": 0.66, "printed": "0.660", "note": ""},
        {"key": "production_intervals.variance_ratio", "published": 34.0, "printed": "34", "note": "in ten seconds"},
        {"key": "production_intervals.t200.tokens_per_step_spread", "published": 0.26, "printed": "0.26", "note": ""},
    ]
