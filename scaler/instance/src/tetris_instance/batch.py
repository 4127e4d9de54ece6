"""Join requests to one run of the model, and split its results."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from tetris_instance.tensors import Array, Signature, Tensors

#: Outcome of a request.
Outcome = Tensors | Exception


@dataclass(eq=False)
class Item:
    """Rows that are computed together: a request, or a part of a large one."""

    inputs: Tensors
    rows: int
    #: Items with equal keys can share a batch.
    key: Hashable
    #: Time of arrival, in seconds of the queue's clock.
    arrived: float
    #: Called once, from any thread.
    deliver: Callable[[Outcome], None]


def rows_of(inputs: Tensors, signature: Signature) -> int:
    """Return the number of rows of the inputs; 1 if the model has no rows."""
    return next(iter(inputs.values())).shape[0] if signature.batches else 1


def key_of(inputs: Tensors, signature: Signature) -> Hashable:
    """Return a key that is equal for inputs that can be concatenated along axis 0, with padding if
    the model supports it.
    """
    return tuple(
        (name, array.shape[2:] if name in signature.padding else array.shape[1:])
        for name, array in sorted(inputs.items())
    )


def chunks(inputs: Tensors, signature: Signature, limit: int) -> list[Tensors]:
    """Split inputs into parts of at most `limit` rows."""
    rows = rows_of(inputs, signature)
    if rows <= limit:
        return [inputs]
    return [{name: array[begin : begin + limit] for name, array in inputs.items()} for begin in range(0, rows, limit)]


def join(items: Sequence[Item], signature: Signature) -> Tensors:
    """Join the inputs of items to those of one run."""
    if len(items) == 1:
        return items[0].inputs
    joined = {}
    for name in items[0].inputs:
        arrays = [item.inputs[name] for item in items]
        if name in signature.padding:
            longest = max(array.shape[1] for array in arrays)
            arrays = [_padded(array, longest, signature.padding[name]) for array in arrays]
        joined[name] = np.concatenate(arrays)
    return joined


def split(outputs: Tensors, items: Sequence[Item], signature: Signature) -> list[Tensors]:
    """Return each item's part of the outputs of one run.

    Raises:
        ValueError: The outputs do not have one row per input row.
    """
    if signature.batches:
        _check_rows(outputs, sum(item.rows for item in items))
    if len(items) == 1:
        return [outputs]
    parts = []
    begin = 0
    for item in items:
        part = {name: array[begin : begin + item.rows] for name, array in outputs.items()}
        for name in signature.sequence_outputs:
            part[name] = part[name][:, : length_of(item.inputs, signature)]
        parts.append(part)
        begin += item.rows
    return parts


def length_of(inputs: Tensors, signature: Signature) -> int:
    """Return the length of the padded inputs at axis 1."""
    length: int = inputs[next(iter(signature.padding))].shape[1]
    return length


def _check_rows(outputs: Tensors, rows: int) -> None:
    for name, array in outputs.items():
        if array.ndim == 0 or array.shape[0] != rows:
            raise ValueError(f"the model gave `{name}` the shape {list(array.shape)} for {rows} rows")


def _padded(array: Array, length: int, value: int) -> Array:
    missing = length - array.shape[1]
    if missing == 0:
        return array
    widths = [(0, 0), (0, missing), *[(0, 0)] * (array.ndim - 2)]
    return np.pad(array, widths, constant_values=value)
