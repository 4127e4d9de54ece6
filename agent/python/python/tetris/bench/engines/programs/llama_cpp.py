"""llama-cpp-python on a GGUF file."""

import ctypes
import os
import time
from pathlib import Path
from typing import Any

from ..models import CONTEXT, GGUF
from ..registry import STOCK, TETRIS

PROMPT, NEW = 64, 32
"""Tokens of the prompt, and tokens that are generated."""


class Program:
    """Loads one model, and generates greedily."""

    def __init__(self, way: str, empty: Path) -> None:
        if way == TETRIS:
            import tetris

            tetris.patch()
        import llama_cpp

        self._library: Any = llama_cpp
        self._threads = int(os.environ["OMP_NUM_THREADS"])
        if way not in (STOCK, TETRIS):
            self._without_repacking()
        self._model: Any = None
        # First calls are no part of a load.
        self.load(empty)
        self.run()
        self._model = None

    def _without_repacking(self) -> None:
        raw = self._library.llama_cpp
        default = raw.llama_model_default_params

        def plain() -> Any:
            found = default()
            found.use_extra_bufts = False
            return found

        raw.llama_model_default_params = self._library.llama_model_default_params = plain

    def load(self, folder: Path) -> float:
        self._model = None
        file = str(folder / GGUF)
        self._bytes = Path(file).stat().st_size
        begin = time.perf_counter()
        self._model = self._library.Llama(
            file, n_ctx=CONTEXT, n_batch=CONTEXT, n_threads=self._threads, n_threads_batch=self._threads, verbose=False
        )
        return time.perf_counter() - begin

    def weight_bytes(self) -> int:
        return self._bytes

    def run(self) -> tuple[int, bytes]:
        model = self._model
        model.reset()
        tokens = []
        for token in model.generate([3 + index * 7 % 250 for index in range(PROMPT)], temp=0.0):
            tokens.append(token)
            if len(tokens) == NEW:
                break
        logits = self._library.llama_get_logits_ith(model.ctx, -1)
        size = ctypes.sizeof(ctypes.c_float) * model.n_vocab()
        return NEW, repr(tokens).encode() + ctypes.string_at(ctypes.addressof(logits.contents), size)
