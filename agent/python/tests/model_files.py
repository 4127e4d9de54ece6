"""Safetensors files made by hand, from a header and bytes: what no writer would write as well."""

from __future__ import annotations

import json
import math
import os
import random
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

#: Every element type of the format, with its bits.
BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "U16": 16,
    "I16": 16,
    "U32": 32,
    "I32": 32,
    "U64": 64,
    "I64": 64,
    "F16": 16,
    "BF16": 16,
    "F32": 32,
    "F64": 64,
    "C64": 64,
    "F8_E4M3": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2": 8,
    "F8_E5M2FNUZ": 8,
    "F8_E8M0": 8,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "F4": 4,
}


#: Age from which a file's time stamp can be relied on, on local file systems.
GRANULARITY_NS = 100_000_000


class Stored(NamedTuple):
    """A tensor as it is in a file."""

    dtype: str
    shape: Sequence[int]
    data: bytes


def stored(dtype: str, shape: Sequence[int], seed: int = 0) -> Stored:
    """A tensor of random bits: NaNs with any payload, infinities, subnormal numbers."""
    nbytes = math.prod(shape) * BITS[dtype] // 8
    data = random.Random(f"{dtype} {list(shape)} {seed}").randbytes(nbytes)
    # A bool that is neither 0 nor 1 is undefined behavior in C.
    return Stored(dtype, shape, bytes(byte & 1 for byte in data) if dtype == "BOOL" else data)


def encode(
    tensors: Mapping[str, Stored], metadata: Mapping[str, str] | None = None, *, align: int = 8, misalign: int = 0
) -> bytes:
    """A file of these tensors, whose data begins `misalign` bytes after a multiple of `align`."""
    header: dict[str, object] = {}
    if metadata is not None:
        header["__metadata__"] = dict(metadata)
    data = bytearray()
    for name, tensor in tensors.items():
        begin = len(data)
        data += tensor.data
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * ((misalign - 8 - len(text)) % align)
    return framed(text, bytes(data))


def framed(header: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    """A file of these parts, with the header's length or another one in front."""
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def write(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Stored],
    metadata: Mapping[str, str] | None = None,
    *,
    align: int = 8,
    misalign: int = 0,
) -> Path:
    """Write such a file; returns the path."""
    path = Path(path)
    path.write_bytes(encode(tensors, metadata, align=align, misalign=misalign))
    return path


def settle(path: str | os.PathLike[str]) -> None:
    """Wait until a file is old enough to be recognized by its time stamp, which no call sets (LAYOUT.md 8)."""
    changed = os.stat(path).st_ctime_ns
    while 0 <= time.time_ns() - changed < GRANULARITY_NS:
        time.sleep(0.001)


def floats(shape: Sequence[int], seed: int = 0) -> Stored:
    """Small numbers of type F32, fit to compute with."""
    rng = random.Random(seed)
    count = math.prod(shape)
    return Stored("F32", shape, struct.pack(f"<{count}f", *(rng.uniform(-1, 1) for _ in range(count))))
