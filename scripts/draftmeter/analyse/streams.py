"""Runs of a workload beside each other: those that other clients disturbed, and the trend over streams."""

import hashlib

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from draftmeter.analyse.facts import PERCENT, POINTS, count_fact, fact
from draftmeter.analyse.requests import generated_by_run
from draftmeter.analyse.tables import Tables, numbers, run_labels
from draftmeter.analyse.workload import workload_facts
from draftmeter.facts import Fact
from draftmeter.stats.runs import other_clients, streams_slope
from draftmeter.study.schema import Analysis

FloatArray = NDArray[np.float64]

# Of the tokens that a server generates during a run.
MOST_OTHERS = 0.01
RULE = f"at most {MOST_OTHERS:.0%} of other clients' tokens"


def facts_of_runs(workload: str, tables: Tables, cluster: str, analysis: Analysis, seed: int) -> dict[str, Fact]:
    """The workload as a whole, at each number of streams, without its disturbed runs if it has some, and over streams."""
    facts = workload_facts(workload, tables, cluster, analysis, seed)
    kept, disturbed = undisturbed(tables)
    streams = numbers(tables.counters, "streams")
    if len(tables.streams) > 1:
        facts[f"{workload}.streams_slope"] = _slope(kept, analysis.confidence)
    if disturbed:
        subject = f"{workload}.under_1_percent"
        facts[f"{subject}.runs"] = count_fact(
            len(kept.totals), f"runs with {RULE}", "server counters and own requests", len(tables.totals), "runs"
        )
        if len(kept.totals):
            facts |= workload_facts(subject, kept, cluster, analysis, seed)
    for number in tables.streams:
        part = tables.of_runs(tables.counters[streams == number])
        facts |= workload_facts(f"{workload}.streams_{number}", part, cluster, analysis, seed)
    return facts


def undisturbed(tables: Tables) -> tuple[Tables, bool]:
    """The runs with at most 1% of other clients' tokens, and whether some run is known to have more."""
    generated = generated_by_run(tables)
    known = generated.known
    found = other_clients(generated.counted[known], generated.own[known], MOST_OTHERS)
    names = np.array(generated.run, dtype=str)[known]
    kept = set(names[np.array(found.kept, dtype=bool)])
    rows = tables.counters[run_labels(tables.counters).isin(kept)]
    return tables.of_runs(rows), any(share is not None and share > MOST_OTHERS for share in found.by_run)


def _slope(kept: Tables, confidence: float) -> Fact:
    definition = f"change of accepted over drafted for each doubling of the streams, over runs with {RULE}"
    rows = kept.totals
    columns = [numbers(rows, name) for name in ("streams", "accepted", "draft_tokens")]
    whole = np.all([np.isfinite(column) & (column >= 0) for column in columns], axis=0)
    if not whole.any():
        return fact(
            None, unit=POINTS, definition=definition, method="server counters", n=0, n_unit="numbers of streams",
            unknown=f"no run is known to have {RULE}",
        )  # fmt: skip
    shared = _shared_requests(rows[whole.tolist()], kept.requests)
    if shared is None:
        streams, accepted, drafted = (column[whole] for column in columns)
        prompts = _prompt_sets(rows[whole.tolist()], kept.requests)
    else:
        streams, accepted, drafted = shared
        prompts = ["shared"] * len(streams)
        definition += ", and the requests that all numbers of streams sent"
    found = streams_slope(streams, accepted, drafted, prompts, confidence)
    if found.rungs > 1 and not found.same_prompts:
        definition += "; the sets of prompts differ between numbers of streams, and a trend may be theirs"
    slope = found.estimate
    value, low, high = (None if end is None else PERCENT * end for end in (slope.value, slope.low, slope.high))
    counted = "server counters" if shared is None else "own requests"
    method = f"{counted}, least squares on log2 of the streams"
    if low is not None:
        method += f"; {confidence:.0%} t interval from how the numbers of streams scatter around the line"
    return fact(
        value,
        low=low,
        high=high,
        unit=POINTS,
        definition=definition,
        method=method,
        n=found.rungs,
        n_unit="numbers of streams",
        unknown=slope.unknown,
    )


def _shared_requests(rows: pd.DataFrame, requests: pd.DataFrame) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Streams, accepted and draft tokens of each run, over the prompts and passes that every run of its boot sent.

    None where runs do not share them, as in records made before a request was named after its prompt and pass, or where a
    request does not say its acceptance.
    """
    own = requests.assign(_run=run_labels(requests))
    own = own[own["_run"].isin(run_labels(rows))]
    accepted, drafted = (numbers(own, name) for name in ("accepted_tokens", "draft_tokens"))
    runs = own.groupby(["server", "boot"])["_run"].transform("nunique")
    sent_by = own.groupby(["server", "boot", "request_id"])["_run"].transform("nunique")
    shared = (sent_by == runs).to_numpy(dtype=bool)
    by_run = pd.DataFrame({"run": own["_run"], "accepted": accepted, "drafted": drafted})[shared].groupby("run").sum(min_count=1)
    if shared.all() or len(by_run) < len(rows) or not np.isfinite([accepted[shared], drafted[shared]]).all():
        return None
    by_run = by_run.reindex(run_labels(rows).to_numpy(dtype=str))
    return numbers(rows, "streams"), by_run["accepted"].to_numpy(np.float64), by_run["drafted"].to_numpy(np.float64)


def _prompt_sets(rows: pd.DataFrame, requests: pd.DataFrame) -> list[str]:
    """A label for the set of prompts that each run sent."""
    labels = run_labels(requests)
    sets = {str(run): sorted(set(requests.loc[labels == run, "prompt_sha256"].astype(str))) for run in labels.unique()}
    return [hashlib.sha256(" ".join(sets.get(str(run), [])).encode()).hexdigest() for run in run_labels(rows)]
