"""Tensors in JSON: accepted and refused data, and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tetris_instance import json_data
from tetris_instance.errors import RequestError
from tetris_instance.tensors import DATATYPES

TAKEN: list[tuple[str, list[Any], list[Any]]] = [
    ("BOOL", [True, False], [True, False]),
    ("UINT8", [0, 255], [0, 255]),
    ("UINT16", [0, 65535], [0, 65535]),
    ("UINT32", [0, 2**32 - 1], [0, 2**32 - 1]),
    ("UINT64", [0, 2**64 - 1], [0, 2**64 - 1]),
    ("INT8", [-128, 127], [-128, 127]),
    ("INT16", [-32768, 32767], [-32768, 32767]),
    ("INT32", [-(2**31), 2**31 - 1], [-(2**31), 2**31 - 1]),
    ("INT64", [-(2**63), 2**63 - 1], [-(2**63), 2**63 - 1]),
    ("FP16", [0.5, 65504], [0.5, 65504.0]),
    ("FP32", [0.5, -3], [0.5, -3.0]),
    ("FP64", [0.1, 1e300], [0.1, 1e300]),
    ("BYTES", ["", "zwei € 𝄞"], ["", "zwei € 𝄞"]),
]

REFUSED: list[tuple[str, list[Any], str]] = [
    ("BOOL", [0, 1], "expects true or false"),
    ("UINT8", [0, 256], "does not fit into UINT8"),
    ("UINT64", [0, -1], "does not fit into UINT64"),
    ("INT8", [-129, 0], "does not fit into INT8"),
    ("INT64", [2**63, 0], "does not fit into INT64"),
    ("INT64", [1.0, 0], "value 0 is 1.0; INT64 expects integers"),
    ("INT64", [0, True], "value 1 is True; INT64 expects integers"),
    ("INT64", [0, None], "value 1 is None; INT64 expects integers"),
    ("INT64", ["1", 0], "value 0 is '1'; INT64 expects integers"),
    ("FP32", [0.0, False], "value 1 is False; FP32 expects numbers"),
    ("FP16", [0.0, 65536], "too large for FP16"),
    ("FP32", [0.0, 1e39], "too large for FP32"),
    ("FP64", [0.0, float("1e999")], "too large for FP64"),
    ("FP64", [0.0, 10**400], "does not fit into FP64"),
    ("BYTES", ["a", 1], "value 1 is 1; BYTES expects strings"),
    ("BYTES", ["a", "\ud800"], "value 1 is not Unicode text"),
]


@pytest.mark.parametrize(("datatype", "data", "expected"), TAKEN, ids=[one[0] for one in TAKEN])
def test_every_datatype_is_taken_and_given_back(datatype: str, data: list[Any], expected: list[Any]) -> None:
    for shape, form in (((2,), data), ((2, 1), [[one] for one in data]), ((2, 1), data), ((1, 2), [data])):
        array = json_data.array_from(form, datatype, shape, "data")
        assert (array.dtype, array.shape) == (DATATYPES[datatype], shape)
        assert json_data.values_of(array, "out") == expected


@pytest.mark.parametrize(("datatype", "data", "message"), REFUSED)
def test_values_that_are_none_of_the_datatype_are_refused(datatype: str, data: list[Any], message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        json_data.array_from(data, datatype, (2,), "inputs[0].data")
    assert str(caught.value).startswith("inputs[0].data")
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        ([1, 2, 3], (2, 2)),
        ([1, 2, 3, 4, 5], (2, 2)),
        ([[1, 2], [3]], (2, 2)),
        ([[1, 2], [3, 4], [5, 6]], (2, 2)),
        ([[1, 2], 3], (2, 2)),
        ([[[1, 2], [3, 4]]], (2, 2)),
        ([[[1], [2]], [[3], [4]]], (2, 2)),
        ([1, [2, 3, 4]], (2, 2)),
        ([[]], (0,)),
        ([1], (0,)),
        ([], (1,)),
        ({}, (1,)),
        ("1", (1,)),
        (1, ()),
        (None, (1,)),
    ],
)
def test_data_of_another_shape_is_refused(data: object, shape: tuple[int, ...]) -> None:
    with pytest.raises(RequestError, match=r"inputs\[0\].data"):
        json_data.array_from(data, "INT64", shape, "inputs[0].data")


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty_tensors_are_tensors(shape: tuple[int, ...]) -> None:
    assert json_data.array_from([], "FP32", shape, "data").shape == shape


def test_a_scalar_has_one_value() -> None:
    assert json_data.array_from([7], "INT32", (), "data").item() == 7


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_json_has_no_form_of_is_an_error_that_names_the_output(value: float) -> None:
    with pytest.raises(RequestError, match=r"output `y`.*binary_data"):
        json_data.values_of(np.array([value], dtype=np.float32), "y")


def test_bytes_that_are_no_text_cannot_be_in_json() -> None:
    array = np.empty(1, dtype=np.object_)
    array[0] = b"\xff"
    with pytest.raises(RequestError, match=r"output `y`.*binary_data"):
        json_data.values_of(array, "y")
