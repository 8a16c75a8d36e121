"""Blocks in time: how long they must be, and how often each one appears in a resample.

Intervals are taken as one circle, boot after boot and log after log. For speed a circle of many
intervals is cut into cells of equal numbers of them, and blocks are made of whole cells: what is
resampled are the sums over cells, never the intervals.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from arch.bootstrap import optimal_block_length
from numpy.typing import ArrayLike

from draftmeter.stats.acceptance import BoolArray, FloatArray, IntArray
from draftmeter.stats.intervals import IntervalSeries

# With fewer blocks the resampled distribution is that of a handful of independent values: there is
# no confidence interval.
FEWEST_BLOCKS = 20
# Blocks are at least as long as they can be while this many are left, and 0.3 sqrt(n) of them in a
# long series: the length of least mean squared error (Politis and White) is too short for a
# confidence interval to cover, as benchmarks/interval_coverage.py measures.
PLENTY_OF_BLOCKS = 20
PLENTY_PER_ROOT = 0.3
# The memory of a series is looked for in sums over several intervals too, up to this part of the
# length that is used anyway: a slow component of little weight is lost among the noise of single
# intervals.
SUMS_PER_BLOCK = 5
# The start of a block may be off by half a cell.
CELLS_PER_BLOCK = 32
MOST_CELLS = 8192
CHUNK_BYTES = 64_000_000


class BlocksError(ValueError):
    """A series without blocks: what was found, what would be right."""


@dataclass(frozen=True)
class Blocks:
    """A plan of resampling n intervals in cells; lengths are in intervals."""

    n: int
    starts: IntArray = field(repr=False)
    """First interval of each cell, shape (cells,)."""
    boots: IntArray = field(repr=False)
    """Number of the boot that each cell belongs to, shape (cells,), from 0."""
    memory: float
    """The block length that the data ask for, at least."""
    length: float
    """Mean length of the blocks that are used, at least `memory`."""

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.starts)

    @property
    def cell_size(self) -> float:
        """Intervals of a cell, on the average."""
        return self.n / self.cells

    def sums(self, columns: ArrayLike) -> FloatArray:
        """Sums over the intervals of each cell, (cells, m); `columns` has shape (n, m) or (n,)."""
        values = np.asarray(columns, dtype=np.float64)
        if len(values) != self.n:
            raise BlocksError(f"found {len(values)} lines; the blocks were made for {self.n}")
        summed = np.add.reduceat(values, self.starts, axis=0)
        return np.asarray(summed.reshape(self.cells, -1), dtype=np.float64)

    def histogram(self, codes: IntArray, bins: int, weights: FloatArray | None = None) -> FloatArray:
        """Counts (or sums of `weights`) by bin in each cell, shape (cells, bins).

        A negative code is in no bin.
        """
        inside = np.flatnonzero(codes >= 0)
        place = self.cell_of_interval()[inside] * bins + codes[inside]
        counts = np.bincount(place, None if weights is None else weights[inside], self.cells * bins)
        return np.asarray(counts, dtype=np.float64).reshape(self.cells, bins)

    def cell_of_interval(self) -> IntArray:
        """Number of the cell of each interval, shape (n,)."""
        return np.repeat(np.arange(self.cells), np.diff(self.starts, append=self.n))

    def effective(self, presence: FloatArray, length: float) -> FloatArray:
        """Effective number of blocks of `length` intervals for those counted in `presence`.

        `presence` has shape (cells, m), the result (m,). Kish's (sum c)^2 / sum c^2 over the counts
        c of consecutive blocks: n / length where the counted intervals are spread evenly, and fewer
        where they crowd in some blocks.
        """
        block = (self.starts // max(length, 1.0)).astype(np.int64)
        counts = np.add.reduceat(presence, np.flatnonzero(np.diff(block, prepend=-1)), axis=0)
        squares = np.sum(counts**2, axis=0)
        with np.errstate(invalid="ignore"):
            return np.where(squares > 0, counts.sum(axis=0) ** 2 / squares, 0.0)


def plan_blocks(memory_columns: ArrayLike, boot: ArrayLike | None = None) -> Blocks:
    """Blocks for statistics that remember like `memory_columns`: shape (n, m), by interval.

    `boot` numbers the boots (shape (n,), not falling). The length is that of
    :func:`memory_length`, and at least the longest that leaves plenty of blocks.
    """
    columns = np.asarray(memory_columns, dtype=np.float64)
    n = len(columns)
    if n == 0:
        raise BlocksError("found no line; blocks need at least one")
    columns = columns.reshape(n, -1)
    if not np.all(np.isfinite(columns)):
        raise BlocksError("found a value that is not finite in a column whose memory decides the length of blocks")
    boots = np.zeros(n, dtype=np.int64) if boot is None else np.asarray(boot, dtype=np.int64)
    if boots.shape != (n,) or np.any(np.diff(boots) < 0):
        raise BlocksError(f"boot: found shape {boots.shape} or numbers that fall; needs ({n},), sorted")
    memory = memory_length(columns)
    length = max(memory, n / _plenty(n))
    starts = _cell_starts(boots, max(int(length / CELLS_PER_BLOCK), -(-n // MOST_CELLS), 1))
    return Blocks(n, starts, np.unique(boots[starts], return_inverse=True)[1], memory, length)


def acceptance_blocks(series: IntervalSeries, qualifying: BoolArray) -> Blocks:
    """Blocks for statistics of acceptance over `series` (at least one interval).

    Their memory is that of three columns: acceptance of the `qualifying` intervals (shape (n,)),
    its square, and pooled acceptance; each as its deviation, 0 for an interval that does not count.
    """
    deviation = squared = np.zeros(len(series))
    if qualifying.any():
        deviation = np.where(qualifying, series.acceptance - series.acceptance[qualifying].mean(), 0.0)
        squared = np.where(qualifying, deviation**2 - np.mean(deviation[qualifying] ** 2), 0.0)
    pooled = series.accepted.sum() / series.drafted.sum()
    of_drafts = (series.accepted - pooled * series.drafted) / series.drafted.mean()
    return plan_blocks(np.column_stack([deviation, squared, of_drafts]), series.boot)


def memory_length(columns: FloatArray) -> float:
    """The longest block that the automatic choice of Politis and White gives for any column.

    In intervals, at least 1. Politis and White 2004, doi:10.1081/ETC-120028836, for the stationary
    bootstrap, of sums of a column over m, 2 m, 4 m ... intervals each. m is 1, the column itself,
    in series of fewer than 1,280 intervals; in longer ones it is a 32nd (CELLS_PER_BLOCK) of the
    length that is used anyway, since a length far below that one need not be known. The longest
    sums are over a fifth (SUMS_PER_BLOCK) of it. Sums that are fewer than FEWEST_BLOCKS, or that do
    not vary, do not count.
    """
    n = len(columns)
    together = max(1, int(n / _plenty(n) / CELLS_PER_BLOCK))
    longest = 1.0
    while together == 1 or together <= n / _plenty(n) / SUMS_PER_BLOCK:
        whole = n // together * together
        sums = columns[:whole].reshape(n // together, together, -1).sum(axis=1)
        varies = np.ptp(sums, axis=0) > 0
        if len(sums) >= FEWEST_BLOCKS and varies.any():
            found = optimal_block_length(sums[:, varies])["stationary"].to_numpy(dtype=np.float64)
            longest = max([longest, *(together * found[np.isfinite(found)])])
        together *= 2
    return longest


def _plenty(n: int) -> float:
    return max(PLENTY_OF_BLOCKS, PLENTY_PER_ROOT * float(np.sqrt(n)))


def _cell_starts(boots: IntArray, size: int) -> IntArray:
    n = len(boots)
    first = np.flatnonzero(np.diff(boots, prepend=boots[0] - 1))
    ends = np.append(first[1:], n)
    return np.concatenate([np.arange(start, end, size) for start, end in zip(first, ends, strict=True)])


def resampled_cells(cells: int, length: float, resamples: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """How often each cell appears in each resample of the stationary bootstrap.

    In chunks of shape (r, cells). Blocks of geometrically distributed lengths with mean `length`
    (in cells) start anywhere on the circle until `cells` cells are drawn; the last one is cut
    (Politis and Romano 1994, doi:10.1080/01621459.1994.10476870).
    """
    chunk = max(1, CHUNK_BYTES // (8 * (cells + 1)))
    for first in range(0, resamples, chunk):
        yield _appearances(cells, max(length, 1.0), min(chunk, resamples - first), rng)


def _appearances(cells: int, length: float, resamples: int, rng: np.random.Generator) -> FloatArray:
    expected = cells / length
    lengths = rng.geometric(1 / length, (resamples, int(expected + 6 * np.sqrt(expected)) + 10))
    while lengths.sum(axis=1).min() < cells:
        lengths = np.concatenate([lengths, rng.geometric(1 / length, lengths.shape)], axis=1)
    drawn = np.diff(np.minimum(np.cumsum(lengths, axis=1), cells), axis=1, prepend=0)
    row, block = np.nonzero(drawn)
    start = rng.integers(0, cells, len(row))
    end = start + drawn[row, block]
    # Appearances are the running sum of their changes; a block that passes the end of the circle
    # goes on at its start.
    change = np.zeros((resamples, cells + 1))
    begun = row * (cells + 1)
    flat = change.reshape(-1)
    np.add.at(flat, begun + start, 1.0)
    np.add.at(flat, begun + np.minimum(end, cells), -1.0)
    beyond = end > cells
    np.add.at(flat, begun[beyond], 1.0)
    np.add.at(flat, begun[beyond] + end[beyond] - cells, -1.0)
    return np.cumsum(change, axis=1, out=change)[:, :cells]
