"""Derived tensors: what a function makes of a tensor, computed once per node."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from tetris import _native
from tetris._agent import agent, log_derived
from tetris._content import decode, encode, form_of, id_of, unpack

__all__ = ["derived"]


def derived(tensor: torch.Tensor, name: str, fn: Callable[[torch.Tensor], Any], *, version: int = 1) -> Any:
    """Return ``fn(tensor)``, computed by one process of the node and shared by all.

    ::

        weight = tetris.derived(weight, "cast bfloat16", lambda t: t.to(torch.bfloat16))

    The result is found by the bytes, element type and shape of `tensor`, by `name`, `version`, and the version of
    torch. So `name` must say all that `fn` depends on besides the tensor: the operation and its parameters.

    A tensor that was loaded through the store, and not written to since, is recognized; another is hashed, at some
    GB/s.

    Args:
        tensor: A dense tensor on the CPU.
        name: What `fn` does, with its parameters; at most 4,000 bytes.
        fn: A deterministic function that returns a tensor, a tuple of tensors, or a dictionary of them, on the CPU.
            It runs only if no process has run it before on this node.
        version: Raise it when `fn` gives other values than before.

    Returns:
        What `fn` returns, contiguous, over shared memory mapped copy-on-write; over private memory if the store
        cannot take it.

    Raises:
        ValueError: The name is too long, or the tensor or the result is not made of dense tensors on the CPU.
        Exception: Whatever `fn` raises.
    """
    source = _dense(tensor, "tensor")
    shape = "x".join(map(str, source.shape))
    transform = f"torch {torch.__version__} {source.dtype} [{shape}] {name}"
    known = id_of(source.data_ptr(), source.nbytes)
    memory = agent().derive(known, transform, version, lambda: _encode(fn(tensor)), mode="copy_on_write")
    log_derived(name, memory)
    return _decode(memory)


def _dense(tensor: Any, what: str) -> torch.Tensor:
    """Return the tensor, contiguous, if it is one whose bytes are its values."""
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"{what} must be a torch.Tensor, found {type(tensor).__name__}")
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or tensor.is_quantized:
        raise ValueError(f"{what} must be dense and on the CPU, found {tensor.layout} on {tensor.device}")
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def _encode(result: Any) -> bytearray:
    form, tensors = form_of(result, torch.Tensor)
    dense = {key: _dense(tensor, "the result of fn") for key, tensor in tensors.items()}
    return encode(
        form,
        (
            (key, str(tensor.dtype).removeprefix("torch."), tensor.shape, tensor.data_ptr(), tensor.nbytes)
            for key, tensor in dense.items()
        ),
    )


def _decode(memory: _native.Memory) -> Any:
    form, described = decode(memory)
    tensors: dict[str, object] = {}
    for key, dtype_name, shape, begin in described:
        dtype = getattr(torch, dtype_name)
        count = math.prod(shape)
        if count == 0:
            tensors[key] = torch.empty(shape, dtype=dtype)
        else:
            tensors[key] = torch.frombuffer(memory, dtype=dtype, count=count, offset=begin).view(shape)
    return unpack(form, tensors)
