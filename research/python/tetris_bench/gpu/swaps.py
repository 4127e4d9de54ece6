"""Swaps: a model that is in the host's store comes to the device, in place of others."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tetris import gpu

from ..engines.models import Shape
from . import models
from .node import LONG_S, Node

#: Length of the pinned buffer whose copies are the peak.
PEAK_BYTES = 1 << 30


def measure(node: Node, name: str, shape: Shape, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Measures the time from asking for a model's residency until all of it is there, the same of one that is, and the
    peak of the link."""
    path = node.folder / f"swap-{name}.safetensors"
    models.write(path, shape, 1, node.torch_device)
    node.empty_cache()
    seconds, resident, peaks = [], [], []
    try:
        # The first one publishes the file, and has its pages registered afterwards.
        say(f"swap of {name}: publishing")
        model, nbytes, _ = brought(node, path)
        node.settle()
        for number in range(rounds + 1):
            say(f"swap of {name}, {number + 1} of {rounds + 1}")
            node.evict(model, nbytes)
            if number == 0:
                # What took its place has pages to register, too.
                node.settle()
            spent = brought(node, path)[2]
            if number > 0:
                seconds.append(spent)
                resident.append(brought(node, path)[2])
                peak = node.peak(min(PEAK_BYTES, nbytes), 1)
                peaks += [] if peak is None else [peak]
    finally:
        path.unlink()
    status = gpu.status(node.device)
    return {
        "model": name,
        "bytes": nbytes,
        "light": nbytes <= status["light_bytes"],
        "light_bytes": status["light_bytes"],
        "seconds": seconds,
        "resident_seconds": resident,
        "bytes_per_second": [nbytes / second for second in seconds],
        "peak_bytes_per_second": peaks,
    }


def brought(node: Node, path: Path) -> tuple[str, int, float]:
    """Brings a model to the device; returns its identity, its bytes, and the seconds that it took.

    Raises:
        RuntimeError: It has no identity.
    """
    begun = time.perf_counter()
    with gpu.prefetch(path, node.device, wait=LONG_S) as held:
        held.wait(LONG_S)
        spent = time.perf_counter() - begun
        if held.model is None:
            raise RuntimeError(f"{path} is on {node.device} without an identity")
        return held.model, held.nbytes, spent
