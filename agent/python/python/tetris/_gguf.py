"""Sharing of GGUF files, which libraries of the llama.cpp family map by path.

llama.cpp uses a file as it is mapped, so a path in the store is all that it takes. It repacks some quantizations
(Q4_0, Q4_K, IQ4_NL and others) into private memory when it loads them, for faster prompts. A model that is shared is
not repacked, unless ``TETRIS_LLAMA_REPACK`` asks for it.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from tetris._agent import agent
from tetris._environment import switch
from tetris._log import logger

#: Switches the repacking of shared models on.
REPACK = "TETRIS_LLAMA_REPACK"

#: The name of a part of a model, as llama.cpp finds the others by it.
_PART = re.compile(r"(?P<prefix>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)
#: Most parts of a model.
_MOST_PARTS = 1_000


class _Caller(NamedTuple):
    """A class whose constructor takes the path of a GGUF file."""

    cls: str
    #: Name of the argument.
    path: str
    #: Attribute in which the class keeps the path.
    attribute: str
    #: Returns false if the constructor's arguments say that the file is not mapped.
    maps: Callable[[dict[str, Any]], bool]
    #: Changes the arguments for a file that is shared.
    prepare: Callable[[dict[str, Any]], None]


class Shared(NamedTuple):
    """A model in the store, as long as this lives."""

    #: Path for the library.
    path: str
    files: tuple[Any, ...]


def hook(module: ModuleType) -> None:
    """Let the class of a library that maps GGUF files map them in the store."""
    caller = _CALLERS[module.__name__]
    cls = getattr(module, caller.cls)
    original = cls.__init__
    if hasattr(original, "_tetris_original"):
        return

    signature = inspect.signature(original)

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError:
            # The error of a wrong call is the library's own.
            return original(self, *args, **kwargs)
        path = bound.arguments[caller.path]
        shared = _share(path, caller, bound.arguments)
        if shared is None:
            return original(*bound.args, **bound.kwargs)
        caller.prepare(bound.arguments)
        bound.arguments[caller.path] = shared.path
        # The library frees the model before its attributes go.
        self._tetris_shared = shared
        original(*bound.args, **bound.kwargs)
        setattr(self, caller.attribute, path)

    __init__._tetris_original = original  # type: ignore[attr-defined]
    cls.__init__ = __init__


def unhook(module: ModuleType) -> None:
    """Take :func:`hook` back."""
    cls = getattr(module, _CALLERS[module.__name__].cls)
    original = getattr(cls.__init__, "_tetris_original", None)
    if original is not None:
        cls.__init__ = original


def share(path: str | os.PathLike[str]) -> Shared | None:
    """Keep a model in the store, all parts of it; `None` if the store does not hold all of them."""
    path = os.fspath(path)
    parts = _parts(path)
    if agent().store is None or not all(os.path.isfile(part) for part in parts):
        return None
    files = []
    for part in parts:
        file = agent().share_file(part)
        if not file.is_shared:
            return None
        files.append(file)
    if len(files) == 1:
        return Shared(files[0].path, tuple(files))
    return _folder(parts, files)


def _share(path: object, caller: _Caller, arguments: dict[str, Any]) -> Shared | None:
    """As :func:`share`, for the arguments of a constructor. Never fails: the model can be loaded from its own path."""
    try:
        if not isinstance(path, (str, os.PathLike)) or not caller.maps(arguments):
            return None
        return share(path)
    except Exception as error:
        logger.warning("%s stays private: %s", path, error)
        return None


def _parts(path: str) -> list[str]:
    """Return the files of a model by its first one, or the only one."""
    found = _PART.fullmatch(path)
    if found is None or int(found["number"]) != 1 or not 1 < int(found["count"]) <= _MOST_PARTS:
        return [path]
    count = int(found["count"])
    return [f"{found['prefix']}-{number:05}-of-{found['count']}.gguf" for number in range(1, count + 1)]


def _folder(parts: list[str], files: list[Any]) -> Shared:
    """Return the parts under their own names: llama.cpp looks for the others beside the first."""
    folder = tempfile.mkdtemp(prefix="tetris-gguf-")
    kept = _Folder()
    weakref.finalize(kept, shutil.rmtree, folder, True)
    names = [os.path.join(folder, os.path.basename(part)) for part in parts]
    for name, file in zip(names, files, strict=True):
        os.symlink(file.path, name)
    return Shared(names[0], (*files, kept))


class _Folder:
    """A folder that goes with its last reference."""


#: Values of llama.cpp's `load_mode` with which it maps a file: automatic, mapped, mapped and locked.
_MAPPED_MODES = (-1, 1, 3)


def _llama_cpp_maps(arguments: dict[str, Any]) -> bool:
    params: Any = arguments.get("params")
    if getattr(params, "vocab_only", False):
        return False
    if hasattr(params, "load_mode"):
        return params.load_mode in _MAPPED_MODES
    # Before there were modes.
    return bool(getattr(params, "use_mmap", False)) and not getattr(params, "use_direct_io", False)


def _llama_cpp_prepare(arguments: dict[str, Any]) -> None:
    params: Any = arguments.get("params")
    if switch(REPACK) != "on" and hasattr(params, "use_extra_bufts"):
        params.use_extra_bufts = False


def _ctransformers_maps(arguments: dict[str, Any]) -> bool:
    return bool(getattr(arguments.get("config"), "mmap", True))


_CALLERS = {
    "llama_cpp._internals": _Caller("LlamaModel", "path_model", "path_model", _llama_cpp_maps, _llama_cpp_prepare),
    "ctransformers.llm": _Caller("LLM", "model_path", "_model_path", _ctransformers_maps, lambda _: None),
}
