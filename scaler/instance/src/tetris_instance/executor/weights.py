"""Weights of a PyTorch module that come from device memory, and go. The module stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tetris_instance.errors import ConfigurationError


class Weights:
    """Parameters and buffers of a module by their tensors in the model's files.

    Args:
        folder: Folder of the model, for errors.
        module: The module, with its weights in host memory.
        files: Tensors of the files by name.
        device: Device of the buffers that are not in the files, as PyTorch names it.

    Raises:
        ConfigurationError: A weight is not in the files as it is.
    """

    def __init__(self, folder: Path, module: Any, files: Any, device: str) -> None:
        import torch

        self._torch: Any = torch
        #: Owner, kind of its attribute, name of the attribute, and name in the files.
        self._places: list[tuple[Any, str, str, str]] = []
        tied = _names_of_tied(module)
        prefix = getattr(module, "base_model_prefix", "")
        for path, owner in module.named_modules():
            for kind in ("_parameters", "_buffers"):
                for attribute, tensor in getattr(owner, kind).items():
                    if tensor is None:
                        continue
                    own = f"{path}.{attribute}" if path else attribute
                    names = [own, *tied.get(id(tensor), [])]
                    found = _found(files, [*names, *(f"{prefix}.{name}" for name in names)])
                    if found is not None:
                        _check(folder, own, tensor, files[found])
                        self._places.append((owner, kind, attribute, found))
                    elif kind == "_parameters":
                        raise ConfigurationError(
                            f"{folder}: the weight {own} is not in the model's files, and an executor computes none"
                        )
                    else:
                        getattr(owner, kind)[attribute] = tensor.to(device)

    def take(self, tensors: Any) -> None:
        """Let the module use tensors in device memory. Waits for their bytes."""
        for owner, kind, attribute, name in self._places:
            tensor = self._torch.from_dlpack(tensors[name])
            getattr(owner, kind)[attribute] = self._as(kind, tensor)

    def drop(self) -> None:
        """Leave the module without weights, but with their shapes."""
        for owner, kind, attribute, _ in self._places:
            tensor = getattr(owner, kind)[attribute]
            getattr(owner, kind)[attribute] = self._as(kind, self._torch.empty_like(tensor, device="meta"))

    def _as(self, kind: str, tensor: Any) -> Any:
        if kind == "_parameters":
            return self._torch.nn.Parameter(tensor, requires_grad=False)
        return tensor


def _names_of_tied(module: Any) -> dict[int, list[str]]:
    """Return the names of each parameter, several for a tied one."""
    names: dict[int, list[str]] = {}
    for name, tensor in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(tensor), []).append(name)
    return names


def _found(files: Any, names: list[str]) -> str | None:
    return next((name for name in names if name in files), None)


def _check(folder: Path, name: str, tensor: Any, stored: Any) -> None:
    """Check that the module's tensor is the stored one: same shape and size of elements."""
    if tuple(tensor.shape) != tuple(stored.shape) or tensor.nbytes != stored.nbytes:
        own, there = f"{tensor.dtype} {list(tensor.shape)}", f"{stored.dtype} {list(stored.shape)}"
        raise ConfigurationError(
            f"{folder}: {name} is {own}, in the files {there}; an executor takes weights as they are"
        )
