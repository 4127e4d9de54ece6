"""Inferences of :mod:`tetris_bench.tracing`."""

import random
import time
from collections.abc import Callable

import torch
from tetris._first_use import FirstUse


def measure(module: torch.nn.Module, inputs: torch.Tensor, rounds: int) -> dict[str, list[float]]:
    """Seconds of `rounds` inferences with and without a recording, by turns."""
    named = [(tensor, name) for name, tensor in module.named_parameters()]

    def plain() -> None:
        module(inputs)

    def watched() -> None:
        used: list[str] = []
        watch = FirstUse(module, named, used.extend, lambda: None)
        module(inputs)
        watch.stop()
        if len(used) != len(named):
            raise AssertionError(f"{len(named)} tensors, of which the recording saw {len(used)}")

    plain()
    watched()
    times: dict[str, list[float]] = {"plain_s": [], "watched_s": []}
    order = random.Random(0)
    for _ in range(rounds):
        turns: list[tuple[str, Callable[[], None]]] = [("plain_s", plain), ("watched_s", watched)]
        order.shuffle(turns)
        for name, take in turns:
            begun = time.perf_counter()
            take()
            times[name].append(time.perf_counter() - begun)
    return times
