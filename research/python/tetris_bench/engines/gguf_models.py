"""The same models in GGUF, with weights of 8 bits: `python -m tetris_bench.engines.gguf_models FOLDER SHAPE SEED`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .models import CONTEXT, HEAD, VOCABULARY, Shape, normal, run

FILE = "model.gguf"
NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""Names of matrices in GGUF."""
SPECIAL = ((b"<unk>", 2), (b"<s>", 3), (b"</s>", 3))
"""First tokens and their types: unknown and control."""
WORD, BYTE = 1, 6
"""Types of the other tokens."""
MOSTLY_Q8_0 = 7
"""Type of a file most of whose tensors are Q8_0."""


def write(folder: Path, shape: Shape, seed: int) -> None:
    """Writes a Llama, as llama.cpp reads it, into a folder, which is made."""
    import gguf
    import numpy

    folder.mkdir()
    writer = gguf.GGUFWriter(folder / FILE, "llama")
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
    writer.add_file_type(MOSTLY_Q8_0)
    _add_tokens(writer)
    random = numpy.random.default_rng(seed)
    for name, outputs, inputs in _matrices(shape):
        weights = gguf.quants.quantize(normal(random, outputs, inputs), gguf.GGMLQuantizationType.Q8_0)
        writer.add_tensor(f"{name}.weight", weights, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    for name in _norms(shape):
        writer.add_tensor(f"{name}.weight", numpy.ones(shape.width, numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokens(writer: Any) -> None:
    """Adds a vocabulary of the bytes, filled up with words."""
    tokens = [*SPECIAL, *((b"<0x%02X>" % byte, BYTE) for byte in range(256))]
    tokens += ((b"word%d" % number, WORD) for number in range(len(tokens), VOCABULARY))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([token for token, _ in tokens])
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def _matrices(shape: Shape) -> Iterator[tuple[str, int, int]]:
    """Name, outputs and inputs of each matrix."""
    yield "token_embd", VOCABULARY, shape.width
    for layer in range(shape.layers):
        for name, outputs, inputs in shape.matrices():
            yield f"blk.{layer}.{NAMES[name]}", outputs, inputs
    yield "output", VOCABULARY, shape.width


def _norms(shape: Shape) -> Iterator[str]:
    for layer in range(shape.layers):
        yield f"blk.{layer}.attn_norm"
        yield f"blk.{layer}.ffn_norm"
    yield "output_norm"


if __name__ == "__main__":
    run(write)
