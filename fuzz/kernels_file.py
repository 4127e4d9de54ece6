"""Any bytes as a kernels file: an error of one kind, or calls that are the same when they are written and read again.

The format is read by Python alone, so its target is too. Run by ``tests/fuzz kernels_file`` with the package's Python:

    python fuzz/kernels_file.py SECONDS
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from python_target import Bound, Target, instrumented, main

with instrumented(__name__):
    from tetris import _kernels

#: The parser of JSON takes 26 bytes for each byte of the file, where it has nothing but empty objects.
HEAP = Bound(fixed=256 << 10, per_byte=32)
#: Limits of the format.
MAX_CALLS = 4096

WORDS = [
    b'"format"',
    b'"tetris-kernels"',
    b'"version"',
    b'"models"',
    b'"devices"',
    b'"tensor"',
    b'"dtype"',
    b'"float"',
    b'"aten.mm.default"',
    b'[{"tensor":["float32",[2],null,"cuda"]}]',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"1",
    b"-1e999",
    b"9223372036854775808",
    b"true",
    b"null",
    b"NaN",
    b'"\\ud800"',
    b"\xef\xbb\xbf",
    b"\xff",
    b"\x00",
    b"9" * 5000,
    b"[" * 3000,
]


def document(*calls: Any, **more: Any) -> dict[str, Any]:
    """A kernels file of one device."""
    return {"format": "tetris-kernels", "version": 1, "models": ["00ff"], "devices": {"cuda": [*calls]}} | more


def call(*arguments: Any, operator: str = "aten.mm.default", **named: Any) -> list[Any]:
    """A call of an operator."""
    return [operator, [*arguments], named]


def seeds() -> dict[str, bytes]:
    """The committed seeds by name."""
    tensor = {"tensor": ["bfloat16", [16, 64], None, "cuda"]}
    strided = {"tensor": ["float32", [2, 3], [1, 2], "cpu"]}
    kinds = [{"dtype": "float32"}, {"layout": "strided"}, {"memory_format": "channels_last"}, {"float": "-inf"}]
    nested: list[Any] = [1]
    for _ in range(6):
        nested = [nested]
    text = {
        "valid-calls": json.dumps(document(call(tensor, strided), call(*kinds, dim=[0, -1], keep=True))),
        "valid-no-calls": json.dumps(document()),
        "valid-twice": json.dumps(document(call(tensor), call(tensor))),
        "valid-no-devices": json.dumps(document(devices={})),
        "valid-more-fields": json.dumps(document(later=1)),
        "hostile-version": json.dumps(document(version=2)),
        "hostile-format": json.dumps(document(format="other")),
        "hostile-models": json.dumps(document(models="00ff")),
        "hostile-model": json.dumps(document(models=["a/b"])),
        "hostile-devices": json.dumps(document(devices=[])),
        "hostile-many-devices": json.dumps(document(devices={f"d{index}": [] for index in range(9)})),
        "hostile-many-calls": json.dumps(document(*[call()] * (MAX_CALLS + 1))),
        "hostile-long-call": json.dumps(document(call("x" * 4000))),
        "hostile-operator": json.dumps(document(call(operator="os.system"))),
        "hostile-operator-surrogate": json.dumps(document(call(operator="a.b.\ud800"))),
        "hostile-named": json.dumps(document(["aten.mm.default", [], {"a b": 1}])),
        "hostile-nested": json.dumps(document(call(nested))),
        "hostile-two-kinds": json.dumps(document(call({"dtype": "float32", "layout": "strided"}))),
        "hostile-sizes": json.dumps(document(call({"tensor": ["float32", [-1], None, "cuda"]}))),
        "hostile-sizes-true": json.dumps(document(call({"tensor": ["float32", [True], None, "cuda"]}))),
        "hostile-strides": json.dumps(document(call({"tensor": ["float32", [2], [1, 1], "cuda"]}))),
        "hostile-dimensions": json.dumps(document(call({"tensor": ["float32", [1] * 65, None, "cuda"]}))),
        "hostile-float": json.dumps(document(call({"float": "1"}))),
        "hostile-integer": json.dumps(document(call(1 << 63))),
        "hostile-infinite": json.dumps(document(call())).replace("[]", "[1e999]", 1),
        "hostile-no-bytes": "",
        "hostile-nested-lists": "[" * 100_000,
        "hostile-long-number": '{"format": "tetris-kernels", "version": ' + "9" * 5000 + "}",
    }
    return {name: content.encode() for name, content in text.items()} | {"hostile-not-utf8": b'{"\xff": 1}'}


def heavy() -> dict[str, bytes]:
    """Files that take much memory for their length."""
    documents = {
        "lists": document(later=[[]] * 200_000),
        "objects": document(later=[{}] * 200_000),
        "texts": document(later=[f"{index:x}" for index in range(200_000)]),
        "calls": document(*[call(f"{index:x}") for index in range(MAX_CALLS)]),
    }
    return {name: json.dumps(found, separators=(",", ":")).encode() for name, found in documents.items()}


def check(folder: Path, content: bytes) -> bool:
    """Read `content` as a kernels file in `folder`; return true if it is one."""
    path = folder / "model.safetensors.kernels.json"
    path.write_bytes(content)
    try:
        trace = HEAP.hold(len(content), lambda: _kernels.read_kernels(path))
    except ValueError as error:
        assert 0 < len(str(error)) < 2000, len(str(error))
        return False
    assert sum(map(len, trace.devices.values())) <= MAX_CALLS
    path.write_text(_kernels._encoded(trace))
    again = _kernels.read_kernels(path)
    assert again.models == trace.models and dict(again.devices) == dict(trace.devices)
    return True


TARGET = Target("kernels_file", seeds, check, WORDS)

if __name__ == "__main__":
    logging.disable()
    main(TARGET)
