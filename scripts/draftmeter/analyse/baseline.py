"""The same runs with speculation and without: which there are, and whether they may be compared."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from draftmeter.analyse.setup import hardware_of
from draftmeter.analyse.tables import Tables, numbers, run_label, run_labels
from draftmeter.record.run import Record

# What the two must have in common, by its name in words.
ALIKE: Mapping[str, Callable[[Record], str]] = {
    "model": lambda record: record.model.name,
    "model revision": lambda record: record.model.revision,
    "precision": lambda record: record.precision,
    "sampling": lambda record: str(sorted(record.sampling.items())),
    "engine": lambda record: f"{record.engine} {record.engine_version}",
    "hardware": hardware_of,
}
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


def pairs_of(tables: Tables, records: Iterable[Record]) -> list[Pair]:
    """The pairs, sorted by workload and streams: runs of one name in boots of one name, one server of them without speculation.

    Only runs that a record describes have a pair; session traffic, which has no number of streams, has none.
    """
    described = {run_label(record): record for record in records}
    rungs: dict[tuple[str, int], dict[bool, dict[tuple[str, str], list[Record]]]] = {}
    counters = tables.counters
    columns = (run_labels(counters), counters["workload"].astype(str), numbers(counters, "streams"), tables.drafting)
    for label, workload, streams, drafting in zip(*columns, strict=True):
        if label in described and np.isfinite(streams):
            record = described[label]
            runs = rungs.setdefault((workload, int(streams)), {True: {}, False: {}})[bool(drafting)]
            runs.setdefault((record.boot, record.run), []).append(record)
    labels = run_labels(tables.requests)
    return [
        _pair(workload, streams, sides[True], sides[False], tables.requests, labels)
        for (workload, streams), sides in sorted(rungs.items())
        if sides[True] and sides[False]
    ]


def _pair(
    workload: str,
    streams: int,
    speculating: Mapping[tuple[str, str], list[Record]],
    baseline: Mapping[tuple[str, str], list[Record]],
    requests: pd.DataFrame,
    labels: "pd.Series[str]",
) -> Pair:
    shared = sorted(speculating.keys() & baseline.keys())
    records = [[record for key in shared for record in side[key]] for side in (speculating, baseline)]
    with_it, without = (
        requests[labels.isin([run_label(one) for one in side])].sort_values(REQUEST, kind="stable") for side in records
    )
    if not shared:
        unlike: str | None = "no run without speculation has the name and the boot of one with it"
    elif max(map(len, records)) > len(shared):
        unlike = "several servers executed the same run"
    else:
        unlike = _unlike_records(*records) or _unlike_requests(with_it, without)
    greedy = all(record.sampling.get("temperature") == 0 for side in records for record in side)
    return Pair(workload, streams, with_it, without, bool(shared) and greedy, unlike)


def _unlike_records(speculating: list[Record], baseline: list[Record]) -> str | None:
    for name, of in ALIKE.items():
        found = ["; ".join(sorted({of(record) for record in side})) for side in (speculating, baseline)]
        if found[0] != found[1]:
            return f"not comparable: the {name} is {found[0]} with speculation and {found[1]} without"
    return None


def _unlike_requests(speculating: pd.DataFrame, baseline: pd.DataFrame) -> str | None:
    ids = [set(zip(*(side[name] for name in REQUEST), strict=True)) for side in (speculating, baseline)]
    if ids[0] != ids[1] or len(speculating) != len(baseline):
        return f"not comparable: {len(ids[0] ^ ids[1])} requests were sent on one side alone"
    others = int((speculating["prompt_sha256"].to_numpy() != baseline["prompt_sha256"].to_numpy()).sum())
    return f"not comparable: {others} of {len(baseline)} requests had another prompt without speculation" if others else None
