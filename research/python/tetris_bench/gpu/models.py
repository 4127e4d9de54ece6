"""Models with random weights, written from the device that makes them."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import torch

from ..engines.models import HEAD, VOCABULARY, Shape
from ..engines.programs.decoder import Decoder, made

BYTES = torch.uint8
DTYPE = torch.bfloat16
NAMES = {DTYPE: "BF16", BYTES: "U8"}
#: Length of the tensors of a file of random bytes.
TENSOR_BYTES = 64 << 20


def module(shape: Shape) -> Decoder:
    """A decoder in bfloat16 without weights."""
    return made(shape, fused=False).to(DTYPE)


def tokens(count: int, device: str) -> torch.Tensor:
    """An input text."""
    return (torch.arange(count, device=device) * 7 % VOCABULARY).unsqueeze(0)


def first_token(decoder: torch.nn.Module, ids: torch.Tensor) -> int:
    """The token after a text. Waits for the device."""
    with torch.inference_mode():
        return int(decoder(ids)[0, -1].argmax())


def write(path: Path, shape: Shape, seed: int, device: str) -> int:
    """Writes the weights of a decoder in the order of their use; returns their bytes."""
    generator = torch.Generator(device).manual_seed(seed)
    sizes = [(name, tuple(tensor.shape)) for name, tensor in module(shape).state_dict().items()]

    def weights() -> Iterator[torch.Tensor]:
        for name, size in sizes:
            if len(size) == 1:
                yield torch.ones(size, dtype=DTYPE, device=device)
                continue
            values = torch.randn(size, dtype=DTYPE, device=device, generator=generator)
            yield values.div_(math.sqrt(HEAD if "embed" in name else size[-1]))

    return _write(path, sizes, DTYPE, weights())


def write_bytes(path: Path, length: int, seed: int, device: str) -> None:
    """Writes a file of random bytes, in tensors of the sizes that models have."""
    generator = torch.Generator(device).manual_seed(seed)
    lengths = [min(TENSOR_BYTES, length - begin) for begin in range(0, length, TENSOR_BYTES)]
    sizes: list[tuple[str, tuple[int, ...]]] = [(f"bytes-{number}", (one,)) for number, one in enumerate(lengths)]
    values = (torch.randint(0, 256, size, dtype=BYTES, device=device, generator=generator) for _, size in sizes)
    _write(path, sizes, BYTES, values)


def _write(
    path: Path, sizes: list[tuple[str, tuple[int, ...]]], dtype: torch.dtype, tensors: Iterator[torch.Tensor]
) -> int:
    header: dict[str, object] = {}
    end = 0
    for name, size in sizes:
        begin, end = end, end + math.prod(size) * dtype.itemsize
        header[name] = {"dtype": NAMES[dtype], "shape": size, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    # The device copies into the file's pages: there is no second copy in host memory.
    whole = torch.from_file(str(path), shared=True, size=8 + len(text) + end, dtype=BYTES)
    at = 8 + len(text)
    for tensor in tensors:
        flat = tensor.reshape(-1).view(BYTES)
        whole[at : at + flat.numel()].copy_(flat)
        at += flat.numel()
    return end
