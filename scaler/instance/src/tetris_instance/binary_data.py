"""Binary tensor extension: little-endian elements in row-major order; BYTES elements have a length
prefix of 4 bytes.
"""

from __future__ import annotations

import math
import struct

import numpy as np

from tetris_instance.errors import RequestError, shown
from tetris_instance.tensors import DATATYPES, Array, datatype_of

#: Header with the length of the JSON at the beginning of a body.
HEADER = "Inference-Header-Content-Length"
_LENGTH = struct.Struct("<I")


def array_from(data: memoryview, datatype: str, shape: tuple[int, ...], field: str) -> Array:
    """Return the array encoded by `data`.

    Raises:
        RequestError: The data does not fit datatype and shape.
    """
    count = math.prod(shape)
    if datatype == "BYTES":
        return _strings(data, count, field).reshape(shape)
    dtype = DATATYPES[datatype]
    if len(data) != count * dtype.itemsize:
        expected = shown(count * dtype.itemsize)
        raise RequestError(f"{field} has {len(data)} bytes; {datatype} of the shape {list(shape)} needs {expected}")
    if datatype == "BOOL" and not set(data.tobytes()) <= {0, 1}:
        raise RequestError(f"{field}: BOOL expects bytes of 0 and 1")
    # The copy is aligned and writable, and does not keep the body in memory.
    return np.frombuffer(data, dtype=dtype).reshape(shape).copy()


def bytes_of(array: Array) -> bytes:
    """Encode an array."""
    if datatype_of(array) == "BYTES":
        return b"".join(_LENGTH.pack(len(value)) + value for value in array.ravel())
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _strings(data: memoryview, count: int, field: str) -> Array:
    # Each element takes at least 4 bytes, so the body bounds the array.
    if count * _LENGTH.size > len(data):
        raise RequestError(f"{field} has {len(data)} bytes; {shown(count)} elements of BYTES need 4 each, or more")
    array = np.empty(count, dtype=np.object_)
    begin = 0
    for index in range(count):
        end = begin + _LENGTH.size
        if end > len(data):
            raise RequestError(f"{field} ends before element {index}")
        (size,) = _LENGTH.unpack(data[begin:end])
        begin, end = end, end + size
        if end > len(data):
            raise RequestError(f"{field} ends within element {index}, which has {size} bytes")
        array[index] = bytes(data[begin:end])
        begin = end
    if begin != len(data):
        raise RequestError(f"{field} has {len(data) - begin} bytes after its last element")
    return array
