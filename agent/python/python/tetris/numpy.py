"""``safetensors.numpy`` through the store: read-only arrays over shared memory.

::

    from tetris.numpy import load_file

    weights = load_file("model.safetensors")

``bfloat16`` and the ``float8`` types come as those of ``ml_dtypes``, which safetensors' own functions refuse.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import safetensors.numpy as _safetensors
from safetensors.numpy import load, save, save_file

from tetris import _native, _safe_open
from tetris._agent import Mode, agent, log_derived, log_load
from tetris._arguments import may_be_file
from tetris._content import decode, encode, form_of, id_of, unpack
from tetris._numpy_array import as_numpy
from tetris.errors import LoadError

__all__ = ["derived", "load", "load_file", "safe_open", "save", "save_file"]


def load_file(filename: str | os.PathLike[str], *, backend: str = "mmap") -> dict[str, np.ndarray[Any, Any]]:
    """Load a safetensors file into read-only arrays over shared memory.

    Args:
        filename: The file.
        backend: ``"mmap"`` or ``"pread"``, without effect: of a known file only samples are read.

    Returns:
        The arrays by name, in the order of the file. Writing to one raises ``ValueError``; ``array.copy()`` can be
        written to.

    Raises:
        FileNotFoundError: There is no such file.
        ImportError: The file has elements of a type that needs ``ml_dtypes``, which is not installed.
        safetensors.SafetensorError: The file is invalid, or has elements of a type that NumPy cannot have.
    """
    if backend in ("mmap", "pread") and may_be_file(filename):
        try:
            model = agent().load(filename)
        except (LoadError, TypeError, ValueError):
            pass  # safetensors reports what is wrong, or knows better
        else:
            log_load(filename, model)
            found = {name: as_numpy(tensor) for name, tensor in model.items()}
            if all(array is not None for array in found.values()):
                return found  # type: ignore[return-value]
    keywords = {} if backend == "mmap" else {"backend": backend}
    arrays: dict[str, np.ndarray[Any, Any]] = _safetensors.load_file(filename, **keywords)
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


class safe_open(_safe_open.safe_open):
    """Open a safetensors file for read-only arrays over shared memory; see :class:`tetris.safe_open`.

    The element types of ``ml_dtypes`` are understood as well.
    """

    _without_store = True
    _numpy_types = None

    def __init__(
        self,
        filename: str | os.PathLike[str],
        framework: str = "numpy",
        device: str | int = "cpu",
        *,
        backend: str = "mmap",
        mode: Mode = "read_only",
    ) -> None:
        super().__init__(filename, framework, device, backend=backend, mode=mode)


def derived(
    array: np.ndarray[Any, Any], name: str, fn: Callable[[np.ndarray[Any, Any]], Any], *, version: int = 1
) -> Any:
    """Return ``fn(array)``, computed by one process of the node and shared by all.

    As :func:`tetris.torch.derived`, for arrays; the result cannot be written to.

    Args:
        array: An array of numbers.
        name: What `fn` does, with its parameters; at most 4,000 bytes.
        fn: A deterministic function that returns an array, a tuple of arrays, or a dictionary of them.
        version: Raise it when `fn` gives other values than before.

    Raises:
        ValueError: The name is too long, or the array or the result is not made of numbers.
        Exception: Whatever `fn` raises.
    """
    source = _numbers(array, "array")
    shape = "x".join(map(str, source.shape))
    transform = f"numpy {np.__version__} {source.dtype.name} [{shape}] {name}"
    known = id_of(source.ctypes.data, source.nbytes)
    memory = agent().derive(known, transform, version, lambda: _encode(fn(array)))
    log_derived(name, memory)
    return _decode(memory)


def _numbers(array: Any, what: str) -> np.ndarray[Any, Any]:
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{what} must be a numpy.ndarray, found {type(array).__name__}")
    if array.dtype.hasobject or not array.dtype.isnative or not _has_name(array.dtype):
        raise ValueError(f"{what} must be of numbers in native order, found {array.dtype}")
    return np.ascontiguousarray(array).reshape(array.shape)


def _has_name(dtype: np.dtype[Any]) -> bool:
    """Returns true if a type is found again by its name, which those of text and records are not."""
    try:
        return np.dtype(dtype.name) == dtype
    except TypeError:
        return False


def _encode(result: Any) -> bytearray:
    form, arrays = form_of(result, np.ndarray)
    numbers = {key: _numbers(array, "the result of fn") for key, array in arrays.items()}
    return encode(
        form,
        ((key, array.dtype.name, array.shape, array.ctypes.data, array.nbytes) for key, array in numbers.items()),
    )


def _decode(memory: _native.Memory) -> Any:
    form, described = decode(memory)
    arrays: dict[str, object] = {}
    for key, dtype_name, shape, begin in described:
        dtype = np.dtype(dtype_name)
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(memoryview(memory), dtype, count, begin) if count else np.empty(0, dtype)
        array = array.reshape(shape)
        array.flags.writeable = False
        arrays[key] = array
    return unpack(form, arrays)
