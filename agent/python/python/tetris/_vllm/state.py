"""The state of a model that an engine runs on: read from one model, put into another of the same configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from tetris._vllm.packed import PackedLinear

#: The attribute of a layout that holds the description.
DESCRIPTION = "state"
#: What torch.nn.Module itself keeps in its `__dict__`, and which has other names here or is no state.
_OF_MODULES = frozenset(torch.nn.Module().__dict__)
#: How deep objects of vLLM that a layer holds are looked into: its method, and that one's kernel.
_DEPTH = 3


class UnfitError(Exception):
    """The state of a model cannot be shared, with the reason."""


class Before:
    """Attributes of a model's objects when it was made, to tell which of them loading has changed."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._modules = {name: _frozen_attributes(module) for name, module in model.named_modules()}
        self._helpers = [(helper, _frozen_attributes(helper)) for helper in _helpers(model)]

    def changes(self, model: torch.nn.Module) -> dict[str, dict[str, Any]]:
        """Return the attributes of modules that have changed, by module.

        Raises:
            UnfitError: What has changed cannot be read from attributes of modules alone.
        """
        for helper, before in self._helpers:
            if changed := _changed(before, _frozen_attributes(helper)):
                raise UnfitError(f"loading changes {sorted(changed)[0]!r} of {type(helper).__name__}")
        changes = {}
        for name, module in model.named_modules():
            if name not in self._modules:
                raise UnfitError(f"loading adds the module {name!r}")
            before, after = self._modules[name], _frozen_attributes(module)
            if gone := before.keys() - after.keys():
                raise UnfitError(f"loading removes {sorted(gone)[0]!r} of the module {name!r}")
            if changed := _changed(before, after):
                changes[name] = {key: module.__dict__[key] for key in sorted(changed)}
        return changes


def read(
    model: torch.nn.Module, before: Before, device: str = "cpu"
) -> tuple[dict[str, torch.Tensor], dict[str, bytes]]:
    """Return the tensors of a model that was loaded to a kind of device, and their description.

    Raises:
        UnfitError: The model holds state that other processes could not attach.
    """
    tensors: dict[str, torch.Tensor] = {}
    attributes = {
        module: {key: _encoded(f"{module}.{key}", value, tensors) for key, value in changed.items()}
        for module, changed in before.changes(model).items()
    }
    description = {
        "parameters": _named(model.named_parameters(remove_duplicate=False), "parameter", tensors),
        "buffers": _named(model.named_buffers(remove_duplicate=False), "buffer", tensors),
        "attributes": attributes,
    }
    for name, tensor in tensors.items():
        if tensor.layout is not torch.strided or tensor.device.type != device:
            raise UnfitError(f"{name} is {tensor.layout} on {tensor.device}, not dense and on the device {device!r}")
    return tensors, {DESCRIPTION: json.dumps(description).encode()}


def write(model: torch.nn.Module, tensors: Mapping[str, torch.Tensor], attributes: Mapping[str, bytes]) -> None:
    """Put a state into a model: its tensors are then those that are given.

    Raises:
        UnfitError: It is the state of another model, and this one is as it was.
    """
    Changes.of(model, tensors, attributes).apply()


class Changes:
    """The changes that put a state into a model. All are known before the first is made."""

    @classmethod
    def of(
        cls, model: torch.nn.Module, tensors: Mapping[str, torch.Tensor], attributes: Mapping[str, bytes]
    ) -> Changes:
        """Return what puts a state into a model.

        Raises:
            UnfitError: It is the state of another model.
        """
        try:
            return cls(model, json.loads(attributes[DESCRIPTION]), tensors)
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UnfitError(f"the recorded state does not fit the model: {type(error).__name__}: {error}") from error

    def __init__(
        self, model: torch.nn.Module, description: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]
    ) -> None:
        self._modules = dict(model.named_modules(remove_duplicate=False))
        #: Parameters that take another memory. They keep what vLLM has attached to them, such as their loaders.
        self._data: list[tuple[torch.nn.Parameter, torch.Tensor]] = []
        #: Modules, and what they are to have by which name.
        self._values: list[tuple[torch.nn.Module, str, Any]] = []
        for name, aliases in description["parameters"].items():
            held = self._parameter(name, tensors[f"parameter:{name}"])
            self._values += [(*self._owner(owned), held) for owned in (name, *aliases)]
        for name, aliases in description["buffers"].items():
            self._values += [(*self._owner(owned), tensors[f"buffer:{name}"]) for owned in (name, *aliases)]
        for name, changed in description["attributes"].items():
            module = self._modules[name]
            self._values += [(module, key, _decoded(value, tensors)) for key, value in changed.items()]
        kept = set(description["parameters"]).union(*description["parameters"].values())
        names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
        #: Those that the loaded model had no more.
        self._gone = [self._owner(name) for name in names if name not in kept]

    def let_go(self) -> None:
        """Free the memory of what the changes will replace. Until then nothing may use the model."""
        for parameter, _ in self._data:
            hollow(parameter)
        for module, leaf, _ in self._values:
            if isinstance(module.__dict__.get(leaf), torch.Tensor | PackedLinear):
                module.__dict__[leaf] = None

    def apply(self) -> None:
        """Make the changes."""
        for parameter, tensor in self._data:
            parameter.data = tensor
        for module, leaf, value in self._values:
            _set(module, leaf, value)
        for module, leaf in self._gone:
            if isinstance(module._parameters.get(leaf), torch.Tensor):
                module._parameters[leaf] = None

    def _parameter(self, name: str, tensor: torch.Tensor) -> torch.nn.Parameter:
        module, leaf = self._owner(name)
        present = module._parameters.get(leaf)
        if present is None or present.shape != tensor.shape or present.dtype != tensor.dtype:
            return torch.nn.Parameter(tensor, requires_grad=False)
        self._data.append((present, tensor))
        return present

    def _owner(self, name: str) -> tuple[torch.nn.Module, str]:
        module, _, leaf = name.rpartition(".")
        return self._modules[module], leaf


def hollow(parameter: torch.nn.Parameter) -> None:
    """Take the memory of a parameter: it keeps device, type and shape, and has one element in all places."""
    if parameter.numel() > 0:
        parameter.data = torch.empty((), dtype=parameter.dtype, device=parameter.device).expand(parameter.shape)


def _named(
    named: Iterator[tuple[str, torch.Tensor]], kind: str, tensors: dict[str, torch.Tensor]
) -> dict[str, list[str]]:
    """Return names of tensors with the other names of each, and add the tensors."""
    first: dict[int, str] = {}
    names: dict[str, list[str]] = {}
    for name, tensor in named:
        known = first.setdefault(id(tensor), name)
        if known == name:
            names[name] = []
            tensors[f"{kind}:{name}"] = tensor.detach()
        else:
            names[known].append(name)
    return names


def _set(module: torch.nn.Module, leaf: str, value: Any) -> None:
    """Set an attribute, parameter or buffer, in the place of any other of the name."""
    if isinstance(value, torch.nn.Parameter):
        module._buffers.pop(leaf, None)
        module.__dict__.pop(leaf, None)
        module._parameters[leaf] = value
    elif leaf in module._buffers:
        module._buffers[leaf] = value
    else:
        module._parameters.pop(leaf, None)
        module.__dict__[leaf] = value


def _encoded(name: str, value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """Return a value as JSON, and add the tensors in it.

    Raises:
        UnfitError: It has no form that another process could read.
    """
    if isinstance(value, PackedLinear):
        tensors[f"packed:{name}"] = value.content()
        return {"packed": f"packed:{name}", **value.description()}
    if isinstance(value, torch.Tensor):
        tensors[f"attribute:{name}"] = value.detach()
        return {"tensor": f"attribute:{name}"}
    plain = _plain(value)
    if plain is None:
        raise UnfitError(f"loading sets {name!r} to a {type(value).__qualname__}")
    return {"plain": plain}


def _decoded(value: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Any:
    if "packed" in value:
        return PackedLinear.attached(tensors[value["packed"]], dict(value))
    if "tensor" in value:
        return tensors[value["tensor"]]
    return _value(value["plain"])


def _plain(value: Any) -> list[Any] | None:
    """Return a value without state as JSON, tagged with its type; `None` if it is something else."""
    if value is None or isinstance(value, bool | int | float | str):
        return ["value", value] if type(value) in (type(None), bool, int, float, str) else None
    if isinstance(value, torch.dtype):
        return ["dtype", str(value).removeprefix("torch.")]
    if value is torch.nn.functional.linear:
        return ["linear"]
    if type(value) in (list, tuple):
        parts = [_plain(part) for part in value]
        return None if None in parts else [type(value).__name__, parts]
    if type(value) is dict and all(type(key) is str for key in value):
        entries = {key: _plain(part) for key, part in value.items()}
        return None if None in entries.values() else ["dict", entries]
    return None


def _value(plain: list[Any]) -> Any:
    kind = plain[0]
    if kind == "value":
        return plain[1]
    if kind == "dtype":
        return getattr(torch, plain[1])
    if kind == "linear":
        return torch.nn.functional.linear
    if kind == "dict":
        return {key: _value(part) for key, part in plain[1].items()}
    if kind in ("list", "tuple"):
        parts = [_value(part) for part in plain[1]]
        return parts if kind == "list" else tuple(parts)
    raise ValueError(f"unknown kind of value {kind!r}")


def _frozen_attributes(owner: Any) -> dict[str, Any]:
    """Return attributes of an object: values of plain ones, identities of others."""
    skipped = _OF_MODULES if isinstance(owner, torch.nn.Module) else frozenset[str]()
    return {key: _frozen(value) for key, value in owner.__dict__.items() if key not in skipped}


def _frozen(value: Any) -> Any:
    plain = _plain(value)
    # The object is kept, so that its identity stays its own.
    return _Identity(value) if plain is None else repr(plain)


class _Identity:
    """An object, compared by its identity."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value

    __hash__ = None  # type: ignore[assignment]


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> set[str]:
    return {key for key, value in after.items() if key not in before or before[key] != value}


def _helpers(model: torch.nn.Module) -> list[Any]:
    """Return objects of vLLM that are no modules and belong to layers, such as their methods and kernels."""
    found: dict[int, Any] = {}
    level: list[Any] = list(model.modules())
    for _ in range(_DEPTH):
        below = []
        for owner in level:
            for value in owner.__dict__.values():
                if id(value) not in found and _is_helper(value):
                    found[id(value)] = value
                    below.append(value)
        level = below
    return list(found.values())


def _is_helper(value: Any) -> bool:
    kind = type(value)
    if not kind.__module__.startswith("vllm.") or isinstance(value, torch.nn.Module | torch.Tensor | type):
        return False
    # Configurations are of the engine, and change while it starts.
    return hasattr(value, "__dict__") and not kind.__module__.startswith("vllm.config")
