"""Random models for the measurements, made where they are used.

python3 models.py FOLDER NAME...      prints each name once its folder is whole
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import save_file

VOCABULARY = 32000


class Shape(NamedTuple):
    """The shape of a Llama."""

    layers: int
    hidden: int
    inner: int
    heads: int
    key_heads: int
    #: Whether its linear layers have 4 bits, as AWQ has them.
    is_quantized: bool = False


SHAPES = {
    "tiny": Shape(2, 512, 1024, 8, 8),
    "1b": Shape(22, 2048, 5632, 16, 4),
    "awq": Shape(22, 2048, 5632, 16, 4, is_quantized=True),
    "7b": Shape(32, 4096, 11008, 32, 32),
}


def tensors(shape: Shape) -> Iterator[tuple[str, tuple[int, int] | tuple[int]]]:
    """Yield names and shapes of a model's tensors."""
    head = shape.hidden // shape.heads
    yield "model.embed_tokens.weight", (VOCABULARY, shape.hidden)
    for layer in range(shape.layers):
        name = f"model.layers.{layer}"
        yield f"{name}.self_attn.q_proj.weight", (shape.hidden, shape.hidden)
        for part in ("k_proj", "v_proj"):
            yield f"{name}.self_attn.{part}.weight", (shape.key_heads * head, shape.hidden)
        yield f"{name}.self_attn.o_proj.weight", (shape.hidden, shape.hidden)
        for part in ("gate_proj", "up_proj"):
            yield f"{name}.mlp.{part}.weight", (shape.inner, shape.hidden)
        yield f"{name}.mlp.down_proj.weight", (shape.hidden, shape.inner)
        yield f"{name}.input_layernorm.weight", (shape.hidden,)
        yield f"{name}.post_attention_layernorm.weight", (shape.hidden,)
    yield "model.norm.weight", (shape.hidden,)
    yield "lm_head.weight", (VOCABULARY, shape.hidden)


def quantized(name: str, size: tuple[int, int], device: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield random tensors of 4 bits, in groups of 128 rows, for a linear layer."""
    columns, rows = size
    layer, group, per_word = name.removesuffix("weight"), 128, 8
    words = (rows, columns // per_word)
    yield f"{layer}qweight", torch.randint(-(1 << 31), (1 << 31) - 1, words, dtype=torch.int32, device=device)
    zeros = torch.full((rows // group, columns // per_word), 0x88888888 - (1 << 32), dtype=torch.int32)
    yield f"{layer}qzeros", zeros
    yield f"{layer}scales", torch.full((rows // group, columns), 0.2 / rows**0.5, dtype=torch.float16)


def make(folder: Path, shape: Shape) -> None:
    """Write a model of random weights."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.float16 if shape.is_quantized else torch.bfloat16
    torch.manual_seed(7)
    made = {}
    for name, size in tensors(shape):
        if shape.is_quantized and name.endswith("proj.weight"):
            made |= {key: tensor.cpu() for key, tensor in quantized(name, size, device)}  # type: ignore[arg-type]
        elif len(size) == 1:
            made[name] = torch.ones(size, dtype=dtype)
        else:
            made[name] = (torch.randn(size, dtype=dtype, device=device) * 0.02).cpu()
    folder.mkdir(parents=True)
    save_file(made, folder / "model.safetensors", {"format": "pt"})
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_heads,
        "head_dim": shape.hidden // shape.heads,
        "max_position_embeddings": 2048,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "dtype": str(dtype).removeprefix("torch."),
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    if shape.is_quantized:
        config["quantization_config"] = {
            "quant_method": "awq",
            "bits": 4,
            "group_size": 128,
            "zero_point": True,
            "version": "gemm",
        }
    (folder / "config.json").write_text(json.dumps(config))


def main() -> None:
    """Make the models that are named."""
    folder, *names = sys.argv[1:]
    for name in names:
        begin = time.perf_counter()
        make(Path(folder, name), SHAPES[name])
        print(f"{name} {time.perf_counter() - begin:.1f}", flush=True)


if __name__ == "__main__":
    main()
