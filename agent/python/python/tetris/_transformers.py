"""What transformers copies after loading, shared as well.

`from_pretrained` takes tensors as they are in the file, which the store shares, and makes others of them: cast to
another element type, merged (experts of a mixture), read from ``.bin`` files. Those would be private in every process.

- A cast is a derived tensor: one process of the node casts, the others find the result, and nobody hashes.
- What else is private when the model is there is put into the store (:mod:`tetris._from_pretrained`).
"""

from __future__ import annotations

import functools
import inspect
from types import ModuleType
from typing import Any

import torch

from tetris._from_pretrained import hook_class, unhook_class
from tetris._safe_open import Slice
from tetris._share import MIN_BYTES
from tetris._torch_derived import derived


def hook(modeling_utils: ModuleType) -> None:
    """Let the models of ``transformers.modeling_utils`` share their weights."""
    hook_class(modeling_utils.PreTrainedModel)
    _hook_casts()


def unhook(modeling_utils: ModuleType) -> None:
    """Take :func:`hook` back."""
    unhook_class(modeling_utils.PreTrainedModel)
    loading = _core_model_loading()
    original = getattr(getattr(loading, "_materialize_copy", None), "_tetris_original", None)
    if original is not None:
        loading._materialize_copy = original


def _core_model_loading() -> Any:
    try:
        from transformers import core_model_loading
    except ImportError:
        return None
    return core_model_loading


def _hook_casts() -> None:
    """Let casts be derived. Where transformers has no such function, the weights are shared after the cast."""
    loading = _core_model_loading()
    original = getattr(loading, "_materialize_copy", None)
    if original is None or hasattr(original, "_tetris_original"):
        return
    if list(inspect.signature(original).parameters) != ["tensor", "device", "dtype"]:
        return

    @functools.wraps(original)
    def materialize(tensor: Any, device: Any = None, dtype: Any = None) -> Any:
        if isinstance(tensor, Slice) and dtype is not None and torch.device(device or "cpu").type == "cpu":
            whole = tensor[...]
            if type(whole) is torch.Tensor and whole.device.type == "cpu" and whole.dtype != dtype:
                return cast(whole, dtype)
            return whole
        return original(tensor, device, dtype)

    materialize._tetris_original = original  # type: ignore[attr-defined]
    loading._materialize_copy = materialize


def cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return ``tensor.to(dtype)``, cast by one process of the node; small tensors are cast by each."""
    if tensor.numel() * dtype.itemsize < MIN_BYTES:
        return tensor.to(dtype)
    return derived(tensor, f"to {dtype}", lambda source: source.to(dtype))
