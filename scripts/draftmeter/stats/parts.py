"""The statistics of intervals as functions of sums over lines, so that blocks of lines can be resampled."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from draftmeter.stats.acceptance import FloatArray
from draftmeter.stats.blocks import Blocks
from draftmeter.stats.intervals import sampling_sd, variance_ratio
from draftmeter.stats.lines import Lines
from draftmeter.stats.pooled import pooled_names, pooled_values
from draftmeter.stats.resample import FISHER, FRACTION, LOG, PLAIN, Part, Scale

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

UNDEFINED = float("nan")


def spread_part(blocks: Blocks, lines: Lines, taking_part: BoolArray, prefix: str) -> Part:
    """Unweighted `mean` and `sd`; where positions are known also `sampling_sd`, `variance_ratio`, and `true_variance`.

    `true_variance` is the between-interval variance of the true acceptance by the method of moments: the variance less the
    mean of each interval's own sampling variance v / (K^2 (n - 1)), v the variance of its accepted tokens per draft.
    """
    x = lines.acceptance[taking_part]
    centre = float(x.mean())
    deviation = x - centre
    columns = [np.ones(len(x)), deviation, deviation**2]
    names: tuple[str, ...] = ("mean", "sd")
    scales: tuple[Scale, ...] = (PLAIN, LOG)
    k = lines.k
    sd = float(x.std(ddof=1)) if len(x) > 1 else UNDEFINED
    values = [centre, sd]
    if lines.accepted_at is not None and k is not None:
        drafts, through = lines.drafts[taking_part], lines.accepted_at[taking_part]
        own = own_sampling_variance(drafts, through)
        columns += [1 / drafts, own, drafts, *through.T]
        names += ("sampling_sd", "variance_ratio", "true_variance")
        scales += (LOG, LOG, PLAIN)
        sampling = sampling_sd(through.sum(axis=0) / drafts.sum(), drafts)
        ratio = variance_ratio(sd, sampling)
        values += [sampling, UNDEFINED if ratio is None else ratio, sd**2 - float(own.mean())]
    sums = _masked_sums(blocks, columns, taking_part)

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

    return Part(
        tuple(prefix + name for name in names), tuple(values), scales, sums, function, np.repeat(sums[:, :1], len(names), axis=1)
    )


def own_sampling_variance(drafts: FloatArray, accepted_at: FloatArray) -> FloatArray:
    """Of each interval's acceptance, from its own counts (n drafts, (n, K)): v / (K^2 (n - 1)); unbiased for n > 1."""
    k = accepted_at.shape[1]
    shares = accepted_at / drafts[:, None]
    v = shares @ (2 * np.arange(1, k + 1) - 1) - shares.sum(axis=1) ** 2
    return np.asarray(v / (k**2 * np.maximum(drafts - 1, 1)), dtype=np.float64)


def chance_variance_part(
    blocks: Blocks, drafts: FloatArray, accepted_at: FloatArray, taking_part: BoolArray, prefix: str
) -> Part:
    """Per position the variance over intervals of accepted_k / accepted_(k-1), and its mean binomial sampling variance.

    Names `variance_k` and `binomial_k`. Intervals with fewer than two drafts accepted before the position do not count.
    """
    through = np.column_stack([drafts, accepted_at])[taking_part]
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

    sums = _masked_sums(blocks, columns, taking_part)
    names = [f"{prefix}{kind}_{position}" for position in range(1, k + 1) for kind in ("variance", "binomial")]
    return Part(tuple(names), tuple(values), (LOG,) * (2 * k), sums, function, np.repeat(sums[:, ::4], 2, axis=1))


def pooled_part(blocks: Blocks, lines: Lines, prefix: str) -> Part:
    """All drafts of all lines pooled: the figures of `draftmeter.stats.pooled`.

    Drafts are those of the lines that say them; without positions there are only the figures that need none.
    """
    known = np.isfinite(lines.drafts)
    columns = [lines.drafted, lines.accepted, np.where(known, lines.accepted, 0.0), np.where(known, lines.drafts, 0.0)]
    if lines.accepted_at is not None:
        columns += list(np.where(known[:, None], lines.accepted_at, 0.0).T)
    every = np.ones(len(lines), dtype=np.bool_)
    sums = _masked_sums(blocks, columns, every)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = pooled_values(sums.sum(axis=0)[None])[0]
    names = pooled_names(len(columns) - 4)
    scales = tuple(FRACTION if _is_fraction(name) else PLAIN for name in names)
    presence = np.repeat(blocks.sums(every), len(names), axis=1)
    return Part(tuple(prefix + name for name in names), tuple(values.tolist()), scales, sums, pooled_values, presence)


def _is_fraction(name: str) -> bool:
    return name.startswith(("accepted_", "share_", "chance_"))


def means_part(blocks: Blocks, values: FloatArray, groups: IntArray, names: tuple[str, ...], taking_part: BoolArray) -> Part:
    """The unweighted mean of `values` over the lines of each group, then its difference to that of each later group.

    `groups` numbers the groups (shape (n,), -1 for none); `names` has one name for each. Differences are called
    `<later> - <earlier>`.
    """
    number = len(names)
    group = np.where(taking_part, groups, -1)
    chosen = values[group >= 0]
    centre = float(chosen.mean()) if len(chosen) else 0.0
    deviation = np.where(group >= 0, values - centre, 0.0)
    counts = blocks.histogram(group, number)
    sums = np.hstack([counts, blocks.histogram(group, number, deviation)])
    earlier, later = np.triu_indices(number, 1)

    def function(resampled: FloatArray) -> FloatArray:
        means = centre + resampled[:, number:] / resampled[:, :number]
        return np.hstack([means, means[:, later] - means[:, earlier]])

    with np.errstate(divide="ignore", invalid="ignore"):
        found = function(sums.sum(axis=0)[None])[0]
    differences = difference_names(names)
    # A difference is known as well as the mean that rests on fewer lines.
    fewer = [a if counts[:, a].sum() < counts[:, b].sum() else b for a, b in zip(earlier, later, strict=True)]
    presence = np.hstack([counts, counts[:, fewer]])
    return Part((*names, *differences), tuple(found.tolist()), (PLAIN,) * len(found), sums, function, presence)


def difference_names(names: tuple[str, ...]) -> list[str]:
    """`<later> - <earlier>` for every pair, in the order of :func:`means_part`."""
    return [f"{later} - {earlier}" for number, earlier in enumerate(names) for later in names[number + 1 :]]


def correlation_part(blocks: Blocks, x: FloatArray, y: FloatArray, groups: dict[str, BoolArray]) -> Part:
    """Pearson correlation of x and y (shape (n,)) over each group of lines, by its name."""
    sums = []
    for chosen in groups.values():
        a, b = x[chosen], y[chosen]
        a, b = a - a.mean() if len(a) else a, b - b.mean() if len(b) else b
        sums.append(_masked_sums(blocks, (np.ones(len(a)), a, b, a**2, b**2, a * b), chosen))
    every = np.hstack(sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = correlations(every.sum(axis=0)[None])[0]
    return Part(tuple(groups), tuple(values.tolist()), (FISHER,) * len(groups), every, correlations, every[:, ::6])


def correlations(sums: FloatArray) -> FloatArray:
    """Pearson correlations from sums of 1, a, b, a^2, b^2, ab; (r, 6 m) to (r, m)."""
    n, a, b, aa, bb, ab = np.moveaxis(sums.reshape(len(sums), -1, 6), 2, 0)
    value = (ab - a * b / n) / np.sqrt((aa - a**2 / n) * (bb - b**2 / n))
    # Rounding must not carry a perfect correlation beyond 1.
    return np.asarray(np.clip(value, -1.0, 1.0), dtype=np.float64)


def _masked_sums(blocks: Blocks, columns: Iterable[FloatArray], taking_part: BoolArray) -> FloatArray:
    """Sums by cell of columns that hold the values of the lines taking part, in their order."""
    if taking_part.all():
        return np.hstack([blocks.sums(column) for column in columns])
    whole = np.zeros(blocks.n)
    sums = []
    for column in columns:
        whole[taking_part] = column
        sums.append(blocks.sums(whole))
    return np.hstack(sums)
