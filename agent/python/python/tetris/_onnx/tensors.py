"""The tensors of a model, and their bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

from tetris._onnx.errors import Unavailable, Unsupported

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

#: Bits of one element, by ONNX data type. Strings have none.
_BITS: dict[int, int] = {
    getattr(TensorProto, name): bits
    for bits, names in {
        2: ("INT2", "UINT2"),
        4: ("INT4", "UINT4", "FLOAT4E2M1"),
        8: ("INT8", "UINT8", "BOOL", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0"),
        16: ("INT16", "UINT16", "FLOAT16", "BFLOAT16"),
        32: ("INT32", "UINT32", "FLOAT"),
        64: ("INT64", "UINT64", "DOUBLE", "COMPLEX64"),
        128: ("COMPLEX128",),
    }.items()
    for name in names
    if hasattr(TensorProto, name)
}

#: Where a tensor without raw data keeps its elements, and as what: field, and the type of the bytes it stands for.
#: Types of less than 8 bits are not here: their typed form is rare, and how it is packed differs by version.
_TYPED: dict[int, tuple[str, str]] = {
    **{t: ("int32_data", f"<u{_BITS[t] // 8}") for t in _BITS if _BITS[t] in (8, 16)},
    TensorProto.INT32: ("int32_data", "<i4"),
    TensorProto.INT64: ("int64_data", "<i8"),
    TensorProto.UINT32: ("uint64_data", "<u4"),
    TensorProto.UINT64: ("uint64_data", "<u8"),
    TensorProto.FLOAT: ("float_data", "<f4"),
    TensorProto.COMPLEX64: ("float_data", "<f4"),
    TensorProto.DOUBLE: ("double_data", "<f8"),
    TensorProto.COMPLEX128: ("double_data", "<f8"),
}


def nbytes(tensor: TensorProto) -> int | None:
    """Length of a tensor's data by its type and dimensions; ``None`` where it has no fixed length."""
    bits = _BITS.get(tensor.data_type)
    if bits is None or any(dim < 0 for dim in tensor.dims):
        return None
    elements = 1
    for dim in tensor.dims:
        elements *= dim
    return (elements * bits + 7) // 8


def movable(model: ModelProto) -> Iterator[tuple[str, TensorProto]]:
    """The tensors that can be external data for ONNX Runtime: initializers, and the values of Constant nodes.

    Yields each with its name; for those of nested graphs, and of Constant nodes, the empty string, because such a
    name has no meaning outside its graph. The order is that of the file.
    """
    yield from _of_graph(model.graph, outermost=True)


def _of_graph(graph: GraphProto, *, outermost: bool) -> Iterator[tuple[str, TensorProto]]:
    for tensor in graph.initializer:
        yield (tensor.name if outermost else ""), tensor
    for node in graph.node:
        for attribute in node.attribute:
            if is_constant_value(node, attribute):
                yield "", attribute.t
            for nested in _nested(attribute):
                yield from _of_graph(nested, outermost=False)


def is_constant_value(node: NodeProto, attribute: AttributeProto) -> bool:
    """Returns true if this is the tensor of a Constant node."""
    return node.op_type == "Constant" and node.domain in ("", "ai.onnx") and attribute.name == "value"


def _nested(attribute: AttributeProto) -> Iterator[GraphProto]:
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def check_fixed(model: ModelProto) -> None:
    """Check that the tensors that stay where they are have their data with them.

    These are sparse initializers, attributes other than that of Constant nodes, and what is inside functions.

    Raises:
        Unsupported: One of them is external data, which would be looked for beside the rewritten graph.
    """
    for tensor in _fixed_of_graph(model.graph):
        _refuse_external(tensor)
    for function in model.functions:
        for node in function.node:
            for tensor in _all_of_node(node):
                _refuse_external(tensor)


def _fixed_of_graph(graph: GraphProto) -> Iterator[TensorProto]:
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            if not is_constant_value(node, attribute):
                yield from _of_attribute(attribute)
            for nested in _nested(attribute):
                yield from _fixed_of_graph(nested)


def _of_attribute(attribute: AttributeProto) -> Iterator[TensorProto]:
    yield attribute.t
    yield from attribute.tensors
    for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
        yield from (sparse.values, sparse.indices)


def _all_of_node(node: NodeProto) -> Iterator[TensorProto]:
    for attribute in node.attribute:
        yield from _of_attribute(attribute)
        for nested in _nested(attribute):
            yield from nested.initializer
            for inner in nested.node:
                yield from _all_of_node(inner)


def _refuse_external(tensor: TensorProto) -> None:
    if is_external(tensor):
        raise Unsupported(f"external data outside initializers and constants: {tensor.name!r}")


def is_external(tensor: TensorProto) -> bool:
    """Returns true if a tensor's data is in another file."""
    return tensor.data_location == TensorProto.EXTERNAL


def external_entries(tensor: TensorProto) -> dict[str, str]:
    """The key-value pairs that say where a tensor's data is."""
    return {pair.key: pair.value for pair in tensor.external_data}


def external_files(model: ModelProto) -> list[str]:
    """The files beside the model that its tensors are in, as the model names them, each once, sorted.

    Raises:
        Unsupported: A location is not that of a file: ONNX Runtime's marks for addresses in memory.
    """
    check_fixed(model)
    files = {external_entries(tensor).get("location", "") for _, tensor in movable(model) if is_external(tensor)}
    for location in files:
        if not location or os.path.isabs(location) or location.startswith("*/"):
            raise Unsupported(f"external data at {location!r}")
    return sorted(files)


def data_of(tensor: TensorProto, folder: str) -> bytes | None:
    """A tensor's bytes, little-endian and packed, as they would be in an external file.

    Args:
        tensor: The tensor.
        folder: The directory that external locations are relative to.

    Returns:
        The bytes, of the length that type and dimensions ask for; ``None`` where the tensor has to stay as it is:
        strings, types of unknown size, and types of less than 8 bits that are not raw.

    Raises:
        Unsupported: The data has another length than the tensor.
        Unavailable: The external file is missing, too short, or outside of the model's directory.
    """
    expected = nbytes(tensor)
    if expected is None:
        if is_external(tensor):
            raise Unsupported(f"external data of type {tensor.data_type} in {tensor.name!r}")
        return None
    if is_external(tensor):
        return _read_external(tensor, folder, expected)
    if tensor.HasField("raw_data"):
        data = tensor.raw_data
    elif tensor.data_type in _TYPED:
        field, dtype = _TYPED[tensor.data_type]
        data = _narrow(np.array(getattr(tensor, field)), np.dtype(dtype))
    else:
        return None
    if len(data) != expected:
        raise Unsupported(f"{tensor.name!r} has {len(data)} bytes where its shape asks for {expected}")
    return data


def _narrow(values: np.ndarray, dtype: np.dtype) -> bytes:
    # The fields are wider than the elements: an int32 stands for the bits of an int8 or of a float16.
    if dtype.kind == "u" and values.dtype.kind == "i":
        values = values.astype(np.int64)
    return values.astype(dtype).tobytes()


def _read_external(tensor: TensorProto, folder: str, expected: int) -> bytes:
    entries = external_entries(tensor)
    path = os.path.join(folder, entries["location"])
    try:
        offset = int(entries.get("offset") or 0)
        length = int(entries.get("length") or expected)
    except ValueError as error:
        raise Unsupported(f"external data of {tensor.name!r}: {error}") from error
    if length != expected or offset < 0:
        raise Unsupported(f"{tensor.name!r} has {length} bytes at {offset} where its shape asks for {expected}")
    return read_range(path, offset, length, repr(tensor.name))


def read_range(path: str, offset: int, length: int, what: str) -> bytes:
    """Return a part of a file.

    Raises:
        Unavailable: The file cannot be read, or ends before.
    """
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read(length)
    except OSError as error:
        raise Unavailable(str(error)) from error
    if len(data) != length:
        raise Unavailable(f"{path} ends within {what}: {length} bytes at {offset}")
    return data
