"""``tetris.derived`` for every framework."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def derived(tensor: Any, name: str, fn: Callable[[Any], Any], *, version: int = 1) -> Any:
    """Return ``fn(tensor)``, computed by one process of the node and shared by all.

    See :func:`tetris.torch.derived` and :func:`tetris.numpy.derived`, to which this leads by the type of `tensor`.

    Raises:
        TypeError: `tensor` is neither a ``torch.Tensor`` nor a ``numpy.ndarray``.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        from tetris._torch_derived import derived as of_torch

        return of_torch(tensor, name, fn, version=version)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(tensor, numpy.ndarray):
        from tetris.numpy import derived as of_numpy

        return of_numpy(tensor, name, fn, version=version)
    raise TypeError(f"expected a torch.Tensor or a numpy.ndarray, found {type(tensor).__name__}")
