"""Facts of own requests: what is theirs of the server's tokens, and how requests differ."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from draftmeter.analyse.facts import fact
from draftmeter.analyse.tables import Tables, by_position, numbers, run_labels
from draftmeter.facts import Fact
from draftmeter.stats.ratios import Clusters, by_groups, clusters_of, mean_of_requests
from draftmeter.stats.runs import other_clients

FloatArray = NDArray[np.float64]

WHOLE = ("drafts", "draft_tokens", "accepted_tokens", "prompt_tokens", "cached_tokens", "reply_tokens")
NEEDED = WHOLE[:3]
NO_REQUESTS = "no own request is known"


@dataclass(frozen=True)
class Requests:
    """Own requests that say their acceptance, n of them; what else one does not say is nan."""

    unit: str
    """What makes requests alike, in the plural."""
    rows: int
    """All own requests."""
    clusters: Clusters
    """Of the n requests."""
    columns: Mapping[str, FloatArray]
    """By name, those of WHOLE, shape (n,)."""
    accepted_at: FloatArray
    """Shape (n, K)."""
    eligible_at: FloatArray | None
    """Drafts that hold a token at 1..K with all tokens before it accepted, shape (n, K); None where an own request lacks them."""

    @property
    def words(self) -> str:
        """How they are taken together, in words."""
        one, boots = self.unit.removesuffix("s"), self.clusters.boots
        if boots == 1:
            return f"in clusters by {one}"
        if self.clusters.crossed:
            return f"in clusters by {one}, crossed with {boots} boots, with Satterthwaite's degrees of freedom"
        return f"in {boots} clusters by boot, its {self.unit} within"


def requests_of(tables: Tables, k: int, unit: str) -> Requests:
    """Own requests by `unit`: "sessions", or "prompts", for the same prompt is sent at several numbers of streams and boots.

    A boot that was interrupted is finished by another start of the server, and stays one boot: no run is of two starts.
    """
    requests = tables.requests
    columns = {name: numbers(requests, name) for name in WHOLE}
    accepted_at = by_position(requests, k)
    # Tables made before these columns were do not have them.
    eligible = requests.reindex(columns=[f"eligible_{position}" for position in range(1, k + 1)])
    eligible_at = np.column_stack([numbers(eligible, name) for name in eligible.columns]) if k else accepted_at
    known = np.all(np.isfinite(np.column_stack([*(columns[name] for name in NEEDED), accepted_at])), axis=1)
    if unit == "sessions":
        labels = (run_labels(requests) + "/" + requests["session_id"].astype(str)).to_numpy(dtype=str)
    else:
        labels = requests["prompt_sha256"].to_numpy(dtype=str)
    boots = (requests["server"].astype(str) + "/" + requests["boot"].astype(str)).to_numpy(dtype=str)
    return Requests(
        unit=unit,
        rows=len(requests),
        clusters=clusters_of(labels[known], boots[known]),
        columns={name: column[known] for name, column in columns.items()},
        accepted_at=accepted_at[known],
        eligible_at=eligible_at if k and known.all() and np.isfinite(eligible_at).all() else None,
    )


def cells_of(requests: pd.DataFrame) -> NDArray[np.str_]:
    """A label for the prompt and the boot of each request, shape (n,): what two sides of a comparison have in common."""
    return (requests["prompt_sha256"].astype(str) + "/" + requests["boot"].astype(str)).to_numpy(dtype=str)


def clusters_of_cells(cells: Iterable[str]) -> Clusters:
    """The prompts, crossed with boots where there are several, of labels that :func:`cells_of` made."""
    parts = [cell.partition("/") for cell in cells]
    return clusters_of([prompt for prompt, _, _ in parts], [boot for _, _, boot in parts])


THIRDS = 3
OWN = "own requests"


@dataclass(frozen=True)
class Generated:
    """Generated tokens by run, and how many of them are replies to own requests; nan where unknown. Shape (n,)."""

    run: list[str]
    counted: FloatArray
    own: FloatArray

    @property
    def known(self) -> "NDArray[np.bool_]":
        """Runs of which both are known."""
        return np.asarray(np.isfinite(self.counted) & np.isfinite(self.own), dtype=np.bool_)


def generated_by_run(tables: Tables) -> Generated:
    """Of the records that make up the totals; a run without own requests, or with a reply of unknown length, has none known."""
    rows = tables.counters[tables.counters["counted_by"] == "counters"]
    replies = numbers(tables.requests, "reply_tokens")
    labels = run_labels(tables.requests)
    own = {str(run): float(replies[(labels == run).to_numpy(dtype=bool)].sum()) for run in labels.unique()}
    counted = numbers(rows, "generation_tokens")
    runs = [str(run) for run in run_labels(rows)]
    return Generated(
        run=runs,
        counted=np.where(counted >= 0, counted, np.nan),
        own=np.array([own.get(run, np.nan) for run in runs], dtype=np.float64),
    )


def request_facts(requests: Requests, tables: Tables, confidence: float) -> dict[str, Fact]:
    """By request weights, by size of prompt and by cached share of it where requests are known; and other clients' tokens."""
    facts = {"request_weighted_acceptance": _request_weighted(requests, confidence), "other_clients_share": _others(tables)}
    if requests.rows == 0:
        return facts
    prompt = requests.columns["prompt_tokens"]
    with np.errstate(divide="ignore", invalid="ignore"):
        cached = np.where(prompt > 0, requests.columns["cached_tokens"] / prompt, np.nan)
    facts |= _thirds("prompt_third", "tokens of the prompt", prompt, requests, confidence, "{:.0f}")
    return facts | _thirds("cached_third", "the part of the prompt found in the cache", cached, requests, confidence, "{:.1%}")


def _method(requests: Requests, confidence: float) -> str:
    return f"{OWN}; {confidence:.0%} t interval, linearised, {requests.words}"


def _request_weighted(requests: Requests, confidence: float) -> Fact:
    definition = "accepted over drafted of each own request that made a draft, all with equal weight"
    drafted = requests.columns["draft_tokens"]
    unknown: str | None = NO_REQUESTS if requests.rows == 0 else "no own request made a draft of known acceptance"
    if not (drafted > 0).any():
        return fact(None, unit="fraction", definition=definition, method=OWN, n=0, n_unit="requests", unknown=unknown)
    found = mean_of_requests(requests.columns["accepted_tokens"], drafted, requests.clusters, confidence)
    return fact(
        found.value,
        low=found.low,
        high=found.high,
        unit="fraction",
        definition=definition,
        method=OWN if found.low is None else _method(requests, confidence),
        n=int((drafted > 0).sum()),
        n_unit="requests",
        unknown=found.unknown,
    )


def _others(tables: Tables) -> Fact:
    """Descriptive, and so without an interval."""
    generated = generated_by_run(tables)
    unknown: str | None = None
    share = None
    if not len(generated.run):
        unknown = "there are no counters of generated tokens"
    elif not generated.known.all():
        missing = int((~generated.known).sum())
        unknown = f"generated tokens or own replies are unknown in {missing} of {len(generated.run)} records"
        unknown = NO_REQUESTS if len(tables.requests) == 0 else unknown
    else:
        share = other_clients(generated.counted, generated.own).all_runs
        unknown = None if share is not None else "the server generated no token"
    return fact(
        share,
        unit="fraction",
        definition="generated tokens that are no reply to an own request, over all generated tokens",
        method="server counters and own requests",
        n=len(generated.run),
        n_unit="records",
        unknown=unknown,
    )


def _thirds(name: str, by: str, property_: FloatArray, requests: Requests, confidence: float, form: str) -> dict[str, Fact]:
    """Acceptance in three groups of about equally many requests; equal values stay together, so that there may be fewer."""
    accepted, drafted = requests.columns["accepted_tokens"], requests.columns["draft_tokens"]
    groups = by_groups(accepted, drafted, requests.clusters, property_, confidence, groups=THIRDS)
    facts = {}
    for number, group in enumerate(groups, start=1):
        found = group.acceptance
        bounds = f"{form.format(group.lowest)} to {form.format(group.highest)}"
        facts[f"{name}_{number}"] = fact(
            found.value,
            low=found.low,
            high=found.high,
            unit="fraction",
            definition=f"accepted over drafted of own requests, group {number} of {len(groups)} by {by}: {bounds}",
            method=OWN if found.low is None else _method(requests, confidence),
            n=group.requests,
            n_unit="requests",
            unknown=found.unknown,
        )
    reason = (
        f"requests differ by this in {'1 group' if len(groups) == 1 else f'{len(groups)} groups'} alone; equal ones stay together"
        if groups
        else f"no request shows {by}"
    )
    for number in range(len(groups) + 1, THIRDS + 1):
        definition = f"accepted over drafted of own requests, group {number} of {THIRDS} by {by}"
        facts[f"{name}_{number}"] = fact(
            None, unit="fraction", definition=definition, method=OWN, n=0, n_unit="requests", unknown=reason
        )
    return facts
