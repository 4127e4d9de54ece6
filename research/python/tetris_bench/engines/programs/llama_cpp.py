"""llama.cpp on a GGUF file that it maps."""

import ctypes
import functools
import os
import time
from pathlib import Path
from typing import Any

import llama_cpp
from llama_cpp import _internals

from ..gguf_models import FILE
from ..registry import TETRIS

PROMPT, NEW, CONTEXT = 64, 32, 128
"""Tokens of the prompt, tokens that are generated, and room for them."""


class Program:
    """Loads one model, and generates greedily."""

    def __init__(self, way: str, empty: Path) -> None:
        del empty
        if way == TETRIS:
            import tetris

            tetris.patch()
        self._seconds = 0.0
        self._time_weights(_internals.LlamaModel)
        _leave_out_repacking()

    def _time_weights(self, model_class: Any) -> None:
        """Counts the seconds in which the file is loaded, without those in which caches are made."""
        made = model_class.__init__

        @functools.wraps(made)
        def timed(*arguments: Any, **keywords: Any) -> None:
            begin = time.perf_counter()
            made(*arguments, **keywords)
            self._seconds += time.perf_counter() - begin

        model_class.__init__ = timed

    def load(self, folder: Path) -> float:
        threads = int(os.environ["OMP_NUM_THREADS"])
        self._model = llama_cpp.Llama(
            os.fspath(folder / FILE),
            n_ctx=CONTEXT,
            n_batch=PROMPT,
            n_threads=threads,
            n_threads_batch=threads,
            verbose=False,
        )
        return self._seconds

    def weight_bytes(self) -> int:
        return int(llama_cpp.llama_model_size(self._model.model))

    def run(self) -> tuple[int, bytes]:
        prompt = [3 + (index * 7) % 4000 for index in range(PROMPT)]
        self._model.reset()
        tokens: list[int] = []
        for token in self._model.generate(prompt, temp=0.0):
            tokens.append(token)
            if len(tokens) == NEW:
                break
        logits = llama_cpp.llama_get_logits_ith(self._model.ctx, -1)
        return NEW, repr(tokens).encode() + ctypes.string_at(logits, 4 * self._model.n_vocab())


def _leave_out_repacking() -> None:
    """Lets the library map weights that it would repack on some processors, as it does where the store shares them."""
    default = llama_cpp.llama_model_default_params

    def plain() -> Any:
        params = default()
        params.use_extra_bufts = False
        return params

    llama_cpp.llama_model_default_params = plain
