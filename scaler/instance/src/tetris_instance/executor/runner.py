"""Requests of an executor: they wait for their turn on the GPU, and for their weights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tetris_instance.errors import RequestError
from tetris_instance.executor.model import ServedModel
from tetris_instance.inference import checked
from tetris_instance.metrics import Metrics
from tetris_instance.queue import RETRY_AFTER_S
from tetris_instance.tensors import Tensors


class Runner:
    """Runs requests on one device, in the order of their arrival.

    Args:
        concurrency: Number of requests at a time. The threads stay, as their contexts do.
        limit: Maximum number of requests that wait.
        metrics: Metrics that count runs.
        enter: Prepares each thread.
    """

    def __init__(self, concurrency: int, limit: int, metrics: Metrics, enter: Callable[[], None]) -> None:
        self.concurrency = concurrency
        self._limit = limit
        self._metrics = metrics
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="worker", initializer=enter)
        self._running = 0
        self._here = 0

    @property
    def running(self) -> int:
        """Number of requests that run, or wait for their weights in their turn."""
        return self._running

    @property
    def queued(self) -> int:
        """Number of requests that wait for their turn."""
        return max(0, self._here - self._running)

    async def infer(self, model: ServedModel, inputs: Tensors) -> Tensors:
        """Return the outputs for the inputs of one request. A cancelled one leaves the queue, unless
        it runs.

        Raises:
            RequestError: Too many wait, the model cannot take the inputs, or the weights do not
                come.
        """
        if self.queued >= self._limit:
            raise RequestError(f"{self.queued} requests wait, expected fewer than {self._limit}", 503, RETRY_AFTER_S)
        inputs = await checked(model.engine, inputs)
        loop = asyncio.get_running_loop()
        self._here += 1
        model.begin()
        try:
            # The bytes move while requests before this one run.
            await asyncio.to_thread(model.ask)
            return await loop.run_in_executor(self._threads, self._run, model, inputs)
        finally:
            self._here -= 1
            if model.end():
                loop.run_in_executor(None, model.settle)

    def close(self) -> bool:
        """End the threads; return true if none computes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        return self._running == 0

    def _run(self, model: ServedModel, inputs: Tensors) -> Tensors:
        self._running += 1
        try:
            with self._metrics.compute.time():
                outputs, waited_s = model.run(inputs)
            self._metrics.weights_wait.observe(waited_s)
            self._metrics.rows.inc(next(iter(outputs.values())).shape[0])
            return {name: np.asarray(array) for name, array in outputs.items()}
        finally:
            self._running -= 1
