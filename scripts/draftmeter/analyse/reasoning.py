"""The same prompts with reasoning and without: what reasoning does to acceptance."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from draftmeter.analyse.facts import PERCENT, POINTS, fact
from draftmeter.analyse.requests import cells_of, clusters_of_cells
from draftmeter.analyse.tables import Measured, Tables, numbers
from draftmeter.facts import REASONING, Fact
from draftmeter.stats.ratios import smooth_function_of_ratios, summed_by

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class _Side:
    """One workload of a pair: own requests that say their acceptance, by prompt."""

    workload: str
    servers: frozenset[str]
    requests: pd.DataFrame

    @property
    def prompts(self) -> set[str]:
        return set(self.requests["prompt_sha256"])


def pair_facts(controlled: Sequence[Measured], tables: Tables, confidence: float) -> dict[str, Fact]:
    """The difference of the pair; nothing where no controlled workload with reasoning sent the prompts of one without."""
    sides = product(_sides(controlled, tables, "on"), _sides(controlled, tables, "off"))
    pairs = [(on, off) for on, off in sides if on.prompts & off.prompts]
    if not pairs:
        return {}
    # Of several pairs the first that shares all of its prompts on one server, and else most of them.
    best = max(pairs, key=lambda pair: _likeness(*pair))
    return {f"{REASONING}.reasoning_difference_pp": _difference(*best, confidence)}


def _likeness(on: _Side, off: _Side) -> tuple[bool, bool, int]:
    return on.prompts == off.prompts, bool(on.servers & off.servers), len(on.prompts & off.prompts)


def _sides(controlled: Sequence[Measured], tables: Tables, reasoning: str) -> list[_Side]:
    sides = []
    for measured in controlled:
        part = tables.of(measured)
        if set(part.counters["reasoning"].dropna().astype(str)) != {reasoning}:
            continue
        known = np.isfinite(numbers(part.requests, "draft_tokens")) & np.isfinite(numbers(part.requests, "accepted_tokens"))
        sides.append(_Side(measured.name, frozenset(part.counters["server"].astype(str)), part.requests[known]))
    return sides


def _difference(on: _Side, off: _Side, confidence: float) -> Fact:
    both = np.intersect1d(cells_of(on.requests), cells_of(off.requests))
    clusters = clusters_of_cells(both)
    counts = np.column_stack([*_by_cell(on, both), *_by_cell(off, both)])

    def difference(means: FloatArray) -> float:
        return float(means[0] / means[1] - means[2] / means[3])

    def gradient(m: FloatArray) -> FloatArray:
        return np.array([1 / m[1], -m[0] / m[1] ** 2, -1 / m[3], m[2] / m[3] ** 2])

    value = low = high = None
    unknown: str | None = "no draft was made with one of the two"
    if np.all(counts.sum(axis=0)[[1, 3]] > 0):
        found = smooth_function_of_ratios(counts, np.ones(len(both)), difference, gradient, confidence, clusters)
        ends = (found.value, found.low, found.high)
        value, low, high = (None if end is None else PERCENT * end for end in ends)
        unknown = found.unknown
    interval = (
        ""
        if low is None
        else f"; {confidence:.0%} t interval, linearised, in clusters by prompt"
        + (f", crossed with {clusters.boots} boots" if clusters.boots > 1 else "")
    )
    return fact(
        value,
        low=low,
        high=high,
        unit=POINTS,
        definition=(
            f"accepted over drafted with reasoning ({on.workload}) less without ({off.workload}), over the prompts sent with both"
        ),
        method=f"own requests{interval}",
        n=clusters.number,
        n_unit="prompts",
        unknown=unknown,
    )


def _by_cell(side: _Side, both: NDArray[np.str_]) -> list[FloatArray]:
    """Accepted and draft tokens of each prompt in each boot, in the order of the sorted `both`; two of shape (n,)."""
    cells = cells_of(side.requests)
    chosen = np.isin(cells, both)
    columns = (numbers(side.requests, name)[chosen] for name in ("accepted_tokens", "draft_tokens"))
    return [np.asarray(column) for column in summed_by(cells[chosen], *columns)]
