"""A replica of an engine: `python -m tetris_bench.engines.replica TASK`, which is JSON, for :mod:`.measure`."""

import ctypes
import gc
import hashlib
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from ..replies import serve


class Program(Protocol):
    """Work of an engine with a model; made with the way and the folder of an empty model, before any clock starts."""

    def load(self, folder: Path) -> float:
        """Loads the model; returns the seconds that its weights took."""

    def weight_bytes(self) -> int | None:
        """Bytes of the weights that it runs on; None where the engine hides them."""

    def run(self) -> tuple[int, bytes]:
        """Works once; returns the amount in the engine's unit, and the output."""


class Replica:
    """State of the process between two requests."""

    def __init__(self, task: dict[str, str]) -> None:
        module = importlib.import_module(f"{__package__}.programs.{task['program']}")
        self.program: Program = module.Program(task["way"], Path(task["empty"]))

    def load(self, folder: str) -> dict[str, Any]:
        seconds = self.program.load(Path(folder))
        return {"weights_s": seconds, "weight_bytes": self.program.weight_bytes()}

    def run(self, count: int) -> dict[str, Any]:
        """Works some times; returns the speed of each, and the digest of the last output."""
        speeds, output = [], b""
        for _ in range(count):
            begin = time.perf_counter()
            amount, output = self.program.run()
            speeds.append(amount / (time.perf_counter() - begin))
        return {"per_second": speeds, "output": hashlib.sha256(output).hexdigest()}

    def settle(self) -> dict[str, Any]:
        """Gives back free memory that the allocator keeps, which tells nothing of weights."""
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        return {}


if __name__ == "__main__":
    serve(lambda: Replica(json.loads(sys.argv[1])))
