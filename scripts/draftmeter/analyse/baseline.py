"""The same runs with speculation and without: which there are, and whether they may be compared."""

import json
from dataclasses import dataclass

import numpy as np
import pandas as pd

from draftmeter.analyse.tables import Tables, numbers, run_labels

# What the two must have in common: its name in words, and its columns of the table runs.
ALIKE = {
    "model": ["model"],
    "model revision": ["model_revision"],
    "precision": ["precision"],
    "sampling": ["sampling"],
    "engine": ["engine", "engine_version"],
    "hardware": ["hardware"],
}
RUN = ["boot", "run"]
REQUEST = ["boot", "run", "request_id"]


@dataclass(frozen=True)
class Pair:
    """One workload at one number of streams, run with speculation and without; requests of both are in one order."""

    workload: str
    streams: int
    speculating: pd.DataFrame
    """Rows of the table requests."""
    baseline: pd.DataFrame
    greedy: bool
    """Whether all were sampled at temperature 0."""
    unlike: str | None
    """Why the two may not be compared."""

    @property
    def subject(self) -> str:
        """What their facts are named after."""
        return f"{self.workload}.streams_{self.streams}"


def pairs_of(tables: Tables) -> list[Pair]:
    """The pairs, sorted by workload and streams: runs of one name in boots of one name, one server of them without speculation.

    Only runs that a record describes have a pair; session traffic, which has no number of streams, has none.
    """
    drafting = set(run_labels(tables.counters[tables.drafting]))
    runs = tables.described[np.isfinite(numbers(tables.described, "streams"))]
    labels = run_labels(tables.requests)
    found: list[Pair] = []
    for (workload, _), rung in runs.groupby(["workload", "streams"], sort=True):
        speculating, streams = run_labels(rung).isin(drafting), int(numbers(rung, "streams")[0])
        if speculating.any() and not speculating.all():
            found.append(_pair(str(workload), streams, rung[speculating], rung[~speculating], tables.requests, labels))
    return found


def _pair(
    workload: str,
    streams: int,
    speculating: pd.DataFrame,
    baseline: pd.DataFrame,
    requests: pd.DataFrame,
    labels: "pd.Series[str]",
) -> Pair:
    keys = [pd.MultiIndex.from_frame(side[RUN]) for side in (speculating, baseline)]
    shared = keys[0].intersection(keys[1])
    runs = [side[key.isin(shared)] for side, key in zip((speculating, baseline), keys, strict=True)]
    with_it, without = (requests[labels.isin(run_labels(side))].sort_values(REQUEST, kind="stable") for side in runs)
    if shared.empty:
        unlike: str | None = "no run without speculation has the name and the boot of one with it"
    elif max(map(len, runs)) > len(shared):
        unlike = "several servers executed the same run"
    else:
        unlike = _unlike_runs(*runs) or _unlike_requests(with_it, without)
    samplings = pd.concat(runs)["sampling"]
    greedy = not shared.empty and all(json.loads(sampling).get("temperature") == 0 for sampling in samplings)
    return Pair(workload, streams, with_it, without, greedy, unlike)


def _unlike_runs(speculating: pd.DataFrame, baseline: pd.DataFrame) -> str | None:
    for name, columns in ALIKE.items():
        found = ["; ".join(sorted(set(side[columns].agg(" ".join, axis=1)))) for side in (speculating, baseline)]
        if found[0] != found[1]:
            return f"not comparable: the {name} is {found[0]} with speculation and {found[1]} without"
    return None


def _unlike_requests(speculating: pd.DataFrame, baseline: pd.DataFrame) -> str | None:
    ids = [set(zip(*(side[name] for name in REQUEST), strict=True)) for side in (speculating, baseline)]
    if ids[0] != ids[1] or len(speculating) != len(baseline):
        return f"not comparable: {len(ids[0] ^ ids[1])} requests were sent on one side alone"
    others = int((speculating["prompt_sha256"].to_numpy() != baseline["prompt_sha256"].to_numpy()).sum())
    return f"not comparable: {others} of {len(baseline)} requests had another prompt without speculation" if others else None
