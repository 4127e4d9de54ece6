"""A worker's part of :mod:`tetris_bench.small`: loads of small files, as an unmodified program makes them."""

import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

SETTLED_S = 0.5
"""Age of a file that is recognized by its time stamp for certain, on a local file system."""
SHARED_BYTES = 16 << 20
"""Size of a model that every process has loaded before: a program that uses the store has something mapped from it."""
LAYERS = 8
"""Linear layers of the small module, 32 by 32."""


class SmallFiles:
    """Operations of the process on small files in a separate directory."""

    def __init__(self, directory: str, patched: bool) -> None:
        if patched:
            import tetris

            tetris.patch()
        self.directory = Path(directory)
        self.numbers = itertools.count()
        large = self.directory / "large.safetensors"
        safetensors.torch.save_file(_tensors(SHARED_BYTES), large)
        self.keep = safetensors.torch.load_file(large)
        self.module = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(LAYERS)))
        self.state = self.module.state_dict()
        self.known = self.directory / "known.safetensors"

    def times(self, what: str, size: int, count: int) -> list[int]:
        """Times of `count` operations, in nanoseconds."""
        return list(getattr(self, what)(size, count))

    def fresh(self, size: int, count: int) -> list[int]:
        """Loads of files that were written just before."""
        tensors, times = _tensors(size), []
        for _ in range(count):
            path = self.directory / f"fresh-{next(self.numbers)}.safetensors"
            safetensors.torch.save_file(tensors, path)
            times.append(_timed(lambda path=path: safetensors.torch.load_file(path)))  # type: ignore[misc]
            path.unlink()
        return times

    def again(self, size: int, count: int) -> list[int]:
        """One file, saved and loaded over and over."""
        tensors, path = _tensors(size), self.directory / "again.safetensors"

        def save_and_load() -> None:
            safetensors.torch.save_file(tensors, path)
            safetensors.torch.load_file(path)

        return [_timed(save_and_load) for _ in range(count)]

    def settled(self, size: int, count: int) -> list[int]:
        """Loads of one file that was loaded before."""
        if not self.known.exists():
            safetensors.torch.save_file(_tensors(size), self.known)
            changed = os.stat(self.known).st_ctime
            time.sleep(max(0.0, changed + SETTLED_S - time.time()))
            for _ in range(3):
                safetensors.torch.load_file(self.known)
        return [_timed(lambda: safetensors.torch.load_file(self.known)) for _ in range(count)]

    def state_dict(self, size: int, count: int) -> list[int]:
        """``load_state_dict`` of a small module."""
        del size
        return [_timed(lambda: self.module.load_state_dict(self.state)) for _ in range(count)]


def _tensors(size: int) -> dict[str, torch.Tensor]:
    """Four tensors of so many bytes together."""
    return {f"weight.{number}": torch.randn(size // 16) for number in range(4)}


def _timed(operation: Callable[[], Any]) -> int:
    begin = time.perf_counter_ns()
    operation()
    return time.perf_counter_ns() - begin
