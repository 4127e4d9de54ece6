"""Tensors of a layout on a device: over the GPU mirror's memory, or copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tetris import _native
from tetris._agent import Mode
from tetris._device.mirror import count_copied, count_mirrored
from tetris._device.names import mirror_device, torch_device
from tetris._device.tensor import WAIT_S, Private, device_storage, is_private
from tetris._torch_tensor import DTYPES, ReadOnlyTensor
from tetris.errors import GpuUnavailableError

#: Name, element type, shape, strides, memory, offset in bytes, and the index of the tensor that it is an alias of.
Part = tuple[str, str, list[int], list[int], _native.Memory | None, int, int | None]

#: Copies begin at multiples of this many bytes of their object, as what any element type needs.
_ALIGN = 64

_Storages = dict[int, tuple[torch.UntypedStorage, int]]


@dataclass
class _Tied:
    """Tensors that share memory: their place in an object, and their indexes."""

    memory: _native.Memory
    begin: int
    end: int
    members: list[int]


def on_device(
    tensors: Mapping[str, torch.Tensor], parts: list[Part], device: Any, private: Private | None, mode: Mode
) -> tuple[dict[str, torch.Tensor], str | None]:
    """Return the tensors of a layout on a device, and the reason if all of them are copies.

    Args:
        tensors: The tensors in host memory.
        parts: Their places in memory of the store; none if it does not have them.
        device: Where they are to be.
        private: Of which tensors copies are made in any case.
        mode: How they may be used.
    """
    target = torch_device(device)
    name = mirror_device(device)
    if not parts:
        return _copied(tensors, target), "the layout is not in the store"
    tied = _tied(parts)
    mapped = [tie for tie in tied if not any(is_private(parts[index][0], private) for index in tie.members)]
    storages: _Storages = {}
    reason = None
    if name is None:
        reason = f"the GPU mirror is switched off, or {device} is none of its devices"
    elif mapped:
        try:
            storages = _mapped(parts, mapped, name)
        except (GpuUnavailableError, TimeoutError, OSError, RuntimeError, ImportError, AttributeError) as error:
            count_copied("a layout", name, error)
            reason = str(error)
    for one in tied:
        if one.members[0] not in storages:
            begin = one.begin - one.begin % _ALIGN
            host = torch.frombuffer(one.memory, dtype=torch.uint8)[begin : one.end]
            storage = host.to(target, copy=True).untyped_storage()
            storages |= dict.fromkeys(one.members, (storage, begin))
    return {part[0]: _tensor(part, storages.get(index), target, mode) for index, part in enumerate(parts)}, reason


def _tied(parts: list[Part]) -> list[_Tied]:
    """Return the tensors with elements, together with those that share their memory."""
    found: dict[int, _Tied] = {}
    for index, (_, dtype, shape, strides, memory, offset, alias) in enumerate(parts):
        if memory is None:
            continue
        last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        end = offset + (last + 1) * DTYPES[dtype].itemsize
        one = found.setdefault(index if alias is None else alias, _Tied(memory, offset, end, []))
        one.begin, one.end = min(one.begin, offset), max(one.end, end)
        one.members.append(index)
    return list(found.values())


def _mapped(parts: list[Part], tied: list[_Tied], device: str) -> _Storages:
    """Return storages over the mirror's memory, by the indexes of tensors, once all of it has arrived."""
    from tetris import gpu

    # Tensors of the same bytes are there once: nothing writes to them.
    memories = {tie.memory.id: tie.memory for tie in tied}
    model = gpu.load_memories(list(memories.values()), device)
    model.wait(timeout=WAIT_S)
    by_object = {key: device_storage(tensor) for key, tensor in zip(memories, model.values(), strict=True)}
    count_mirrored("a layout", model)
    return {index: (by_object[tie.memory.id], 0) for tie in tied for index in tie.members}


def _tensor(part: Part, place: tuple[torch.UntypedStorage, int] | None, target: Any, mode: Mode) -> torch.Tensor:
    _, dtype_name, shape, strides, _, offset, _ = part
    dtype = DTYPES[dtype_name]
    if place is None:
        return torch.empty(shape, dtype=dtype, device=target)
    storage, begin = place
    empty = torch.empty(0, dtype=dtype, device=storage.device)
    tensor = empty.set_(storage, (offset - begin) // dtype.itemsize, shape, strides)
    return ReadOnlyTensor.of(tensor) if mode == "read_only" else tensor


def _copied(tensors: Mapping[str, torch.Tensor], target: Any) -> dict[str, torch.Tensor]:
    """Return tensors on a device, each storage once, so that ties stay ties."""
    storages: dict[int, torch.UntypedStorage] = {}
    copies = {}
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage()
        key = storage.data_ptr()
        if key not in storages:
            flat = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, 0, (storage.nbytes(),), (1,))
            storages[key] = flat.to(target).untyped_storage()
        empty = torch.empty(0, dtype=tensor.dtype, device=storages[key].device)
        copies[name] = empty.set_(storages[key], tensor.storage_offset(), tensor.shape, tensor.stride())
    return copies
