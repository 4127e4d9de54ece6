"""A module that is made in memory, and shared by `share_module_`."""

import time
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from ..models import FILE, of_folder
from ..registry import TETRIS
from . import decoder


class Program:
    """Loads float32 weights, casts the module, and shares it if it is told to."""

    def __init__(self, way: str, empty: Path) -> None:
        self._shares = way == TETRIS
        self._module: Any = None
        # First calls are no part of a load.
        self.load(empty)
        self.run()
        self._module = None

    def load(self, folder: Path) -> float:
        module = decoder.made(of_folder(folder), fused=False)
        begin = time.perf_counter()
        module.load_state_dict(safetensors.torch.load_file(folder / FILE), assign=True)
        self._module = module.requires_grad_(False).to(torch.bfloat16)
        if self._shares:
            import tetris.torch

            tetris.torch.share_module_(self._module)
        return time.perf_counter() - begin

    def weight_bytes(self) -> int:
        return decoder.bytes_of(self._module)

    def run(self) -> tuple[int, bytes]:
        return 1, decoder.infer(self._module)
