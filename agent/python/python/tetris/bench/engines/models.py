"""Synthetic models, the same for the same seed: `python -m tetris.bench.engines.models KIND FOLDER SHAPE SEED`.

An *empty* model has the same layers, heads and vocabulary, and hardly any weights: an engine on it has the caches and
buffers of one on the whole model.
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

HEAD = 64
"""Width of an attention head."""
VOCABULARY = 4096
"""Tokens of the Llama."""
CONTEXT = 512
"""Longest text in tokens."""
EMPTY_WIDTH = 64
"""Width of an empty model."""
FILE = "model.safetensors"
GGUF = "model.gguf"


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
        """The same without most of its weights."""
        return Shape(self.layers, EMPTY_WIDTH, EMPTY_WIDTH, self.heads)

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


def write(kind: str, folder: Path, shape: Shape, seed: int) -> None:
    """Writes a model into a folder, which is made."""
    folder.mkdir()
    if kind == "gguf":
        _gguf(folder, shape, seed)
    else:
        _llama(folder, shape, seed)


def _normal(random: Any, *shape: int) -> Any:
    import numpy

    return random.standard_normal(shape, dtype=numpy.float32) / numpy.float32(shape[-1] ** 0.5)


def _llama(folder: Path, shape: Shape, seed: int) -> None:
    """A Llama in float32, as transformers and vLLM read it."""
    import numpy
    from safetensors.numpy import save_file

    random = numpy.random.default_rng(seed)
    tensors = {"model.embed_tokens.weight": _normal(random, VOCABULARY, shape.width)}
    for layer in range(shape.layers):
        at = f"model.layers.{layer}"
        for name, outputs, inputs in shape.matrices():
            tensors[f"{at}.{name}.weight"] = _normal(random, outputs, inputs)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}.{norm}.weight"] = numpy.ones(shape.width, numpy.float32)
    tensors["model.norm.weight"] = numpy.ones(shape.width, numpy.float32)
    tensors["lm_head.weight"] = _normal(random, VOCABULARY, shape.width)
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


def _gguf(folder: Path, shape: Shape, seed: int) -> None:
    """A Llama with a vocabulary of bytes, quantized by llama.cpp to Q4_0."""
    import gguf
    import llama_cpp
    import numpy

    random = numpy.random.default_rng(seed)
    source, target = folder / "source.gguf", folder / GGUF
    writer = gguf.GGUFWriter(source, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.heads)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(1)
    tokens = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % byte for byte in range(256))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([2, 3, 3, *[6] * 256])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    names = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output"}
    names |= {f"{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")}
    for name in ("token_embd", "output"):
        writer.add_tensor(f"{name}.weight", _normal(random, len(tokens), shape.width).astype(numpy.float16))
    writer.add_tensor("output_norm.weight", numpy.ones(shape.width, numpy.float32))
    for layer in range(shape.layers):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", numpy.ones(shape.width, numpy.float32))
        for name, outputs, inputs in shape.matrices():
            weight = _normal(random, outputs, inputs).astype(numpy.float16)
            writer.add_tensor(f"blk.{layer}.{names[name.rpartition('.')[2]]}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0
    status = llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(target), params)
    source.unlink()
    if status != 0:
        raise RuntimeError(f"llama.cpp cannot quantize {source}: status {status}")


def command(interpreter: str, kind: str, folder: Path, shape: Shape, seed: int) -> list[str]:
    """The command that writes a model with an engine's interpreter."""
    shape_json = json.dumps(asdict(shape))
    return [interpreter, "-m", "tetris.bench.engines.models", kind, os.fspath(folder), shape_json, str(seed)]


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]), Shape(**json.loads(sys.argv[3])), int(sys.argv[4]))
