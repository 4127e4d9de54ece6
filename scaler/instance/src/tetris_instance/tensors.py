"""Tensors of the protocol: datatypes, their values in JSON, and what a model takes and gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tetris_instance.errors import RequestError

Array = NDArray[Any]
#: By name. Elements of BYTES are `bytes` objects.
Tensors = dict[str, Array]

#: Element types of the protocol. BF16 is not one, and numpy has none.
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

#: A size that may differ from request to request.
VARIABLE = -1


@dataclass(frozen=True)
class TensorSpec:
    """An input or an output of a model."""

    name: str
    datatype: str
    #: Sizes of the axes, :data:`VARIABLE` where any will do.
    shape: tuple[int, ...]

    def document(self) -> dict[str, Any]:
        """``$metadata_tensor`` of the protocol."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}


@dataclass(frozen=True)
class Signature:
    """What a model takes and gives, and how requests can be put together."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    #: Whether axis 0 of every tensor is that of rows which do not depend on each other.
    batches: bool
    #: Inputs that may be padded along axis 1, and with what. They have one length there within a request.
    padding: dict[str, int] = field(default_factory=dict)
    #: Outputs whose axis 1 is that of the padded inputs.
    sequence_outputs: frozenset[str] = frozenset()

    def input(self, name: str) -> TensorSpec | None:
        """The input of this name."""
        return next((spec for spec in self.inputs if spec.name == name), None)


def datatype_of(array: Array) -> str:
    """Return the protocol's name for the element type of an array.

    Raises:
        RequestError: The protocol has none.
    """
    found = _NAMES.get(array.dtype.newbyteorder("<") if array.dtype.kind in "iuf" else array.dtype)
    if found is None:
        raise RequestError(f"an output has elements of {array.dtype}, which the protocol has no datatype for", 500)
    return found
