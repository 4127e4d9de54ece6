"""The bytes of tensors: in memory, and as the results of derivations."""

from __future__ import annotations

import ctypes
import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from tetris import _native

Form = Literal["tensor", "tuple", "dict"]

#: Tensors of a result begin at multiples of this many bytes.
_ALIGN = 64
#: At the end of a result: bytes of its description, and the version of this form.
_TRAILER = struct.Struct("<QI")
_VERSION = 1


class Described(NamedTuple):
    """A tensor of a result."""

    key: str
    dtype: str
    shape: list[int]
    #: Its first byte in the result.
    begin: int


def content_of(address: int, nbytes: int) -> ctypes.Array[ctypes.c_char] | bytes:
    """Return memory as an object with the buffer protocol. The caller keeps the memory."""
    return (ctypes.c_char * nbytes).from_address(address) if nbytes else b""


_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_memcmp.restype = ctypes.c_int


def same_bytes(one: int, other: int, nbytes: int) -> bool:
    """Return whether the bytes at two addresses are the same. The caller keeps the memory."""
    # memcmp(3): several times as fast as torch.equal, and NaNs are bytes as well.
    return _memcmp(one, other, nbytes) == 0


def id_of(address: int, nbytes: int) -> str:
    """Return the id of the bytes at an address: known if they were loaded and not written to, else computed."""
    known = _native.unmodified_id(address, nbytes)
    return _native.content_id(content_of(address, nbytes)) if known is None else known


def form_of(result: Any, kind: type) -> tuple[Form, dict[str, Any]]:
    """Return in which form a function has returned tensors of a kind, and the tensors by name."""
    if isinstance(result, kind):
        return "tensor", {"": result}
    if isinstance(result, tuple):
        return "tuple", {str(index): tensor for index, tensor in enumerate(result)}
    if isinstance(result, Mapping):
        return "dict", dict(result)
    raise ValueError(f"expected {kind.__name__}, or a tuple or dictionary of such, found {type(result).__name__}")


def encode(form: Form, tensors: Iterable[tuple[str, str, Iterable[int], int, int]]) -> bytearray:
    """Return tensors, given as key, dtype, shape, address and bytes, one after the other, then what they are."""
    encoded = bytearray()
    described = []
    for key, dtype, shape, address, nbytes in tensors:
        if not isinstance(key, str):
            raise ValueError(f"names of tensors must be strings, found {key!r}")
        encoded += bytes(-len(encoded) % _ALIGN)
        described.append((key, dtype, list(shape), len(encoded)))
        encoded += content_of(address, nbytes)
    description = json.dumps({"form": form, "tensors": described}).encode()
    return encoded + description + _TRAILER.pack(len(description), _VERSION)


def decode(memory: _native.Memory) -> tuple[Form, list[Described]]:
    """Return what the tensors in an encoded result are."""
    view = memoryview(memory)
    size, version = _TRAILER.unpack(view[-_TRAILER.size :])
    if version != _VERSION:
        raise ValueError(f"a result of form {version} is in the store, expected {_VERSION}; raise the version")
    description = json.loads(bytes(view[-_TRAILER.size - size : -_TRAILER.size]))
    return description["form"], [Described(*tensor) for tensor in description["tensors"]]


def unpack(form: Form, tensors: dict[str, object]) -> object:
    """Return tensors in the form that they were returned in."""
    if form == "tensor":
        return tensors[""]
    return tuple(tensors.values()) if form == "tuple" else tensors
