"""Own requests of a workload in clusters: those of one prompt, or of one session, are alike, and so are those of one boot."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from draftmeter.analyse.tables import Tables, by_position, numbers, run_labels
from draftmeter.stats.ratios import Clusters, clusters_of

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
