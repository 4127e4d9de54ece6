"""A Llama of transformers, cast while it is loaded."""

import functools
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from ..registry import TETRIS
from .decoder import bytes_of

PROMPT, NEW = 32, 16
"""Tokens of the prompt, and tokens that are generated."""


class Program:
    """Loads by `from_pretrained`, and generates greedily."""

    def __init__(self, way: str, empty: Path) -> None:
        transformers.utils.logging.disable_progress_bar()
        transformers.utils.logging.set_verbosity_error()
        if way == TETRIS:
            import tetris

            tetris.patch()
        self._modules_s = 0.0
        self._time_modules(transformers.LlamaForCausalLM)
        self._model: Any = None
        # First calls are no part of a load.
        self.load(empty)
        self.run()
        self._model = None

    def _time_modules(self, model_class: Any) -> None:
        """Counts the seconds in which the model's modules are made, which are no part of its weights."""
        made = model_class.__init__

        @functools.wraps(made)
        def timed(*arguments: Any, **keywords: Any) -> None:
            begin = time.perf_counter()
            made(*arguments, **keywords)
            self._modules_s += time.perf_counter() - begin

        model_class.__init__ = timed

    def load(self, folder: Path) -> float:
        self._model = None
        self._modules_s = 0.0
        begin = time.perf_counter()
        self._model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
        return time.perf_counter() - begin - self._modules_s

    def weight_bytes(self) -> int:
        return bytes_of(self._model)

    def run(self) -> tuple[int, bytes]:
        ids = (torch.arange(PROMPT) * 7 + 3).unsqueeze(0)
        with torch.inference_mode():
            found = self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=NEW,
                min_new_tokens=NEW,
                do_sample=False,
                pad_token_id=0,
                output_logits=True,
                return_dict_in_generate=True,
            )
        return NEW, found.sequences.numpy().tobytes() + found.logits[-1].float().numpy().tobytes()
