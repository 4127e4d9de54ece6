"""Swaps: a model that is in the host's store comes to the device, in place of others."""

import time
from collections.abc import Callable
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
        # The first one publishes the file, the second one has its pages registered.
        for number in range(rounds + 2):
            say(f"swap of {name}, {number + 1} of {rounds + 2}")
            if number:
                node.evict(model, nbytes)
            if number == 2:
                node.settle()
            begun = time.perf_counter()
            with gpu.prefetch(path, node.device, wait=LONG_S) as held:
                held.wait(LONG_S)
                spent = time.perf_counter() - begun
                if held.model is None:
                    raise RuntimeError(f"{path} is on {node.device} without an identity")
                model, nbytes = held.model, held.nbytes
            if number > 1:
                seconds.append(spent)
                begun = time.perf_counter()
                with gpu.prefetch(path, node.device, wait=LONG_S) as held:
                    held.wait(LONG_S)
                    resident.append(time.perf_counter() - begun)
                peak = node.peak(min(PEAK_BYTES, nbytes), 1)
                if peak is not None:
                    peaks.append(peak)
            if number == 0:
                node.settle()
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
        "bytes_per_second": [nbytes / one for one in seconds],
        "peak_bytes_per_second": peaks,
    }
