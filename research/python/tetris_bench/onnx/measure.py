"""The parent's side: processes, and what is asked of them."""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tetris

from ..memory import ProcessMemory
from ..place import place
from .methods import SHARED, UNPACKED
from .models import mapped_copies

STORE_COPIES = 3
"""A store with prepacked data has each packed weight twice, and room must be left for what is being made."""


@dataclass
class Method:
    """One way to open the model, with a store of its own."""

    name: str
    model: Path
    store: str
    used: Any
    """Bytes that the store takes."""

    def task(self, options: argparse.Namespace) -> dict[str, Any]:
        """Settings of a worker."""
        return {
            "method": self.name,
            "model": os.fspath(self.model),
            "store": self.store,
            "threads": options.threads,
            "runs": options.runs,
            "dimensions": dict(text.split("=", 1) for text in options.dimension),
        }


class Worker:
    """A live process that opens the model when it is told to."""

    def __init__(self, task: dict[str, Any]) -> None:
        command = [sys.executable, "-m", "tetris_bench.onnx.worker", json.dumps(task)]
        environment = {**os.environ, "TETRIS_STORE": task["store"]}
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._reply()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, what: str) -> dict[str, Any]:
        """Has it do something and returns what it found."""
        assert self._process.stdin is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        return self._reply()

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"worker {self.pid} ended with {self._process.wait()}")
        return json.loads(line)

    def end(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@contextlib.contextmanager
def _workers(method: Method, options: argparse.Namespace, count: int) -> Iterator[list[Worker]]:
    workers: list[Worker] = []
    try:
        for _ in range(count):
            workers.append(Worker(method.task(options)))
        yield workers
    finally:
        for worker in workers:
            worker.end()


def measure(model: Path, options: argparse.Namespace) -> dict[str, Any]:
    size = sum(file.stat().st_size for file in {model, *model.parent.glob(model.name + "*data*")})
    found: dict[str, dict[str, Any]] = {}
    with contextlib.ExitStack() as stack:
        methods = []
        copies = mapped_copies(
            model, Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tetris-bench-onnx-")))
        )
        for name in options.methods.split(","):
            room = stack.enter_context(place(STORE_COPIES * size, options.store_parent))
            tetris.create_store(room.path)
            methods.append(Method(name, copies.get(name, model), os.fspath(room.path), room.used))
            found[name] = {"place": room.description, "session_s": [], "first_s": [], "run_s": []}
        for method in methods:
            found[method.name] |= _first_on_the_node(method, options)
        for round_ in range(options.rounds):
            for at in range(len(methods)):
                method = methods[(at + round_) % len(methods)]
                _time(method, options, found[method.name])
        for name, times in _take_turns(methods, options).items():
            found[name]["run_s"] = times
        for method in methods:
            found[method.name] |= _memory(method, options)
    return {
        "model": model.name,
        "model_bytes": size,
        "methods": found,
        "outputs_agree": _agree(found),
    }


def _first_on_the_node(method: Method, options: argparse.Namespace) -> dict[str, Any]:
    before = method.used()
    with _workers(method, options, 1) as (worker,):
        session = worker.ask("session")
    return {"made_s": session["session_s"], "weights": session["weights"], "store_bytes": method.used() - before}


def _time(method: Method, options: argparse.Namespace, found: dict[str, Any]) -> None:
    with _workers(method, options, 1) as (worker,):
        found["session_s"].append(worker.ask("session")["session_s"])
        found["first_s"].append(worker.ask("run")["first_s"])


def _take_turns(methods: Sequence[Method], options: argparse.Namespace) -> dict[str, list[float]]:
    with _workers(methods[0], options, 1) as (worker,):
        return worker.ask(json.dumps([method.task(options) for method in methods]))


def _memory(method: Method, options: argparse.Namespace) -> dict[str, Any]:
    """Memory of all processes: what they map beyond their start, and what of the store nobody maps."""
    with _workers(method, options, options.processes) as workers:
        pids = [worker.pid for worker in workers]
        before = ProcessMemory.of_all(pids)
        for worker in workers:
            worker.ask("session")
        outputs = {worker.ask("run")["outputs"] for worker in workers}
        after = ProcessMemory.of_all(pids)
    unmapped = max(0, method.used() - (after.pss_shmem - before.pss_shmem)) if method.name in SHARED else 0
    return {
        "outputs": sorted(outputs),
        "memory_bytes": after.held - before.held + unmapped,
        "private_bytes_each": (after.pss_anon - before.pss_anon) // len(pids),
    }


def _agree(found: dict[str, dict[str, Any]]) -> bool:
    """Returns true if the packed forms compute the same, and the unpacked ones as well."""
    groups = ([name for name in found if name in UNPACKED], [name for name in found if name not in UNPACKED])
    return all(len({digest for name in names for digest in found[name]["outputs"]}) <= 1 for names in groups)
