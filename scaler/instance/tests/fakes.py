"""A model without a library, controlled by the test."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from tetris_instance.engines import ModelBytes
from tetris_instance.tensors import Signature, Tensors, TensorSpec

#: A value at which the model fails.
POISON = -13
#: A value that is refused before it is queued.
REFUSED = -14

ROWS = (-1, -1)
PADDED = Signature(
    (TensorSpec("values", "INT64", ROWS),),
    (TensorSpec("sum", "INT64", (-1,)), TensorSpec("twice", "INT64", ROWS)),
    batches=True,
    padding={"values": 0},
    sequence_outputs=frozenset({"twice"}),
)
UNPADDED = Signature(PADDED.inputs, PADDED.outputs, batches=True)
ALONE = Signature(PADDED.inputs, PADDED.outputs, batches=False)


class FakeEngine:
    """Sums rows, and doubles values.

    Args:
        signature: One of the above.
        before: Called in the worker before each run after the warm-up.
    """

    platform = "fake"
    text = None

    def __init__(self, signature: Signature = PADDED, before: Callable[[Tensors], None] | None = None) -> None:
        self.signature = signature
        self._before = before
        self._lock = threading.Lock()
        #: Inputs of each run after the warm-up, in the order of completion.
        self.runs: list[list[list[int]]] = []

    def memory(self) -> ModelBytes:
        return ModelBytes(shared=1000, private=24)

    def enter_worker(self) -> None:
        pass

    def example(self, rows: int) -> Tensors:
        return {"values": np.full((rows, 1), -1, dtype=np.int64)}

    def check(self, inputs: Tensors) -> None:
        from tetris_instance.errors import RequestError

        if (inputs["values"] == REFUSED).any():
            raise RequestError(f"`values` has {REFUSED}")

    def run(self, inputs: Tensors) -> Tensors:
        values = inputs["values"]
        if not (values == -1).all():
            if self._before is not None:
                self._before(inputs)
            with self._lock:
                self.runs.append(values.tolist())
        if (values == POISON).any():
            raise ValueError("poison")
        return {"sum": values.sum(axis=1), "twice": values * 2}


class Gate:
    """Holds runs until the test opens it."""

    def __init__(self) -> None:
        self._entered = threading.Semaphore(0)
        self._open = threading.Semaphore(0)

    def __call__(self, _: Tensors) -> None:
        self._entered.release()
        assert self._open.acquire(timeout=120), "the test never opened the gate"

    def wait_for_run(self) -> None:
        """Wait until a run is at the gate."""
        assert self._entered.acquire(timeout=120), "no run came"

    def open(self, runs: int = 1) -> None:
        """Let a number of runs through, now or later."""
        self._open.release(runs)
