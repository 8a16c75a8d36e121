"""Own requests of a workload in clusters: those of one prompt, or of one session, are alike."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from draftmeter.analyse.tables import Tables, by_position, numbers, run_labels
from draftmeter.stats.steps import summed_by

FloatArray = NDArray[np.float64]
TextArray = NDArray[np.str_]

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
    cluster: TextArray
    """Label of each one's cluster, shape (n,)."""
    columns: Mapping[str, FloatArray]
    """By name, those of WHOLE, shape (n,)."""
    accepted_at: FloatArray
    """Shape (n, K)."""

    @property
    def clusters(self) -> int:
        """Number of clusters."""
        return len(np.unique(self.cluster))

    def summed(self, column: FloatArray) -> FloatArray:
        """Sums over clusters, in the order of their labels; shape (clusters,)."""
        return np.asarray(summed_by(self.cluster, column)[0], dtype=np.float64)


def requests_of(tables: Tables, k: int, unit: str) -> Requests:
    """Own requests by `unit`: "sessions", or "prompts", for the same prompt is sent at several numbers of streams."""
    requests = tables.requests
    columns = {name: numbers(requests, name) for name in WHOLE}
    accepted_at = by_position(requests, k)
    known = np.all(np.isfinite(np.column_stack([*(columns[name] for name in NEEDED), accepted_at])), axis=1)
    if unit == "sessions":
        labels = (run_labels(requests) + "/" + requests["session_id"].astype(str)).to_numpy(dtype=str)
    else:
        labels = requests["prompt_sha256"].to_numpy(dtype=str)
    return Requests(
        unit=unit,
        rows=len(requests),
        cluster=labels[known],
        columns={name: column[known] for name, column in columns.items()},
        accepted_at=accepted_at[known],
    )
