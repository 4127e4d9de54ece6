"""A process that serves functions: lines `REQUEST FUNCTION` on standard input, `REQUEST TOKEN` on standard output.

One request runs at a time. An executor asks for the residency of models of the next requests while others run.
"""

import json
import os
import queue
import sys
import threading
from collections import OrderedDict, deque
from typing import Any

import safetensors.torch
import torch
from tetris import gpu
from tetris._device.module import place
from tetris.errors import GpuUnavailableError
from tetris.torch import load_model, release

from ..engines.models import Shape
from . import models
from .node import LONG_S

#: Longest wait for room of a request whose turn has not come.
WAIT_S = 2.0
#: Its number, and that of its function.
Request = tuple[int, int]
#: Files and shapes by number.
Functions = dict[int, tuple[str, Shape]]


class Holder:
    """Functions whose weights this process holds."""

    def __init__(self, functions: Functions, device: str) -> None:
        self._modules = {}
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        for number, (path, shape) in functions.items():
            module = models.module(shape)
            place(module, safetensors.torch.load_file(path, device=device))
            self._modules[number] = module

    def put(self, request: Request | None) -> None:
        """Takes a request; none follows `None`."""
        self._requests.put(request)

    def get(self) -> Request | None:
        """Waits for the next request."""
        return self._requests.get()

    def run(self, function: int, ids: torch.Tensor) -> int:
        """Returns the token after a text."""
        return models.first_token(self._modules[function], ids)


class Held:
    """A model that an executor has on the device, or that is on its way."""

    def __init__(self, lease: gpu.Prefetch, size: int) -> None:
        self.lease = lease
        self.size = size
        #: Requests that wait for it or use it.
        self.uses = 0
        self.mapped = False


class Executor:
    """Functions whose weights the mirror has, as far as there is room.

    Models stay until others need their room, the least recently used first.

    Args:
        functions: Files and shapes by number.
        device: The device.
        room: The mirror's room, in bytes. Models of the next requests that fit in it are asked for together: more would
            keep the room from the request whose turn it is.
    """

    def __init__(self, functions: Functions, device: str, room: int) -> None:
        self._functions = functions
        self._device = device
        self._room = room
        self._modules = {number: models.module(shape) for number, (_, shape) in functions.items()}
        self._sizes = {number: os.path.getsize(path) for number, (path, _) in functions.items()}
        self._changed = threading.Condition()
        self._waiting: deque[Request] = deque()
        #: How many of them, from the first, have models that are held.
        self._ahead = 0
        #: The least recently used first.
        self._held: OrderedDict[int, Held] = OrderedDict()
        self._ended = False

    def put(self, request: Request | None) -> None:
        """Takes a request, and asks for its model if there is room for it; none follows `None`."""
        with self._changed:
            if request is None:
                self._ended = True
            else:
                self._waiting.append(request)
                self._ask_ahead()
            self._changed.notify()

    def get(self) -> Request | None:
        """Waits for the next request."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended)
            if not self._waiting:
                return None
            self._ahead -= 1
            return self._waiting.popleft()

    def run(self, function: int, ids: torch.Tensor) -> int:
        """Waits for the weights; returns the token after a text."""
        held = self._arrived(function)
        try:
            if not held.mapped:
                load_model(self._modules[function], self._functions[function][0], device=self._device)
                held.mapped = True
            return models.first_token(self._modules[function], ids)
        finally:
            with self._changed:
                held.uses -= 1
                self._ask_ahead()

    def _arrived(self, function: int) -> Held:
        held = self._held[function]
        try:
            held.lease.wait(LONG_S)
            return held
        except GpuUnavailableError:
            pass
        # Pieces of the room are too small. The models of later requests leave, and come again in their turn.
        with self._changed:
            for other in list(self._held):
                self._drop(other)
            self._ahead = 0
            held = self._ask(function, LONG_S)
            held.uses = 1
        held.lease.wait(LONG_S)
        return held

    def _ask_ahead(self) -> None:
        while self._ahead < len(self._waiting):
            _, function = self._waiting[self._ahead]
            if function not in self._held:
                if not self._make_room(self._sizes[function]):
                    return
                self._ask(function, WAIT_S)
            self._held[function].uses += 1
            self._held.move_to_end(function)
            self._ahead += 1

    def _make_room(self, size: int) -> bool:
        taken = sum(held.size for held in self._held.values())
        for function in [function for function, held in self._held.items() if held.uses == 0]:
            if taken + size <= self._room:
                return True
            taken -= self._held[function].size
            self._drop(function)
        return taken + size <= self._room or not self._held

    def _ask(self, function: int, wait: float) -> Held:
        lease = gpu.prefetch(self._functions[function][0], self._device, wait=wait)
        held = self._held[function] = Held(lease, self._sizes[function])
        return held

    def _drop(self, function: int) -> None:
        held = self._held.pop(function)
        if held.mapped:
            release(self._modules[function])
        held.lease.close()


def main() -> None:
    """Serves until standard input ends."""
    options: dict[str, Any] = json.loads(sys.argv[1])
    functions = {int(number): (path, Shape(**shape)) for number, (path, shape) in options["functions"].items()}
    device, room = options["device"], options["room"]
    on_gpu = not device.startswith("simulated")
    torch_device = device if on_gpu else "cpu"
    torch.set_num_threads(1)
    served = Holder(functions, torch_device) if room is None else Executor(functions, device, room)
    ids = models.tokens(options["text"], torch_device)
    # Kernels, and the library's workspace.
    for shape in {shape for _, shape in functions.values()}:
        like = models.module(Shape(1, shape.width, shape.inner, shape.heads)).to_empty(device=torch_device)
        models.first_token(like, ids)
        del like
    if on_gpu:
        torch.cuda.empty_cache()

    def read() -> None:
        for line in sys.stdin:
            request, function = map(int, line.split())
            served.put((request, function))
        served.put(None)

    threading.Thread(target=read, daemon=True).start()
    print("ready", flush=True)
    while (asked := served.get()) is not None:
        request, function = asked
        print(request, served.run(function, ids), flush=True)


if __name__ == "__main__":
    main()
