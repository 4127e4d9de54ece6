"""``$tensor_data`` of the protocol: conversion between JSON arrays, flat or nested, and numpy
arrays.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import Any

import numpy as np

from tetris_instance.errors import RequestError, shown
from tetris_instance.tensors import DATATYPES, Array, datatype_of


def array_from(data: object, datatype: str, shape: tuple[int, ...], field: str) -> Array:
    """Convert JSON data to an array.

    Args:
        data: Parsed JSON: the elements in row-major order, or nested like the shape.
        datatype: One of :data:`DATATYPES`.
        shape: The shape, of any size.
        field: Name of the field in errors.

    Raises:
        RequestError: The data does not fit datatype and shape.
    """
    values = _flat(data, shape, field)
    _check_types(values, datatype, field)
    if datatype == "BYTES":
        return _bytes(values, field).reshape(shape)
    try:
        # Values out of range become infinite, and are refused below.
        with np.errstate(over="ignore"):
            array = np.array(values, dtype=DATATYPES[datatype])
    except OverflowError:
        raise RequestError(f"{field}: a value does not fit into {datatype}") from None
    if datatype.startswith("FP") and not np.isfinite(array).all():
        raise RequestError(f"{field}: a value is too large for {datatype}")
    return array.reshape(shape)


def values_of(array: Array, name: str) -> list[Any]:
    """Return the elements in row-major order, as JSON values.

    Raises:
        RequestError: JSON cannot represent a value.
    """
    datatype = datatype_of(array)
    flat = array.ravel()
    if datatype == "BYTES":
        try:
            return [value.decode() for value in flat]
        except UnicodeDecodeError:
            raise _not_in_json(name, "bytes that are not UTF-8") from None
    if datatype.startswith("FP") and not np.isfinite(flat).all():
        raise _not_in_json(name, "values that are not finite")
    values: list[Any] = flat.tolist()
    return values


def _not_in_json(name: str, what: str) -> RequestError:
    return RequestError(
        f"output `{name}` has {what}, which JSON cannot represent; request it with the parameter binary_data", 500
    )


def _flat(data: object, shape: tuple[int, ...], field: str) -> list[Any]:
    """Return the elements in row-major order."""
    if not isinstance(data, list):
        raise RequestError(f"{field} is {shown(data)}; expected an array")
    if not (data and isinstance(data[0], list)):
        expected = math.prod(shape)
        if len(data) != expected:
            raise RequestError(f"{field} has {len(data)} values; the shape {list(shape)} needs {shown(expected)}")
        return data
    level: list[Any] = [data]
    for axis, size in enumerate(shape):
        for part in level:
            if not isinstance(part, list) or len(part) != size:
                raise RequestError(
                    f"{field} has {shown(part)} at axis {axis}; the shape {list(shape)} needs an array of {size} there"
                )
        level = list(chain.from_iterable(level))
    return level


#: Python types of JSON values by datatype. In Python a bool is an int; here it is not.
_EXPECTED: dict[str, tuple[frozenset[type], str]] = {
    "BOOL": (frozenset({bool}), "true or false"),
    "BYTES": (frozenset({str}), "strings"),
    **{name: (frozenset({int}), "integers") for name in DATATYPES if "INT" in name},
    **{name: (frozenset({int, float}), "numbers") for name in DATATYPES if name.startswith("FP")},
}


def _check_types(values: list[Any], datatype: str, field: str) -> None:
    allowed, named = _EXPECTED[datatype]
    if not allowed.issuperset(map(type, values)):
        index, value = next((i, one) for i, one in enumerate(values) if type(one) not in allowed)
        raise RequestError(f"{field}: value {index} is {shown(value)}; {datatype} expects {named}")


def _bytes(values: list[str], field: str) -> Array:
    array = np.empty(len(values), dtype=np.object_)
    try:
        for index, value in enumerate(values):
            array[index] = value.encode()
    except UnicodeEncodeError:
        raise RequestError(f"{field}: value {index} is not Unicode text") from None
    return array
