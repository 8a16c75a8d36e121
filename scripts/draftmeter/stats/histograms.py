"""Percentiles and groups by rank from histograms: what can be resampled without touching the lines again."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from draftmeter.stats.acceptance import FloatArray
from draftmeter.stats.blocks import Blocks
from draftmeter.stats.intervals import groups_by_acceptance
from draftmeter.stats.positions import along_the_draft, names_along_the_draft
from draftmeter.stats.resample import Part, Scale

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# Equal counts in each: half a percent of the lines. Within a bin values count as evenly spread, and a percentile of a
# resample moves over many bins, or over a small part of one where lines are many.
BINS = 200
# Edges need no more than this many values.
EDGE_SAMPLE = 200_000


@dataclass(frozen=True)
class Bins:
    """Bins of about equal counts: a value lies in bin j if edges[j] < value <= edges[j + 1], the lowest one in the first."""

    edges: FloatArray = field(repr=False)
    codes: IntArray = field(repr=False)
    """Bin of each line, -1 for lines that do not take part; shape (n,)."""

    @property
    def number(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    def percentile(self, counts: FloatArray, fraction: float) -> FloatArray:
        """The value below which `fraction` of the counts lie; counts (r, bins), result (r,)."""
        rank = np.cumsum(counts, axis=1)
        wanted = fraction * rank[:, -1]
        row = np.arange(len(counts))
        bin_ = np.minimum((rank < wanted[:, None]).sum(axis=1), self.number - 1)
        inside = counts[row, bin_]
        part = (wanted - (rank[row, bin_] - inside)) / inside
        return np.asarray(self.edges[bin_] + part * (self.edges[bin_ + 1] - self.edges[bin_]), dtype=np.float64)


def bins_of(values: FloatArray, taking_part: BoolArray) -> Bins:
    """Bins for the lines `taking_part` (at least one); both arrays have shape (n,)."""
    chosen = values[taking_part]
    sample = chosen[:: max(1, len(chosen) // EDGE_SAMPLE)]
    number = min(BINS, len(sample))
    inner = np.quantile(sample, np.arange(1, number) / number, method="inverted_cdf")
    lowest, highest = chosen.min(), chosen.max()
    edges = np.concatenate([[lowest], np.unique(inner[(inner > lowest) & (inner < highest)]), [highest]])
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[taking_part] = np.maximum(np.searchsorted(edges[1:-1], chosen, side="left"), 0)
    return Bins(edges, codes)


def percentile_part(blocks: Blocks, values: FloatArray, taking_part: BoolArray, names: tuple[str, ...], scale: Scale) -> Part:
    """Percentiles 10 and 90 of the `values` (n,) of the lines taking part, and their ratio where there is a third name."""
    bins = bins_of(values, taking_part)
    low, high = (float(value) for value in np.percentile(values[taking_part], [10, 90]))

    def function(counts: FloatArray) -> FloatArray:
        p10, p90 = bins.percentile(counts, 0.1), bins.percentile(counts, 0.9)
        return np.column_stack([p10, p90, p90 / p10][: len(names)])

    sums = blocks.histogram(bins.codes, bins.number)
    found = (low, high, high / low if low else float("nan"))[: len(names)]
    scales: tuple[Scale, ...] = (scale, scale, "log")
    return Part(names, found, scales[: len(names)], sums, function, np.repeat(sums.sum(axis=1)[:, None], len(names), axis=1))


def groups_part(
    blocks: Blocks,
    acceptance: FloatArray,
    taking_part: BoolArray,
    drafts: FloatArray,
    accepted_at: FloatArray,
    prefix: str,
    groups: int = 5,
) -> Part:
    """Equal groups of lines by acceptance: chance by position, its rises along the draft, and its slope, in each.

    Names are `<prefix><group>.chance_<position>`, `.rise_<position>` (chance there less the one before) and `.chance_slope`
    (least squares, per position), groups counted from 1, the lowest.
    """
    k = accepted_at.shape[1]
    bins = bins_of(acceptance, taking_part)
    found = groups_by_acceptance(acceptance[taking_part], drafts[taking_part], accepted_at[taking_part], groups)
    chances = np.array([[np.nan if chance is None else chance for chance in group.chances] for group in found])
    counts = blocks.histogram(bins.codes, bins.number)
    sums = [counts, *(blocks.histogram(bins.codes, bins.number, column) for column in (drafts, *accepted_at.T))]
    labels = names_along_the_draft(k)

    def function(resampled: FloatArray) -> FloatArray:
        by_bin = resampled.reshape(len(resampled), k + 2, bins.number)
        lines, others = by_bin[:, 0], by_bin[:, 1:]
        rank = np.cumsum(lines, axis=1)
        total = rank[:, -1:]
        result = np.empty((len(resampled), groups, k))
        for group in range(groups):
            inside = np.minimum(rank, (group + 1) / groups * total) - np.maximum(rank - lines, group / groups * total)
            share = np.maximum(inside, 0) / np.maximum(lines, 1)
            through = np.einsum("rcb,rb->rc", others, share)
            result[:, group] = through[:, 1:] / through[:, :-1]
        return along_the_draft(result.reshape(-1, k)).reshape(len(resampled), -1)

    scales: tuple[Scale, ...] = ("fraction",) * k + ("plain",) * (len(labels) - k)
    return Part(
        names=tuple(f"{prefix}{group + 1}.{label}" for group in range(groups) for label in labels),
        values=tuple(along_the_draft(chances).ravel().tolist()),
        scales=scales * groups,
        sums=np.hstack(sums),
        function=function,
        # Which lines are in a group depends on all that take part.
        presence=np.repeat(counts.sum(axis=1)[:, None], groups * len(labels), axis=1),
    )
