"""A small decoder in plain torch, with the names of a Llama's tensors."""

from typing import Any

import torch
from torch.nn import functional

LAYERS, WIDTH, INNER, HEAD, VOCABULARY = 2, 128, 352, 64, 4096


def _linear(outputs: int, inputs: int) -> torch.nn.Linear:
    return torch.nn.Linear(inputs, outputs, bias=False)


class Attention(torch.nn.Module):
    """Causal attention."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (_linear(WIDTH, WIDTH) for _ in "qkvo")

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        parts = (self.q_proj(states), self.k_proj(states), self.v_proj(states))
        q, k, v = (part.unflatten(-1, (WIDTH // HEAD, HEAD)).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class FeedForward(torch.nn.Module):
    """A gated feed-forward part."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (_linear(INNER, WIDTH) for _ in range(2))
        self.down_proj = _linear(WIDTH, INNER)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.down_proj(functional.silu(self.gate_proj(states)) * self.up_proj(states))


class Layer(torch.nn.Module):
    """A layer."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(), FeedForward()
        self.input_layernorm = torch.nn.RMSNorm(WIDTH, eps=1e-5)
        self.post_attention_layernorm = torch.nn.RMSNorm(WIDTH, eps=1e-5)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        states = states + self.self_attn(self.input_layernorm(states))
        return states + self.mlp(self.post_attention_layernorm(states))


class Decoder(torch.nn.Module):
    """The decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.model: Any = torch.nn.Module()
        self.model.embed_tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.model.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))
        self.model.norm = torch.nn.RMSNorm(WIDTH, eps=1e-5)
        self.lm_head = _linear(VOCABULARY, WIDTH)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        states = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            states = layer(states)
        return self.lm_head(self.model.norm(states))


def tokens(count: int) -> torch.Tensor:
    """An input text."""
    return (torch.arange(count) * 7 % VOCABULARY).unsqueeze(0)


def first_token(decoder: torch.nn.Module, ids: torch.Tensor) -> int:
    """The token after a text."""
    with torch.inference_mode():
        return int(decoder(ids)[0, -1].argmax())
