"""Making unmodified programs load through the store.

``tetris_store_patch.pth`` calls :func:`at_startup` in every interpreter that starts with ``TETRIS_PATCH`` set, before
any other import. Nothing is imported then; when the program imports safetensors, its loading functions are replaced.
Where that line did not run, the import of ``tetris`` does the same (:func:`at_import`).

A module of safetensors may be imported by the very module that has its replacements, such as :mod:`tetris.torch`. Then
nothing is replaced until the latter is complete and calls :func:`completed`.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Literal, NamedTuple

from tetris._environment import switch

#: Names the switch: a value of :data:`tetris._environment.ON` or :data:`~tetris._environment.OFF`, or ``files``.
VARIABLE = "TETRIS_PATCH"
#: The value with which safetensors alone is patched.
FILES = "files"

#: The occasion of the patch: the start of the interpreter, the first library that loads models where the node injects
#: the package, the import of ``tetris``, or a call of :func:`patch`.
Occasion = Literal["start-up", "injection", "import", "call"]


class Hook(NamedTuple):
    """A method that copies what a library has loaded, or loads by a path; or a registry of loaders."""

    #: The module that wraps it, or registers one.
    module: str
    #: Neither for a registry.
    cls: str | None = None
    method: str | None = None


#: Replaced as soon as they are imported: module, attribute, and where the replacement is.
REPLACED = {
    "safetensors": (("safe_open", "tetris._safe_open", "safe_open"),),
    "safetensors.torch": (
        ("load_file", "tetris.torch", "load_file"),
        ("load_model", "tetris.torch", "_load_model_in_place"),
    ),
}
#: Where libraries copy what they have loaded, or load by a path: modules whose hook is called as soon as they are
#: imported. Not with ``TETRIS_PATCH=files``.
HOOKED = {
    "torch.nn.modules.module": Hook("tetris._load_state_dict", "Module", "load_state_dict"),
    "transformers.modeling_utils": Hook("tetris._transformers", "PreTrainedModel", "from_pretrained"),
    "diffusers.models.modeling_utils": Hook("tetris._diffusers", "ModelMixin", "from_pretrained"),
    "llama_cpp._internals": Hook("tetris._gguf", "LlamaModel", "__init__"),
    "ctransformers.llm": Hook("tetris._gguf", "LLM", "__init__"),
    "vllm.model_executor.model_loader": Hook("tetris._vllm"),
}

#: The first occasion of the patch in force.
_occasion: Occasion | None = None
#: True after :func:`unpatch`.
_taken_back = False


def patch() -> None:
    """Make safetensors, and whatever loads through it, use the store, from now on in this process.

    Works before and after safetensors, transformers, ``tetris.torch`` or others were imported: names that they have
    taken from safetensors are replaced as well. ``TETRIS_PATCH=1`` in the environment does the same at start-up,
    without a change to the program. :func:`patch_status` lists what is patched.
    """
    _patch("call")


def unpatch() -> None:
    """Take :func:`patch` back. Tensors that were loaded stay."""
    global _occasion, _taken_back
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    _occasion, _taken_back = None, True
    for name, replaced in REPLACED.items():
        module = sys.modules.get(name)
        for attribute, _, _ in replaced if module is not None else ():
            current = getattr(module, attribute, None)
            original = getattr(current, "_tetris_original", None)
            if original is not None:
                _replace_everywhere(current, original)
    for name, hook in HOOKED.items():
        if name in sys.modules and hook.module in sys.modules:
            sys.modules[hook.module].unhook(sys.modules[name])


def at_startup() -> None:
    """Patch, in an interpreter that has only just started. Never fails: the program comes first."""
    _patch_instead_of_import("start-up")


def at_injection() -> None:
    """Patch before the first library that loads models, where the node injects the package. Never fails."""
    _patch_instead_of_import("injection")


def at_import() -> None:
    """Patch if the environment asks for it and the interpreter did not at its start. Never fails."""
    _patch_as_environment("import")


def imported(module: ModuleType) -> None:
    """Replace the functions of a library that was imported without the finder, if there is a patch. Never fails."""
    if is_active():
        _imported_or_told(module)


def completed(source: str) -> None:
    """Replace what a module of this package has replacements for; the module calls this at its end."""
    if not is_active():
        return
    for name, replaced in REPLACED.items():
        if name in sys.modules and any(where == source for _, where, _ in replaced):
            _imported_or_told(sys.modules[name])


def is_active() -> bool:
    """Returns true if modules are patched when they are imported."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


def occasion() -> Occasion | None:
    """Return the first occasion of the patch in force; `None` if there is no patch."""
    return _occasion


def was_taken_back() -> bool:
    """Returns true after :func:`unpatch`."""
    return _taken_back


def _patch_as_environment(occasion: Occasion) -> None:
    try:
        if switch(VARIABLE, FILES) in ("on", FILES):
            _patch(occasion)
    except Exception as error:
        print(f"Tetris: {VARIABLE} has no effect: {error}", file=sys.stderr)


def _patch_instead_of_import(occasion: Occasion) -> None:
    global _occasion
    _patch_as_environment(occasion)
    if _occasion is not None:
        # The import of the package, which comes before this, has patched.
        _occasion = occasion


def _patch(occasion: Occasion) -> None:
    global _occasion, _taken_back
    if not is_active():
        sys.meta_path.insert(0, _Finder())
    _occasion, _taken_back = _occasion or occasion, False
    for name in (*REPLACED, *HOOKED):
        if name in sys.modules:
            _imported(sys.modules[name])


def _imported(module: ModuleType) -> None:
    """Replace what is to be replaced in a module that has been imported."""
    for attribute, source, name in REPLACED.get(module.__name__, ()):
        current = getattr(module, attribute, None)
        if current is None or hasattr(current, "_tetris_original"):
            continue
        try:
            replacement = getattr(_module(source), name, None)
        except RuntimeError as error:
            if type(error).__name__ != "_DeadlockError":
                raise
            # Another thread has begun to import it, and waits for this module: `completed` comes back.
            continue
        # One without its original is still being made: `completed` comes back.
        if hasattr(replacement, "_tetris_original"):
            _replace_everywhere(current, replacement)
    hook = HOOKED.get(module.__name__)
    if hook is not None and switch(VARIABLE, FILES) != FILES:
        _module(hook.module).hook(module)


def _module(name: str) -> ModuleType:
    """Import a module of this package; one that another thread imports, and which waits for this one, as it is."""
    # Not importlib.import_module(), which raises an error in the latter case.
    __import__(name)
    return sys.modules[name]


def _imported_or_told(module: ModuleType) -> None:
    """As :func:`_imported`; an error is logged, since the program has its module in any case."""
    try:
        _imported(module)
    except Exception as error:
        from tetris._log import logger

        logger.warning("%s is not patched, and loads privately: %s", module.__name__, error)


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
        if fullname not in REPLACED and fullname not in HOOKED:
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
        # After `unpatch`, a module whose import began before stays as it is.
        if is_active():
            _imported_or_told(module)
