"""Layouts: tensors that an engine makes of a model, made by one process of the node and mapped by all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tetris import _native
from tetris._agent import MIN_BYTES, Mode, agent
from tetris._content import content_of, id_of
from tetris._log import logger
from tetris._torch_tensor import DTYPES, ReadOnlyTensor
from tetris.errors import ShareError

__all__ = ["Layout", "layout"]

#: Small tensors lie in one object, at multiples of this many bytes.
_ALIGN = 64
_NAMES = {dtype: name for name, dtype in DTYPES.items() if name != "F4"}

#: What `build` of :func:`layout` returns: tensors by name, alone or with attributes.
Built = Mapping[str, torch.Tensor] | tuple[Mapping[str, torch.Tensor], Mapping[str, bytes]]


@dataclass(frozen=True, repr=False)
class Layout:
    """Tensors by name, in the order in which they were built, and attributes."""

    tensors: dict[str, torch.Tensor]
    attributes: dict[str, bytes]
    #: "shared" if it was found, "new" if this process made it, "private" if others cannot find it.
    origin: str
    #: The reason that others cannot find it, if they cannot.
    private_reason: str | None

    def __repr__(self) -> str:
        """Return the number of tensors, and the origin."""
        return f"<tetris.torch.Layout: {len(self.tensors)} tensors, {self.origin}>"


def layout(
    transform: str,
    build: Callable[[], Built],
    *,
    sources: Mapping[str, torch.Tensor | str],
    conditions: Mapping[str, str] | None = None,
    version: int = 1,
    mode: Mode = "copy_on_write",
    wait: float | None = None,
) -> Layout:
    """Return the tensors that `build` makes, made by one process of the node and mapped by all.

    ::

        layout = tetris.torch.layout("fuse qkv", lambda: fused(weights), sources=weights)

    A layout is found by `transform` and `version`, the bytes and names of `sources`, `conditions`, and the version of
    torch. So these must say all that the result depends on. Tensors that share memory still do, strides stay, and
    tensors that share none share none, even if they have the same bytes.

    Args:
        transform: What is made of the sources, by which engine.
        build: Returns the tensors by name, on the CPU; or these and attributes, which are bytes by name. It runs only
            if nobody has run it before on this node. Other processes that ask for the same layout wait meanwhile.
        sources: The tensors that it is made of, or their ids, such as :func:`tetris.Agent.file_id` returns.
        conditions: What else the result depends on: versions of libraries, the processor's features, the place in a
            parallel group.
        version: Raise it when `build` makes other tensors than before.
        mode: "copy_on_write", or "read_only" for tensors that refuse to be written to.
        wait: Longest wait in seconds for another process that builds it. After that, this one builds as well.

    Returns:
        The tensors over shared memory; those of `build` if the store cannot take all of them.

    Raises:
        ValueError: A name that the store cannot record, or tensors that are not dense and on the CPU.
        Exception: Whatever `build` raises.
    """
    ids = {name: source if isinstance(source, str) else _id(name, source) for name, source in sources.items()}
    needs = {"torch": torch.__version__, **(conditions or {})}
    private: list[Layout] = []

    def made() -> Any:
        built = build()
        tensors, attributes = built if isinstance(built, tuple) else (built, {})
        try:
            return _published(tensors), {name: bytes(value) for name, value in attributes.items()}
        except ShareError as error:
            private.append(Layout(dict(tensors), dict(attributes), "private", str(error)))
            raise

    try:
        found = agent().layout(transform, version, ids, needs, made, mode="copy_on_write", wait=wait)
    except ShareError:
        if not private:
            raise
        result = private[0]
    else:
        result = Layout(_tensors(found.tensors, mode), dict(found.attributes), found.origin, found.private_reason)
    if result.private_reason is not None and agent().store is not None:
        logger.warning("the layout %r is not shared: %s", transform, result.private_reason)
    return result


def _id(name: str, tensor: torch.Tensor) -> str:
    """Return an id of a source tensor: of its bytes, which its dtype and shape give a meaning."""
    _require_dense(name, tensor)
    dense = tensor.detach().contiguous()
    return id_of(dense.data_ptr(), dense.nbytes)


def _require_dense(name: str, tensor: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"tensor {name!r} must be a torch.Tensor, found {type(tensor).__name__}")
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or tensor.is_quantized:
        raise ValueError(f"tensor {name!r} must be dense and on the CPU, found {tensor.layout} on {tensor.device}")
    if tensor.dtype not in _NAMES:
        raise ValueError(f"tensor {name!r} has element type {tensor.dtype}, which the store does not have")


@dataclass
class _Span:
    """Memory of tensors that overlap, or lie in one storage: its bytes, and its place once that is known."""

    begin: int
    end: int
    first: int
    memory: _native.Memory | None = None
    offset: int = 0


def _published(tensors: Mapping[str, torch.Tensor]) -> list[tuple[Any, ...]]:
    """Publish tensors; return what the native layout takes.

    Raises:
        ShareError: The store cannot take them.
    """
    dense: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        _require_dense(name, tensor)
        dense[name] = tensor.detach().resolve_conj().resolve_neg()
    spans = _spans(list(dense.values()))
    _place({id(span): span for span in spans.values()}.values())
    described = []
    for index, (name, tensor) in enumerate(dense.items()):
        span = spans.get(index)
        if span is None:
            place: tuple[Any, ...] = (None, 0, None)
        else:
            offset = tensor.data_ptr() - span.begin + span.offset
            if offset % tensor.element_size():
                raise ShareError(f"tensor {name!r} does not begin at a multiple of its element size")
            place = (span.memory, offset, None if span.first == index else span.first)
        described.append((name, _NAMES[tensor.dtype], list(tensor.shape), list(tensor.stride()), *place))
    return described


def _spans(tensors: list[torch.Tensor]) -> dict[int, _Span]:
    """Return the memory of each tensor with elements, by index; one span for tensors that overlap."""
    by_address = sorted((tensor.data_ptr(), index) for index, tensor in enumerate(tensors) if tensor.numel() > 0)
    spans: dict[int, _Span] = {}
    last: _Span | None = None
    for address, index in by_address:
        end = address + _extent(tensors[index])
        if last is not None and address < last.end:
            last.end, last.first = max(last.end, end), min(last.first, index)
        else:
            last = _Span(address, end, index)
        spans[index] = last
    return spans


def _extent(tensor: torch.Tensor) -> int:
    """Bytes from the first element to the end of the last one."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def _place(spans: Any) -> None:
    """Publish spans: large ones as objects, the others together as one."""
    small: list[_Span] = []
    for span in spans:
        if span.end - span.begin >= MIN_BYTES:
            span.memory = agent().publish(content_of(span.begin, span.end - span.begin), mode="copy_on_write")
        else:
            small.append(span)
    if not small:
        return
    pack = bytearray()
    for span in small:
        pack += bytes(-len(pack) % _ALIGN)
        span.offset = len(pack)
        pack += content_of(span.begin, span.end - span.begin)
    memory = agent().publish(pack, mode="copy_on_write")
    for span in small:
        span.memory = memory


def _tensors(parts: list[tuple[Any, ...]], mode: Mode) -> dict[str, torch.Tensor]:
    """Return tensors over the memory of a layout."""
    storages: dict[int, torch.UntypedStorage] = {}
    tensors: dict[str, torch.Tensor] = {}
    for name, dtype_name, shape, strides, memory, offset, _ in parts:
        dtype = DTYPES[dtype_name]
        if memory is None:
            tensor = torch.empty(shape, dtype=dtype)
        else:
            storage = storages.get(id(memory))
            if storage is None:
                storage = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
                storages[id(memory)] = storage
            tensor = torch.empty(0, dtype=dtype).set_(storage, offset // dtype.itemsize, shape, strides)
        tensors[name] = ReadOnlyTensor.of(tensor) if mode == "read_only" else tensor
    return tensors
