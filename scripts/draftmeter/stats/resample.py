"""Confidence intervals for functions of sums over lines, by resampling blocks of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped]

from draftmeter.stats.blocks import FEWEST_BLOCKS, Blocks, resampled_cells

FloatArray = NDArray[np.float64]

# The variance of the stationary bootstrap has the kernel exp(-|x|) with x = lag / block length. Twice that of length L less
# that of L / 2 has the kernel 2 exp(-|x|) - exp(-2|x|): its bias is of second order in memory / L, and it is worth
# 1 / integral(kernel^2) = 6/11 degrees of freedom a block. (Vats and Flegal 2022, doi:10.1093/biomet/asab049.)
FREEDOM_PER_BLOCK = 6 / 11
LEAST_FREEDOM = 3.0

Scale = Literal["plain", "fraction", "log", "fisher"]
"""On which an interval is symmetric: the value itself, the same cut at 0 and 1, its logarithm, the inverse tanh."""
PLAIN: Scale = "plain"
FRACTION: Scale = "fraction"
LOG: Scale = "log"
FISHER: Scale = "fisher"


@dataclass(frozen=True)
class Part:
    """Statistics that are functions of the same sums; s of them from m sums."""

    names: tuple[str, ...]
    values: tuple[float, ...]
    """As defined, from the lines themselves; nan where undefined."""
    scales: tuple[Scale, ...]
    sums: FloatArray = field(repr=False)
    """Over the lines of each cell, shape (cells, m)."""
    function: Callable[[FloatArray], FloatArray] = field(repr=False)
    """Sums of shape (r, m) to values of shape (r, s)."""
    presence: FloatArray = field(repr=False)
    """How many lines of a cell each statistic is made of, shape (cells, s)."""


@dataclass(frozen=True)
class BlockEstimate:
    """A value with its interval; where either is None, `unknown` says why."""

    value: float | None
    low: float | None
    high: float | None
    standard_error: float | None
    """On `scale`."""
    scale: Scale
    n: int
    """Lines that the statistic is made of."""
    effective_blocks: float
    """Of the least length that the data ask for."""
    freedom: float | None
    block_length: float
    """Mean length in lines of the blocks that were resampled."""
    resamples: int
    boots: int
    confidence: float
    unknown: str | None

    @property
    def method(self) -> str:
        """How the interval was made, in words; empty where there is none."""
        if self.low is None:
            return ""
        boots = f", {self.boots} boots as the top level" if self.boots > 1 else ""
        return (
            f"{self.confidence:.0%} interval from {self.resamples} stationary bootstraps in blocks of {self.block_length:.0f} "
            f"lines and of half of them{boots}, t with {self.freedom:.0f} degrees of freedom"
        )


@dataclass(frozen=True)
class Joint:
    """The estimates of one part and how they vary together."""

    estimates: dict[str, BlockEstimate]
    covariance: FloatArray = field(repr=False)
    """On the scales of the part, shape (s, s); nan where a statistic has no interval."""
    freedom: FloatArray = field(repr=False)
    """Degrees of freedom of each statistic's variance, shape (s,)."""


def estimate(blocks: Blocks, parts: Sequence[Part], confidence: float, resamples: int, seed: int) -> tuple[Joint, ...]:
    """Value +- t * standard error for every statistic of every part, in their order.

    Each standard error is that of the stationary bootstrap, corrected for the length of its blocks by one with blocks of half
    the length. With several boots the variance is the larger one of that and of the bootstrap of whole boots (times
    b / (b - 1), b - 1 degrees of freedom): the estimate of a between-boot variance that cannot be negative.
    Fewer than 20 effective blocks give no interval: "too short" is an answer, a narrow interval is not.
    """
    sums = np.hstack([part.sums for part in parts]) if parts else np.empty((blocks.cells, 0))
    long, half, boots = (
        _draws(blocks, parts, sums, resamples, np.random.default_rng([seed, number]), kind)
        for number, kind in enumerate(("long", "half", "boots"))
    )
    return tuple(
        _joint(blocks, part, draws, confidence, resamples) for part, *draws in zip(parts, long, half, boots, strict=True)
    )


def _draws(
    blocks: Blocks, parts: Sequence[Part], sums: FloatArray, resamples: int, rng: np.random.Generator, kind: str
) -> list[FloatArray]:
    boots = int(blocks.boots.max()) + 1
    if kind == "boots" and boots == 1:
        return [np.empty((0, len(part.names))) for part in parts]
    if kind == "boots":
        sums = np.add.reduceat(sums, np.flatnonzero(np.diff(blocks.boots, prepend=-1)), axis=0)
        chunks = iter([rng.multinomial(boots, np.full(boots, 1 / boots), resamples).astype(np.float64)])
    else:
        length = blocks.length / (1 if kind == "long" else 2) / blocks.cell_lines
        chunks = resampled_cells(blocks.cells, length, resamples, rng)
    ends = np.cumsum([part.sums.shape[1] for part in parts])
    drawn: list[list[FloatArray]] = [[] for _ in parts]
    for appearances in chunks:
        resampled = appearances @ sums
        for part, end, values in zip(parts, ends, drawn, strict=True):
            with np.errstate(divide="ignore", invalid="ignore"):
                values.append(_to_scale(part.function(resampled[:, end - part.sums.shape[1] : end]), part.scales))
    return [np.concatenate(values) for values in drawn]


def _joint(blocks: Blocks, part: Part, draws: list[FloatArray], confidence: float, resamples: int) -> Joint:
    long, half, boots = draws
    covariance = _larger(2 * _covariance(long) - _covariance(half), _covariance(long))
    needed = blocks.effective(part.presence, blocks.memory)
    freedom = np.maximum(FREEDOM_PER_BLOCK * blocks.effective(part.presence, blocks.length), LEAST_FREEDOM)
    number = int(blocks.boots.max()) + 1
    if number > 1:
        between = number / (number - 1) * _covariance(boots)
        above = np.diag(between) > np.diag(covariance)
        freedom = np.where(above, number - 1, freedom)
        covariance = _larger(between, covariance)
    values = np.array(part.values)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = _to_scale(values[None], part.scales)[0]
    lines = part.presence.sum(axis=0)
    estimates = {}
    for index, (name, scale) in enumerate(zip(part.names, part.scales, strict=True)):
        unknown = _unknown(values[index], scaled[index], covariance[index, index], float(needed[index]), int(lines[index]))
        half_width = stats.t.ppf((1 + confidence) / 2, freedom[index]) * np.sqrt(covariance[index, index])
        low, high = _from_scale(scaled[index] + np.array([-1.0, 1.0]) * half_width, scale)
        estimates[name] = BlockEstimate(
            value=float(values[index]) if np.isfinite(values[index]) else None,
            low=None if unknown else float(low),
            high=None if unknown else float(high),
            standard_error=None if unknown else float(np.sqrt(covariance[index, index])),
            scale=scale,
            n=int(lines[index]),
            effective_blocks=float(needed[index]),
            freedom=None if unknown else float(freedom[index]),
            block_length=blocks.length,
            resamples=resamples,
            boots=number,
            confidence=confidence,
            unknown=unknown,
        )
    known = np.array([estimates[name].unknown is None for name in part.names])
    return Joint(estimates, np.where(np.outer(known, known), covariance, np.nan), freedom)


def lines_in_words(count: int) -> str:
    """Such as "1 line" or "12 lines"."""
    return f"{count} line{'' if count == 1 else 's'}"


def _unknown(value: float, scaled: float, variance: float, blocks: float, lines: int) -> str | None:
    if not np.isfinite(value):
        return (
            "no line to make it of"
            if lines == 0
            else f"undefined for {'this one line' if lines == 1 else f'these {lines} lines'}"
        )
    if blocks < FEWEST_BLOCKS:
        return f"too short: {blocks:.1f} effective blocks ({lines_in_words(lines)}), at least {FEWEST_BLOCKS} are needed"
    if not np.isfinite(scaled) or not np.isfinite(variance):
        return "no interval: undefined in some resamples"
    return None


def _covariance(draws: FloatArray) -> FloatArray:
    # A statistic that some resample leaves undefined gets a variance that is not finite, and so no interval.
    with np.errstate(invalid="ignore"):
        centred = draws - draws.mean(axis=0)
        return np.asarray(centred.T @ centred / (len(draws) - 1), dtype=np.float64)


def _larger(first: FloatArray, second: FloatArray) -> FloatArray:
    """The covariances of `second`, each statistic's deviation scaled up to that of `first` where it is larger there."""
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
