"""Made-up figures by subject, as facts.json holds them, with three sets of opposite findings. No number was ever measured."""

from dataclasses import dataclass
from typing import Any

K = 3
COUNTED = "server counters, after minus before"
BY_REQUEST = "server counters; 95% t interval, linearised, own requests in clusters by prompt"
BY_BLOCK = "log lines; 95% interval from 1000 stationary bootstraps in blocks of 4 intervals (37 effective blocks)"
TOO_SHORT = "too short: 12.5 effective blocks (150 intervals in blocks of 12), at least 20 are needed"
LAGS_S = (2, 6, 60, 120)

Fact = dict[str, Any]
Estimate = tuple[float, float | None]
"""A value, and half the width of its interval, None where that is unknown."""


@dataclass(frozen=True)
class Findings:
    """What the facts are made to say."""

    shares: tuple[float, float, float]
    """Of the production workload."""
    slope_pp: Estimate
    variance_ratio: Estimate
    load_slope_pp: Estimate
    load_range_pp: Estimate
    formula_half: float | None
    correlations: tuple[Estimate, Estimate, Estimate, Estimate]
    reasoning_pp: Estimate


RISING = Findings(
    (0.71, 0.52, 0.39),
    (2.1, 0.4),
    (28.6, 5.0),
    (0.02, 0.3),
    (0.9, 0.3),
    0.0009,
    ((0.61, 0.1), (0.30, 0.1), (0.12, 0.05), (0.01, 0.05)),
    (-16.0, 2.0),
)
FALLING = Findings(
    (0.80, 0.52, 0.26),
    (-15.0, 1.0),
    (0.7, 0.2),
    (-1.2, 0.3),
    (6.3, 1.5),
    0.01,
    ((0.02, 0.1), (0.01, 0.1), (0.0, 0.1), (-0.02, 0.1)),
    (4.0, 1.0),
)
UNCLEAR = Findings(
    (0.80, 0.64, 0.51),
    (-0.1, 1.0),
    (1.1, None),
    (0.4, None),
    (2.0, 2.0),
    0.03,
    ((0.2, 0.1), (0.1, 0.1), (0.1, 0.15), (0.08, 0.1)),
    (-1.0, 3.0),
)


def below(subject: str, facts: dict[str, Fact]) -> dict[str, Fact]:
    """The facts under the keys `<subject>.<quantity>`."""
    return {f"{subject}.{quantity}": fact for quantity, fact in facts.items()}


def fact(value: float, unit: str, definition: str, method: str, half: float | None = None, **rest: Any) -> Fact:
    """One fact; `half` is half the width of its interval."""
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


def workload_facts(shares: tuple[float, ...], drafts: int, slope_pp: Estimate, formula_half: float | None) -> dict[str, Fact]:
    """All facts of one workload, or of one number of its streams."""
    steps, drafted = 1 + sum(shares), K * drafts
    accepted = round(sum(shares) * drafts)
    facts = {
        "drafts": fact(drafts, "count", "drafts verified", COUNTED),
        "draft_tokens": fact(drafted, "count", "tokens drafted", COUNTED),
        "accepted": fact(accepted, "count", "draft tokens accepted", COUNTED),
        "requests": fact(40, "count", "requests that the server finished", COUNTED),
        "accepted_over_drafted": fact(sum(shares) / K, "fraction", "accepted over drafted", BY_REQUEST, 0.009),
        "accepted_over_checked": fact(0.7, "fraction", "accepted over accepted and rejected", BY_REQUEST, 0.01),
        "request_weighted_acceptance": fact(sum(shares) / K + 0.004, "fraction", "mean over requests", BY_REQUEST, 0.012),
    }
    for k, share in enumerate(shares, start=1):
        definition = f"drafts accepted through position {k}, over all drafts"
        facts[f"share_through_{k}"] = fact(share, "fraction", definition, BY_REQUEST, 0.011)
    before = [1.0, *shares]
    chances = [share / before[k] for k, share in enumerate(shares)]
    for k, chance in enumerate(chances, start=1):
        definition = f"drafts accepted through position {k}, over those accepted before it"
        facts[f"chance_{k}"] = fact(chance, "fraction", definition, BY_REQUEST, 0.012)
    for k in range(2, K + 1):
        rise = 100 * (chances[k - 1] - chances[k - 2])
        facts[f"rise_{k}"] = fact(rise, "percentage points", f"chance at {k} less chance at {k - 1}", BY_REQUEST, 0.6)
    half = slope_pp[1]
    facts["chance_slope"] = fact(slope_pp[0], "percentage points", "rise of the chance per position", BY_REQUEST, half)
    facts["equal_chances_p"] = fact(0.0004, "p value", "p value of equal chances at all positions", "Wald test")
    for shorter in range(1, K):
        text = f"tokens per step with drafts of {shorter}, if the draft policy is unchanged"
        facts[f"tokens_per_step_at_{shorter}"] = fact(1 + sum(shares[:shorter]), "tokens", text, BY_REQUEST, 0.01)
    rates = {
        "tokens_per_step": (steps, "tokens", "1 + accepted draft tokens per draft"),
        "emitted_tokens_per_step": (steps - 0.02, "tokens", "generated tokens, less one a request, per draft"),
        "emitted_minus_verified": (-0.02, "tokens", "emitted less verified tokens per step"),
    }
    facts |= {name: fact(*rate, BY_REQUEST, 0.004) for name, rate in rates.items()}
    text = "generated tokens, less one a request, per decode step with or without a draft; at most so many"
    facts["tokens_per_decode_step"] = fact(steps - 0.02, "tokens", text, BY_REQUEST, unknown="no interval: it is a bound")
    for name, rate in (("first_position", shares[0]), ("checked", 0.7), ("accepted_over_drafted", sum(shares) / K)):
        value = sum(rate**power for power in range(K + 1))
        facts[f"formula_{name}"] = fact(value, "tokens", f"1 + a + a^2 + a^3 with a the {name} rate", BY_REQUEST, 0.01)
        text = f"(1 + a + a^2 + a^3) over tokens per step, less 1; a the {name} rate"
        facts[f"formula_{name}_error"] = fact(value / steps - 1, "relative", text, BY_REQUEST, formula_half)
    terms = shares[0] ** 2 + shares[0] ** 3
    text = "(a^2 + a^3) over the shares through 2 and 3, less 1"
    facts["formula_last_terms_error"] = fact(terms / sum(shares[1:]) - 1, "relative", text, BY_REQUEST, formula_half)
    facts["mean_prompt_tokens"] = fact(812.4, "tokens", "prompt tokens per request", COUNTED)
    facts["mean_reply_tokens"] = fact(143.2, "tokens", "reply tokens per request", COUNTED)
    facts["other_clients_share"] = fact(0.0, "fraction", "generated tokens that were not of own requests", COUNTED)
    for third in (1, 2, 3):
        for kind in ("prompt", "cached"):
            text = f"acceptance of requests with a {kind} between {100 * third} and {100 * third + 100} tokens"
            facts[f"{kind}_third_{third}"] = fact(0.5 + 0.01 * third, "fraction", text, BY_REQUEST, 0.02)
    return facts


def interval_facts(found: Findings) -> dict[str, Fact]:
    """All facts of the intervals of the production workload."""
    lines: dict[str, Any] = {"n": 150, "n_unit": "intervals"}
    short = lines | {"unknown": TOO_SHORT}
    facts = {
        "lines": fact(150, "count", "statistics lines with drafts in the server's log", "log lines", **lines),
        "hours_with_lines": fact(0.083, "h", "time that the lines cover", "log lines", **lines),
        "hours_of_counters": fact(0.09, "h", "time between first and last counters", COUNTED),
        "lines_vs_counters_gap": fact(-0.0021, "relative", "lines over counters, less 1", "log lines", **lines),
        "most_running": fact(7, "count", "most requests running at the end of an interval", "log lines", **lines),
        **threshold_facts(100, found),
    }
    for lag, estimate in zip(LAGS_S, found.correlations, strict=True):
        text = f"correlation of acceptance with itself {lag} s later"
        unit = {"n": 119, "n_unit": "pairs of intervals"}
        facts[f"autocorrelation_{lag}s"] = fact(estimate[0], "correlation", text, BY_BLOCK, estimate[1], **unit)
    for group, value in {"0": 0.55, "1": 0.54, "2": 0.56, "3": 0.545, "4": 0.54, "5": 0.53, "6plus": 0.53}.items():
        text = f"mean acceptance over intervals with {group} running"
        facts[f"running_{group}"] = fact(value, "fraction", text, BY_BLOCK, 0.02, n=20, n_unit="intervals")
    points = "percentage points"
    estimates: dict[str, tuple[Estimate, str]] = {
        "load_range_pp": (found.load_range_pp, points),
        "idle_minus_loaded_pp": ((1.1, 0.8), points),
        "load_slope_pp": (found.load_slope_pp, points),
        "explained_by_load": ((0.01, 0.01), "fraction"),
        "explained_by_workload": ((0.62, 0.1), "fraction"),
        "between_sd_pp": ((8.9, 0.8), points),
        "decay_components": ((2, None), "count"),
        "decay_fast_s": ((9.0, 3.0), "s"),
        "decay_slow_s": ((71.0, 30.0), "s"),
        "decay_white_share": ((0.2, 0.1), "fraction"),
        "decay_aic_difference": ((11.3, None), "AIC"),
        "planning_drafts": ((91_000, None), "count"),
        "planning_minutes": ((37.5, None), "min"),
        "effective_drafts": ((14_000, None), "count"),
        "step_rate_p10": ((101.0, 9.0), "drafts per second"),
        "step_rate_p90": ((161.0, 9.0), "drafts per second"),
        "step_rate_p90_over_p10": ((1.6, 0.2), "ratio"),
    }
    for name, ((value, half), unit) in estimates.items():
        exact = name.startswith(("planning", "effective", "decay_components", "decay_aic"))
        rest = lines if half is not None or exact else short
        facts[name] = fact(value, unit, name.replace("_", " "), BY_BLOCK, half, **rest)
    for k in range(1, K + 1):
        text = f"sd of the true chance at {k} between intervals"
        facts[f"dispersion_{k}"] = fact(5.0 + k, points, text, BY_BLOCK, 0.7, **lines)
    for fifth in range(1, 6):
        facts |= below(f"fifth_{fifth}", _fifth(fifth, found))
    for threshold in (20, 200):
        facts |= below(f"t{threshold}", threshold_facts(threshold, found))
    return facts


def threshold_facts(min_drafts: int, found: Findings) -> dict[str, Fact]:
    """Spread over the intervals with at least `min_drafts` drafts."""
    rule = f"intervals with at least {min_drafts} drafts"
    lines: dict[str, Any] = {"n": 150, "n_unit": "intervals"}
    short = lines | {"unknown": TOO_SHORT}
    ratio, half = found.variance_ratio
    points = "percentage points"
    facts = {
        "min_drafts": fact(min_drafts, "count", "fewest drafts of an interval that qualifies", "setting", **lines),
        "qualifying": fact(150 - min_drafts // 4, "count", rule, "log lines", **lines),
        "share_of_lines": fact(0.83, "fraction", f"{rule}, over all lines", "log lines", **lines),
        "share_of_draft_tokens": fact(0.96, "fraction", f"draft tokens in {rule}", "log lines", **lines),
        "p10": fact(0.41, "fraction", f"10th percentile over {rule}", BY_BLOCK, 0.02, **lines),
        "p90": fact(0.66, "fraction", f"90th percentile over {rule}", BY_BLOCK, 0.02, **lines),
        "sd_pp": fact(9.1, points, f"standard deviation over {rule}", "log lines", **short),
        "sampling_sd_pp": fact(1.7, points, f"the same over {rule}, equal chances", "log lines", **short),
        "variance_ratio": fact(ratio, "ratio", f"their ratio squared over {rule}", BY_BLOCK, half, **(lines if half else short)),
        "min": fact(0.33, "fraction", f"lowest of {rule}", "log lines", **lines),
        "max": fact(0.74, "fraction", f"highest of {rule}", "log lines", **lines),
        "tokens_per_step_p10": fact(2.2, "tokens", f"10th percentile of tokens per step over {rule}", BY_BLOCK, 0.05, **lines),
        "tokens_per_step_p90": fact(2.9, "tokens", f"90th percentile of tokens per step over {rule}", BY_BLOCK, 0.05, **lines),
        "tokens_per_step_spread": fact(0.32, "relative", f"their ratio less 1, over {rule}", BY_BLOCK, 0.03, **lines),
    }
    for running in (1, 2, 3):
        text = f"correlation of tokens per step with step rate at {running} running, over {rule}"
        facts[f"step_rate_correlation_{running}"] = fact(-0.05, "correlation", text, BY_BLOCK, 0.12, **lines)
    return facts


def _fifth(fifth: int, found: Findings) -> dict[str, Fact]:
    lines: dict[str, Any] = {"n": 150, "n_unit": "intervals"}
    facts = {}
    for k in range(1, K + 1):
        chance, equal = 0.52 + 0.07 * fifth + 0.02 * k, 0.70 + 0.012 * (fifth - 3) + 0.02 * k
        text = f"chance at position {k} in fifth {fifth}"
        facts[f"chance_{k}"] = fact(chance, "fraction", text, BY_BLOCK, 0.015, **lines)
        facts[f"equal_chance_{k}"] = fact(equal, "fraction", f"{text}, equal chances", "simulation", 0.001, **lines)
    text = f"rise of the chance per position in fifth {fifth}"
    facts["chance_slope"] = fact(found.slope_pp[0], "percentage points", text, BY_BLOCK, found.slope_pp[1], **lines)
    facts["equal_chances_p"] = fact(0.21, "p value", "p value of equal chances at all positions", "Wald test", **lines)
    return facts
