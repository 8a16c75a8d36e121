"""Confidence intervals for functions of sums over intervals, by resampling blocks of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from draftmeter.stats.acceptance import FloatArray
from draftmeter.stats.blocks import FEWEST_BLOCKS, Blocks, resampled_cells
from draftmeter.stats.estimate import Estimate, t_quantile

# The variance of the stationary bootstrap has the kernel exp(-|x|) with x = lag / block length.
# Twice that of length L less that of L / 2 has the kernel 2 exp(-|x|) - exp(-2|x|): its bias is of
# second order in memory / L, and it is worth 1 / integral(kernel^2) = 6/11 degrees of freedom a
# block. (Vats and Flegal 2022, doi:10.1093/biomet/asab049.)
FREEDOM_PER_BLOCK = 6 / 11
LEAST_FREEDOM = 3.0

Scale = Literal["plain", "fraction", "log", "fisher"]
"""On which a confidence interval is symmetric.

The value itself, the same cut at 0 and 1, its logarithm, the inverse tanh.
"""
PLAIN: Scale = "plain"
FRACTION: Scale = "fraction"
LOG: Scale = "log"
FISHER: Scale = "fisher"


@dataclass(frozen=True)
class Sums:
    """Sums over intervals, and the statistics that are functions of them; s from m sums."""

    names: tuple[str, ...]
    values: tuple[float, ...]
    """As defined, from the intervals themselves; nan where undefined."""
    scales: tuple[Scale, ...]
    by_cell: FloatArray = field(repr=False)
    """Over the intervals of each cell, shape (cells, m)."""
    function: Callable[[FloatArray], FloatArray] = field(repr=False)
    """Sums of shape (r, m) to values of shape (r, s)."""
    presence: FloatArray = field(repr=False)
    """How many intervals of a cell each statistic is made of, shape (cells, s)."""

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        scales: tuple[Scale, ...],
        by_cell: FloatArray,
        function: Callable[[FloatArray], FloatArray],
        presence: FloatArray,
    ) -> "Sums":
        """Where the values are, by definition, those of the sums over all cells."""
        with np.errstate(divide="ignore", invalid="ignore"):
            values = function(by_cell.sum(axis=0)[None])[0]
        return cls(names, tuple(values.tolist()), scales, by_cell, function, presence)


@dataclass(frozen=True)
class Joint:
    """The estimates from the same sums, and how they vary together."""

    estimates: dict[str, Estimate]
    covariance: FloatArray = field(repr=False)
    """On their scales, shape (s, s); nan where a statistic has no confidence interval."""
    freedom: FloatArray = field(repr=False)
    """Degrees of freedom of each statistic's variance, shape (s,)."""


@dataclass
class Resampling:
    """One plan of blocks for many sums: add them, then estimate all from one set of resamples."""

    blocks: Blocks
    confidence: float
    resamples: int
    seed: int
    sums: list[Sums] = field(default_factory=list)
    unknown: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    """Names of statistics that belong together, and why they could not be made."""

    def add(self, names: Sequence[str], make: Callable[[Blocks], Sums], reason: str | None = None) -> None:
        """Add the sums that `make` makes, or, with a `reason`, note why its `names` are unknown."""
        if reason is None:
            self.sums.append(make(self.blocks))
        else:
            self.unknown.append((tuple(names), reason))

    def estimated(self) -> tuple[dict[str, Estimate], dict[str, Joint]]:
        """All estimates by name, and by the name of each the joint estimates that it is one of."""
        every = [
            Joint(
                dict.fromkeys(names, Estimate(None, None, None, 0, reason)),
                np.full((len(names), len(names)), np.nan),
                np.ones(len(names)),
            )
            for names, reason in self.unknown
        ]
        every += joint_estimates(self.blocks, self.sums, self.confidence, self.resamples, self.seed)
        found: dict[str, Estimate] = {}
        joints: dict[str, Joint] = {}
        for joint in every:
            found |= joint.estimates
            joints |= dict.fromkeys(joint.estimates, joint)
        return found, joints


def joint_estimates(blocks: Blocks, sums: Sequence[Sums], confidence: float, resamples: int, seed: int) -> tuple[Joint, ...]:
    """Value +- t * standard error for every statistic of all `sums`, in their order.

    Each standard error is that of the stationary bootstrap, corrected for the length of its blocks
    by one with blocks of half the length. With several boots the variance is the larger one of that
    and of the bootstrap of whole boots (times b / (b - 1), b - 1 degrees of freedom): the estimate
    of a between-boot variance that cannot be negative. Fewer than 20 effective blocks give no
    confidence interval: "too short" is an answer, a narrow interval is not.
    """
    together = np.hstack([one.by_cell for one in sums]) if sums else np.empty((blocks.cells, 0))
    long, half, boots = (
        _draws(blocks, sums, together, resamples, np.random.default_rng([seed, number]), kind)
        for number, kind in enumerate(("long", "half", "boots"))
    )
    return tuple(_joint(blocks, one, draws, confidence, resamples) for one, *draws in zip(sums, long, half, boots, strict=True))


def lines_in_words(count: int) -> str:
    """Such as "1 line" or "12 lines" of a log."""
    return f"{count} line{'' if count == 1 else 's'}"


def _draws(
    blocks: Blocks, sums: Sequence[Sums], together: FloatArray, resamples: int, rng: np.random.Generator, kind: str
) -> list[FloatArray]:
    boots = int(blocks.boots.max()) + 1
    if kind == "boots" and boots == 1:
        return [np.empty((0, len(one.names))) for one in sums]
    if kind == "boots":
        together = np.add.reduceat(together, np.flatnonzero(np.diff(blocks.boots, prepend=-1)), axis=0)
        chunks = iter([rng.multinomial(boots, np.full(boots, 1 / boots), resamples).astype(np.float64)])
    else:
        length = blocks.length / (1 if kind == "long" else 2) / blocks.cell_size
        chunks = resampled_cells(blocks.cells, length, resamples, rng)
    ends = np.cumsum([one.by_cell.shape[1] for one in sums])
    drawn: list[list[FloatArray]] = [[] for _ in sums]
    for appearances in chunks:
        resampled = appearances @ together
        for one, end, values in zip(sums, ends, drawn, strict=True):
            with np.errstate(divide="ignore", invalid="ignore"):
                values.append(_to_scale(one.function(resampled[:, end - one.by_cell.shape[1] : end]), one.scales))
    return [np.concatenate(values) for values in drawn]


def _joint(blocks: Blocks, sums: Sums, draws: list[FloatArray], confidence: float, resamples: int) -> Joint:
    long, half, boots = draws
    covariance = _larger(2 * _covariance(long) - _covariance(half), _covariance(long))
    needed = blocks.effective(sums.presence, blocks.memory)
    freedom = np.maximum(FREEDOM_PER_BLOCK * blocks.effective(sums.presence, blocks.length), LEAST_FREEDOM)
    number = int(blocks.boots.max()) + 1
    if number > 1:
        between = number / (number - 1) * _covariance(boots)
        above = np.diag(between) > np.diag(covariance)
        freedom = np.where(above, number - 1, freedom)
        covariance = _larger(between, covariance)
    values = np.array(sums.values)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = _to_scale(values[None], sums.scales)[0]
    intervals = sums.presence.sum(axis=0)
    estimates = {}
    for index, (name, scale) in enumerate(zip(sums.names, sums.scales, strict=True)):
        value = float(values[index]) if np.isfinite(values[index]) else None
        n, variance, df = int(intervals[index]), covariance[index, index], float(freedom[index])
        unknown = _unknown(values[index], scaled[index], variance, float(needed[index]), n)
        if unknown:
            estimates[name] = Estimate(value, None, None, n, unknown)
            continue
        error = float(np.sqrt(variance))
        half_width = t_quantile(confidence, df) * error
        low, high = _from_scale(scaled[index] + np.array([-1.0, 1.0]) * half_width, scale)
        method = _in_words(blocks, number, confidence, resamples, df)
        estimates[name] = Estimate(value, float(low), float(high), n, None, error, df, method)
    known = np.array([estimates[name].unknown is None for name in sums.names])
    return Joint(estimates, np.where(np.outer(known, known), covariance, np.nan), freedom)


def _in_words(blocks: Blocks, boots: int, confidence: float, resamples: int, freedom: float) -> str:
    top = f", {boots} boots as the top level" if boots > 1 else ""
    return (
        f"{confidence:.0%} interval from {resamples} stationary bootstraps in blocks of {blocks.length:.0f} lines and of half "
        f"of them{top}, t with {freedom:.0f} degrees of freedom"
    )


def _unknown(value: float, scaled: float, variance: float, blocks: float, n: int) -> str | None:
    if not np.isfinite(value):
        return "no line to make it of" if n == 0 else f"undefined for {'this one line' if n == 1 else f'these {n} lines'}"
    if blocks < FEWEST_BLOCKS:
        return f"too short: {blocks:.1f} effective blocks ({lines_in_words(n)}), at least {FEWEST_BLOCKS} are needed"
    if not np.isfinite(scaled) or not np.isfinite(variance):
        return "no interval: undefined in some resamples"
    return None


def _covariance(draws: FloatArray) -> FloatArray:
    # A statistic that some resample leaves undefined gets a variance that is not finite, and so no
    # confidence interval.
    with np.errstate(invalid="ignore"):
        centred = draws - draws.mean(axis=0)
        return np.asarray(centred.T @ centred / (len(draws) - 1), dtype=np.float64)


def _larger(first: FloatArray, second: FloatArray) -> FloatArray:
    """The covariances `second`, with each deviation scaled up to that of `first` where larger."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.sqrt(np.maximum(np.diag(first) / np.diag(second), 1.0))
    scale = np.where(np.isfinite(scale), scale, 1.0)
    return second * np.outer(scale, scale)


def _to_scale(values: FloatArray, scales: tuple[Scale, ...]) -> FloatArray:
    scaled = np.array(values, dtype=np.float64)
    for name, change in (("log", np.log), ("fisher", np.arctanh)):
        columns = [index for index, scale in enumerate(scales) if scale == name]
        scaled[:, columns] = change(scaled[:, columns])
    return scaled


def _from_scale(values: FloatArray, scale: Scale) -> FloatArray:
    if scale == "log":
        return np.asarray(np.exp(values), dtype=np.float64)
    if scale == "fisher":
        return np.asarray(np.tanh(values), dtype=np.float64)
    return np.clip(values, 0.0, 1.0) if scale == "fraction" else values
