"""Places of a module's parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def parts_of(module: torch.nn.Module) -> dict[str, torch.nn.Module]:
    """Return a module and its parts by their paths, as ``named_modules(remove_duplicate=False)`` does, in less time."""
    found: dict[str, torch.nn.Module] = {}
    left = [("", module)]
    while left:
        path, part = left.pop()
        found[path] = part
        prefix = f"{path}." if path else ""
        left.extend((prefix + name, child) for name, child in reversed(part._modules.items()) if child is not None)
    return found


class Slots:
    """The places of a module's parameters and buffers, those of tied ones under each of their names.

    One walk through the module finds them: torch's own functions take several, as long together as the rest of a load.

    Args:
        module: The module. Its parts, and which of their tensors there are, stay the same from here on.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        #: The module's parts by their paths.
        self.parts: dict[str, torch.nn.Module] = parts_of(module)
        #: The dictionary that has a tensor, and its name there, by the tensor's full name: parameters, then buffers.
        self._owners: dict[str, tuple[dict[str, Any], str]] = {}
        buffers: dict[str, tuple[dict[str, Any], str]] = {}
        for path, part in self.parts.items():
            prefix = f"{path}." if path else ""
            for owned, found in ((part._parameters, self._owners), (part._buffers, buffers)):
                for name, tensor in owned.items():
                    if tensor is not None:
                        found[prefix + name] = (owned, name)
        self._owners.update(buffers)

    def __contains__(self, name: str) -> bool:
        return name in self._owners

    def __getitem__(self, name: str) -> torch.Tensor:
        owned, last = self._owners[name]
        tensor: torch.Tensor = owned[last]
        return tensor

    def __setitem__(self, name: str, tensor: torch.Tensor) -> None:
        owned, last = self._owners[name]
        owned[last] = tensor

    def items(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the tensors by their full names."""
        for name, (owned, last) in self._owners.items():
            yield name, owned[last]

    def by_object(self) -> dict[int, list[str]]:
        """Return the names of each tensor, several for a tied one, by its identity."""
        found: dict[int, list[str]] = {}
        for name, tensor in self.items():
            found.setdefault(id(tensor), []).append(name)
        return found
