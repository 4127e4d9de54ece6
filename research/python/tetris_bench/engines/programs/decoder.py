"""A decoder in plain torch, whose linear layers may be fused."""

from typing import Any

import torch
from torch.nn import functional

from ..models import HEAD, VOCABULARY, Shape

TOKENS = 32
"""Length of the input text in tokens."""
Weights = dict[str, torch.Tensor]


def _linear(outputs: int, inputs: int) -> torch.nn.Linear:
    return torch.nn.Linear(inputs, outputs, bias=False)


class Attention(torch.nn.Module):
    """Causal attention, with one matrix or with three for queries, keys and values."""

    def __init__(self, shape: Shape, fused: bool) -> None:
        super().__init__()
        width = shape.heads * HEAD
        self.heads, self.fused = shape.heads, fused
        if fused:
            self.qkv_proj = _linear(3 * width, shape.width)
        else:
            self.q_proj, self.k_proj, self.v_proj = (_linear(width, shape.width) for _ in "qkv")
        self.o_proj = _linear(shape.width, width)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        if self.fused:
            parts = self.qkv_proj(states).chunk(3, dim=-1)
        else:
            parts = (self.q_proj(states), self.k_proj(states), self.v_proj(states))
        q, k, v = (part.unflatten(-1, (self.heads, HEAD)).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class FeedForward(torch.nn.Module):
    """A gated feed-forward part, with one matrix or with two for gate and input."""

    def __init__(self, shape: Shape, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        if fused:
            self.gate_up_proj = _linear(2 * shape.inner, shape.width)
        else:
            self.gate_proj, self.up_proj = (_linear(shape.inner, shape.width) for _ in range(2))
        self.down_proj = _linear(shape.width, shape.inner)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        if self.fused:
            gate, up = self.gate_up_proj(states).chunk(2, dim=-1)
        else:
            gate, up = self.gate_proj(states), self.up_proj(states)
        return self.down_proj(functional.silu(gate) * up)


class Layer(torch.nn.Module):
    """A layer with the names of a Llama's."""

    def __init__(self, shape: Shape, fused: bool) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(shape, fused), FeedForward(shape, fused)
        self.input_layernorm = torch.nn.RMSNorm(shape.width, eps=1e-5)
        self.post_attention_layernorm = torch.nn.RMSNorm(shape.width, eps=1e-5)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        states = states + self.self_attn(self.input_layernorm(states))
        return states + self.mlp(self.post_attention_layernorm(states))


class Decoder(torch.nn.Module):
    """The decoder."""

    def __init__(self, shape: Shape, fused: bool) -> None:
        super().__init__()
        self.model: Any = torch.nn.Module()
        self.model.embed_tokens = torch.nn.Embedding(VOCABULARY, shape.width)
        self.model.layers = torch.nn.ModuleList(Layer(shape, fused) for _ in range(shape.layers))
        self.model.norm = torch.nn.RMSNorm(shape.width, eps=1e-5)
        self.lm_head = _linear(VOCABULARY, shape.width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        states = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            states = layer(states)
        return self.lm_head(self.model.norm(states))


def made(shape: Shape, fused: bool) -> Decoder:
    """A decoder without weights."""
    with torch.device("meta"):
        return Decoder(shape, fused).eval().requires_grad_(False)


def fuse(weights: Weights, layers: int) -> Weights:
    """Weights of a fused decoder in bfloat16; empties the dictionary of those of a plain one."""
    fused: Weights = {}
    for layer in range(layers):
        at = f"model.layers.{layer}"
        for into, parts in (("self_attn.qkv_proj", "qkv"), ("mlp.gate_up_proj", ("gate", "up"))):
            owner = into.partition(".")[0]
            joined = torch.cat([weights.pop(f"{at}.{owner}.{part}_proj.weight") for part in parts])
            fused[f"{at}.{into}.weight"] = joined.to(torch.bfloat16)
    return fused | {name: weights.pop(name).to(torch.bfloat16) for name in list(weights)}


def infer(decoder: torch.nn.Module) -> bytes:
    """One inference; returns the bits of the last token's logits."""
    ids = (torch.arange(TOKENS) * 7 % VOCABULARY).unsqueeze(0)
    with torch.inference_mode():
        return decoder(ids)[0, -1].float().numpy().tobytes()


def bytes_of(module: torch.nn.Module) -> int:
    """Bytes of a module's parameters and buffers, of tied ones once."""
    tensors = {tensor.data_ptr(): tensor.nbytes for tensor in (*module.parameters(), *module.buffers())}
    return sum(tensors.values())
