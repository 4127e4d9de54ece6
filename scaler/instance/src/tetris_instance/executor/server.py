"""A server of many models on one device."""

from __future__ import annotations

import time

from tetris_instance.cpus import threads_per_worker
from tetris_instance.engines.encoder import task_of
from tetris_instance.executor import repository
from tetris_instance.executor.app import ExecutorApp
from tetris_instance.executor.device import Device
from tetris_instance.executor.model import ServedModel
from tetris_instance.executor.runner import Runner
from tetris_instance.executor.token import Token
from tetris_instance.life import Life
from tetris_instance.metrics import Metrics
from tetris_instance.options import Options


class ExecutorServer(Life):
    """Many models, from start to end.

    Args:
        options: Options of the server.
        device: Its device; that of the options if it is left out.

    Raises:
        ConfigurationError: There is no token for orders.
    """

    def __init__(self, options: Options, device: Device | None = None) -> None:
        self._metrics = Metrics()
        self._device = device or Device(options.device, options.node)
        token = None if options.orders_token_file is None else Token(options.orders_token_file)
        self._app = ExecutorApp(self._device, self._metrics, options.body_bytes, token)
        self._runner: Runner | None = None
        super().__init__(options, self._app.asgi(), self._app.orders())

    def _prepare(self) -> None:
        options = self._options
        assert options.repository is not None
        begin = time.monotonic()
        threads = threads_per_worker(options.cpus, options.concurrency)
        models: dict[str, ServedModel] = {}
        for name, folder in repository.folders(options.repository).items():
            models[name] = repository.serve(
                name, folder, options.task or task_of(folder), threads, self._device, options.load_timeout_s
            )
        engines = [model.engine for model in models.values()]
        self._runner = Runner(options.concurrency, options.queue_rows, self._metrics, engines[0].enter_worker)
        self._metrics.watch_models(models.values())
        self._metrics.set_settings(
            concurrency=options.concurrency, cpus=options.cpus, threads_per_worker=threads, queue=options.queue_rows
        )
        self._app.set_ready(models, self._runner)
        print(
            f"ready: {len(models)} models on {options.device} after {time.monotonic() - begin:.1f} s; "
            f"concurrency {options.concurrency}, {threads} threads each",
            flush=True,
        )

    def _on_stop(self) -> None:
        self._app.stop()

    def _end(self) -> bool:
        return self._runner is None or self._runner.close()
