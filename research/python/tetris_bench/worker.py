"""A process of the benchmark: `python -m tetris_bench.worker METHOD KIND FILE`, for :mod:`tetris_bench.workers`.

It imports everything its method needs, says so, and answers one JSON object per line until its input ends.
"""

import platform
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from . import inference, models, sharing
from .loaders import Loader, installed, vineyard_server
from .replies import serve
from .touch import touch

PACKAGES = ("tetris-store", "torch", "safetensors", "transformers", "numpy", "runai-model-streamer", "vineyard")


class Worker:
    """State of the process between two requests."""

    def __init__(self, method: str, kind: str, file: str) -> None:
        self.loader = Loader(method) if method else None
        self.bind = inference.prepare(kind, Path(file)) if kind else None
        self.tensors: dict[str, torch.Tensor] = {}
        self.forward: Callable[[], torch.Tensor] | None = None
        # The first call of an operator looks it up, which is no part of a page fault.
        touch({"": torch.zeros(8192)})

    def load(self, file: str, **where: Any) -> dict[str, Any]:
        assert self.loader is not None
        begin = time.perf_counter_ns()
        self.tensors = self.loader.load(file, **where)
        return {
            "load_ns": time.perf_counter_ns() - begin,
            "tensors": len(self.tensors),
            "tensor_bytes": sum(tensor.nbytes for tensor in self.tensors.values()),
        }

    def touch(self) -> dict[str, Any]:
        return {"touch_ns": touch(self.tensors), "touch_again_ns": touch(self.tensors)}

    def infer(self, count: int) -> dict[str, Any]:
        """Makes passes; the first also binds the weights to the model, as a program that starts does."""
        assert self.bind is not None
        begin = time.perf_counter_ns()
        if self.forward is None:
            self.forward = self.bind(self.tensors)
        bound_ns = time.perf_counter_ns() - begin
        times, output = [], torch.empty(0)
        for _ in range(count):
            pass_ns, output = inference.timed(self.forward)
            times.append(pass_ns)
        times[0] += bound_ns
        return {"infer_ns": times, "output": [round(value, 9) for value in output.double().flatten()[:16].tolist()]}

    def checksum(self) -> dict[str, Any]:
        return {"checksum": inference.checksum(self.tensors)}

    def share(self, file: str, socket: str, key: str) -> dict[str, Any]:
        return {"shared_bytes": sharing.share(file, socket, key)}

    def put(self, file: str, socket: str, deadline_s: float) -> dict[str, Any]:
        assert self.loader is not None
        return {"object_id": sharing.put(file, socket, deadline_s, self.loader.kept)}

    def synthesize(self, path: str, size: int, seed: int) -> dict[str, Any]:
        return dict(models.write(path, size, seed))

    def save_for_torch(self, source: str, target: str) -> dict[str, Any]:
        models.save_for_torch(source, target)
        return {}

    def describe(self, file: str) -> dict[str, Any]:
        return models.describe(file)

    def installed(self, method: str) -> dict[str, Any]:
        reason = installed(method)
        return {"reason": reason, "server": vineyard_server() if method == "vineyard" and not reason else ""}

    def create_store(self, path: str) -> dict[str, Any]:
        import tetris

        tetris.create_store(path)
        return {}

    def prepare_small(self, directory: str, patched: bool) -> dict[str, Any]:
        from .small_work import SmallFiles

        self.small_files = SmallFiles(directory, patched)
        return {}

    def small(self, what: str, size: int, count: int) -> dict[str, Any]:
        return {"times_ns": self.small_files.times(what, size, count)}

    def versions(self) -> dict[str, Any]:
        found = {"python": platform.python_version(), "threads": str(torch.get_num_threads())}
        for package in PACKAGES:
            try:
                found[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                found[package] = "not installed"
        return found


def main() -> None:
    """Serves until the input ends."""
    serve(lambda: Worker(*sys.argv[1:4]))


if __name__ == "__main__":
    main()
