"""Threads that take batches from the queue and run the model."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from tetris_instance import batch
from tetris_instance.batch import Item, Outcome
from tetris_instance.engines import Engine
from tetris_instance.errors import RequestError
from tetris_instance.metrics import Metrics
from tetris_instance.queue import BatchQueue
from tetris_instance.tensors import Tensors

_log = logging.getLogger("tetris_instance")


class Workers:
    """Fixed number of concurrent runs of one model. The libraries compute without the GIL, so
    threads suffice.

    Args:
        engine: The model, shared by all threads.
        queue: Queue of batches.
        count: Number of threads.
        metrics: Metrics that count runs.
    """

    def __init__(self, engine: Engine, queue: BatchQueue, count: int, metrics: Metrics) -> None:
        self._engine = engine
        self._queue = queue
        self._metrics = metrics
        self._lock = threading.Lock()
        self._warm = threading.Semaphore(0)
        self._full_batch_s: list[float] = []
        self._failure: Exception | None = None
        # Daemon threads: the process may end while a library is still computing.
        self._threads = [threading.Thread(target=self._main, name=f"worker-{i}", daemon=True) for i in range(count)]

    def start(self) -> float:
        """Start the threads, and return when each has run one row and one full batch.

        Returns:
            The longest time of a full batch, in seconds.

        Raises:
            Exception: Exception of the engine.
        """
        for thread in self._threads:
            thread.start()
        for _ in self._threads:
            self._warm.acquire()
        if self._failure is not None:
            raise self._failure
        return max(self._full_batch_s)

    def join(self, timeout_s: float) -> bool:
        """Wait for the threads, which end when the queue is closed and empty; return true if all
        have ended.
        """
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _main(self) -> None:
        try:
            self._warm_up()
        except Exception as error:
            self._failure = error
            self._queue.close()
        finally:
            self._warm.release()
        while (items := self._queue.take()) is not None:
            now = self._queue.clock()
            for item in items:
                self._metrics.queue_wait.observe(max(0.0, now - item.arrived))
            for item, outcome in zip(items, self._outcomes(items), strict=True):
                item.deliver(outcome)

    def _warm_up(self) -> None:
        self._engine.enter_worker()
        self._engine.run(self._engine.example(1))
        example = self._engine.example(self._queue.batch_rows)
        # The first run of a shape allocates its memory.
        self._engine.run(example)
        begin = time.perf_counter()
        self._engine.run(example)
        with self._lock:
            self._full_batch_s.append(time.perf_counter() - begin)

    def _outcomes(self, items: Sequence[Item]) -> Sequence[Outcome]:
        """Return one outcome per item, in order. Run each item of a failed batch alone, so that one
        does not fail others.
        """
        try:
            return self._run(items)
        except Exception as error:
            if len(items) == 1:
                return [_failed(error)]
            _log.warning("a batch of %d requests failed, each is run alone: %s", len(items), error)
        return [outcome for item in items for outcome in self._outcomes([item])]

    def _run(self, items: Sequence[Item]) -> list[Tensors]:
        signature = self._engine.signature
        rows = sum(item.rows for item in items)
        inputs = batch.join(items, signature)
        with self._metrics.compute.time():
            outputs = self._engine.run(inputs)
        parts = batch.split(outputs, items, signature)
        self._metrics.batch_rows.observe(rows)
        self._metrics.rows.inc(rows)
        return parts


def _failed(error: Exception) -> Exception:
    if isinstance(error, RequestError):
        return error
    _log.warning("a request failed: %s: %s", type(error).__name__, error)
    return RequestError(f"the model failed: {type(error).__name__}: {str(error)[:500]}", 500)
