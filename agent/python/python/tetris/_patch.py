"""Making unmodified programs load through the store.

``tetris_store_patch.pth`` calls :func:`at_startup` in every interpreter that starts with ``TETRIS_PATCH`` set, before
any other import. Nothing is imported then; when the program imports safetensors, its loading functions are replaced.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

#: Replaced as soon as they are imported: module, attribute, and where the replacement is.
_REPLACED = {
    "safetensors": (("safe_open", "tetris._safe_open", "safe_open"),),
    "safetensors.torch": (
        ("load_file", "tetris.torch", "load_file"),
        ("load_model", "tetris.torch", "_load_model_in_place"),
    ),
}
#: Where libraries copy what they have loaded: modules whose hook is called as soon as they are imported. Not with
#: ``TETRIS_PATCH=files``.
_HOOKED = {
    "torch.nn.modules.module": "tetris._load_state_dict",
    "transformers.modeling_utils": "tetris._transformers",
    "diffusers.models.modeling_utils": "tetris._diffusers",
}


def patch() -> None:
    """Make safetensors, and whatever loads through it, use the store, from now on in this process.

    Works before and after safetensors, transformers or others were imported: names that they have taken from
    safetensors are replaced as well. ``TETRIS_PATCH=1`` in the environment does the same at start-up, without a
    change to the program.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    for name in (*_REPLACED, *_HOOKED):
        if name in sys.modules:
            _imported(sys.modules[name])


def unpatch() -> None:
    """Take :func:`patch` back. Tensors that were loaded stay."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    for name, replaced in _REPLACED.items():
        module = sys.modules.get(name)
        for attribute, _, _ in replaced if module is not None else ():
            current = getattr(module, attribute, None)
            original = getattr(current, "_tetris_original", None)
            if original is not None:
                _replace_everywhere(current, original)
    for name, hooks in _HOOKED.items():
        if name in sys.modules and hooks in sys.modules:
            sys.modules[hooks].unhook(sys.modules[name])


def at_startup() -> None:
    """Patch, in an interpreter that has only just started. Never fails: the program comes first."""
    try:
        patch()
    except Exception as error:
        print(f"tetris: TETRIS_PATCH has no effect: {error}", file=sys.stderr)


def _imported(module: ModuleType) -> None:
    """Replace what is to be replaced in a module that has been imported."""
    for attribute, source, name in _REPLACED.get(module.__name__, ()):
        current = getattr(module, attribute, None)
        if current is None or hasattr(current, "_tetris_original"):
            continue
        _replace_everywhere(current, getattr(importlib.import_module(source), name))
    hooks = _HOOKED.get(module.__name__)
    if hooks is not None and os.environ.get("TETRIS_PATCH") != "files":
        importlib.import_module(hooks).hook(module)


def _replace_everywhere(old: Any, new: Any) -> None:
    """Replace an object in every module that has it as an attribute, those that keep the original excepted."""
    for name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType) or name == "tetris" or name.startswith("tetris."):
            continue
        for attribute, value in list(vars(module).items()):
            if value is old:
                setattr(module, attribute, new)


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the usual finders find the modules of interest, and acts when they have been executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _REPLACED and fullname not in _HOOKED:
            return None
        for finder in sys.meta_path:
            if isinstance(finder, _Finder) or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """A loader that calls :func:`_imported` when the module is there."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # What looks for data beside the module asks for the loader that knows.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        try:
            _imported(module)
        except Exception as error:
            import logging

            logging.getLogger("tetris").warning("%s is not patched: %s", module.__name__, error)
