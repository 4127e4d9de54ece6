"""Synthetic weights, the same for the same seed."""

from pathlib import Path

Shapes = dict[str, tuple[int, ...]]

DEFAULT_BYTES = 1_200_000_000
LAYERS = 41
"""With 9 tensors each, and embedding, norm and head, 372 tensors."""
SMALLEST_HIDDEN = 32


def shapes(size: int) -> Shapes:
    """Shapes of a Llama-like decoder in single precision of about `size` bytes."""
    hidden = SMALLEST_HIDDEN
    while 4 * _elements(hidden + 32) <= size:
        hidden += 32
    # The step in width is coarse; the size of the vocabulary makes up for the rest.
    rest = max(0, size // 4 - _elements(hidden))
    return _decoder(hidden, 8 * hidden + rest // hidden + 1)


def write(path: str, size: int, seed: int) -> dict[str, int]:
    """Writes such a model; returns its tensors and their bytes."""
    import safetensors.torch
    import torch

    generator = torch.Generator().manual_seed(seed)
    tensors = {name: torch.randn(shape, generator=generator) * 0.02 for name, shape in shapes(size).items()}
    safetensors.torch.save_file(tensors, path)
    return {"tensors": len(tensors), "tensor_bytes": sum(tensor.nbytes for tensor in tensors.values())}


def save_for_torch(source: str, target: str) -> None:
    """Writes the tensors of a safetensors file as `torch.save` does."""
    import safetensors.torch
    import torch

    torch.save(safetensors.torch.load_file(source), target)


def describe(path: str) -> dict[str, object]:
    """Number of tensors, their bytes, and the kind of inference that a file allows."""
    import importlib.util

    import safetensors

    from .inference import WORDS

    with safetensors.safe_open(path, framework="pt") as file:
        names = list(file.keys())
        sizes = [file.get_tensor(name).nbytes for name in names]
    is_bert = WORDS in names and importlib.util.find_spec("transformers") is not None
    return {
        "name": Path(path).resolve().parent.name if Path(path).stem == "model" else Path(path).stem,
        "tensors": len(names),
        "tensor_bytes": sum(sizes),
        "inference": "bert" if is_bert else "matrices",
    }


def _elements(hidden: int) -> int:
    total = 0
    for shape in _decoder(hidden, 8 * hidden).values():
        count = 1
        for extent in shape:
            count *= extent
        total += count
    return total


def _decoder(hidden: int, words: int) -> Shapes:
    inner, key_value = 8 * hidden // 3 // 32 * 32, max(hidden // 4, 8)
    result: Shapes = {"model.embed_tokens.weight": (words, hidden)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        result |= {
            f"{at}.self_attn.q_proj.weight": (hidden, hidden),
            f"{at}.self_attn.k_proj.weight": (key_value, hidden),
            f"{at}.self_attn.v_proj.weight": (key_value, hidden),
            f"{at}.self_attn.o_proj.weight": (hidden, hidden),
            f"{at}.mlp.gate_proj.weight": (inner, hidden),
            f"{at}.mlp.up_proj.weight": (inner, hidden),
            f"{at}.mlp.down_proj.weight": (hidden, inner),
            f"{at}.input_layernorm.weight": (hidden,),
            f"{at}.post_attention_layernorm.weight": (hidden,),
        }
    return result | {"model.norm.weight": (hidden,), "lm_head.scale": (1,)}
