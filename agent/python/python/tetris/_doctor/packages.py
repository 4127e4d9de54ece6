"""Versions of the libraries that load models, beside those that are tested."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Any, NamedTuple

from tetris._doctor.checks import check


class Tested(NamedTuple):
    """Versions of a library."""

    #: The oldest that the package accepts, if it says one.
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


def package_checks() -> list[dict[str, Any]]:
    """Return one check for all libraries in the tested range, and one for each outside of it."""
    found = {name: version for name in TESTED if (version := _installed(name)) is not None}
    outside = [_outside(name, version) for name, version in found.items()]
    doubtful = [one for one in outside if one is not None]
    names = {one["facts"]["name"] for one in doubtful}
    tested = [f"{name} {version}" for name, version in found.items() if name not in names]
    words = ", ".join(tested) if tested else "none in the tested range"
    return [check("libraries", "ok", words, facts={"versions": found}), *doubtful]


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _outside(name: str, version: str) -> dict[str, Any] | None:
    oldest, newest = TESTED[name]
    facts = {"name": name, "version": version, "oldest": oldest, "newest": newest}
    release = release_of(version)
    if release is None:
        return check(name, "note", f"{version}, which is no version number", facts=facts)
    if oldest is not None and release < _known(oldest):
        return check(
            name,
            "warning",
            f"{version} is older than any that works",
            expected=f"{oldest} or later",
            remedy=f"run `pip install '{name}>={oldest}'`",
            facts=facts,
        )
    if release > _known(newest):
        return check(name, "note", f"{version} is newer than {newest}, the newest tested", facts=facts)
    return None


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


def _known(version: str) -> tuple[int, ...]:
    return release_of(version) or ()
