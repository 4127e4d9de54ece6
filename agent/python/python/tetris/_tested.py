"""Versions of libraries that the package works with, and those that are tested."""

from __future__ import annotations

import re
from typing import NamedTuple


class Tested(NamedTuple):
    """Versions of a library."""

    #: The oldest that the package accepts, if it states one.
    oldest: str | None
    #: The one that the tests run with.
    newest: str


#: Libraries by distribution. A test compares this with pyproject.toml and the requirements of the tests.
TESTED = {
    "safetensors": Tested("0.6", "0.8.0"),
    "torch": Tested("2.4", "2.15.0"),
    "numpy": Tested("1.26", "2.4.6"),
    "ml_dtypes": Tested("0.4", "0.6.0"),
    "transformers": Tested(None, "5.23.0"),
    "diffusers": Tested(None, "0.42.1"),
    "accelerate": Tested(None, "1.15.0"),
    "peft": Tested(None, "0.21.2"),
    "onnx": Tested("1.16", "1.23.2"),
    "onnxruntime": Tested("1.21", "1.31.1"),
}


def release_of(version: str) -> tuple[int, ...] | None:
    """Return the numbers of a version without its suffixes: 2.4.0+cu121 is (2, 4); `None` for no version."""
    found = re.match(r"\s*v?(?:\d+!)?(\d+(?:\.\d+)*)", version)
    if found is None:
        return None
    numbers = [int(number) for number in found[1].split(".")]
    # 2.4.0 is 2.4.
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def known(version: str) -> tuple[int, ...]:
    """As :func:`release_of`, for a version of ours."""
    return release_of(version) or ()


def is_older(version: str, oldest: str) -> bool:
    """Returns true if a version is older than the other; false for what is no version number."""
    release = release_of(version)
    return release is not None and release < known(oldest)
