"""Sharing what a library has made of weights, when it has made it."""

from __future__ import annotations

import functools
from typing import Any

import torch

from tetris._agent import agent
from tetris._log import logger
from tetris._share import share_module_


def hook_class(cls: Any) -> None:
    """Let the modules that ``cls.from_pretrained`` returns share their weights, whatever was done to them."""
    method = cls.__dict__.get("from_pretrained")
    if not isinstance(method, classmethod) or hasattr(method, "_tetris_original"):
        return
    function = method.__func__

    @functools.wraps(function)
    def from_pretrained(model_class: Any, *args: Any, **kwargs: Any) -> Any:
        loaded = function(model_class, *args, **kwargs)
        # With output_loading_info=True, the model is the first of two.
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        if isinstance(model, torch.nn.Module) and agent().store is not None:
            try:
                share_module_(model)
            except Exception as error:
                # The model is there; sharing is the lesser good.
                logger.warning("weights of %s stay private: %s", type(model).__name__, error)
        return loaded

    wrapped = classmethod(from_pretrained)
    wrapped._tetris_original = method  # type: ignore[attr-defined]
    cls.from_pretrained = wrapped


def unhook_class(cls: Any) -> None:
    """Take :func:`hook_class` back."""
    original = getattr(cls.__dict__.get("from_pretrained"), "_tetris_original", None)
    if original is not None:
        cls.from_pretrained = original
