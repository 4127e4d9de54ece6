"""A module on fused weights, which are a layout."""

import time
from pathlib import Path
from typing import Any

import safetensors.torch

from ..models import FILE, of_folder
from ..registry import TETRIS
from . import decoder


class Program:
    """Fuses and casts the weights of a file, or takes the layout of them."""

    def __init__(self, way: str, empty: Path) -> None:
        self._shares = way == TETRIS
        self._module: Any = None
        # First calls are no part of a load.
        self.load(empty)
        self.run()
        self._module = None

    def load(self, folder: Path) -> float:
        shape, file = of_folder(folder), folder / FILE
        module = decoder.made(shape, fused=True)

        def build() -> decoder.Weights:
            return decoder.fuse(safetensors.torch.load_file(file), shape.layers)

        begin = time.perf_counter()
        weights = _layout(build, file, shape.layers) if self._shares else build()
        module.load_state_dict(weights, assign=True)
        self._module = module.requires_grad_(False)
        return time.perf_counter() - begin

    def weight_bytes(self) -> int:
        return decoder.bytes_of(self._module)

    def run(self) -> tuple[int, bytes]:
        return 1, decoder.infer(self._module)


def _layout(build: object, file: Path, layers: int) -> decoder.Weights:
    import tetris
    import tetris.torch

    sources = {FILE: tetris.agent().file_id(file)}
    name = "tetris_bench: fused decoder, bfloat16"
    return tetris.torch.layout(name, build, sources=sources, conditions={"layers": str(layers)}).tensors  # type: ignore[arg-type]
