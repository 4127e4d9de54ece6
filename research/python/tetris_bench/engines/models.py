"""Synthetic models, the same for the same seed: `python -m tetris_bench.engines.models FOLDER SHAPE SEED`.

An *empty* model has hardly any weights in the inner part of its layers, and the rest as the whole one has it: an engine
on it has the caches and buffers of one on the whole model.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

HEAD = 64
"""Width of an attention head."""
VOCABULARY = 4096
"""Tokens of the Llama."""
CONTEXT = 512
"""Longest text in tokens."""
EMPTY_INNER = 64
"""Width of an empty model's inner layers."""
FILE = "model.safetensors"


@dataclass(frozen=True)
class Shape:
    """Shape of a Llama-like decoder."""

    layers: int
    width: int
    inner: int
    """Width of the inner layer of the feed-forward part."""
    heads: int
    """Attention heads of 64 each, as many for keys and values."""

    @classmethod
    def of(cls, layers: int, width: int) -> Self:
        """A model of some width, a multiple of 128."""
        return cls(layers, width, 11 * width // 4, width // HEAD)

    def empty(self) -> "Shape":
        """The same without most of its weights. Its layers are as wide, so an engine has the same buffers for them."""
        return Shape(self.layers, self.width, EMPTY_INNER, self.heads)

    def matrices(self) -> Iterator[tuple[str, int, int]]:
        """Name, outputs and inputs of each matrix of a layer."""
        attention = self.heads * HEAD
        for name in "qkv":
            yield f"self_attn.{name}_proj", attention, self.width
        yield "self_attn.o_proj", self.width, attention
        for name in ("gate", "up"):
            yield f"mlp.{name}_proj", self.inner, self.width
        yield "mlp.down_proj", self.width, self.inner


def of_folder(folder: Path) -> Shape:
    """Shape of the model in a folder."""
    config = json.loads((folder / "config.json").read_text())
    return Shape(
        config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    )


def write(folder: Path, shape: Shape, seed: int) -> None:
    """Writes a Llama in float32, as transformers and vLLM read it, into a folder, which is made."""
    import numpy
    from safetensors.numpy import save_file

    folder.mkdir()
    random = numpy.random.default_rng(seed)
    tensors = {"model.embed_tokens.weight": normal(random, VOCABULARY, shape.width)}
    for layer in range(shape.layers):
        at = f"model.layers.{layer}"
        for name, outputs, inputs in shape.matrices():
            tensors[f"{at}.{name}.weight"] = normal(random, outputs, inputs)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}.{norm}.weight"] = numpy.ones(shape.width, numpy.float32)
    tensors["model.norm.weight"] = numpy.ones(shape.width, numpy.float32)
    tensors["lm_head.weight"] = normal(random, VOCABULARY, shape.width)
    save_file(tensors, folder / FILE, {"format": "pt"})
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": VOCABULARY,
        "hidden_size": shape.width,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "head_dim": HEAD,
        "max_position_embeddings": CONTEXT,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    (folder / "config.json").write_text(json.dumps(config))


def normal(random: Any, *shape: int) -> Any:
    """A matrix of float32 that keeps the size of a vector."""
    import numpy

    return random.standard_normal(shape, dtype=numpy.float32) / numpy.float32(shape[-1] ** 0.5)


def command(interpreter: str, writer: str, folder: Path, shape: Shape, seed: int) -> list[str]:
    """The command that writes a model with an engine's interpreter, by a module of this package."""
    shape_json = json.dumps(asdict(shape))
    return [interpreter, "-m", f"{__package__}.{writer}", os.fspath(folder), shape_json, str(seed)]


def run(write: Callable[[Path, Shape, int], None]) -> None:
    """Writes a model as the command line says."""
    write(Path(sys.argv[1]), Shape(**json.loads(sys.argv[2])), int(sys.argv[3]))


if __name__ == "__main__":
    run(write)
