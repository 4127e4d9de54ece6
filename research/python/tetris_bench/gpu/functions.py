"""Many functions on one device: an executor whose weights come and go, beside processes that hold their own.

Both serve the same requests, of the same arrival times, in the same process programs but for where weights are. The
executor's room on the device is a part of what all functions have together.
"""

import json
import os
import queue
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tetris import gpu

from ..engines.models import Shape
from . import models
from .node import LONG_S, Node

#: The number of no request: a process has ended.
END = 0
Files = dict[int, tuple[Path, Shape]]
EXECUTOR, PROCESSES = "executor", "processes"
WAYS = {
    EXECUTOR: "one process, weights from the mirror",
    PROCESSES: "a process for each function, with its own weights",
}


class Program:
    """A process that serves functions.

    Args:
        files: Files and shapes of its functions, by number.
        device: The device's name at the mirror.
        room: The executor's room on the device, in bytes; `None` for a process with its own weights.
        text: Length of the text of a request, in tokens.
        answered: Takes the number of a request that is done, with its token.
    """

    def __init__(
        self, files: Files, device: str, room: int | None, text: int, answered: Callable[[int, int], None]
    ) -> None:
        described = {str(number): [os.fspath(path), asdict(shape)] for number, (path, shape) in files.items()}
        options = json.dumps({"functions": described, "device": device, "room": room, "text": text})
        command = [sys.executable, "-m", f"{__package__}.function_process", options]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answered = answered
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._ready = threading.Event()
        self._thread.start()

    def wait_ready(self) -> None:
        """Waits until it serves.

        Raises:
            RuntimeError: It has ended instead.
        """
        if not self._ready.wait(LONG_S) or self._process.poll() is not None:
            raise RuntimeError(
                f"expected a process of functions within {LONG_S:.0f} s, found status {self._process.poll()}"
            )

    def ask(self, request: int, function: int) -> None:
        """Sends a request."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{request} {function}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(LONG_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line == "ready\n":
                self._ready.set()
                continue
            request, token = line.split()
            self._answered(int(request), int(token))
        self._ready.set()
        # Nobody waits in vain for an answer.
        self._answered(END, 0)


class Served:
    """Functions that are served in one of the ways, an executor if it has a room, and the times of their requests."""

    def __init__(self, files: Files, device: str, room: int | None, text: int) -> None:
        self._sent: dict[int, tuple[int, float]] = {}
        self._done: queue.Queue[tuple[int, int, float, float] | None] = queue.Queue()
        groups = [files] if room is not None else [{number: one} for number, one in files.items()]
        self._programs: dict[int, Program] = {}
        self._all: list[Program] = []
        self._number = 0
        try:
            for group in groups:
                program = Program(group, device, room, text, self._answered)
                self._all.append(program)
                self._programs.update(dict.fromkeys(group, program))
            for program in self._all:
                program.wait_ready()
        except BaseException:
            self.close()
            raise

    def ask(self, function: int) -> None:
        """Sends a request for a function."""
        self._number += 1
        self._sent[self._number] = (function, time.perf_counter())
        self._programs[function].ask(self._number, function)

    def answer(self) -> tuple[int, int, float]:
        """Waits for the next answer: function, token, and seconds since it was asked for.

        Raises:
            queue.Empty: None came.
            RuntimeError: A process has ended.
        """
        answered = self._done.get(timeout=LONG_S)
        if answered is None:
            raise RuntimeError(
                "expected answers, found that a process of functions has ended; its message is on standard error"
            )
        function, token, begun, end = answered
        return function, token, end - begun

    def close(self) -> None:
        """Ends all processes."""
        for program in self._all:
            program.close()

    def _answered(self, request: int, token: int) -> None:
        if request == END:
            self._done.put(None)
            return
        function, begun = self._sent.pop(request)
        self._done.put((function, token, begun, time.perf_counter()))


def popularity(functions: int, exponent: float) -> list[float]:
    """Shares of the functions' requests by Zipf's law, in an order that mixes the kinds of functions."""
    weights = [1 / (rank + 1) ** exponent for rank in range(functions)]
    random.Random(functions).shuffle(weights)
    return [weight / sum(weights) for weight in weights]


def arrivals(functions: int, exponent: float, rate: float, seconds: float, seed: int) -> list[tuple[float, int]]:
    """Times and functions of requests as a Poisson process."""
    drawn = random.Random(seed)
    shares = popularity(functions, exponent)
    found, at = [], drawn.expovariate(rate)
    while at < seconds:
        found.append((at, drawn.choices(range(functions), shares)[0]))
        at += drawn.expovariate(rate)
    return found


def measure(
    node: Node,
    shapes: Sequence[Shape],
    room_share: float,
    rates: Sequence[float],
    seconds: float,
    exponent: float,
    text: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Measures latency at each rate, the throughput with one request of each function at a time, and device memory."""
    files, sizes = {}, []
    for number, shape in enumerate(shapes):
        say(f"function {number + 1} of {len(shapes)}: writing")
        path = node.folder / f"function-{number}.safetensors"
        sizes.append(models.write(path, shape, 100 + number, node.torch_device))
        files[number] = (path, shape)
    node.empty_cache()
    found: dict[str, Any] = {
        "functions": len(files),
        "bytes": sizes,
        "text": text,
        "zipf": exponent,
        "seconds": seconds,
        "ways": {},
    }
    tokens: set[tuple[int, int]] = set()
    try:
        for path, _ in files.values():
            say(f"publishing {path.name}")
            with gpu.prefetch(path, node.device, wait=LONG_S) as held:
                held.wait(LONG_S)
        node.settle()
        before = node.used_bytes()
        with _room(node, int(sum(sizes) * room_share)) as room:
            found["room_bytes"] = room
            for way in (PROCESSES, EXECUTOR):
                say(f"{way}: starting")
                served = Served(files, node.device, room if way == EXECUTOR else None, text)
                try:
                    found["ways"][way] = _serve(served, way, len(files), exponent, rates, seconds, tokens, say)
                    used = node.used_bytes()
                    if used is not None and before is not None:
                        found["ways"][way]["device_bytes"] = used - before + (room if way == EXECUTOR else 0)
                finally:
                    served.close()
    finally:
        for path, _ in files.values():
            path.unlink()
    # Each function has one token in both ways.
    found["answers_agree"] = len(tokens) == len({function for function, _ in tokens})
    return found


@contextmanager
def _room(node: Node, wanted: int) -> Iterator[int]:
    """Takes the mirror's memory but for about this much; yields the bytes that are left."""
    with ExitStack() as stack:
        left = node.capacity_bytes
        for path in node.parts():
            if left - node.part_bytes < wanted:
                break
            held = stack.enter_context(gpu.prefetch(path, node.device, wait=LONG_S))
            held.wait(LONG_S)
            left -= node.part_bytes
        yield left


def _serve(
    served: Served,
    way: str,
    functions: int,
    exponent: float,
    rates: Sequence[float],
    seconds: float,
    tokens: set[tuple[int, int]],
    say: Callable[[str], None],
) -> dict[str, Any]:
    found: dict[str, Any] = {"rates": [], "throughput": None}
    for function in range(functions):
        served.ask(function)
    for _ in range(functions):
        function, token, _ = served.answer()
        tokens.add((function, token))
    for rate in rates:
        say(f"{way}: {rate:g} requests/s for {seconds:g} s")
        planned = arrivals(functions, exponent, rate, seconds, 7)
        begun = time.perf_counter()
        for at, function in planned:
            time.sleep(max(0.0, begun + at - time.perf_counter()))
            served.ask(function)
        latencies = []
        for _ in planned:
            function, token, spent = served.answer()
            tokens.add((function, token))
            latencies.append((function, spent))
        found["rates"].append({"rate": rate, "latencies_s": [spent for _, spent in latencies]})
    say(f"{way}: one request of each function at a time for {seconds:g} s")
    begun, done = time.perf_counter(), 0
    for function in range(functions):
        served.ask(function)
    waiting = functions
    while waiting:
        function, token, _ = served.answer()
        tokens.add((function, token))
        waiting -= 1
        if time.perf_counter() - begun < seconds:
            done += 1
            served.ask(function)
            waiting += 1
    found["throughput"] = done / seconds
    return found
