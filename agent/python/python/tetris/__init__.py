"""One copy of every model tensor per node, however many processes use it.

Three lines::

    import tetris.torch

    weights = tetris.torch.load_file("model.safetensors")   # instead of safetensors.torch.load_file

or none: ``TETRIS_PATCH=1 python serve.py`` makes ``safetensors``, and with it ``transformers`` and others, load
through the store. The store is the one that ``TETRIS_STORE`` names, or the default of ``tetris init``. Without a store
everything works as before, with one message in the log.

Importing this package is cheap: its parts are imported when they are used.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tetris._agent import agent as agent
    from tetris._agent import load as load
    from tetris._derived import derived as derived
    from tetris._doctor import Diagnosis as Diagnosis
    from tetris._doctor import doctor as doctor
    from tetris._native import Agent as Agent
    from tetris._native import File as File
    from tetris._native import Memory as Memory
    from tetris._native import Model as Model
    from tetris._native import SharedFile as SharedFile
    from tetris._native import Tensor as Tensor
    from tetris._native import create_store as create_store
    from tetris._patch import patch as patch
    from tetris._patch import unpatch as unpatch
    from tetris._patch_status import PatchStatus as PatchStatus
    from tetris._patch_status import patch_status as patch_status
    from tetris._pull import pull as pull
    from tetris._safe_open import safe_open as safe_open
    from tetris.errors import *

    __version__: str

#: Where each public name comes from.
_ORIGIN = {
    "agent": "tetris._agent",
    "load": "tetris._agent",
    "derived": "tetris._derived",
    "Diagnosis": "tetris._doctor",
    "doctor": "tetris._doctor",
    "Agent": "tetris._native",
    "File": "tetris._native",
    "Memory": "tetris._native",
    "Model": "tetris._native",
    "SharedFile": "tetris._native",
    "Tensor": "tetris._native",
    "create_store": "tetris._native",
    "patch": "tetris._patch",
    "unpatch": "tetris._patch",
    "PatchStatus": "tetris._patch_status",
    "patch_status": "tetris._patch_status",
    "pull": "tetris._pull",
    "safe_open": "tetris._safe_open",
}

__all__ = [*_ORIGIN, "__version__", "errors"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = importlib.import_module("tetris._native").VERSION
    elif name in _ORIGIN:
        value = getattr(importlib.import_module(_ORIGIN[name]), name)
    else:
        errors = importlib.import_module("tetris.errors")
        if name == "errors":
            value = errors
        elif isinstance(found := getattr(errors, name, None), type) and issubclass(found, errors.Error):
            value = found
        else:
            raise AttributeError(f"module 'tetris' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# Where the interpreter did not do it at its start: the variable was set later, or the package lies on PYTHONPATH.
if os.environ.get("TETRIS_PATCH"):
    importlib.import_module("tetris._patch").at_import()
