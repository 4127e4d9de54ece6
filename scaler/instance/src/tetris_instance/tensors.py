"""Tensors of the protocol: datatypes, and signatures of models."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tetris_instance.errors import RequestError

Array = NDArray[Any]
#: Arrays by name. Elements of BYTES are `bytes` objects.
Tensors = dict[str, Array]

#: Element types of the protocol. BF16 is missing, as numpy has no such type.
DATATYPES = MappingProxyType(
    {
        "BOOL": np.dtype(np.bool_),
        "UINT8": np.dtype("<u1"),
        "UINT16": np.dtype("<u2"),
        "UINT32": np.dtype("<u4"),
        "UINT64": np.dtype("<u8"),
        "INT8": np.dtype("<i1"),
        "INT16": np.dtype("<i2"),
        "INT32": np.dtype("<i4"),
        "INT64": np.dtype("<i8"),
        "FP16": np.dtype("<f2"),
        "FP32": np.dtype("<f4"),
        "FP64": np.dtype("<f8"),
        "BYTES": np.dtype(np.object_),
    }
)
_NAMES = {dtype: name for name, dtype in DATATYPES.items()}

#: Marks a size that may differ between requests.
VARIABLE = -1


@dataclass(frozen=True)
class TensorSpec:
    """An input or an output of a model."""

    name: str
    datatype: str
    #: Sizes of the axes; :data:`VARIABLE` for any size.
    shape: tuple[int, ...]

    def document(self) -> dict[str, Any]:
        """Return ``$metadata_tensor`` of the protocol."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a model, and its rules for batching requests."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    #: True if axis 0 of every tensor enumerates independent rows.
    batches: bool
    #: Inputs that may be padded along axis 1, with the padding value. Within a request they have
    #: equal length.
    padding: dict[str, int] = field(default_factory=dict)
    #: Outputs with the padded inputs' length at axis 1.
    sequence_outputs: frozenset[str] = frozenset()

    def input(self, name: str) -> TensorSpec | None:
        """Return the input of this name."""
        return next((spec for spec in self.inputs if spec.name == name), None)


def nbytes(array: Array) -> int:
    """Return the bytes of an array's elements, with those of strings."""
    if array.dtype.kind != "O":
        return int(array.nbytes)
    return int(array.nbytes) + sum(map(len, array.ravel()))


def datatype_of(array: Array) -> str:
    """Return the protocol's name for the element type of an array.

    Raises:
        RequestError: The protocol has no such type.
    """
    found = _NAMES.get(array.dtype.newbyteorder("<") if array.dtype.kind in "iuf" else array.dtype)
    if found is None:
        raise RequestError(f"an output has elements of {array.dtype}, which the protocol has no datatype for", 500)
    return found
