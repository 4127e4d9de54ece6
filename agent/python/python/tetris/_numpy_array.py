"""Native tensors as ``numpy.ndarray``."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tetris import _native

#: Element types that NumPy has not got, by their names in `ml_dtypes`.
_ML_DTYPES = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
}


@functools.cache
def _ml_dtype(name: str) -> np.dtype[Any] | None:
    attribute = _ML_DTYPES.get(name)
    if attribute is None:
        return None
    try:
        import ml_dtypes
    except ImportError:
        raise ImportError(
            f"NumPy has no elements of type {name}; install ml_dtypes, or tetris-store[numpy]",
        ) from None
    return np.dtype(getattr(ml_dtypes, attribute))


def as_numpy(tensor: _native.Tensor) -> np.ndarray[Any, Any] | None:
    """Return an array over the same memory, which keeps it; ``None`` if there is no such element type.

    It can be written to if the memory is mapped copy-on-write.
    """
    view = memoryview(tensor)
    # Without a format or a shape that the protocol can express, it is a view of bytes.
    if view.format != "B" or (tensor.dtype == "U8" and view.shape == tensor.shape):
        return np.asarray(tensor)
    dtype = _ml_dtype(tensor.dtype)
    if dtype is None:
        return None
    if tensor.nbytes == 0:
        return np.empty(tensor.shape, dtype)
    return np.frombuffer(memoryview(tensor), dtype).reshape(tensor.shape)
