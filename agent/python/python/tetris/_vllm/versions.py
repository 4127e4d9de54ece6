"""Differences between the versions of vLLM that the loader runs with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm.model_executor.layers import attention
from vllm.model_executor.model_loader.utils import initialize_model

if TYPE_CHECKING:
    import torch
    from vllm.config import ModelConfig, VllmConfig
    from vllm.model_executor.model_loader.default_loader import DefaultModelLoader


def create_model(
    stock: DefaultModelLoader, vllm_config: VllmConfig, model_config: ModelConfig, prefix: str
) -> torch.nn.Module:
    """Return a model without its weights, as vLLM's own loader makes it."""
    # Since vLLM 0.32 a method of the loader.
    make = getattr(stock, "create_model", initialize_model)
    return make(vllm_config=vllm_config, model_config=model_config, prefix=prefix)


def is_attention_processed_after_loading(module: torch.nn.Module) -> bool:
    """Return whether vLLM has an attention layer make something of its weights after loading."""
    # Since vLLM 0.32; before, these three kinds of layers.
    is_deferred = getattr(attention, "is_deferred_attention_layer", None)
    if is_deferred is not None:
        return bool(is_deferred(module))
    kinds = (attention.Attention, attention.MLAAttention, attention.MMEncoderAttention)
    return isinstance(module, kinds) and hasattr(module, "process_weights_after_loading")
