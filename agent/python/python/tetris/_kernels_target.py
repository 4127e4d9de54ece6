"""The device that kernels are loaded on, while calls are made: its memory is limited, and random numbers are kept."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def on_device(target: torch.device, room: int) -> Iterator[None]:
    """Run on a device, with random numbers as they were, and wait for it at the end.

    PyTorch's memory of a GPU is limited to `room` bytes more than now: sizes of results are known only to operators.

    Raises:
        RuntimeError: The device cannot be used, or not any more.
    """
    if target.type == "cpu":
        with torch.random.fork_rng([]), _quiet():
            yield
        return
    module = getattr(torch, target.type)
    index = module.current_device() if target.index is None else target.index
    with torch.random.fork_rng([index], device_type=target.type), module.device(index), _quiet():
        with device_memory(module, index, room) if target.type == "cuda" else contextlib.nullcontext():
            yield
            # Raises an error of the device: its context is not one for a model any more.
            module.synchronize()
        # The memory is other processes' until it is needed. That of libraries, such as workspaces, stays.
        module.empty_cache()


def synchronize(target: torch.device) -> None:
    """Wait for the kernels of a device.

    Raises:
        RuntimeError: One failed.
    """
    if target.type != "cpu":
        getattr(torch, target.type).synchronize()


@contextlib.contextmanager
def device_memory(module: Any, index: int, room: int) -> Iterator[None]:
    """Limit PyTorch's memory of a GPU to `room` bytes more than it has."""
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
    """Leave out warnings: no user asked for these calls."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
