"""Starts of inference: the time from the request for a model to its first token.

Process, context and kernels are ready in all ways; modules without weights, too. What differs is where the weights are.
"""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
import tetris.torch
import torch
from tetris import gpu

from ..engines.models import Shape
from . import models, swaps
from .node import LONG_S, Node

Tensors = dict[str, torch.Tensor]
WARM, COLD, PREFIX, PINNED, FILE, RUN_AI = "warm", "cold", "prefix", "pinned", "safetensors", "run-ai"
WAYS = {
    WARM: "weights on the device",
    COLD: "from the mirror, nothing on the device; kernels wait for their weights",
    PREFIX: "from the mirror, with the prefix of equation (1) on the device",
    PINNED: "copies of torch from pinned memory, non_blocking",
    FILE: "safetensors.torch.load_file to the device",
    RUN_AI: "Run:ai model streamer to the device",
}


def measure(
    node: Node, name: str, shape: Shape, counts: list[int], rounds: int, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Measures the starts of a model with texts of these lengths."""
    path = node.folder / f"{name}.safetensors"
    say(f"{name}: writing")
    models.write(path, shape, 1, node.torch_device)
    node.empty_cache()
    say(f"{name}: publishing")
    model, nbytes, _ = swaps.brought(node, path)
    _record(path, shape)
    node.settle()
    try:
        return [_one(node, name, path, shape, count, rounds, model, nbytes, say) for count in counts]
    finally:
        path.unlink()


def _record(path: Path, shape: Shape) -> None:
    """Records the order of first uses, on a device without memory."""
    decoder = models.module(shape)
    with tetris.torch.record_order(decoder, path), torch.inference_mode():
        decoder(torch.empty((1, 4), dtype=torch.long, device="meta"))


def _one(
    node: Node,
    name: str,
    path: Path,
    shape: Shape,
    count: int,
    rounds: int,
    model: str,
    nbytes: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    ids = models.tokens(count, node.torch_device)
    found: dict[str, Any] = {"model": name, "bytes": nbytes, "tokens": count, "ways": {}, "missing": {}}
    answers = set()

    def take(way: str, load: Callable[[torch.nn.Module], Any], before: Callable[[], None]) -> None:
        """Takes one sample of a way."""
        say(f"{name}, {count} tokens: {way}")
        decoder = models.module(shape)
        before()
        node.sync()
        begun = time.perf_counter()
        kept = load(decoder)
        answers.add(models.first_token(decoder, ids))
        seconds = time.perf_counter() - begun
        found["ways"].setdefault(way, []).append(seconds)
        tetris.torch.release(decoder)
        del kept, decoder
        node.empty_cache()

    # Kernels, and the library's workspace.
    resident = models.module(shape)
    tetris.torch.load_model(resident, path, device=node.device)
    for _ in range(3):
        answers.add(models.first_token(resident, ids))
    for _ in range(max(rounds, 3)):
        node.sync()
        begun = time.perf_counter()
        answers.add(models.first_token(resident, ids))
        found["ways"].setdefault(WARM, []).append(time.perf_counter() - begun)
    tetris.torch.release(resident)
    del resident

    def mirrored(decoder: torch.nn.Module) -> None:
        tetris.torch.load_model(decoder, path, device=node.device, overlap=True)

    loaders = {COLD: (mirrored, lambda: node.evict(model, nbytes)), **_others(node, path, found["missing"])}
    order = random.Random(count)
    for _ in range(rounds):
        ways = list(loaders)
        order.shuffle(ways)
        for way in ways:
            take(way, *loaders[way])
    del loaders
    node.empty_cache()

    warm_s = sorted(found["ways"][WARM])[len(found["ways"][WARM]) // 2]
    kept, rate = gpu.keep_prefix(path, node.device, ttft=warm_s, wait=LONG_S)
    found |= {"prefix_bytes": kept, "bytes_per_second": rate}
    found["peak_bytes_per_second"] = node.peak(min(swaps.PEAK_BYTES, nbytes), 3)
    for _ in range(rounds):
        take(PREFIX, mirrored, lambda: node.evict(model, nbytes, kept))
    gpu.keep_prefix(path, node.device, most_bytes=0, wait=LONG_S)
    found["answers"] = len(answers)
    return found


def _others(
    node: Node, path: Path, missing: dict[str, str]
) -> dict[str, tuple[Callable[[torch.nn.Module], Any], Callable[[], None]]]:
    """The ways without the mirror."""
    device = node.torch_device

    def assign(decoder: torch.nn.Module, tensors: Tensors) -> Tensors:
        decoder.load_state_dict(tensors, assign=True)
        return tensors

    keep = torch.Tensor.pin_memory if node.on_gpu else torch.Tensor.clone
    pinned: Tensors = {}

    def pin() -> None:
        if not pinned:
            pinned.update((name, keep(tensor)) for name, tensor in safetensors.torch.load_file(path).items())

    def from_pinned(decoder: torch.nn.Module) -> Tensors:
        return assign(
            decoder, {name: tensor.to(device, non_blocking=True, copy=True) for name, tensor in pinned.items()}
        )

    def nothing() -> None:
        pass

    ways: dict[str, tuple[Callable[[torch.nn.Module], Any], Callable[[], None]]] = {
        PINNED: (from_pinned, pin),
        FILE: (lambda decoder: assign(decoder, safetensors.torch.load_file(path, device=device)), nothing),
    }
    try:
        from runai_model_streamer import SafetensorsStreamer
    except ImportError as error:
        missing[RUN_AI] = f"this Python has no runai-model-streamer ({error})"
        return ways

    def streamed(decoder: torch.nn.Module) -> Tensors:
        with SafetensorsStreamer() as streamer:
            streamer.stream_file(str(path), device=device)
            return assign(decoder, dict(streamer.get_tensors()))

    ways[RUN_AI] = (streamed, nothing)
    return ways
