"""Any bytes as an inference request, JSON or JSON and binary data: an error of a client, or tensors of the model.

The reference instance server is in Python, so its target is too. Run by ``tests/fuzz instance_request``:

    python fuzz/instance_request.py SECONDS

The first byte of an input is the model's signature, the next two the length of the JSON before binary data, the lowest
byte first; with 0xffff there is none.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from python_target import Bound, Target, instrumented, main

with instrumented(__name__):
    from tetris_instance import binary_data, json_data
    from tetris_instance.errors import RequestError
    from tetris_instance.request import parse
    from tetris_instance.tensors import DATATYPES, Signature, TensorSpec

#: The parser of JSON takes 26 bytes for each byte of the body, where it has nothing but empty objects; elements of
#: BYTES take 33 bytes and more for 4 of binary data.
HEAP = Bound(fixed=256 << 10, per_byte=32)
#: Length of the JSON of a request without binary data.
NO_BINARY = 0xFFFF

TOKENS, TYPES, IMAGES = 0, 1, 2
SIGNATURES = [
    Signature(
        (TensorSpec("input_ids", "INT64", (-1, -1)), TensorSpec("attention_mask", "INT64", (-1, -1))),
        (TensorSpec("embedding", "FP32", (-1, 4)),),
        batches=True,
        padding={"input_ids": 0, "attention_mask": 0},
    ),
    Signature(
        tuple(TensorSpec(name.lower(), name, (-1,)) for name in DATATYPES),
        (TensorSpec("a", "FP32", (-1,)), TensorSpec("b", "BYTES", (-1,))),
        batches=False,
    ),
    Signature((TensorSpec("image", "UINT8", (-1, 2, 3)),), (TensorSpec("label", "BYTES", (-1,)),), batches=True),
]

WORDS = [
    b'"inputs"',
    b'"outputs"',
    b'"parameters"',
    b'"binary_data_size"',
    b'"binary_data_output"',
    b'"datatype"',
    b'"shape"',
    b'"data"',
    b'"INT64"',
    b'"BYTES"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"1",
    b"-1",
    b"true",
    b"null",
    b"1e999",
    b'"\\ud800"',
    b"\x00\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"9" * 5000,
    b"[" * 3000,
]


def request(signature: int, document: Any, binary: bytes | None = None, cut: int = 0) -> bytes:
    """An input: a request in JSON, followed by binary data."""
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    length = NO_BINARY if binary is None else len(text) - cut
    return bytes([signature]) + struct.pack("<H", length) + text + (binary or b"")


def tensor(name: str, datatype: str, shape: list[int], data: Any = None, size: int | None = None) -> dict[str, Any]:
    """An input of a request, with its data or the size of its binary data."""
    found: dict[str, Any] = {"name": name, "datatype": datatype, "shape": shape}
    if data is not None:
        found["data"] = data
    if size is not None:
        found["parameters"] = {"binary_data_size": size}
    return found


def inputs(*tensors: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A request of these inputs."""
    return {"inputs": [*tensors], **more}


def every_type(**changed: Any) -> dict[str, Any]:
    """A request with an input of each datatype."""
    values: dict[str, Any] = {"BOOL": [True, False], "BYTES": ["a", "\u00fc"]} | changed
    return inputs(*(tensor(name.lower(), name, [2], values.get(name, [0, 1])) for name in DATATYPES))


def seeds() -> dict[str, bytes]:
    """The committed seeds by name."""
    ids = tensor("input_ids", "INT64", [2, 3], [1, 2, 3, 4, 5, 6])
    mask = tensor("attention_mask", "INT64", [2, 3], [[1, 1, 1], [1, 1, 0]])
    text = tensor("text", "BYTES", [2], ["a", "b"])
    image = tensor("image", "UINT8", [1, 2, 3], size=6)
    texts = struct.pack("<I", 1) + b"a" + struct.pack("<I", 0)
    return {
        "valid-tokens": request(TOKENS, inputs(ids, mask, id="7", outputs=[{"name": "embedding"}])),
        "valid-text": request(TOKENS, inputs(text, parameters={"binary_data_output": True})),
        "valid-types": request(TYPES, every_type()),
        "valid-binary": request(IMAGES, inputs(image), bytes(6)),
        "valid-binary-text": request(TOKENS, inputs(tensor("text", "BYTES", [2], size=len(texts))), texts),
        "hostile-no-bytes": b"",
        "hostile-no-json": request(TOKENS, b"hello"),
        "hostile-not-utf8": request(TOKENS, b'{"id":"\xff"}'),
        "hostile-nested": request(TOKENS, b"[" * 50_000),
        "hostile-not-a-number": request(TOKENS, b'{"inputs":[NaN]}'),
        "hostile-long-number": request(TOKENS, b'{"inputs":[' + b"9" * 20_000 + b"]}"),
        "hostile-missing": request(TOKENS, inputs(ids)),
        "hostile-twice": request(TOKENS, inputs(ids, ids)),
        "hostile-unknown": request(TOKENS, inputs(tensor("x" * 20_000, "INT64", [1], [1]))),
        "hostile-shape": request(TOKENS, inputs(ids | {"shape": [1 << 62, 1 << 62]}, mask)),
        "hostile-shape-negative": request(TOKENS, inputs(ids | {"shape": [-1, 3]}, mask)),
        "hostile-shape-true": request(TOKENS, inputs(ids | {"shape": [True, 3]}, mask)),
        "hostile-no-rows": request(TOKENS, inputs(ids | {"shape": [0, 3], "data": []}, mask)),
        "hostile-few-values": request(TOKENS, inputs(ids | {"data": [1]}, mask)),
        "hostile-ragged": request(TOKENS, inputs(ids | {"data": [[1, 2], [3, 4, 5, 6]]}, mask)),
        "hostile-bool": request(TOKENS, inputs(ids | {"data": [True] * 6}, mask)),
        "hostile-range": request(TYPES, every_type(INT8=[0, 128])),
        "hostile-infinite": request(TYPES, every_type(FP16=[0, 1e9])),
        "hostile-surrogate": request(TYPES, every_type(BYTES=["a", "\ud800"])),
        "hostile-binary-short": request(IMAGES, inputs(image), bytes(5)),
        "hostile-binary-long": request(IMAGES, inputs(image), bytes(7)),
        "hostile-binary-size": request(IMAGES, inputs(tensor("image", "UINT8", [1, 2, 3], size=1 << 70)), bytes(6)),
        "hostile-binary-and-data": request(IMAGES, inputs(image | {"data": [0] * 6}), bytes(6)),
        "hostile-binary-without-header": request(IMAGES, inputs(image)),
        "hostile-binary-header": request(IMAGES, inputs(image), bytes(6), cut=-100),
        "hostile-binary-text": request(
            TOKENS, inputs(tensor("text", "BYTES", [1], size=8)), struct.pack("<I", 0xFFFFFFFF) + bytes(4)
        ),
        "hostile-output": request(TOKENS, inputs(ids, mask, outputs=[{"name": "\u001b[2J"}])),
    }


def heavy() -> dict[str, bytes]:
    """Requests that take much memory for their length."""
    empty = struct.pack("<I", 0) * 50_000

    def of(document: dict[str, Any]) -> bytes:
        return request(TYPES, json.dumps(document, separators=(",", ":")).encode())

    return {
        "lists": of(inputs(later=[[]] * 200_000)),
        "objects": of(inputs(later=[{}] * 200_000)),
        "values": of(every_type(INT8=[0] * 200_000)),
        "texts": of(every_type(BYTES=[f"{index:x}" for index in range(200_000)])),
        "binary texts": request(TOKENS, inputs(tensor("text", "BYTES", [50_000], size=len(empty))), empty),
    }


def check(_folder: Path, content: bytes) -> bool:
    """Parse `content` as a request; return true if the model can answer it."""
    if len(content) < 3:
        return False
    signature = SIGNATURES[content[0] % len(SIGNATURES)]
    (length,) = struct.unpack("<H", content[1:3])
    body, header = content[3:], None if length == NO_BINARY else length
    try:
        parsed = HEAP.hold(len(body), lambda: parse(body, header, signature, takes_text=True))
    except RequestError as error:
        assert 400 <= error.status < 500 and 0 < len(str(error)) < 2000, (error.status, len(str(error)))
        assert str(error).isprintable(), repr(str(error))
        return False
    for name, array in parsed.inputs.items():
        spec = signature.input(name) or TensorSpec("text", "BYTES", (-1,))
        assert array.dtype == DATATYPES[spec.datatype] and array.ndim == len(spec.shape), (name, array.dtype)
        again = binary_data.array_from(memoryview(binary_data.bytes_of(array)), spec.datatype, array.shape, name)
        assert np.array_equal(again, array), name
        if spec.datatype != "BYTES":
            same = json_data.array_from(json_data.values_of(array, name), spec.datatype, array.shape, name)
            assert np.array_equal(same, array), name
    assert {wanted.name for wanted in parsed.outputs} <= {spec.name for spec in signature.outputs}
    return True


TARGET = Target("instance_request", seeds, check, WORDS)

if __name__ == "__main__":
    main(TARGET)
