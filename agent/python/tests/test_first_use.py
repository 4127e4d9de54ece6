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
