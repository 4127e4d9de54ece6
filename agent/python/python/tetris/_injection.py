"""The package as the node gives it to a pod whose image does not have it.

The webhook puts a folder of the node's volume on PYTHONPATH. Its ``sitecustomize`` waits for the first import of a
library that loads models, puts this package at the end of the module path, and calls :func:`begin`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import metadata
from types import ModuleType
from typing import NamedTuple

from tetris import _patch
from tetris._environment import switch
from tetris._tested import TESTED, is_older

#: Libraries that the package needs in the image. Where they are older, pip would not have installed the package.
NEEDED = ("safetensors", "torch")


class Injection(NamedTuple):
    """State of the injection into this interpreter."""

    #: Folder of the node's volume.
    folder: str
    #: Version of the node daemon that made the volume; `None` if the name of the package's folder does not say.
    daemon: str | None
    #: The reason that nothing is patched; `None` if there is none.
    unfit: str | None


_injection: Injection | None = None


def injection() -> Injection | None:
    """Return the state of the injection; `None` if this interpreter has the package in another way."""
    folder = _folder()
    if _injection is not None or not os.path.isfile(os.path.join(folder, "tetris_injection.py")):
        return _injection
    # The package was imported, and none of the libraries yet.
    return Injection(folder, _daemon(), None)


def begin(folder: str) -> Callable[[ModuleType], None] | None:
    """Patch this interpreter if the environment asks for it, and return what patches a library that was imported.

    Called once, from `folder`, before the first of those libraries runs. Writes one line if the image's libraries are
    older than those that the package works with, and leaves them as they are.
    """
    global _injection
    if _folder() != folder:
        # The image has the package installed, and that goes before.
        return None
    unfit = next((reason for name in NEEDED if (reason := _too_old(name)) is not None), None)
    _injection = Injection(folder, _daemon(), unfit)
    if switch(_patch.VARIABLE, _patch.FILES) not in ("on", _patch.FILES):
        return None
    if unfit is not None:
        print(f"Tetris: injection: {unfit}; this program runs as without it", file=sys.stderr)
        _patch.unpatch()
        return None
    _patch.at_injection()
    return _patch.imported


def _folder() -> str:
    """Return the folder beside whose files this package lies."""
    return os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


def _daemon() -> str | None:
    # Named as wheels are: tetris_store-0.1.0-cp311-abi3-...
    parts = os.path.basename(os.path.dirname(os.path.dirname(__file__))).split("-")
    return parts[1] if len(parts) == 5 else None


def _too_old(name: str) -> str | None:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
    oldest = TESTED[name].oldest
    if oldest is not None and is_older(version, oldest):
        return f"expected {name} {oldest} or later, found {version}"
    return None
