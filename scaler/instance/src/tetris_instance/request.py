"""``$inference_request`` of the protocol: parser from the bytes of a body to checked tensors."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, NoReturn

from tetris_instance import binary_data, json_data
from tetris_instance.errors import RequestError, shown
from tetris_instance.tensors import DATATYPES, Array, Signature, Tensors, TensorSpec

#: Alternative input to the tokens of a model: texts, one per row.
TEXT = TensorSpec("text", "BYTES", (-1,))
#: Maximum number of axes; numpy takes 64.
_MAX_AXES = 16
_MAX_SIZE = 2**63 - 1
#: Maximum number of elements of a shape, counting empty axes as 1: numpy cannot count more than
#: 2^63 bytes.
_MAX_ELEMENTS = 2**40
#: Maximum number of arrays and objects in the JSON of a request, counted before it is parsed: each takes some 60 bytes
#: of memory for two of the text. Rows need an array each at most, and none if the data is flat.
_MAX_CONTAINERS = 2**17


@dataclass(frozen=True)
class Wanted:
    """A requested output."""

    name: str
    binary: bool


@dataclass(frozen=True)
class InferenceRequest:
    """A parsed inference request."""

    id: str | None
    inputs: Tensors
    outputs: tuple[Wanted, ...]


def parse(body: bytes, header_bytes: int | None, signature: Signature, *, takes_text: bool) -> InferenceRequest:
    """Parse a request.

    Args:
        body: JSON, or JSON followed by binary data.
        header_bytes: Length of the JSON if binary data follows it.
        signature: Inputs and outputs of the model.
        takes_text: True if :data:`TEXT` is accepted instead.

    Raises:
        RequestError: The model cannot answer the request; the message names the field.
    """
    if header_bytes is not None and header_bytes > len(body):
        raise RequestError(f"{binary_data.HEADER} is {header_bytes}; the body has {len(body)} bytes")
    document = _object(_json(body if header_bytes is None else body[:header_bytes]), "the body")
    identifier = document.get("id")
    if identifier is not None and not isinstance(identifier, str):
        raise RequestError(f"id is {shown(identifier)}; expected a string")
    parameters = _object(document.get("parameters", {}), "parameters")
    blobs = _Blobs(memoryview(body)[header_bytes:] if header_bytes is not None else None)
    inputs: Tensors = {}
    for index, one in enumerate(_array(document.get("inputs"), "inputs")):
        name, array = _input(_object(one, f"inputs[{index}]"), f"inputs[{index}]", signature, blobs, takes_text)
        if name in inputs:
            raise RequestError(f"inputs[{index}].name is `{name}`, which is given twice")
        inputs[name] = array
    blobs.finish()
    _check_complete(inputs, signature, takes_text)
    binary = _bool(parameters, "binary_data_output", "parameters")
    return InferenceRequest(identifier, inputs, _outputs(document.get("outputs"), signature, binary))


class _Blobs:
    """Binary data, consumed from the front."""

    def __init__(self, data: memoryview | None) -> None:
        self._data = data

    def take(self, size: int, field: str) -> memoryview:
        if self._data is None:
            raise RequestError(f"{field} is {size}; binary data needs the header {binary_data.HEADER}")
        if size > len(self._data):
            raise RequestError(f"{field} is {shown(size)}; {len(self._data)} bytes of binary data are left")
        taken, self._data = self._data[:size], self._data[size:]
        return taken

    def finish(self) -> None:
        if self._data:
            raise RequestError(f"the body has {len(self._data)} bytes after the data of all inputs")


def _json(text: bytes) -> object:
    containers = text.count(b"[") + text.count(b"{")
    if containers > _MAX_CONTAINERS:
        raise RequestError(
            f"the body has {containers} arrays and objects; expected at most {_MAX_CONTAINERS}; give data flat"
        )
    try:
        return json.loads(text.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise RequestError(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise RequestError("the body is nested too deeply") from None
    except ValueError as error:
        raise RequestError(f"the body is not JSON: {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _input(
    document: dict[str, Any], field: str, signature: Signature, blobs: _Blobs, takes_text: bool
) -> tuple[str, Array]:
    name = document.get("name")
    if not isinstance(name, str):
        raise RequestError(f"{field}.name is {shown(name)}; expected a string")
    spec = TEXT if takes_text and name == TEXT.name else signature.input(name)
    if spec is None:
        raise RequestError(f"{field}.name is {shown(name)}; expected one of {_names(signature.inputs)}")
    field = f"{field} (`{spec.name}`)"
    datatype = document.get("datatype")
    if datatype != spec.datatype:
        unknown = isinstance(datatype, str) and datatype not in DATATYPES
        known = ", and the protocol has no such datatype" if unknown else ""
        raise RequestError(f"{field}.datatype is {shown(datatype)}; expected {spec.datatype}{known}")
    shape = _shape(document.get("shape"), spec, signature.batches, f"{field}.shape")
    parameters = _object(document.get("parameters", {}), f"{field}.parameters")
    size = parameters.get("binary_data_size")
    if size is None:
        if "data" not in document:
            raise RequestError(f"{field}.data is missing")
        return spec.name, json_data.array_from(document["data"], spec.datatype, shape, f"{field}.data")
    if type(size) is not int or size < 0:
        raise RequestError(f"{field}.parameters.binary_data_size is {shown(size)}; expected a number of bytes")
    if "data" in document:
        raise RequestError(f"{field} has data and binary_data_size; expected one of them")
    blob = blobs.take(size, f"{field}.parameters.binary_data_size")
    return spec.name, binary_data.array_from(blob, spec.datatype, shape, f"{field}.data")


def _shape(value: object, spec: TensorSpec, batches: bool, field: str) -> tuple[int, ...]:
    sizes = _array(value, field)
    if len(sizes) > _MAX_AXES or not all(type(size) is int and 0 <= size <= _MAX_SIZE for size in sizes):
        raise RequestError(f"{field} is {shown(sizes)}; expected at most {_MAX_AXES} integers of 0 to 2^63 - 1")
    shape = tuple(sizes)
    fits = len(shape) == len(spec.shape) and all(
        size == wanted or wanted < 0 for size, wanted in zip(shape, spec.shape, strict=True)
    )
    if not fits:
        raise RequestError(f"{field} is {list(shape)}; expected {list(spec.shape)}, where -1 is any size")
    if math.prod(max(1, size) for size in shape) > _MAX_ELEMENTS:
        raise RequestError(f"{field} is {list(shape)}; expected at most 2^40 elements")
    if (batches or spec is TEXT) and shape[0] == 0:
        raise RequestError(f"{field} is {list(shape)}; expected at least one row")
    return shape


def _check_complete(inputs: Tensors, signature: Signature, takes_text: bool) -> None:
    if takes_text and TEXT.name in inputs:
        if len(inputs) > 1:
            raise RequestError(f"inputs has `{TEXT.name}` and others; expected it alone")
        return
    missing = [spec for spec in signature.inputs if spec.name not in inputs]
    if missing:
        instead = f", or `{TEXT.name}`" if takes_text else ""
        raise RequestError(f"inputs lacks {_names(missing)}{instead}")
    if signature.batches and len({array.shape[0] for array in inputs.values()}) > 1:
        rows = ", ".join(f"`{name}` {array.shape[0]}" for name, array in inputs.items())
        raise RequestError(f"inputs differ in the number of rows: {rows}")
    if len({inputs[name].shape[1] for name in signature.padding}) > 1:
        lengths = ", ".join(f"`{name}` {inputs[name].shape[1]}" for name in signature.padding)
        raise RequestError(f"inputs differ in length at axis 1: {lengths}")


def _outputs(value: object, signature: Signature, binary: bool) -> tuple[Wanted, ...]:
    known = [spec.name for spec in signature.outputs]
    if value is None or value == []:
        return tuple(Wanted(name, binary) for name in known)
    wanted: dict[str, Wanted] = {}
    for index, one in enumerate(_array(value, "outputs")):
        field = f"outputs[{index}]"
        name = _object(one, field).get("name")
        if name not in known:
            raise RequestError(f"{field}.name is {shown(name)}; expected one of {_names(signature.outputs)}")
        if name in wanted:
            raise RequestError(f"{field}.name is `{name}`, which is given twice")
        parameters = _object(one.get("parameters", {}), f"{field}.parameters")
        wanted[name] = Wanted(name, _bool(parameters, "binary_data", f"{field}.parameters", binary))
    return tuple(wanted.values())


def _names(specs: tuple[TensorSpec, ...] | list[TensorSpec]) -> str:
    return ", ".join(f"`{spec.name}`" for spec in specs)


def _object(value: object, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RequestError(f"{field} is {shown(value)}; expected an object")
    return value


def _array(value: object, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise RequestError(f"{field} is {'missing' if value is None else shown(value)}; expected an array")
    return value


def _bool(parameters: dict[str, Any], name: str, field: str, default: bool = False) -> bool:
    value = parameters.get(name, default)
    if not isinstance(value, bool):
        raise RequestError(f"{field}.{name} is {shown(value)}; expected true or false")
    return value
