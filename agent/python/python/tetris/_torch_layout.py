"""Layouts: tensors that an engine makes of a model, made by one process of the node and mapped by all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from tetris import _native
from tetris._agent import MIN_BYTES, Mode, agent
from tetris._content import content_of, id_of
from tetris._device.layout import Part, on_device
from tetris._device.tensor import Private, require_private
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
    #: The reason that tensors on a device are copies of this process's own, if :meth:`to` could not map them there.
    copied_reason: str | None = None
    #: The places of the tensors in memory of the store, and how they may be used.
    _parts: list[Part] = field(default_factory=list)
    _mode: Mode = "copy_on_write"

    def __repr__(self) -> str:
        """Return the number of tensors, and the origin."""
        return f"<tetris.torch.Layout: {len(self.tensors)} tensors, {self.origin}>"

    def to(self, device: str | int | torch.device, *, private: Private | None = None) -> Layout:
        """Return the layout on a device of the GPU mirror, which has one copy of its tensors for all processes.

        ::

            layout = tetris.torch.layout("fuse qkv", lambda: fused(weights), sources=weights).to("cuda:0")

        Nothing may write to these tensors: see `docs/gpu.md`. They stay on the device as long as any of them, a view or
        a storage lives. Without a mirror, or if it has no room, they are copied to the device; the log ``tetris`` says
        so once, :func:`device_loads` counts it, and ``copied_reason`` has the reason. It returns when all have arrived.

        Args:
            device: A GPU, or ``"simulated"`` for the host memory of a mirror that runs without one.
            private: Tensors of which this process gets copies, to write to: names, a function of a name, or ``True``
                for all. What shares memory with one of them is in its copy.
        """
        require_private(private)
        tensors, reason = on_device(self.tensors, self._parts, device, private, self._mode)
        return replace(self, tensors=tensors, copied_reason=reason, _parts=[])


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
        build: Returns the tensors by name, on the CPU or a GPU; or these and attributes, which are bytes by name. It
            runs only if no process has run it before on this node. Other processes that ask for the same layout wait
            meanwhile.
        sources: The tensors that it is made of, or their ids, such as :func:`tetris.Agent.file_id` returns.
        conditions: What else the result depends on: versions of libraries, the processor's features, the place in a
            parallel group.
        version: Raise it when `build` makes other tensors than before.
        mode: "copy_on_write", or "read_only" for tensors that refuse to be written to.
        wait: Longest wait in seconds for another process that builds it. After that, this one builds as well.

    Returns:
        The tensors over shared memory of the host, from where :meth:`Layout.to` takes them to a GPU; those of `build`
        if the store cannot take all of them.

    Raises:
        ValueError: A name that the store cannot record, or tensors that are not dense.
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
            private.append(Layout(dict(tensors), dict(attributes), "private", str(error), _mode=mode))
            raise

    try:
        found = agent().layout(transform, version, ids, needs, made, mode="copy_on_write", wait=wait)
    except ShareError:
        if not private:
            raise
        result = private[0]
    else:
        parts = found.tensors
        result = Layout(
            _tensors(parts, mode), dict(found.attributes), found.origin, found.private_reason, _parts=parts, _mode=mode
        )
    if result.private_reason is not None and agent().store is not None:
        logger.warning("the layout %r is not shared: %s", transform, result.private_reason)
    return result


def _id(name: str, tensor: torch.Tensor) -> str:
    """Return an id of a source tensor: of its bytes, which its dtype and shape give a meaning."""
    _require_dense(name, tensor)
    dense = tensor.detach().contiguous().cpu()
    return id_of(dense.data_ptr(), dense.nbytes)


def _require_dense(name: str, tensor: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"tensor {name!r} must be a torch.Tensor, found {type(tensor).__name__}")
    if tensor.device.type not in ("cpu", "cuda") or tensor.layout is not torch.strided or tensor.is_quantized:
        raise ValueError(
            f"tensor {name!r} must be dense and on the CPU or a GPU, found {tensor.layout} on {tensor.device}"
        )
    if tensor.dtype not in _NAMES:
        raise ValueError(f"tensor {name!r} has element type {tensor.dtype}, which the store does not have")


@dataclass
class _Span:
    """Memory of tensors that overlap, or lie in one storage: its bytes, and its place once that is known."""

    begin: int
    end: int
    first: int
    #: A tensor that begins there.
    tensor: torch.Tensor
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
            last = _Span(address, end, index, tensors[index])
        spans[index] = last
    return spans


def _extent(tensor: torch.Tensor) -> int:
    """Bytes from the first element to the end of the last one."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def _host_bytes(tensor: torch.Tensor, nbytes: int) -> bytearray:
    """Return a copy of bytes of a tensor's storage, from the tensor's first element on, in host memory.

    Raises:
        ShareError: They are more than the storage has.
    """
    storage, begin = tensor.untyped_storage(), tensor.storage_offset() * tensor.element_size()
    if begin + nbytes > storage.nbytes():
        raise ShareError("tensors of different storages overlap in device memory")
    flat = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, begin, (nbytes,), (1,))
    content = bytearray(nbytes)
    torch.frombuffer(content, dtype=torch.uint8).copy_(flat)
    return content


def _content(span: _Span) -> Any:
    """Return the bytes of a span as an object with the buffer protocol."""
    nbytes = span.end - span.begin
    return content_of(span.begin, nbytes) if span.tensor.device.type == "cpu" else _host_bytes(span.tensor, nbytes)


def _place(spans: Any) -> None:
    """Publish spans: large ones as objects, the others together as one."""
    small: list[_Span] = []
    for span in spans:
        if span.end - span.begin >= MIN_BYTES:
            span.memory = agent().publish(_content(span), mode="copy_on_write")
        else:
            small.append(span)
    if not small:
        return
    pack = bytearray()
    for span in small:
        pack += bytes(-len(pack) % _ALIGN)
        span.offset = len(pack)
        pack += _content(span)
    memory = agent().publish(pack, mode="copy_on_write")
    for span in small:
        span.memory = memory


def _tensors(parts: list[Part], mode: Mode) -> dict[str, torch.Tensor]:
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
