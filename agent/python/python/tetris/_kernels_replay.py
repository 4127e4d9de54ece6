"""Loading kernels: each call of a trace runs once, on arguments whose contents are made up."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tetris._kernels import OUTCOMES, LoadedKernels, kernels_of
from tetris._log import logger

#: Operators that a trace may not call. An assertion about a tensor whose contents are made up ends a device's context.
_REFUSED = ("_assert", "_functional_assert", "from_file", "manual_seed", "save", "sym_constrain")
#: Seconds after which no further call begins.
MAX_S = 300.0


class _UnknownError(Exception):
    """A call that this version of torch does not have, or that a trace may not make."""


class _TooLargeError(Exception):
    """A call that takes more memory than allowed."""


def load(path: str | os.PathLike[str], device: str | torch.device, limit_bytes: int) -> LoadedKernels:
    """Implement :func:`tetris.warm.load_kernels`."""
    target = torch.device(device)
    found = kernels_of(path)
    if found is None:
        logger.warning("no kernels are loaded for %s: it has no trace of them", path)
        return LoadedKernels()
    file, trace = found
    calls = trace.devices.get(target.type)
    if calls is None:
        known = ", ".join(trace.devices) or "none"
        logger.warning("%s is passed over: expected kernels of %s, found those of %s", file, target.type, known)
        return LoadedKernels(path=file)
    counts: Counter[str] = Counter()
    with _on(target), _quiet(), torch.inference_mode():
        end = time.monotonic() + MAX_S
        for call in calls:
            counts["late" if time.monotonic() > end else _outcome(file, call, target, limit_bytes)] += 1
    loaded = LoadedKernels(file, *(counts[outcome] for outcome in OUTCOMES))
    logger.debug("kernels of %s: %s", path, loaded)
    return loaded


def _outcome(file: str, call: str, target: torch.device, limit_bytes: int) -> str:
    """Run a call, and return the name of the count that it belongs to."""
    try:
        operator, args, kwargs = json.loads(call)
        _run(operator, args, kwargs, target, limit_bytes)
    except _UnknownError:
        return "unknown"
    except _TooLargeError:
        return "too_large"
    except Exception as error:
        logger.debug("a call in %s raised %s: %s: %s", file, type(error).__name__, error, call)
        return "failed"
    return "ran"


def _run(operator: str, args: list[Any], kwargs: dict[str, Any], target: torch.device, limit_bytes: int) -> None:
    """Run a call once, if its arguments and its results have at most so many bytes each.

    Raises:
        _UnknownError: It may not be called.
        _TooLargeError: It takes more memory.
    """
    function = _operator(operator)
    _Bytes(limit_bytes).of([*args, *kwargs.values()])
    meta = torch.device("meta")
    try:
        with torch.inference_mode(False), torch.no_grad(), _Results(limit_bytes):
            _call(function, args, kwargs, meta, _on_meta)
    except _TooLargeError:
        raise
    except Exception:
        # The sizes of its results depend on contents, or nobody has said how: its numbers bound them.
        if _bound([*args, *kwargs.values()]) > limit_bytes:
            raise _TooLargeError from None
    _call(function, args, kwargs, target, _made_up)


def _call(
    function: Any, args: list[Any], kwargs: dict[str, Any], target: torch.device, tensor: Callable[..., torch.Tensor]
) -> Any:
    decoded = [_decoded(value, target, tensor) for value in args]
    return function(*decoded, **{name: _decoded(value, target, tensor) for name, value in kwargs.items()})


def _operator(name: str) -> Any:
    """The operator of a name: one of PyTorch's own that takes or returns tensors, and nothing else."""
    namespace, packet, overload = name.split(".")
    if namespace != "aten" or packet.startswith(_REFUSED):
        raise _UnknownError
    found = getattr(torch.ops.aten, packet, None)
    # Not an attribute that every object has.
    if not isinstance(found, torch._ops.OpOverloadPacket) or overload not in found.overloads():
        raise _UnknownError
    function = getattr(found, overload)
    schema = function._schema
    values = (*schema.arguments, *schema.returns)
    # TorchScript has functions of its own by this namespace, without kernels.
    if not any("Tensor" in str(value.type) for value in values) or not torch._C._dispatch_has_kernel(function.name()):
        raise _UnknownError
    return function


def _decoded(value: Any, target: torch.device, tensor: Callable[..., torch.Tensor]) -> Any:
    if isinstance(value, list):
        return [_decoded(one, target, tensor) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        dtype, sizes, strides, device = content
        return tensor(_named(dtype, torch.dtype), sizes, strides, _device(device, target))
    if kind == "device":
        return _device(content, target)
    if kind == "float":
        return float(content)
    return _named(content, {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}[kind])


def _device(kind: str, target: torch.device) -> torch.device:
    if target.type == "meta" or kind == target.type:
        return target
    if kind != "cpu":
        raise _UnknownError
    return torch.device("cpu")


def _named(name: str, kind: type) -> Any:
    found = getattr(torch, name, None)
    if not isinstance(found, kind):
        raise _UnknownError
    return found


def _made_up(dtype: torch.dtype, sizes: list[int], strides: list[int] | None, device: torch.device) -> torch.Tensor:
    """A tensor of zeros if it may have indexes, and else of ones: sampling from anything else is a device's error."""
    fill = torch.ones if dtype.is_floating_point or dtype.is_complex else torch.zeros
    if strides is None:
        return fill(sizes, dtype=dtype, device=device)
    return fill(_extent(sizes, strides), dtype=dtype, device=device).as_strided(sizes, strides)


def _on_meta(dtype: torch.dtype, sizes: list[int], strides: list[int] | None, device: torch.device) -> torch.Tensor:
    if strides is None:
        return torch.empty(sizes, dtype=dtype, device=device)
    return torch.empty_strided(sizes, strides, dtype=dtype, device=device)


def _extent(sizes: list[int], strides: list[int]) -> int:
    """Number of elements from a tensor's first to its last in memory."""
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


class _Bytes:
    """A sum of bytes with a limit."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def of(self, value: Any) -> None:
        """Add the bytes of the tensors in an encoded value.

        Raises:
            _TooLargeError: There are more than allowed.
        """
        if isinstance(value, list):
            for one in value:
                self.of(one)
        elif isinstance(value, dict) and "tensor" in value:
            self._add(*value["tensor"])

    def _add(self, dtype: str, sizes: list[int], strides: list[int] | None, _device: str) -> None:
        # Elements that are one in memory, as of an expanded tensor, are read one by one all the same.
        count = math.prod(sizes)
        extent = count if strides is None else _extent(sizes, strides)
        self._left -= max(count, extent) * _named(dtype, torch.dtype).itemsize
        if self._left < 0:
            raise _TooLargeError


class _Results(TorchDispatchMode):
    """Bounds the results of operators, and of those that they consist of, on the meta device."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        results = func(*args, **(kwargs or {}))
        tensors = [results] if isinstance(results, torch.Tensor) else results
        for one in tensors if isinstance(tensors, (list, tuple)) else ():
            if isinstance(one, torch.Tensor) and one.numel() * one.itemsize > self._limit:
                raise _TooLargeError
        return results


def _bound(value: Any) -> int:
    """Bytes that results of a call can have, by its encoded arguments: of the largest tensor, times all numbers."""
    counts, numbers = [1], [16]

    def see(value: Any) -> None:
        if isinstance(value, list):
            for one in value:
                see(one)
        elif isinstance(value, dict) and "tensor" in value:
            counts.append(math.prod(value["tensor"][1]))
        elif isinstance(value, (int, float)):
            numbers.append(max(1, math.ceil(abs(value))))

    see(value)
    return max(counts) * math.prod(numbers)


@contextlib.contextmanager
def _on(target: torch.device) -> Iterator[None]:
    """Run on a device, with the process's random numbers as they were, and wait for it at the end."""
    if target.type == "cpu":
        with torch.random.fork_rng([]):
            yield
        return
    module = getattr(torch, target.type)
    index = module.current_device() if target.index is None else target.index
    with torch.random.fork_rng([index], device_type=target.type), module.device(index):
        yield
        # Raises an error of the device: its context is not one for a model any more.
        module.synchronize()
        # The memory is other processes' until it is needed. That of libraries, such as workspaces, stays.
        module.empty_cache()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Leave out warnings: nobody asked for these calls."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
