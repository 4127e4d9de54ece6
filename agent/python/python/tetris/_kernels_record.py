"""Recording the operators that an inference calls."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tetris._kernels import MAX_CALL_CHARACTERS, MAX_CALLS, KernelTrace, add_to_kernels, encoded_call
from tetris._kernels_operators import is_permitted
from tetris._log import logger
from tetris._trace_files import content_ids


@dataclass
class KernelRecording:
    """A recording of operators, while it goes on or finished."""

    #: The different calls, by the type of the device that they run on.
    calls: dict[str, list[str]] = field(default_factory=dict)
    #: Number of calls that are left out: operators and arguments of other kinds, or too many or too long calls.
    left_out: int = 0
    #: The kernels file; `None` until it is written.
    path: str | None = None


@contextlib.contextmanager
def record_kernels(
    path: str | os.PathLike[str], *, to: str | os.PathLike[str] | None = None
) -> Iterator[KernelRecording]:
    """Record the operators that the block calls, and add them to the model's kernels file.

    ::

        with tetris.torch.record_kernels("model.safetensors"):
            model(**example)

    A process that has to run the model later loads their kernels beforehand, without the model's weights and code:
    :func:`tetris.warm.load_kernels`, and ``kernels=`` of :class:`tetris.warm.Pool`. Record on the kind of device that
    the model will run on, since it decides which operators there are, with inputs of the sizes that matter: a kernel
    depends on them. Each different call is recorded once, up to 4,096 of them. Recordings of the same content are
    merged; one of another content takes the place of the file.

    Operators of inference of PyTorch itself that this thread calls are recorded, as are the sizes, strides and element
    types of their arguments and all numbers and strings among them, but no contents of tensors. Kernels of other
    libraries and those that `torch.compile` makes are not. PyTorch calls a compiled module's operators one by one in
    the block, and refuses operators that must be compiled, such as `flex_attention`.

    Args:
        path: The model's file or directory.
        to: The kernels file; by default beside the model, or in the user's cache if that cannot be written to. Its name
            must end with ``.kernels.json`` for `load_kernels` to tell it from a model.

    Raises:
        OSError: The kernels file cannot be written.
    """
    recording = KernelRecording()
    with _Calls(recording):
        yield recording
    if recording.left_out:
        logger.info("%d calls of operators are not recorded for %s", recording.left_out, path)
    if recording.calls:
        calls = {device: tuple(calls) for device, calls in recording.calls.items()}
        recording.path, _ = add_to_kernels(path, KernelTrace(content_ids(path), calls), to)
    else:
        logger.warning("no kernels are recorded for %s: no operator was called", path)


class _Calls(TorchDispatchMode):
    """Sees each call of an operator."""

    #: Operators that take functions, such as `cond`, run as without a recording. Calls within them are not seen.
    supports_higher_order_operators = True

    def __init__(self, recording: KernelRecording) -> None:
        super().__init__()
        self._recording = recording
        self._seen: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        # Before the call, which may change its arguments.
        found = _described(func, args, kwargs)
        result = func(*args, **kwargs)
        if found is None:
            self._recording.left_out += 1
        elif found[1] not in self._seen:
            device, call = found
            if len(call) <= MAX_CALL_CHARACTERS and len(self._seen) < MAX_CALLS:
                self._seen.add(call)
                self._recording.calls.setdefault(device, []).append(call)
            else:
                self._recording.left_out += 1
        return result


class _OtherKindError(Exception):
    """An argument of a kind that a trace does not have."""


def _described(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str] | None:
    """The type of the device that a call runs on, and the call; `None` of one that a trace cannot have."""
    if not isinstance(func, torch._ops.OpOverload):
        return None
    if not is_permitted(func.namespace, str(func._schema.name).rpartition(":")[2]):
        return None
    devices: set[str] = set()
    try:
        named = {name: _encoded(value, devices) for name, value in kwargs.items()}
        call = encoded_call(str(func), [_encoded(value, devices) for value in args], named)
    except _OtherKindError:
        return None
    # Operators of another device may take numbers as tensors of the host.
    others = devices - {"cpu"}
    if len(others) > 1 or "meta" in others:
        return None
    return others.pop() if others else "cpu", call


def _encoded(value: Any, devices: set[str]) -> Any:
    """A value as a trace has it. Adds the types of devices in it."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if type(value) is int and -(1 << 63) <= value < 1 << 63:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, (list, tuple)):
        return [_encoded(one, devices) for one in value]
    if isinstance(value, torch.Tensor):
        return {"tensor": _tensor(value, devices)}
    if isinstance(value, torch.device):
        devices.add(value.type)
        return {"device": value.type}
    for kind in (torch.dtype, torch.layout, torch.memory_format):
        if isinstance(value, kind):
            # As in torch.float32 and torch.strided.
            return {kind.__name__: str(value).removeprefix("torch.")}
    raise _OtherKindError


def _tensor(tensor: torch.Tensor, devices: set[str]) -> list[Any]:
    plain = (
        type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
        and tensor.layout is torch.strided
        and not (tensor.is_nested or tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
    )
    sizes, strides = list(tensor.shape), list(tensor.stride()) if plain else []
    if not plain or not all(type(length) is int for length in (*sizes, *strides)):
        raise _OtherKindError
    devices.add(tensor.device.type)
    dtype = str(tensor.dtype).removeprefix("torch.")
    return [dtype, sizes, None if tensor.is_contiguous() else strides, tensor.device.type]
