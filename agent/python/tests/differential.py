"""The same call on safetensors and on this package, and what came of it in a form that can be compared."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch
import tetris
import tetris.numpy
import tetris.torch
import torch


class Library(NamedTuple):
    """One of the two, by the same names."""

    safe_open: Any
    torch: ModuleType
    numpy: ModuleType


THEIRS = Library(safetensors.safe_open, safetensors.torch, safetensors.numpy)
OURS = Library(tetris.safe_open, tetris.torch, tetris.numpy)


def outcome(call: Callable[[Library], Any], library: Library) -> Any:
    """Result of a call, or the type and message of its exception. Paths are left out of messages."""
    try:
        return described(call(library))
    except pytest.fail.Exception:
        raise
    except Exception as error:
        # The file that is open has a second name, and only that is certain to be the same file.
        message = re.sub(r"(/[\w.-]+)+", "<path>", str(error))
        # Which of two bad tensors theirs meets first is chance.
        message = re.sub(r"invalid offset for tensor `.*`", "invalid offset for a tensor", message)
        # torch names the function that the shape was too big for, and its own stack.
        message = re.sub(r"^\w+\(\): argument '\w+' (failed to unpack .*)\n(?s:.*)", r"\1", message)
        # Theirs is a builtin class, ours one of Python's.
        message = message.replace("safe_open.__new__()", "safe_open()").replace("safe_open.__init__()", "safe_open()")
        return "raised", type(error), message


def described(value: Any) -> Any:
    """A value in a form of which equality means: the same types, shapes, strides and bits."""
    if isinstance(value, torch.Tensor):
        return "torch", type(value), value.dtype, tuple(value.shape), value.stride(), value.requires_grad, bits(value)
    if isinstance(value, np.ndarray):
        # Of no elements, strides mean nothing, and theirs are zero.
        strides = value.strides if value.size else None
        return "numpy", type(value), value.dtype, value.shape, strides, value.flags.writeable, value.tobytes()
    if isinstance(value, dict):
        return "dict", [(key, described(one)) for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [described(one) for one in value]
    assert value is None or isinstance(value, (str, int, bytes, os.PathLike)), type(value)
    return type(value), value


def bits(tensor: torch.Tensor) -> bytes:
    """The bytes of a tensor's elements, in order."""
    whole = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return whole.view(torch.uint8).numpy().tobytes() if whole.numel() else b""


def assert_equal(ours: Any, theirs: Any, what: object = "") -> None:
    """Assert that two outcomes are the same, and say where they differ."""
    if ours != theirs:
        pytest.fail(f"{what}{difference(ours, theirs)}", pytrace=False)


def difference(ours: Any, theirs: Any) -> str:
    """First difference of two described values."""
    nested = isinstance(ours, (list, tuple)) and isinstance(theirs, (list, tuple))
    if nested and len(ours) == len(theirs):
        return next(
            f"[{i}]{difference(*pair)}" for i, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]
        )
    return f"\n  ours:   {str(ours)[:500]}\n  theirs: {str(theirs)[:500]}"


def assert_same(call: Callable[[Library], Any]) -> Any:
    """Assert that both do the same; returns it."""
    theirs = outcome(call, THEIRS)
    assert_equal(outcome(call, OURS), theirs)
    return theirs
