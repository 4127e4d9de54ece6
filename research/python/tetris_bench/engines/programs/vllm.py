"""vLLM on the CPU, with the engine in this process."""

import functools
import os
import time
from pathlib import Path
from typing import Any

import vllm
import vllm.v1.worker.cpu_model_runner as runner
from vllm.model_executor.model_loader.base_loader import BaseModelLoader

from ..registry import TETRIS

PROMPTS, PROMPT, NEW = 4, 64, 32
"""Prompts at once, tokens of each, and tokens that are generated."""


class Program:
    """Loads one model, and generates greedily."""

    def __init__(self, way: str, empty: Path) -> None:
        del empty
        self._shares = way == TETRIS
        self._seconds = 0.0
        # The time of weights is that of the load without that of the model's modules.
        self._time(runner, "get_model", 1)
        self._time(BaseModelLoader, "create_model", -1)

    def _time(self, owner: Any, name: str, sign: int) -> None:
        stock = getattr(owner, name)

        @functools.wraps(stock)
        def timed(*arguments: Any, **keywords: Any) -> Any:
            begin = time.perf_counter()
            try:
                return stock(*arguments, **keywords)
            finally:
                self._seconds += sign * (time.perf_counter() - begin)

        setattr(owner, name, timed)

    def load(self, folder: Path) -> float:
        self._engine = vllm.LLM(
            model=os.fspath(folder),
            skip_tokenizer_init=True,
            max_model_len=512,
            dtype="bfloat16",
            enforce_eager=True,
            load_format="tetris" if self._shares else "auto",
        )
        return self._seconds

    def weight_bytes(self) -> int | None:
        # vLLM's own packed weights are in memory of its extension; those of the store are mapped.
        return _mapped() if self._shares else None

    def run(self) -> tuple[int, bytes]:
        prompts: Any = [
            {"prompt_token_ids": [3 + (index * step) % 4000 for index in range(PROMPT)]} for step in (7, 11, 13, 17)
        ]
        greedy = vllm.SamplingParams(temperature=0.0, max_tokens=NEW, ignore_eos=True, detokenize=False)
        outputs = self._engine.generate(prompts, greedy, use_tqdm=False)
        tokens = [token for output in outputs for token in output.outputs[0].token_ids]
        return len(tokens), repr(tokens).encode()


def _mapped() -> int:
    """Bytes of the store's objects that this process maps, of each once."""
    objects = set()
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith(os.environ["TETRIS_STORE"]):
            objects.add(fields[5])
    if not objects:
        raise RuntimeError("vLLM maps nothing of the store")
    return sum(os.stat(path).st_size for path in objects)
