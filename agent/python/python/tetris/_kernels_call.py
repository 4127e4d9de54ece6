"""Calls of a trace of kernels: checked against the operator's schema, then made on arguments that are made up."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tetris._kernels import NAMES
from tetris._kernels_operators import is_permitted

#: Bytes of the largest element.
_LARGEST = 16


class UnknownError(Exception):
    """A call that this version of torch does not have, or that a trace may not make."""


class TooLargeError(Exception):
    """A call that takes more memory than allowed."""


@dataclass(frozen=True)
class Call:
    """A call that may be made: a permitted operator, with arguments of the types and sizes that it takes."""

    function: Any
    arguments: list[Any]
    named: dict[str, Any]
    target: torch.device

    @classmethod
    def of(cls, text: str, target: torch.device, limit_bytes: int) -> Call:
        """Return the call that a trace has as `text`, for a device. Takes no memory on it.

        Raises:
            UnknownError: It may not be made.
            TooLargeError: Its arguments have more than `limit_bytes`.
        """
        operator, arguments, named = json.loads(text)
        function = _operator(operator)
        _check(function._schema, arguments, named, target)
        if sum(map(_nbytes, (*arguments, *named.values()))) > limit_bytes:
            raise TooLargeError
        return cls(function, arguments, named, target)

    def run(self) -> None:
        """Make the call once. Nothing of the result is kept."""
        arguments = [_decoded(value, self.target) for value in self.arguments]
        self.function(*arguments, **{name: _decoded(value, self.target) for name, value in self.named.items()})


def _operator(name: str) -> Any:
    """The operator of a name: a permitted one that takes or returns tensors, and nothing else."""
    namespace, packet, overload = name.split(".")
    if not is_permitted(namespace, packet):
        raise UnknownError
    found = getattr(torch.ops.aten, packet, None)
    # Not an attribute that every object has.
    if not isinstance(found, torch._ops.OpOverloadPacket) or overload not in found.overloads():
        raise UnknownError
    function = getattr(found, overload)
    schema = function._schema
    values = (*schema.arguments, *schema.returns)
    # TorchScript has functions in this namespace, without kernels.
    if not any("Tensor" in str(value.type) for value in values) or not torch._C._dispatch_has_kernel(function.name()):
        raise UnknownError
    return function


def _check(schema: Any, arguments: list[Any], named: dict[str, Any], target: torch.device) -> None:
    """Refuse a call unless each argument is of the type that the operator's schema has for it, and none is missing."""
    expected = schema.arguments
    positional = [one for one in expected if not one.kwarg_only]
    if len(arguments) > len(positional):
        raise UnknownError
    given = dict(zip((one.name for one in positional), arguments, strict=False))
    if given.keys() & named.keys() or not named.keys() <= {one.name for one in expected}:
        raise UnknownError
    given |= named
    for one in expected:
        if one.name not in given:
            if not one.has_default_value():
                raise UnknownError
        elif not _fits(str(one.real_type), given[one.name], target):
            raise UnknownError


def _fits(kind: str, value: Any, target: torch.device) -> bool:
    """Return true if an encoded value is one of a type as schemas name it."""
    if kind.startswith("Optional["):
        return value is None or _fits(kind[len("Optional[") : -1], value, target)
    if kind.startswith("List["):
        element = kind[len("List[") : -1]
        if isinstance(value, list):
            return all(_fits(element, one, target) for one in value)
        # One number for all axes.
        return element in ("int", "float", "bool") and _fits(element, value, target)
    fits = _FITS.get(kind)
    return fits is not None and fits(value, target)


def _is_object(kind: str, value: Any) -> bool:
    return isinstance(value, dict) and kind in value


def _is_integer(value: Any, _: torch.device) -> bool:
    return type(value) is int


def _is_real(value: Any, _: torch.device) -> bool:
    return type(value) in (int, float) or _is_object("float", value)


def _is_scalar(value: Any, target: torch.device) -> bool:
    return isinstance(value, bool) or _is_real(value, target)


def _is_tensor(value: Any, target: torch.device) -> bool:
    if not _is_object("tensor", value):
        # PyTorch takes a number for a tensor without dimensions.
        return _is_scalar(value, target)
    dtype, _, _, device = value["tensor"]
    return _named("dtype", dtype) is not None and device in ("cpu", target.type)


def _is_device(value: Any, target: torch.device) -> bool:
    return _is_object("device", value) and value["device"] in ("cpu", target.type)


def _is_named(kind: str) -> Callable[[Any, torch.device], bool]:
    return lambda value, _: _is_object(kind, value) and _named(kind, value[kind]) is not None


#: Types of schemas that an argument may have. Generators, storages, streams and names of dimensions have no encoding.
_FITS: dict[str, Callable[[Any, torch.device], bool]] = {
    "Tensor": _is_tensor,
    "int": _is_integer,
    "SymInt": _is_integer,
    "float": _is_real,
    "number": _is_scalar,
    "bool": lambda value, _: isinstance(value, bool),
    "str": lambda value, _: isinstance(value, str),
    "ScalarType": _is_named("dtype"),
    "Layout": _is_named("layout"),
    "MemoryFormat": _is_named("memory_format"),
    "Device": _is_device,
}


def _named(kind: str, name: str) -> Any:
    """The value of torch's enumeration that a name stands for; `None` if this version has none."""
    return getattr(torch, name, None) if name in NAMES[kind] else None


def _decoded(value: Any, target: torch.device) -> Any:
    if isinstance(value, list):
        return [_decoded(one, target) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        dtype, sizes, strides, device = content
        return _made_up(_named("dtype", dtype), sizes, strides, _device(device, target))
    if kind == "device":
        return _device(content, target)
    if kind == "float":
        return float(content)
    return _named(kind, content)


def _device(kind: str, target: torch.device) -> torch.device:
    return target if kind == target.type else torch.device(kind)


def _made_up(dtype: torch.dtype, sizes: list[int], strides: list[int] | None, device: torch.device) -> torch.Tensor:
    """A tensor of zeros if it may have indexes, and else of ones: sampling from anything else is a device's error."""
    fill = torch.ones if dtype.is_floating_point or dtype.is_complex else torch.zeros
    if strides is None:
        return fill(sizes, dtype=dtype, device=device)
    return fill(_extent(sizes, strides), dtype=dtype, device=device).as_strided(sizes, strides)


def _extent(sizes: list[int], strides: list[int]) -> int:
    """Number of elements from a tensor's first to its last in memory."""
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def _nbytes(value: Any) -> int:
    """Bytes of the tensors in an encoded value, and of a tensor of the largest elements that its sizes may be those of.

    Elements of a tensor that are one in memory, as of an expanded one, count one by one: they are read one by one.
    """
    if isinstance(value, dict) and "tensor" in value:
        dtype, sizes, strides, _ = value["tensor"]
        count = math.prod(sizes)
        extent = count if strides is None else _extent(sizes, strides)
        found: torch.dtype = _named("dtype", dtype)
        return max(count, extent) * found.itemsize
    if not isinstance(value, list):
        return 0
    numbers = [abs(one) for one in value if type(one) is int]
    return sum(map(_nbytes, value)) + (math.prod(numbers) * _LARGEST if numbers else 0)
