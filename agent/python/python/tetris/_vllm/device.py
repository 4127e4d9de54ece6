"""Weights in the memory of the GPU mirror: where that may be, and which of them an engine writes to."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from tetris._agent import MIN_BYTES
from tetris._device.names import SIMULATED, mirror_device
from tetris._vllm import state
from tetris.errors import GpuUnavailableError

if TYPE_CHECKING:
    from vllm.config import VllmConfig

#: Beginnings of the names, as a state gives them, of tensors that an engine only reads. It may write to all others.
_READ = ("parameter:", "packed:")


def mirror_of(vllm_config: VllmConfig, device: torch.device, chosen: str | None) -> tuple[str | None, str | None]:
    """Return the device of the mirror's for an engine's weights, `None` for host memory; or the reason against both.

    Args:
        vllm_config: The engine's configuration.
        device: Its device.
        chosen: The simulated device, if the engine is to use that.
    """
    if device.type == "cpu" and chosen is None:
        return None, None
    if device.type != "cpu" and chosen == SIMULATED:
        return None, f"the simulated device is for engines on the CPU, and this one is on {device.type!r}"
    mirror = mirror_device(chosen or device)
    if mirror is None:
        return None, f"TETRIS_GPU switches the GPU mirror off, or {device} is none of its devices"
    reason = _written_while_it_runs(vllm_config) or _not_there(mirror)
    return (mirror, None) if reason is None else (None, reason)


def _written_while_it_runs(vllm_config: VllmConfig) -> str | None:
    """Return why an engine changes its weights or takes them off the device while it runs; `None` if it does not."""
    if vllm_config.model_config.enable_sleep_mode:
        return "in sleep mode vLLM takes the weights off the device, where others need them"
    if vllm_config.parallel_config.enable_eplb:
        return "vLLM moves experts while it runs (EPLB)"
    if vllm_config.weight_transfer_config is not None:
        return "a trainer sends weights to the engine"
    offload = vllm_config.offload_config
    if offload.uva.cpu_offload_gb > 0 or offload.prefetch.offload_group_size > 0:
        return "vLLM keeps some of them in host memory"
    return None


def _not_there(mirror: str) -> str | None:
    """Return why the mirror does not have a device; `None` if it does."""
    from tetris import gpu

    try:
        names = [device["device"] for device in gpu.devices()]
    except (GpuUnavailableError, OSError) as error:
        return str(error)
    if mirror in names:
        return None
    found = ", ".join(name or "one that this process does not see" for name in names)
    return f"the GPU mirror does not have {mirror}; it has {found}"


def written(tensors: Mapping[str, torch.Tensor]) -> set[str]:
    """Return names of the tensors of a state that an engine has for itself on a device of the mirror's.

    These are buffers and attributes, such as workspaces, unless they are views of a weight; and small weights, such as
    scales, which take little.

    Args:
        tensors: The tensors in host memory, where those that share memory overlap, and no others.
    """
    mapped = {name for name, tensor in tensors.items() if name.startswith(_READ) and tensor.nbytes >= MIN_BYTES}
    ends = {tensors[name].data_ptr(): tensors[name].data_ptr() + _extent(tensors[name]) for name in mapped}
    begins = sorted(ends)

    def is_view(tensor: torch.Tensor) -> bool:
        before = bisect.bisect_right(begins, tensor.data_ptr()) - 1
        return tensor.numel() > 0 and before >= 0 and tensor.data_ptr() < ends[begins[before]]

    return {name for name, tensor in tensors.items() if name not in mapped and not is_view(tensor)}


def _extent(tensor: torch.Tensor) -> int:
    """Bytes from the first element to the end of the last one."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


@contextmanager
def hollow_parameters() -> Iterator[None]:
    """Have modules that are made meanwhile keep no memory for their large parameters, which are to come."""
    stock = torch.nn.Module.register_parameter

    def register_parameter(module: torch.nn.Module, name: str, param: torch.nn.Parameter | None) -> None:
        stock(module, name, param)
        if param is not None and param.nbytes >= MIN_BYTES and not param.is_meta:
            state.hollow(param)

    torch.nn.Module.register_parameter = register_parameter  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = stock  # type: ignore[method-assign]
