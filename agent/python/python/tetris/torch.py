"""``safetensors.torch`` through the store: the same functions, results and errors.

::

    from tetris.torch import load_file

    weights = load_file("model.safetensors")
    model.load_state_dict(weights, assign=True)    # without assign=True, torch copies the weights

Tensors are views of shared memory, mapped copy-on-write by default: code that works in place goes on to work, on pages
of its own. The memory lives as long as any tensor, view or storage over it, in any thread or forked process.
"""

from __future__ import annotations

import os

import safetensors.torch as _safetensors
import torch
from safetensors.torch import load, save, save_file, save_model

from tetris._agent import Mode, agent, log_load
from tetris._safe_open import may_be_file, require_mode, safe_open
from tetris._share import ShareReport, share_loaded, share_module_, share_state_dict
from tetris._torch_derived import derived
from tetris._torch_tensor import ReadOnlyTensor, as_torch
from tetris.errors import LoadError

#: Taken before `tetris.patch` replaces it.
_load_file = getattr(_safetensors.load_file, "_tetris_original", _safetensors.load_file)
_load_model = getattr(_safetensors.load_model, "_tetris_original", _safetensors.load_model)

__all__ = [
    "ReadOnlyTensor",
    "ShareReport",
    "derived",
    "load",
    "load_file",
    "load_model",
    "safe_open",
    "save",
    "save_file",
    "save_model",
    "share_module_",
    "share_state_dict",
]


def load_file(
    filename: str | os.PathLike[str],
    device: str | int = "cpu",
    *,
    backend: str = "mmap",
    mode: Mode = "copy_on_write",
) -> dict[str, torch.Tensor]:
    """Load a safetensors file, as ``safetensors.torch.load_file`` does, into shared memory.

    Args:
        filename: The file.
        device: Where the tensors are to be; moving to another device than ``"cpu"`` copies.
        backend: ``"mmap"`` or ``"pread"``, without effect: nothing of a known file is read.
        mode: ``"copy_on_write"``: a write copies the page, 4 KiB or 2 MiB, for this process alone.
            ``"read_only"``: a write raises an error (:class:`ReadOnlyTensor`).

    Returns:
        The tensors by name, in the order of the file.

    Raises:
        FileNotFoundError: There is no such file.
        safetensors.SafetensorError: The file or an argument is invalid.
    """
    require_mode(mode)
    loader = agent()
    # A directory is not a file to safetensors either; everything unusual goes its way.
    if device == "cpu" and backend in ("mmap", "pread") and loader.store is not None and may_be_file(filename):
        try:
            model = loader.load(filename, mode="copy_on_write")
        except (LoadError, TypeError, ValueError):
            pass  # safetensors says what is wrong, or knows better
        else:
            log_load(filename, model)
            # Not items(): its pairs would bring garbage collection about, which takes as long as half of the load.
            names_and_tensors = zip(model, model.values(), strict=True)
            tensors = {name: as_torch(tensor, mode) for name, tensor in names_and_tensors}
            if all(tensor is not None for tensor in tensors.values()):
                return tensors  # type: ignore[return-value]
    with safe_open(filename, "pt", device, backend=backend, mode=mode) as opened:
        return opened.get_tensors()


def load_model(
    model: torch.nn.Module,
    filename: str | os.PathLike[str],
    strict: bool = True,
    device: str | int = "cpu",
    *,
    backend: str = "mmap",
) -> tuple[list[str], list[str]]:
    """Load a file into a module, as ``safetensors.torch.load_model`` does, and let the module share its memory.

    safetensors copies into the module's own memory. Here, each parameter and buffer on the CPU that then holds
    what is in the file, in the same element type, gives its own memory back and takes the shared one. Parameters
    stay the same objects. What differs, such as a cast parameter, stays as it is: see :func:`share_module_`.

    Args:
        model: The module, which is changed.
        filename: The file.
        strict: Raise an error if names are missing or unexpected.
        device: Where the tensors are to be loaded.
        backend: As of :func:`load_file`.

    Returns:
        The missing and the unexpected names.

    Raises:
        RuntimeError: Names are missing or unexpected, or shapes differ.
        FileNotFoundError: There is no such file.
        safetensors.SafetensorError: The file is invalid.
    """
    names = _load_model(model, filename, strict, device, backend=backend)
    if device == "cpu" and agent().store is not None:
        share_loaded(model, load_file(filename))
    return names


load_file._tetris_original = _load_file  # type: ignore[attr-defined]
load_model._tetris_original = _load_model  # type: ignore[attr-defined]
