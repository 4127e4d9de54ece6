"""A server of one model: it loads the model, and starts the workers, each of which warms up.

At its end queued items run at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tetris_instance.app import App
from tetris_instance.cpus import threads_per_worker
from tetris_instance.engines import Engine
from tetris_instance.errors import ConfigurationError
from tetris_instance.life import Life
from tetris_instance.load import load
from tetris_instance.metrics import Metrics
from tetris_instance.options import Options
from tetris_instance.queue import BatchQueue, stopping
from tetris_instance.state import Loaded, State
from tetris_instance.workers import Workers

#: Default limit of a row's wait for others, in seconds.
_WAIT_MAX_S = 0.010


class Server(Life):
    """One model, from start to end."""

    def __init__(self, options: Options, loader: Callable[[Options], Engine] = load) -> None:
        self._loader = loader
        self._metrics = Metrics()
        self._state = State(self._metrics)
        self._workers: Workers | None = None
        self._queue: BatchQueue | None = None
        app = App(options.model_name, options.model_version, self._state, self._metrics, options.body_bytes)
        super().__init__(options, app.asgi())

    def _prepare(self) -> None:
        options = self._options
        begin = time.monotonic()
        engine = self._loader(options)
        rows = options.batch if engine.signature.batches else 1
        queue = BatchQueue(options.queue_rows, rows, _WAIT_MAX_S)
        workers = Workers(engine, queue, options.concurrency, self._metrics)
        self._workers, self._queue = workers, queue
        try:
            full_batch_s = workers.start()
        except Exception as error:
            hint = "; variable sizes are set by --dimension NAME=SIZE" if engine.platform.startswith("onnx") else ""
            raise ConfigurationError(f"the warm-up failed: {type(error).__name__}: {error}{hint}") from error
        # The planner takes b > 1 only if l <= SLO / 2; with a wait of at most l, wait + l <= SLO.
        wait_s = options.batch_wait_s if options.batch_wait_s is not None else min(_WAIT_MAX_S, full_batch_s)
        queue.wait_s = wait_s
        memory = engine.memory()
        self._metrics.set_model_bytes(memory.shared, memory.private)
        self._metrics.watch_queue(lambda: queue.rows)
        threads = threads_per_worker(options.cpus, options.concurrency)
        self._metrics.set_settings(
            batch=rows, concurrency=options.concurrency, cpus=options.cpus, threads_per_worker=threads,
            batch_wait_seconds=wait_s, queue_rows=options.queue_rows,
        )  # fmt: skip
        self._state.set_loaded(Loaded(engine, queue))
        print(
            f"ready: {options.model_name} by {engine.platform} after {time.monotonic() - begin:.1f} s; batch {rows}, "
            f"concurrency {options.concurrency}, {threads} threads each, wait {wait_s * 1000:.1f} ms; "
            f"{memory.shared} bytes shared, {memory.private} private",
            flush=True,
        )

    def _on_stop(self) -> None:
        self._state.stop()
        if self._queue is not None:
            threading.Thread(target=self._queue.close, name="close").start()

    def _end(self) -> bool:
        if self._queue is not None:
            for item in self._queue.abandon():
                item.deliver(stopping())
        return self._workers is not None and self._workers.join(1.0)
