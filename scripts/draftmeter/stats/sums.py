"""The statistics of intervals as functions of sums over them, so that blocks can be resampled.

Percentiles, and groups by rank, come from histograms: sums of how many intervals lie in each bin.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from draftmeter.stats.acceptance import BoolArray, FloatArray, IntArray, along_the_draft, names_along_the_draft
from draftmeter.stats.blocks import Blocks
from draftmeter.stats.intervals import IntervalSeries, groups_by_acceptance, sampling_sd, variance_ratio
from draftmeter.stats.resample import FISHER, FRACTION, LOG, PLAIN, Scale, Sums

UNDEFINED = float("nan")
# Equal counts in each: half a percent of the intervals. Within a bin values count as evenly spread,
# and a percentile of a resample moves over many bins, or over a small part of one where intervals
# are many.
BINS = 200
# Edges need no more than this many values.
EDGE_SAMPLE = 200_000


@dataclass(frozen=True)
class Bins:
    """Bins of about equal counts.

    A value lies in bin j if edges[j] < value <= edges[j + 1], the lowest one in the first.
    """

    edges: FloatArray = field(repr=False)
    codes: IntArray = field(repr=False)
    """Bin of each interval, -1 for those that were not chosen; shape (n,)."""

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


def bins_of(values: FloatArray, chosen: BoolArray) -> Bins:
    """Bins for the `chosen` intervals (at least one); both arrays have shape (n,)."""
    those = values[chosen]
    sample = those[:: max(1, len(those) // EDGE_SAMPLE)]
    number = min(BINS, len(sample))
    inner = np.quantile(sample, np.arange(1, number) / number, method="inverted_cdf")
    lowest, highest = those.min(), those.max()
    edges = np.concatenate([[lowest], np.unique(inner[(inner > lowest) & (inner < highest)]), [highest]])
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[chosen] = np.maximum(np.searchsorted(edges[1:-1], those, side="left"), 0)
    return Bins(edges, codes)


def percentile_sums(blocks: Blocks, values: FloatArray, chosen: BoolArray, names: tuple[str, ...], scale: Scale) -> Sums:
    """Percentiles 10 and 90 of the `values` (n,) of the `chosen` intervals.

    And their ratio, where there is a third name.
    """
    bins = bins_of(values, chosen)
    low, high = (float(value) for value in np.percentile(values[chosen], [10, 90]))

    def function(counts: FloatArray) -> FloatArray:
        p10, p90 = bins.percentile(counts, 0.1), bins.percentile(counts, 0.9)
        return np.column_stack([p10, p90, p90 / p10][: len(names)])

    counts = blocks.histogram(bins.codes, bins.number)
    found = (low, high, high / low if low else UNDEFINED)[: len(names)]
    scales = (scale, scale, LOG)[: len(names)]
    return Sums(names, found, scales, counts, function, np.repeat(counts.sum(axis=1)[:, None], len(names), axis=1))


def group_sums(blocks: Blocks, series: IntervalSeries, chosen: BoolArray, prefix: str, groups: int = 5) -> Sums:
    """Equal groups of the `chosen` intervals by acceptance: the chances in each, and their rises.

    Positions must be known. Names are `<prefix><group>.chance_<position>`, `.rise_<position>`
    (chance there less the one before) and `.chance_slope` (least squares, per position), groups
    counted from 1, the lowest.
    """
    assert series.accepted_at is not None
    drafts, accepted_at = series.drafts, series.accepted_at
    k = accepted_at.shape[1]
    bins = bins_of(series.acceptance, chosen)
    found = groups_by_acceptance(series.acceptance[chosen], drafts[chosen], accepted_at[chosen], groups)
    chances = np.array([[np.nan if chance is None else chance for chance in group.chances] for group in found])
    counts = blocks.histogram(bins.codes, bins.number)
    sums = [counts, *(blocks.histogram(bins.codes, bins.number, column) for column in (drafts, *accepted_at.T))]
    labels = names_along_the_draft(k)

    def function(resampled: FloatArray) -> FloatArray:
        by_bin = resampled.reshape(len(resampled), k + 2, bins.number)
        intervals, others = by_bin[:, 0], by_bin[:, 1:]
        rank = np.cumsum(intervals, axis=1)
        total = rank[:, -1:]
        result = np.empty((len(resampled), groups, k))
        for group in range(groups):
            inside = np.minimum(rank, (group + 1) / groups * total) - np.maximum(rank - intervals, group / groups * total)
            share = np.maximum(inside, 0) / np.maximum(intervals, 1)
            through = np.einsum("rcb,rb->rc", others, share)
            result[:, group] = through[:, 1:] / through[:, :-1]
        return along_the_draft(result.reshape(-1, k)).reshape(len(resampled), -1)

    return Sums(
        names=tuple(f"{prefix}{group + 1}.{label}" for group in range(groups) for label in labels),
        values=tuple(along_the_draft(chances).ravel().tolist()),
        scales=((FRACTION,) * k + (PLAIN,) * (len(labels) - k)) * groups,
        by_cell=np.hstack(sums),
        function=function,
        # Which intervals are in a group depends on all that were chosen.
        presence=np.repeat(counts.sum(axis=1)[:, None], groups * len(labels), axis=1),
    )


def spread_sums(blocks: Blocks, series: IntervalSeries, chosen: BoolArray, prefix: str) -> Sums:
    """Unweighted `mean` and `sd` of acceptance over the `chosen` intervals.

    Where positions are known also `sampling_sd`, `variance_ratio`, and `true_variance`: the
    between-interval variance of the true acceptance by the method of moments, the variance less the
    mean of each interval's own sampling variance v / (K^2 (n - 1)), v the variance of its accepted
    tokens per draft.
    """
    x = series.acceptance[chosen]
    centre = float(x.mean())
    deviation = x - centre
    columns = [np.ones(len(x)), deviation, deviation**2]
    names: tuple[str, ...] = ("mean", "sd")
    scales: tuple[Scale, ...] = (PLAIN, LOG)
    k = series.k
    sd = float(x.std(ddof=1)) if len(x) > 1 else UNDEFINED
    values = [centre, sd]
    if series.accepted_at is not None and k is not None:
        drafts, through = series.drafts[chosen], series.accepted_at[chosen]
        own = _own_sampling_variance(drafts, through)
        columns += [1 / drafts, own, drafts, *through.T]
        names += ("sampling_sd", "variance_ratio", "true_variance")
        scales += (LOG, LOG, PLAIN)
        sampling = sampling_sd(through.sum(axis=0) / drafts.sum(), drafts)
        ratio = variance_ratio(sd, sampling)
        values += [sampling, UNDEFINED if ratio is None else ratio, sd**2 - float(own.mean())]
    sums = _masked_sums(blocks, columns, chosen)

    def function(resampled: FloatArray) -> FloatArray:
        n, first, second = resampled[:, 0], resampled[:, 1], resampled[:, 2]
        mean = first / n
        variance = (second - n * mean**2) / (n - 1)
        result = [centre + mean, np.sqrt(variance)]
        if k is not None:
            shares = resampled[:, 6:] / resampled[:, 5:6]
            moments = 2 * np.arange(1, k + 1) - 1
            sampling = (shares @ moments - shares.sum(axis=1) ** 2) / k**2 * resampled[:, 3] / n
            result += [np.sqrt(sampling), variance / sampling, variance - resampled[:, 4] / n]
        return np.column_stack(result)

    presence = np.repeat(sums[:, :1], len(names), axis=1)
    return Sums(tuple(prefix + name for name in names), tuple(values), scales, sums, function, presence)


def chance_variance_sums(blocks: Blocks, series: IntervalSeries, chosen: BoolArray, prefix: str) -> Sums:
    """Per position the variance of accepted_k / accepted_(k-1) over the `chosen` intervals.

    `variance_k`, and its mean binomial sampling variance `binomial_k`. Positions must be known.
    Intervals with fewer than two drafts accepted before the position do not count.
    """
    assert series.accepted_at is not None
    through = np.column_stack([series.drafts, series.accepted_at])[chosen]
    columns, values, k = [], [], through.shape[1] - 1
    for position in range(k):
        trials, successes = through[:, position], through[:, position + 1]
        counts = trials >= 2
        safe = np.where(counts, trials, 2)
        chance = np.where(counts, successes / safe, 0.0)
        binomial = np.where(counts, chance * (1 - chance) / (safe - 1), 0.0)
        n = float(counts.sum())
        centre = float(chance.sum()) / n if n else 0.0
        deviation = np.where(counts, chance - centre, 0.0)
        columns += [counts.astype(np.float64), deviation, deviation**2, binomial]
        values += [float(np.sum(deviation**2)) / (n - 1), float(binomial.sum()) / n] if n > 1 else [UNDEFINED] * 2

    def function(resampled: FloatArray) -> FloatArray:
        n, first, second, binomial = np.moveaxis(resampled.reshape(len(resampled), k, 4), 2, 0)
        both = np.stack([(second - first**2 / n) / (n - 1), binomial / n], axis=2)
        return np.asarray(both.reshape(len(resampled), -1), dtype=np.float64)

    sums = _masked_sums(blocks, columns, chosen)
    names = [f"{prefix}{kind}_{position}" for position in range(1, k + 1) for kind in ("variance", "binomial")]
    return Sums(tuple(names), tuple(values), (LOG,) * (2 * k), sums, function, np.repeat(sums[:, ::4], 2, axis=1))


def mean_sums(blocks: Blocks, values: FloatArray, groups: IntArray, names: tuple[str, ...], chosen: BoolArray) -> Sums:
    """The unweighted mean of `values` over the `chosen` intervals of each group.

    Then its difference to that of each later group, called `<later> - <earlier>`. `groups` numbers
    the groups (shape (n,), -1 for none); `names` has one name for each.
    """
    number = len(names)
    group = np.where(chosen, groups, -1)
    those = values[group >= 0]
    centre = float(those.mean()) if len(those) else 0.0
    deviation = np.where(group >= 0, values - centre, 0.0)
    counts = blocks.histogram(group, number)
    sums = np.hstack([counts, blocks.histogram(group, number, deviation)])
    earlier, later = np.triu_indices(number, 1)

    def function(resampled: FloatArray) -> FloatArray:
        means = centre + resampled[:, number:] / resampled[:, :number]
        return np.hstack([means, means[:, later] - means[:, earlier]])

    # A difference is known as well as the mean that rests on fewer intervals.
    fewer = [a if counts[:, a].sum() < counts[:, b].sum() else b for a, b in zip(earlier, later, strict=True)]
    presence = np.hstack([counts, counts[:, fewer]])
    every = (*names, *difference_names(names))
    return Sums.of(every, (PLAIN,) * len(every), sums, function, presence)


def difference_names(names: tuple[str, ...]) -> list[str]:
    """`<later> - <earlier>` for every two names, in the order of :func:`mean_sums`."""
    return [f"{later} - {earlier}" for number, earlier in enumerate(names) for later in names[number + 1 :]]


def correlation_sums(blocks: Blocks, x: FloatArray, y: FloatArray, groups: dict[str, BoolArray]) -> Sums:
    """Pearson correlation of x and y (shape (n,)) over each group of intervals, by its name."""
    sums = []
    for chosen in groups.values():
        a, b = x[chosen], y[chosen]
        a, b = a - a.mean() if len(a) else a, b - b.mean() if len(b) else b
        sums.append(_masked_sums(blocks, (np.ones(len(a)), a, b, a**2, b**2, a * b), chosen))
    every = np.hstack(sums)
    return Sums.of(tuple(groups), (FISHER,) * len(groups), every, correlations, every[:, ::6])


def correlations(sums: FloatArray) -> FloatArray:
    """Pearson correlations from sums of 1, a, b, a^2, b^2, ab; (r, 6 m) to (r, m)."""
    n, a, b, aa, bb, ab = np.moveaxis(sums.reshape(len(sums), -1, 6), 2, 0)
    value = (ab - a * b / n) / np.sqrt((aa - a**2 / n) * (bb - b**2 / n))
    # Rounding must not carry a perfect correlation beyond 1.
    return np.asarray(np.clip(value, -1.0, 1.0), dtype=np.float64)


def _own_sampling_variance(drafts: FloatArray, accepted_at: FloatArray) -> FloatArray:
    """Of each interval's acceptance, from its own counts: v / (K^2 (n - 1)); unbiased for n > 1."""
    k = accepted_at.shape[1]
    shares = accepted_at / drafts[:, None]
    v = shares @ (2 * np.arange(1, k + 1) - 1) - shares.sum(axis=1) ** 2
    return np.asarray(v / (k**2 * np.maximum(drafts - 1, 1)), dtype=np.float64)


def _masked_sums(blocks: Blocks, columns: Iterable[FloatArray], chosen: BoolArray) -> FloatArray:
    """Sums by cell of columns that hold the values of the chosen intervals, in their order."""
    if chosen.all():
        return np.hstack([blocks.sums(column) for column in columns])
    whole = np.zeros(blocks.n)
    sums = []
    for column in columns:
        whole[chosen] = column
        sums.append(blocks.sums(whole))
    return np.hstack(sums)
