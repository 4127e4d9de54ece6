"""The first use of a module's tensors, with hooks of others beside."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tetris._first_use import FirstUse


class Failing(torch.nn.Module):
    """Uses its weight, and fails on request."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, fails: bool) -> torch.Tensor:
        y: torch.Tensor = self.inner(x)
        if fails:
            raise ValueError("of the module")
        return y


def hooks(module: torch.nn.Module) -> int:
    return sum(len(part._forward_pre_hooks) + len(part._forward_hooks) for part in module.modules())


def test_a_module_that_fails_keeps_its_error_and_the_hooks_of_others() -> None:
    module, ended, used = Failing(), [], []
    watch = FirstUse(module, [(tensor, name) for name, tensor in module.named_parameters()], used.extend, lambda: None)

    def late(module: torch.nn.Module, _: Any) -> None:
        # After the watch has added its own for the end of this call.
        if len(module._forward_hooks) == 1:
            module.register_forward_hook(lambda *_: ended.append(1), always_call=True)

    own = module.register_forward_pre_hook(late)
    for fails in (True, True, False):
        if fails:
            with pytest.raises(ValueError, match="of the module"):
                module(torch.ones(2), fails)
        else:
            module(torch.ones(2), fails)
    assert (used, len(ended)) == (["inner.weight", "inner.bias"], 3)
    own.remove()
    assert watch.is_over
    assert hooks(module) == 1


def test_tensors_in_lists_and_dictionaries_are_used_once() -> None:
    module = torch.nn.ParameterList([torch.ones(2), torch.ones(2), torch.ones(2)])
    outer = torch.nn.Module()
    outer.weights = module
    used: list[str] = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        first, second, third = outer.weights
        return torch.cat([x, torch.stack((first, second)).sum(0)]) + torch.cat(tensors=[third, third])

    outer.forward = forward  # type: ignore[method-assign]
    FirstUse(outer, [(tensor, name) for name, tensor in outer.named_parameters()], used.extend, lambda: None)
    outer(torch.ones(2))
    outer(torch.ones(2))
    assert used == ["weights.0", "weights.1", "weights.2"]
    assert hooks(outer) == 0


class Other(torch.Tensor):
    """A class of its own, which sees its functions."""

    seen: list[Any] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append((func, types))
        return super().__torch_function__(func, types, args, kwargs or {})


def test_tensors_of_other_classes_stay_what_they_are() -> None:
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.ones(2))
    module.register_buffer("scale", torch.ones(2).as_subclass(Other))
    module.register_buffer("shift", torch.zeros(2))
    used: list[str] = []

    def on_use(names: list[str]) -> bool:
        used.extend(names)
        return True

    named = [*module.named_parameters(), *module.named_buffers()]
    watch = FirstUse(module, [(tensor, name) for name, tensor in named], on_use, lambda: None)
    other = torch.ones(2).as_subclass(Other)
    Other.seen.clear()
    assert type(module.weight * other) is Other and Other.seen == [(torch.Tensor.mul, (Other,))]
    assert type(module.scale * module.weight) is Other
    assert type(module.shift + module.weight) is torch.Tensor and type(module.weight[0]) is torch.Tensor
    assert set(used) == {"weight", "scale", "shift"} and not watch.is_over
    watch.stop()
    assert [type(tensor) for _, tensor in named] == [torch.nn.Parameter, Other, torch.Tensor]


def test_a_tensor_can_be_watched_twice() -> None:
    module = torch.nn.Linear(2, 2, bias=False)
    watched = [(module.weight, "weight")]
    first: list[str] = []
    second: list[str] = []
    one = FirstUse(module, watched, first.extend, lambda: None)
    other = FirstUse(module, watched, second.extend, lambda: None)
    one.stop()
    assert type(module.weight) is not torch.nn.Parameter
    module(torch.ones(2))
    assert (first, second) == ([], ["weight"]) and other.is_over
    assert type(module.weight) is torch.nn.Parameter and hooks(module) == 0


def test_questions_are_no_use() -> None:
    module = torch.nn.Linear(2, 2)
    used: list[str] = []
    watch = FirstUse(module, [(tensor, name) for name, tensor in module.named_parameters()], used.extend, lambda: None)
    assert len(set(module.parameters())) == 2 and module.weight.dim() == 2 and module.bias.requires_grad
    assert isinstance(module.weight, torch.nn.Parameter) and module.weight.device.type == "cpu"
    assert dict(module.named_parameters())["weight"] is module.weight
    assert used == [] and not watch.is_over
    watch.stop()
