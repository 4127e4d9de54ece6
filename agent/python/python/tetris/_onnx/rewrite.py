"""A model whose tensors are external data in the store's objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onnx import TensorProto

from tetris._onnx import tensors
from tetris._onnx.errors import Unavailable

if TYPE_CHECKING:
    from onnx import ModelProto

#: A tensor of at least this length is a separate object, shared with every other file that has it.
OBJECT_MIN_BYTES = 64 * 1024

#: A shorter tensor stays in the graph, where shape inference and optimizers look for constants. Those in between go
#: into one object together.
INLINE_MAX_BYTES = 1024

#: More tensors than this would bring the process near the kernel's default limit of 65,530 mappings, because
#: ONNX Runtime maps each of them by itself. The rest stays in the graph.
_EXTERNAL_MAX = 16_384

#: Where a tensor, or prepacked data, begins inside an object with others: ONNX Runtime's kernels want 64 bytes, a
#: mapping wants pages.
_ALIGNMENT = 64
_PAGE = 4096

_FIELDS = (
    "raw_data", "float_data", "int32_data", "int64_data", "uint64_data", "double_data", "external_data"
)  # fmt: skip


@dataclass(frozen=True)
class Packed:
    """Prepacked data of one initializer for one kernel: ONNX Runtime's key, and what it wrote under it."""

    key: str
    #: Each buffer as a way to read it, with the checksum that ONNX Runtime wrote beside it.
    buffers: Sequence[tuple[Callable[[], bytes], str]]


@dataclass
class Rewritten:
    """A model in its new form."""

    #: The graph, in ONNX's own format; locations are names of objects.
    graph: bytes
    #: The objects, held; in the order of their first use.
    memories: list[Any] = field(default_factory=list)
    #: Bytes of tensors that are in objects, and bytes of prepacked data beside them.
    tensor_bytes: int = 0
    packed_bytes: int = 0


def rewrite(
    model: ModelProto,
    folder: str,
    publish: Callable[[bytes], Any],
    packed: Mapping[str, Sequence[Packed]] | None = None,
) -> Rewritten:
    """Move the tensors of a model into objects.

    Args:
        model: The model; it is changed.
        folder: The directory that its external locations are relative to.
        publish: Puts bytes into the store and returns the object's memory.
        packed: Prepacked data by name of the initializer.

    Raises:
        Unsupported: Something in the model cannot be moved.
        Unavailable: An external file cannot be read, or the store cannot take an object.
    """
    tensors.check_fixed(model)
    result = Rewritten(b"")
    packed = packed or {}
    small: list[tuple[TensorProto, bytes]] = []
    moved = 0
    for name, tensor in tensors.movable(model):
        data = tensors.data_of(tensor, folder)
        if data is None:
            continue
        if len(data) < INLINE_MAX_BYTES or moved >= _EXTERNAL_MAX:
            if tensors.is_external(tensor):
                _make_inline(tensor, data)
            continue
        moved += 1
        if len(data) >= OBJECT_MIN_BYTES:
            blob, entries = _with_packed(data, packed.get(name, ()))
            memory = _object(publish, blob)
            _make_external(tensor, memory.object, 0, len(data), entries)
            result.memories.append(memory)
            result.tensor_bytes += len(data)
            result.packed_bytes += len(blob) - len(data)
        else:
            small.append((tensor, data))
    _gather(small, publish, result)
    result.graph = model.SerializeToString(deterministic=True)
    return result


def _gather(small: Sequence[tuple[TensorProto, bytes]], publish: Callable[[bytes], Any], result: Rewritten) -> None:
    """Put small tensors into one object, or leave them in the graph where there is too little to gather."""
    blob = bytearray()
    places: list[int] = []
    for _, data in small:
        blob.extend(bytes(-len(blob) % _ALIGNMENT))
        places.append(len(blob))
        blob.extend(data)
    if len(blob) < OBJECT_MIN_BYTES:
        for tensor, data in small:
            if tensors.is_external(tensor):
                _make_inline(tensor, data)
        return
    memory = _object(publish, bytes(blob))
    for (tensor, data), offset in zip(small, places, strict=True):
        _make_external(tensor, memory.object, offset, len(data), {})
    result.memories.append(memory)
    result.tensor_bytes += len(blob)


def _object(publish: Callable[[bytes], Any], blob: bytes) -> Any:
    memory = publish(blob)
    if memory.object is None:
        raise Unavailable(f"the store could not take an object of {len(blob)} bytes")
    return memory


def _with_packed(data: bytes, packed: Sequence[Packed]) -> tuple[bytes, dict[str, str]]:
    """A tensor and its prepacked data as one object, because ONNX Runtime looks for both in the same file."""
    if not packed:
        return data, {}
    blob = bytearray(data)
    entries: dict[str, str] = {}
    for index, one in enumerate(packed):
        places = []
        for read, checksum in one.buffers:
            blob.extend(bytes(-len(blob) % _PAGE))
            buffer = read()
            places.append(f"{len(blob)};{len(buffer)};{checksum}")
            blob.extend(buffer)
        entries[f"prepacked_{index}"] = "|".join([one.key, *places])
    return bytes(blob), entries


def _make_external(tensor: TensorProto, location: str, offset: int, length: int, more: Mapping[str, str]) -> None:
    for name in _FIELDS:
        tensor.ClearField(name)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": str(offset), "length": str(length), **more}.items():
        pair = tensor.external_data.add()
        pair.key, pair.value = key, value


def _make_inline(tensor: TensorProto, data: bytes) -> None:
    for name in _FIELDS:
        tensor.ClearField(name)
    tensor.ClearField("data_location")
    tensor.raw_data = data
