"""One inference, by the same code whatever memory the weights are in."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import torch

WORDS = "embeddings.word_embeddings.weight"
"""A tensor that says that the model is a BERT encoder."""
TOKENS = 64
"""Length of the input text in tokens."""

Forward = Callable[[dict[str, torch.Tensor]], Callable[[], torch.Tensor]]


def prepare(kind: str, file: Path) -> Forward:
    """Imports and builds what an inference needs beside weights, before any clock starts."""
    return _bert(file) if kind == "bert" else _matrices


def timed(forward: Callable[[], torch.Tensor]) -> tuple[int, torch.Tensor]:
    """Runs one inference; returns its duration in nanoseconds and the output."""
    with torch.inference_mode():
        begin = time.perf_counter_ns()
        output = forward()
        return time.perf_counter_ns() - begin, output


def _matrices(tensors: dict[str, torch.Tensor]) -> Callable[[], torch.Tensor]:
    """Every matrix times a fixed vector, as when one token is decoded: bound by how fast weights can be read."""
    matrices = [tensor for _, tensor in sorted(tensors.items()) if tensor.dim() == 2 and tensor.is_floating_point()]
    widest = max((matrix.shape[1] for matrix in matrices), default=0)
    # All of one sign, so that products do not cancel out and can be compared.
    activation = torch.linspace(0.25, 1.0, max(widest, 1))
    inputs = [activation[: matrix.shape[1]].to(matrix.dtype) for matrix in matrices]

    def forward() -> torch.Tensor:
        norms = [(matrix @ vector).float().norm() for matrix, vector in zip(matrices, inputs, strict=True)]
        return torch.stack(norms)

    return forward


def _bert(file: Path) -> Forward:
    """A BERT encoder of the transformers library; without `config.json` beside the weights, that of MiniLM."""
    from transformers import BertConfig, BertModel

    config_file = file.parent / "config.json"
    if config_file.exists():
        config = BertConfig(**json.loads(config_file.read_text()))
    else:
        config = BertConfig(
            vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
        )
    # Without memory of its own: the weights come from the load.
    with torch.device("meta"):
        model = BertModel(config).eval()
    buffers = {
        "position_ids": torch.arange(config.max_position_embeddings).expand((1, -1)),
        "token_type_ids": torch.zeros((1, config.max_position_embeddings), dtype=torch.long),
    }
    for name, buffer in list(model.named_buffers()):
        if buffer.is_meta:
            owner, _, last = name.rpartition(".")
            setattr(model.get_submodule(owner), last, buffers[last])
    tokens = (torch.arange(TOKENS).unsqueeze(0) * 37 + 101) % config.vocab_size

    def bind(tensors: dict[str, torch.Tensor]) -> Callable[[], torch.Tensor]:
        weights = {name: tensor for name, tensor in tensors.items() if not name.endswith("position_ids")}
        model.load_state_dict(weights, assign=True)
        return lambda: model(input_ids=tokens).last_hidden_state.mean(dim=1)[0]

    return bind


def checksum(tensors: dict[str, torch.Tensor]) -> str:
    """Sums the bits of all weights, with each tensor's place among the sorted names: exact, in hexadecimal."""
    total = 0
    for place, (_, tensor) in enumerate(sorted(tensors.items())):
        flat = tensor.detach().reshape(-1).view(torch.uint8)
        words = flat[: flat.numel() // 4 * 4].clone() if flat.storage_offset() % 4 else flat[: flat.numel() // 4 * 4]
        rest = flat[flat.numel() // 4 * 4 :]
        sums = int(words.view(torch.int32).sum()) + int(rest.sum())
        total = (total + (2 * place + 1) * sums) % 2**64
    return f"{total:016x}"
