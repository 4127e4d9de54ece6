"""Signature of a graph in the protocol's terms, with its rules for batching requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tetris_instance.errors import ConfigurationError
from tetris_instance.tensors import VARIABLE, Signature, TensorSpec

_DATATYPES = {
    "tensor(bool)": "BOOL",
    "tensor(uint8)": "UINT8",
    "tensor(uint16)": "UINT16",
    "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64",
    "tensor(int8)": "INT8",
    "tensor(int16)": "INT16",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
    "tensor(string)": "BYTES",
}
#: Inputs of an encoder; a mask makes padding harmless.
_TOKENS, _MASK = "input_ids", "attention_mask"
_ENCODER_INPUTS = frozenset({_TOKENS, _MASK, "token_type_ids", "position_ids"})


def signature_of(inputs: Sequence[Any], outputs: Sequence[Any]) -> Signature:
    """Return the signature of a graph.

    Rows are batched if axis 0 of all inputs and outputs is variable and has one name. Rows of
    different length are batched if the graph has tokens with a mask, and if the names of the
    outputs' axes show which ones have that length.

    Args:
        inputs: Inputs as ONNX Runtime describes them, with `name`, `type` and `shape`.
        outputs: Outputs in the same form.

    Raises:
        ConfigurationError: A type has no datatype in the protocol.
    """
    batches = _batches([*inputs, *outputs])
    padding, sequences = _padding(inputs, outputs) if batches else ({}, frozenset())
    return Signature(
        tuple(_spec(tensor, "input") for tensor in inputs),
        tuple(_spec(output, "output") for output in outputs),
        batches,
        padding,
        sequences,
    )


def _spec(one: Any, kind: str) -> TensorSpec:
    datatype = _DATATYPES.get(one.type)
    if datatype is None:
        raise ConfigurationError(f"the {kind} `{one.name}` is a {one.type}, which the protocol has no datatype for")
    return TensorSpec(one.name, datatype, tuple(size if isinstance(size, int) else VARIABLE for size in one.shape))


def _batches(tensors: list[Any]) -> bool:
    if not all(tensor.shape and not isinstance(tensor.shape[0], int) for tensor in tensors):
        return False
    return len({tensor.shape[0] for tensor in tensors if tensor.shape[0] is not None}) <= 1


def _padding(inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[dict[str, int], frozenset[str]]:
    """Return the padding values of inputs, and the outputs to cut."""
    nothing: tuple[dict[str, int], frozenset[str]] = ({}, frozenset())
    names = {tensor.name for tensor in inputs}
    if not {_TOKENS, _MASK} <= names <= _ENCODER_INPUTS:
        return nothing
    lengths = {tuple(tensor.shape[1:]) for tensor in inputs}
    length = next(iter(lengths))
    if len(lengths) > 1 or len(length) != 1 or not isinstance(length[0], str):
        return nothing
    rest = [output.shape[1:] for output in outputs]
    # A variable axis with another name, or none, may depend on the length in any way.
    for sizes in rest:
        if not all(isinstance(size, int) or (axis == 0 and size == length[0]) for axis, size in enumerate(sizes)):
            return nothing
    cut = frozenset(output.name for output in outputs if len(output.shape) > 1 and output.shape[1] == length[0])
    return dict.fromkeys(sorted(names), 0), cut
