"""Loading a file to a device: from the mirror, or by a copy."""

from __future__ import annotations

from typing import Any

import torch

from tetris import _native
from tetris._agent import Mode
from tetris._device.mirror import count_copied, dynamic_names, mirror_for, open_mirrored, trace_once
from tetris._device.module import Arriving, place
from tetris._device.names import torch_device
from tetris._device.slots import Slots
from tetris._device.tensor import WAIT_S, Private, is_private, unwaited
from tetris._order import Order
from tetris._torch_tensor import ReadOnlyTensor
from tetris.errors import GpuUnavailableError


def load_mirrored(
    filename: Any, device: Any, mode: Mode, order: Order, private: Private | None
) -> dict[str, torch.Tensor] | None:
    """Return the tensors of a file in the mirror's memory; `None` if they are to be loaded without it."""
    name = mirror_for(filename, device, private)
    if name is None:
        return None
    trace = trace_once(filename)
    model = open_mirrored(filename, name, order, trace)
    if model is None:
        return None
    if private is None:
        private = dynamic_names(trace(), model, filename)
    try:
        tensors = unwaited(model)
        if tensors is not None:
            model.wait(timeout=WAIT_S)
    except (GpuUnavailableError, TimeoutError) as error:
        count_copied(filename, name, error)
        return None
    if tensors is None:
        return None
    for key, tensor in tensors.items():
        # A copy is for being written to.
        if is_private(key, private):
            tensors[key] = tensor.clone()
        elif mode == "read_only":
            tensors[key] = ReadOnlyTensor.of(tensor)
    return tensors


def load_model_mirrored(
    module: torch.nn.Module,
    filename: Any,
    strict: bool,
    device: Any,
    order: Order,
    private: Private | None,
    overlap: bool,
) -> tuple[list[str], list[str]] | None:
    """Load a file into a module that goes to a device; `None` if it is to be loaded without the mirror.

    Raises:
        RuntimeError: Names are missing or unexpected, or shapes differ.
    """
    name = mirror_for(filename, device, private)
    if name is None:
        return None
    trace = trace_once(filename)
    model = open_mirrored(filename, name, order, trace)
    if model is None:
        return None
    if private is None:
        private = dynamic_names(trace(), model, filename)
    try:
        tensors = unwaited(model)
        if tensors is None:
            return None
        result = _place(module, filename, model, tensors, private, overlap)
    except (GpuUnavailableError, TimeoutError) as error:
        count_copied(filename, name, error)
        return None
    require_names(module, strict, *result)
    return result


def _place(
    module: torch.nn.Module,
    filename: Any,
    model: _native.DeviceModel,
    tensors: dict[str, torch.Tensor],
    private: Private | None,
    overlap: bool,
) -> tuple[list[str], list[str]]:
    target = torch_device(model.device)
    slots = Slots(module)
    for key, tensor in tensors.items():
        # What is read now has to be there.
        if not overlap or is_private(key, private) or (key in slots and slots[key].dtype != tensor.dtype):
            model[key].wait(WAIT_S)
    given = {key: tensor.clone() if is_private(key, private) else tensor for key, tensor in tensors.items()}
    placed = place(module, given, target, slots)
    slots = placed.slots
    if overlap and not model.is_ready():
        made = [
            key for key in given if key in slots and key not in placed.as_given and slots[key].dtype == given[key].dtype
        ]
        if made:
            # The module makes something else of its weights while it loads them: once more, when they are there.
            model.wait(timeout=WAIT_S)
            placed = place(module, given, target, slots)
        else:
            Arriving(module, slots, model, filename, placed.as_given)
    return placed.missing, placed.unexpected


def require_names(module: torch.nn.Module, strict: bool, missing: list[str], unexpected: list[str]) -> None:
    """Raise the RuntimeError of safetensors if names are missing or unexpected, and may not be."""
    if not strict or not (missing or unexpected):
        return
    lines = [f"Error(s) in loading state_dict for {type(module).__name__}:"]
    for what, names in (("Missing", missing), ("Unexpected", unexpected)):
        if names:
            listed = ", ".join(f'"{name}"' for name in sorted(names))
            lines.append(f"    {what} key(s) in state_dict: {listed}")
    raise RuntimeError("\n".join(lines))
