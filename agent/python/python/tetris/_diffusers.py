"""Sharing of the copies that diffusers makes after loading, casts above all."""

from __future__ import annotations

from types import ModuleType

from tetris._from_pretrained import hook_class, unhook_class


def hook(modeling_utils: ModuleType) -> None:
    """Let the models of ``diffusers.models.modeling_utils`` share their weights; those of a pipeline are such."""
    hook_class(modeling_utils.ModelMixin)


def unhook(modeling_utils: ModuleType) -> None:
    """Take :func:`hook` back."""
    unhook_class(modeling_utils.ModelMixin)
