"""``module.load_state_dict(weights)``, which copies, without the copy staying.

torch copies each tensor into private memory of the module. If the tensor came from the store as it is, the
module then takes a separate mapping of the same object instead, so that changes of the weights of the module
do not reach the state dict, nor the other way round.

A module whose weights are in memory of the GPU mirror gets private memory first: torch would write to
memory that no process may write to.
"""

# Imported while torch is, so torch is imported where it is needed.
from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def hook(module: ModuleType) -> None:
    """Wrap ``load_state_dict`` of ``torch.nn.modules.module.Module``."""
    original = module.Module.load_state_dict
    if hasattr(original, "_tetris_original"):
        return

    @functools.wraps(original)
    def load_state_dict(
        self: torch.nn.Module, state_dict: Any, strict: bool = True, assign: bool = False, **others: Any
    ) -> Any:
        if not assign:
            _make_private(self, state_dict)
        result = original(self, state_dict, strict, assign, **others)
        if not assign:
            _share_copied(self, state_dict)
        return result

    load_state_dict._tetris_original = original  # type: ignore[attr-defined]
    module.Module.load_state_dict = load_state_dict


def unhook(module: ModuleType) -> None:
    """Take :func:`hook` back."""
    original = getattr(module.Module.load_state_dict, "_tetris_original", None)
    if original is not None:
        module.Module.load_state_dict = original


def _make_private(module: torch.nn.Module, state_dict: Any) -> None:
    """Give a module private memory where torch is about to write to that of the GPU mirror."""
    mirror = sys.modules.get("tetris._device.tensor")
    if mirror is not None and mirror.has_made() and hasattr(state_dict, "__contains__"):
        from tetris._device.module import private_

        private_(module, lambda name: name in state_dict)


def _share_copied(module: torch.nn.Module, state_dict: Any) -> None:
    native = sys.modules.get("tetris._native")
    if native is None or not native.has_mapped():
        return
    from tetris._agent import MIN_BYTES, agent
    from tetris._log import logger

    try:
        # Small modules are many, and have nothing to share: no more than this is done for them.
        large = [(name, tensor) for name, tensor in state_dict.items() if getattr(tensor, "nbytes", 0) >= MIN_BYTES]
        if not large or agent().store is None:
            return
        import torch

        from tetris._share import share_loaded

        sources = {}
        for name, tensor in large:
            if isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu" and tensor.layout is torch.strided:
                fresh = _mapped_again(tensor)
                if fresh is not None:
                    sources[name] = fresh
        if sources:
            share_loaded(module, sources)
    except Exception as error:
        # The weights are there; sharing is the lesser good.
        logger.warning("weights of %s stay private: %s", type(module).__name__, error)


def _mapped_again(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a tensor over a separate mapping of the same object; `None` if the tensor is not as in the store."""
    import torch

    from tetris import _native
    from tetris._agent import agent

    if not tensor.is_contiguous():
        return None
    name = _native.unmodified_object(tensor.data_ptr(), tensor.nbytes)
    memory = None if name is None else agent().attach(name, mode="copy_on_write")
    if memory is None or memory.nbytes != tensor.nbytes:
        return None
    return torch.frombuffer(memory, dtype=tensor.dtype).view(tensor.shape)
