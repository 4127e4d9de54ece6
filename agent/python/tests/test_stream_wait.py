"""Waits on streams, with streams and a model of the tests' own: no kernel runs before its bytes."""

from __future__ import annotations

import copy
import pickle
import random
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tetris._device import module as device_module
from tetris._device.module import Arriving
from tetris._device.slots import Slots
from tetris._device.stream_wait import StreamWaits
from tetris.errors import GpuUnavailableError


class Stream:
    """Steps in order, which run when the test lets them."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], bool]] = []

    def run(self) -> None:
        """Run all steps up to the first that has to wait."""
        while self.steps and self.steps[0]():
            self.steps.pop(0)


def shown(stream: int | None) -> Any:
    """Return the object of a stream as a framework shows it."""
    return None if stream is None else SimpleNamespace(cuda_stream=stream)


class Model:
    """A model on a device, of which the test says what has arrived."""

    device = "cuda:0"

    def __init__(self, names: list[str], streams: list[Stream]) -> None:
        self.arrived = dict.fromkeys(names, False)
        self.streams = streams
        self.waited: set[str] = set()
        self.failed = False
        self.host_waits: list[str | None] = []
        #: Called while the host waits, to let things arrive.
        self.progress: Callable[[], None] = lambda: None

    def __contains__(self, name: object) -> bool:
        return name in self.arrived

    def wait_on_stream(self, name: str, stream: Any) -> bool:
        if self.arrived[name]:
            return False
        self.waited.add(name)
        self.streams[stream.cuda_stream].steps.append(lambda: self.arrived[name] or self.failed)
        return True

    def check_streams(self, timeout: float) -> None:
        self._host_wait(None, self.waited)

    def wait(self, name: str | None = None, timeout: float | None = None) -> None:
        self._host_wait(name, set(self.arrived) if name is None else {name})

    def _host_wait(self, name: str | None, names: set[str]) -> None:
        self.host_waits.append(name)
        while not all(self.arrived[name] for name in names):
            self.progress()
            if self.failed:
                raise GpuUnavailableError("the mirror hung up")

    def arriving(self) -> list[str]:
        return [name for name, arrived in self.arrived.items() if not arrived]

    def is_ready(self, name: str | None = None) -> bool:
        return all(self.arrived.values())


class Net(torch.nn.Module):
    """Five weights, one of which is used twice, and on two streams."""

    def __init__(self, ran: Callable[[str], None]) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList(torch.nn.Linear(2, 2, bias=False) for _ in range(5))
        self.ran = ran

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number in (3, 0, 4, 1, 2, 0):
            x = self.parts[number](x)
            self.ran(f"parts.{number}.weight")
        return x


class Bench:
    """A module that arrives, with the kernels that it queues."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.streams = [Stream(), Stream()]
        self.current: int | None = 0
        self.errors: list[str] = []
        self.kernels = 0
        self.net = Net(self._kernel)
        slots = Slots(self.net)
        self.names = [name for name, _ in slots.items()]
        self.model = Model(self.names, self.streams)
        waits: Any = StreamWaits(self.model, lambda: shown(self.current))  # type: ignore[arg-type]
        monkeypatch.setattr(device_module.StreamWaits, "of", lambda model: waits)
        self.copied: list[object] = []
        monkeypatch.setattr(Arriving, "_copy", lambda of, error: self.copied.append(error))
        self.arriving = Arriving(self.net, slots, self.model, "model.safetensors", self.names)  # type: ignore[arg-type]

    def _kernel(self, name: str) -> None:
        def run() -> bool:
            self.kernels += 1
            if not self.model.arrived[name] and not self.model.failed:
                self.errors.append(name)
            return True

        if self.current is None:
            run()
        else:
            self.streams[self.current].steps.append(run)


def test_kernels_are_queued_ahead_of_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)

    def arrive() -> None:
        # All kernels are queued before the first byte is there.
        assert sum(len(stream.steps) for stream in bench.streams) == 5 + 6
        for name in bench.names:
            bench.model.arrived[name] = True
            bench.streams[0].run()

    bench.model.progress = arrive
    bench.net(torch.ones(1, 2))
    assert bench.model.host_waits == [None], "one wait of the host, after the last kernel"
    assert bench.errors == [] and bench.kernels == 6
    assert not any(part._forward_pre_hooks for part in bench.net.modules())


def test_no_kernel_reads_a_tensor_before_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(150):
        draw = random.Random(seed)
        bench = Bench(monkeypatch)
        order = draw.sample(bench.names, len(bench.names))

        def step(bench: Bench = bench, draw: random.Random = draw, order: list[str] = order) -> None:
            if order and draw.random() < 0.5:
                bench.model.arrived[order.pop()] = True
            draw.choice(bench.streams).run()

        def ran(name: str, bench: Bench = bench, draw: random.Random = draw, step: Any = step) -> None:
            bench._kernel(name)
            # Another stream, or none that can wait, for the next part; and the world goes on.
            bench.current = draw.choice([0, 0, 1, None])
            for _ in range(draw.randint(0, 2)):
                step()

        bench.net.ran = ran
        bench.model.progress = step
        for _ in range(draw.randint(1, 3)):
            bench.net(torch.ones(1, 2))
        while any(stream.steps for stream in bench.streams) or order:
            step()
        assert bench.errors == [], f"seed {seed}"


def test_a_result_of_undefined_bytes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)

    def fail() -> None:
        bench.model.failed = True

    bench.model.progress = fail
    with pytest.raises(GpuUnavailableError, match="call the module again"):
        bench.net(torch.ones(1, 2))
    assert len(bench.copied) == 1, "the next call has copies"
    bench.net(torch.ones(1, 2))


def test_what_has_arrived_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    arriving = Model.arriving
    monkeypatch.setattr(Model, "arriving", lambda model: [name for name in arriving(model) if name == "parts.4.weight"])
    bench = Bench(monkeypatch)
    for name in bench.names[:4]:
        bench.model.arrived[name] = True
    hooked = {name for name, part in bench.net.named_modules() if part._forward_pre_hooks}
    assert hooked == {"", "parts", "parts.4"}
    assert [type(part.weight).__name__ for part in bench.net.parts] == ["Parameter"] * 4 + ["WatchedParameter"]

    def arrive() -> None:
        bench.model.arrived["parts.4.weight"] = True

    bench.model.progress = arrive
    bench.net(torch.ones(1, 2))
    assert bench.model.waited == {"parts.4.weight"}
    assert not any(part._forward_pre_hooks for part in bench.net.modules())
    assert type(bench.net.parts[4].weight) is torch.nn.Parameter


def test_the_host_waits_for_what_it_uses_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)

    def arrive() -> None:
        waited = bench.model.host_waits[-1]
        assert waited is not None, "for this one alone"
        bench.model.arrived[waited] = True

    bench.model.progress = arrive
    weight = bench.net.parts[1].weight
    assert weight.shape == (2, 2) and bench.model.host_waits == []
    assert weight.sum() == bench.net.parts[1].weight.detach().sum() and bench.model.host_waits == ["parts.1.weight"]
    copied = copy.deepcopy(bench.net.parts[2].weight)
    assert type(copied) is torch.nn.Parameter and bench.model.host_waits == ["parts.1.weight", "parts.2.weight"]
    again = pickle.loads(pickle.dumps(bench.net.parts[3].weight))
    assert type(again) is torch.nn.Parameter and torch.equal(again, bench.net.parts[3].weight)
    assert bench.net.state_dict()["parts.0.weight"].shape == (2, 2)
    assert len(bench.model.host_waits) == 5 and bench.model.waited == set()


def test_a_capture_waits_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)
    bench.current = None

    def arrive() -> None:
        bench.model.arrived = dict.fromkeys(bench.names, True)

    bench.model.progress = arrive
    bench.net(torch.ones(1, 2))
    assert bench.model.waited == set() and bench.model.host_waits == ["parts.3.weight"]


def test_compiled_code_waits_for_all_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)

    def arrive() -> None:
        bench.model.arrived = dict.fromkeys(bench.names, True)

    bench.model.progress = arrive
    bench.net.ran = lambda name: None
    compiled: Any = torch.compile(bench.net, backend="eager")
    found = compiled(torch.ones(1, 2))
    # torch itself looks at tensors if it logs much.
    assert bench.model.waited == set() and bench.model.host_waits != []
    wanted = torch.ones(1, 2)
    for number in (3, 0, 4, 1, 2, 0):
        wanted = wanted @ bench.net.parts[number].weight.T
    assert torch.allclose(found, wanted)


def test_threads_that_use_a_tensor_at_once_all_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch)
    waits = StreamWaits(bench.model, lambda: shown(0))  # type: ignore[arg-type]
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(waits.wait_for(["parts.0.weight"]))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 8
    bench.model.arrived["parts.0.weight"] = True
    assert waits.check(1) == {"parts.0.weight"}
    assert not waits.wait_for(["parts.0.weight"])
