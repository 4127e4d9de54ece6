"""Tensors in the GPU mirror's memory as ``torch.Tensor``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from tetris import _native
from tetris._agent import Mode
from tetris._device.capture import guard_captures
from tetris._device.names import torch_device
from tetris._torch_tensor import BY_DLPACK, DTYPES, ReadOnlyTensor

#: Of which tensors copies are to be made: all, none, those of these names, or those that a function chooses by name.
Private = bool | Collection[str] | Callable[[str], bool]

#: Longest wait for bytes that the mirror has promised, in seconds.
WAIT_S = 600.0

#: Addresses of storages that were made here, with their bytes. The memory may have been given back since.
_made: dict[int, int] = {}


def unwaited(model: _native.DeviceModel) -> dict[str, torch.Tensor] | None:
    """Return the tensors of a model, which keep it; ``None`` if torch lacks an element type or shape of one.

    The bytes may still be on their way: nothing may use a tensor before the model's ``wait``.
    """
    found: dict[str, torch.Tensor | None] = dict.fromkeys(model.keys())
    for name, address, nbytes, capsule in model.unwaited(BY_DLPACK):
        if capsule is not None:
            # One call: with a storage of bytes it takes four.
            found[name] = from_dlpack(capsule)
            _made[address] = nbytes
    _guard(torch_device(model.device))
    for name, tensor in found.items():
        if tensor is None:
            found[name] = as_device_torch(model[name], "copy_on_write", wait=False)
    tensors = {name: tensor for name, tensor in found.items() if tensor is not None}
    return tensors if len(tensors) == len(found) else None


def as_device_torch(tensor: _native.DeviceTensor, mode: Mode, *, wait: bool = True) -> torch.Tensor | None:
    """Return a tensor over the same device memory, which keeps it; ``None`` if torch has no such element type or shape.

    Without `wait` the bytes may still be on their way: nothing may use the tensor before ``tensor.wait()``.

    Raises:
        GpuUnavailableError: The bytes will not arrive.
        TimeoutError: They have not arrived within 600 seconds.
    """
    name = tensor.dtype
    dtype = DTYPES.get(name)
    if dtype is None:
        return None
    shape = tensor.shape
    if name == "F4":
        # Two elements are one of torch's.
        if not shape or shape[-1] % 2:
            return None
        shape = (*shape[:-1], shape[-1] // 2)
    if wait:
        tensor.wait(WAIT_S)
    if tensor.nbytes == 0:
        return torch.empty(shape, dtype=dtype, device=torch_device(tensor.device))
    storage = device_storage(tensor)
    strides = torch.empty(shape, device="meta").stride()
    found = torch.empty(0, dtype=dtype, device=storage.device).set_(storage, 0, shape, strides)
    return ReadOnlyTensor.of(found) if mode == "read_only" else found


def device_storage(tensor: _native.DeviceTensor) -> torch.UntypedStorage:
    """Return torch's storage over the bytes of a tensor, which it keeps. They may still be on their way."""
    # Bytes, since torch takes fewer element types by DLPack than it has.
    storage = from_dlpack(tensor.unwaited_bytes()).untyped_storage()
    _made[storage.data_ptr()] = storage.nbytes()
    _guard(storage.device)
    return storage


def _guard(device: Any) -> None:
    """Watch what would write to the mirror's memory, or unmap it too early."""
    guard_optimizers()
    if torch.device(device).type == "cuda":
        guard_captures()


def has_made() -> bool:
    """Return whether this process ever had a tensor in the mirror's memory."""
    return bool(_made)


def is_mirrored(tensor: torch.Tensor) -> bool:
    """Return whether a tensor, or what it is a view of, is in the mirror's memory. Not to be written to, then."""
    if tensor.layout is not torch.strided or tensor.device.type not in ("cuda", "cpu"):
        return False
    storage = tensor.untyped_storage()
    # What torch has allocated at an address that was given back can be resized.
    return _made.get(storage.data_ptr()) == storage.nbytes() > 0 and not storage.resizable()


def is_private(name: str, private: Private | None) -> bool:
    """Return whether a copy is to be made of the tensor of this name."""
    if private is None or isinstance(private, bool):
        return bool(private)
    return private(name) if callable(private) else name in private


def require_private(private: Any) -> None:
    """Raise TypeError if this does not choose tensors."""
    known = private is None or callable(private) or isinstance(private, (bool, Collection))
    if not known or isinstance(private, (str, bytes)):
        raise TypeError(f"private must be a bool, names, or a function of a name, found {private!r}")


def make_private(tensor: torch.Tensor) -> int:
    """Give a tensor separate memory if it is in the mirror's; return the bytes that were copied."""
    with torch.no_grad():
        data = tensor.data
        if not is_mirrored(data):
            return 0
        plain = data.plain() if isinstance(data, ReadOnlyTensor) else data
        tensor.data = plain.clone()
    return tensor.nbytes


_guarded = False


def guard_optimizers() -> None:
    """Let optimizers copy the parameters that they are about to write to.

    So programs that train what they have loaded go on to work; each weight that is trained takes memory of the
    process's own.
    """
    global _guarded
    if _guarded:
        return
    _guarded = True
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    register_optimizer_step_pre_hook(_before_step)


def _before_step(optimizer: torch.optim.Optimizer, _: Any, __: Any) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                make_private(parameter)
