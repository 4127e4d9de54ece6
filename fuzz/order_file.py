"""Any bytes as an order file: an error of one kind, or names.

The format is read by Python alone, so its target is too. Run by ``tests/fuzz order_file`` with the package's Python:

    python fuzz/order_file.py SECONDS
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from python_target import Target, instrumented, main

with instrumented(__name__):
    from tetris._order import OrderError, order_for, read_order

#: Names of the model's tensors.
NAMES = ["a", "b", "c"]

#: A trace of two runs and two initializations.
TRACE = {
    "format": "tetris-order",
    "version": 2,
    "models": ["00ff"],
    "inference": {"runs": 2, "uses": {"b": [0, 2, 0], "a": [70000, 2, 1]}},
    "initialization": {"runs": 2, "uses": {"c": [0, 1, 0]}},
    "origins": {"runs": 2, "same": {"a": "00ff"}, "dynamic": ["c"]},
}

#: Tokens that a mutation inserts.
WORDS = [
    b'"format"',
    b'"tetris-order"',
    b'"version"',
    b'"tensors"',
    b'"inference"',
    b'"uses"',
    b'"origins"',
    b'"runs"',
    b'["a","b"]',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"1",
    b"-1e999",
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


def seeds() -> dict[str, bytes]:
    """The committed seeds by name."""
    order = {"format": "tetris-order", "version": 1, "tensors": ["c", "gone", "a"]}
    text = {
        "valid-order": json.dumps(order),
        "valid-no-names": json.dumps({**order, "tensors": []}),
        "valid-more-fields": json.dumps({**order, "later": [1.5, None]}),
        "valid-surrogate": json.dumps({**order, "tensors": ["\ud800"]}),
        "hostile-version": json.dumps({**order, "version": 3}),
        "hostile-trace": json.dumps({**order, "version": 2}),
        "valid-trace": json.dumps(TRACE),
        "hostile-trace-uses": json.dumps({**TRACE, "inference": {"runs": 1, "uses": {"a": [0, 2, 0]}}}),
        "hostile-version-true": json.dumps({**order, "version": True}),
        "hostile-format": json.dumps({**order, "format": "other"}),
        "hostile-names": json.dumps({**order, "tensors": ["a", 7]}),
        "hostile-no-list": json.dumps({**order, "tensors": "abc"}),
        "hostile-list": json.dumps([order]),
        "hostile-no-bytes": "",
        "hostile-nested": "[" * 100_000,
        "hostile-long-number": '{"format": "tetris-order", "version": ' + "9" * 5000 + "}",
    }
    return {name: content.encode() for name, content in text.items()} | {"hostile-not-utf8": b'{"\xff": 1}'}


def check(folder: Path, content: bytes) -> bool:
    """Read `content` as an order file in `folder`; return whether it is one."""
    path = folder / "model.safetensors.order.json"
    path.write_bytes(content)
    names = None
    try:
        names = read_order(path)
    except OrderError as error:
        assert 0 < len(str(error)) < 2000, len(str(error))
    order = order_for(folder / "model.safetensors", NAMES)
    if names is None:
        assert order is None
        return False
    assert all(isinstance(name, str) for name in names)
    expected = [name for name in dict.fromkeys(names) if name in NAMES]
    assert order == (expected or None)
    return True


TARGET = Target("order_file", seeds, check, WORDS)

if __name__ == "__main__":
    # The package tells each file that it passes over.
    logging.disable()
    os.environ["TETRIS_ORDER_DIR"] = "/nonexistent"
    main(TARGET)
