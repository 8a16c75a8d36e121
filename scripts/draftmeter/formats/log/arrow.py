"""Numpy arrays as pyarrow columns, without the detour over pandas: pyarrow imports it for every other conversion, which
takes longer than reading a log of some hundred megabytes."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_TYPES = {np.dtype(np.int64): pa.int64(), np.dtype(np.float64): pa.float64()}


def numbers(values: NDArray[np.int64] | NDArray[np.float64], known: NDArray[np.bool_] | None = None) -> pa.Array:
    """A column of whole or real numbers; null where not `known`."""
    buffers = [_bits(known), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(_TYPES[values.dtype], len(values), buffers)


def truths(values: NDArray[np.bool_]) -> pa.Array:
    """A column of true and false."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def texts(values: Sequence[bytes]) -> pa.Array:
    """A column of texts (UTF-8); null for an empty one."""
    lengths = np.fromiter(map(len, values), np.int32, len(values))
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [_bits(lengths > 0), pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _bits(values: NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if values is None else pa.py_buffer(np.packbits(values, bitorder="little"))
