"""Sharing of the copies that transformers makes after loading.

`from_pretrained` takes tensors as they are in the file, which the store shares, and makes others of them: cast to
another element type, merged (experts of a mixture), read from ``.bin`` files. Those would be private in every process.

- A cast is a derived tensor: one process of the node casts, the others find the result, and no process hashes.
- What goes to a CUDA device comes from the node's GPU mirror, if all of the model goes there
  (:mod:`tetris._device.plan`).
- What else is private when the model is there is put into the store (:mod:`tetris._from_pretrained`).
"""

from __future__ import annotations

import functools
import inspect
from types import ModuleType
from typing import Any

import torch

from tetris._agent import MIN_BYTES
from tetris._device.plan import is_planned, planned
from tetris._from_pretrained import hook_class, unhook_class
from tetris._safe_open import Slice
from tetris._torch_derived import derived


def hook(modeling_utils: ModuleType) -> None:
    """Let the models of ``transformers.modeling_utils`` share their weights."""
    hook_class(modeling_utils.PreTrainedModel)
    # Both or none: a plan without the slices of which it is would be loaded for nothing.
    if _hook_slices():
        _hook_plans(modeling_utils)


def unhook(modeling_utils: Any) -> None:
    """Take :func:`hook` back."""
    unhook_class(modeling_utils.PreTrainedModel)
    loading = _core_model_loading()
    original = getattr(getattr(loading, "_materialize_copy", None), "_tetris_original", None)
    if original is not None:
        loading._materialize_copy = original
    warmup = getattr(getattr(modeling_utils, "caching_allocator_warmup", None), "_tetris_original", None)
    if warmup is not None:
        modeling_utils.caching_allocator_warmup = warmup
    cls = modeling_utils.PreTrainedModel
    load = getattr(cls.__dict__.get("_load_pretrained_model"), "_tetris_original", None)
    if load is not None:
        cls._load_pretrained_model = load


def _core_model_loading() -> Any:
    try:
        from transformers import core_model_loading
    except ImportError:
        return None
    return core_model_loading


def _hook_slices() -> bool:
    """Let tensors come from the mirror, and casts be derived; return whether they do.

    Where transformers has no such function, the weights are shared after the cast.
    """
    loading = _core_model_loading()
    original = getattr(loading, "_materialize_copy", None)
    if original is None or hasattr(original, "_tetris_original"):
        return original is not None
    if list(inspect.signature(original).parameters) != ["tensor", "device", "dtype"]:
        return False

    @functools.wraps(original)
    def materialize(tensor: Any, device: Any = None, dtype: Any = None) -> Any:
        if not isinstance(tensor, Slice):
            return original(tensor, device, dtype)
        found = tensor.on_device(device or "cpu")
        if found is not None:
            return found if dtype in (None, found.dtype) else found.to(dtype)
        if dtype is not None and torch.device(device or "cpu").type == "cpu":
            whole = tensor[...]
            if type(whole) is torch.Tensor and whole.device.type == "cpu" and whole.dtype != dtype:
                return cast(whole, dtype)
            return whole
        return original(tensor, device, dtype)

    materialize._tetris_original = original  # type: ignore[attr-defined]
    loading._materialize_copy = materialize
    return True


def _hook_plans(modeling_utils: Any) -> None:
    """Let models that go to one device be loaded from the mirror, without allocating their size there in advance."""
    cls: Any = modeling_utils.PreTrainedModel
    method = cls.__dict__.get("_load_pretrained_model")
    warmup = getattr(modeling_utils, "caching_allocator_warmup", None)
    if not isinstance(method, staticmethod) or warmup is None or hasattr(warmup, "_tetris_original"):
        return
    function = method.__func__
    signature = inspect.signature(function)
    if not {"checkpoint_files", "load_config"} <= signature.parameters.keys():
        return

    @functools.wraps(function)
    def load(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        files = None if given.get("state_dict") is not None else given["checkpoint_files"]
        with planned(files, given["load_config"]):
            return function(*args, **kwargs)

    @functools.wraps(warmup)
    def warm_up(*args: Any, **kwargs: Any) -> Any:
        return None if is_planned() else warmup(*args, **kwargs)

    loaded = staticmethod(load)
    loaded._tetris_original = method  # type: ignore[attr-defined]
    warm_up._tetris_original = warmup  # type: ignore[attr-defined]
    cls._load_pretrained_model = loaded
    modeling_utils.caching_allocator_warmup = warm_up


def cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return ``tensor.to(dtype)``, cast by one process of the node; small tensors are cast by each."""
    if tensor.numel() * dtype.itemsize < MIN_BYTES:
        return tensor.to(dtype)
    return derived(tensor, f"to {dtype}", lambda source: source.to(dtype))
