"""Loading kernels: each call of a trace runs once, on arguments whose contents are made up."""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from tetris._kernels import kernels_of
from tetris._log import logger

#: Operators that a trace may not call. An assertion about a tensor whose contents are made up ends a device's context.
_REFUSED = ("_assert", "_functional_assert", "from_file", "manual_seed", "save", "sym_constrain")
#: Bytes of the largest element.
_LARGEST = 16
#: Memory of a call, as a multiple of the limit of its arguments: those, results, and memory that operators work with.
_ROOM = 4
#: Address space of a thread that an operator may start: its stack and its arena of malloc(3).
_THREAD_BYTES = 192 << 20
#: Seconds after which no further call begins.
MAX_S = 300.0


class _UnknownError(Exception):
    """A call that this version of torch does not have, or that a trace may not make."""


class _TooLargeError(Exception):
    """A call that takes more memory than allowed."""


def load(
    path: str | os.PathLike[str], device: str | torch.device, limit_bytes: int
) -> tuple[str | None, Mapping[str, int]]:
    """Run the calls of a model's trace, and return its file and the number of calls by their outcome.

    Outcomes are the fields of :class:`tetris.warm.LoadedKernels`, and it has the rest, too.
    """
    target = torch.device(device)
    counts: Counter[str] = Counter()
    found = kernels_of(path)
    if found is None:
        logger.warning("no kernels are loaded for %s: it has no trace of them", path)
        return None, counts
    file, trace = found
    calls = trace.devices.get(target.type)
    if calls is None:
        known = ", ".join(trace.devices) or "none"
        logger.warning("%s is passed over: expected kernels of %s, found those of %s", file, target.type, known)
        return file, counts
    with _on(target, _ROOM * limit_bytes), _quiet(), torch.inference_mode():
        end = time.monotonic() + MAX_S
        for call in calls:
            counts["late" if time.monotonic() > end else _outcome(file, call, target, limit_bytes)] += 1
    logger.debug("calls of kernels in %s: %s", file, dict(counts))
    return file, counts


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
    """Run a call once, if its arguments have at most so many bytes.

    Raises:
        _UnknownError: It may not be called.
        _TooLargeError: It takes more memory.
    """
    function = _operator(operator)
    if sum(_nbytes(value) for value in (*args, *kwargs.values())) > limit_bytes:
        raise _TooLargeError
    decoded = [_decoded(value, target) for value in args]
    function(*decoded, **{name: _decoded(value, target) for name, value in kwargs.items()})


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


def _decoded(value: Any, target: torch.device) -> Any:
    if isinstance(value, list):
        return [_decoded(one, target) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        dtype, sizes, strides, device = content
        return _made_up(_named(dtype, torch.dtype), sizes, strides, _device(device, target))
    if kind == "device":
        return _device(content, target)
    if kind == "float":
        return float(content)
    return _named(content, {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}[kind])


def _device(kind: str, target: torch.device) -> torch.device:
    if kind == target.type:
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
        return max(count, extent) * _named(dtype, torch.dtype).itemsize
    if not isinstance(value, list):
        return 0
    numbers = [abs(one) for one in value if type(one) is int]
    return sum(map(_nbytes, value)) + (math.prod(numbers) * _LARGEST if numbers else 0)


@contextlib.contextmanager
def _on(target: torch.device, room: int) -> Iterator[None]:
    """Run on a device, with random numbers as they were, and wait for it at the end.

    Memory is limited to so many bytes more than now: sizes of results are known only to their operators.
    """
    if target.type == "cpu":
        with torch.random.fork_rng([]), _address_space(room):
            yield
        return
    module = getattr(torch, target.type)
    index = module.current_device() if target.index is None else target.index
    with torch.random.fork_rng([index], device_type=target.type), module.device(index):
        with _device_memory(module, index, room) if target.type == "cuda" else contextlib.nullcontext():
            yield
            # Raises an error of the device: its context is not one for a model any more.
            module.synchronize()
        # The memory is other processes' until it is needed. That of libraries, such as workspaces, stays.
        module.empty_cache()


@contextlib.contextmanager
def _address_space(room: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    most = used + room + torch.get_num_threads() * _THREAD_BYTES
    others = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([most, *others]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def _device_memory(module: Any, index: int, room: int) -> Iterator[None]:
    # Older versions of torch do not tell; they have no limit by default.
    before = getattr(module, "get_per_process_memory_fraction", lambda _: 1.0)(index)
    share = (module.memory_reserved(index) + room) / module.get_device_properties(index).total_memory
    module.set_per_process_memory_fraction(min(share, before), index)
    try:
        yield
    finally:
        module.set_per_process_memory_fraction(before, index)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Leave out warnings: nobody asked for these calls."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
