"""Life of a server: listen, load, warm up, be ready, stop.

Flow:
    1. Listen, and print the address on standard output. Now the server is live, but not ready.
    2. In a thread: load the model and start the workers, each of which warms up. Then it is ready.
    3. SIGTERM or SIGINT: it is not ready and takes no new connections; queued items run at once.
       It ends when all are answered, or at the deadline.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from types import FrameType

import uvicorn

from tetris_instance.app import App
from tetris_instance.cpus import threads_per_worker
from tetris_instance.engines import Engine
from tetris_instance.errors import ConfigurationError
from tetris_instance.load import load
from tetris_instance.metrics import Metrics
from tetris_instance.options import Options
from tetris_instance.queue import BatchQueue, stopping
from tetris_instance.state import Loaded, State
from tetris_instance.workers import Workers

_log = logging.getLogger("tetris_instance")
#: Default limit of a row's wait for others, in seconds.
_WAIT_MAX_S = 0.010
_BACKLOG = 1024
#: Longer than the usual keep-alive of clients and proxies, so that they close idle connections.
_KEEP_ALIVE_S = 75


class Server:
    """One model, from start to end."""

    def __init__(self, options: Options, loader: Callable[[Options], Engine] = load) -> None:
        self._options = options
        self._loader = loader
        self._metrics = Metrics()
        self._state = State(self._metrics)
        self._workers: Workers | None = None
        self._queue: BatchQueue | None = None
        self._failure: Exception | None = None
        self._bound: SimpleQueue[int] = SimpleQueue()
        app = App(options.model_name, options.model_version, self._state, self._metrics, options.body_bytes)
        config = uvicorn.Config(
            app.asgi(),
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=_BACKLOG,
            log_level=options.log_level if options.log_level != "info" else "warning",
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=options.stop_s,
        )
        self._http = _Http(config, self._on_stop)

    def run(self) -> int:
        """Serve until a signal, and return the exit status.

        Raises:
            ConfigurationError: The server cannot listen on the address.
        """
        listener = _listen(self._options.host, self._options.port)
        if threading.current_thread() is threading.main_thread():
            # A reader of the address may send a signal at once.
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._http.handle_exit)
        host, port = listener.getsockname()[:2]
        self._bound.put(port)
        shown_host = f"[{host}]" if ":" in host else host
        print(f"listening on http://{shown_host}:{port}", flush=True)
        threading.Thread(target=self._load, name="load", daemon=True).start()
        asyncio.run(self._http.serve([listener]))
        return self._finish()

    def port(self) -> int:
        """Wait until :meth:`run` listens in another thread, and return the port. Call it once."""
        return self._bound.get()

    def stop(self) -> None:
        """Stop as on a signal, from another thread."""
        self._http.handle_exit(signal.SIGTERM, None)

    def _load(self) -> None:
        try:
            self._load_and_warm_up()
        except Exception as error:
            self._failure = error
            self._http.should_exit = True

    def _load_and_warm_up(self) -> None:
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
        """Stop from a signal handler in the main thread, without waiting for a lock that it may
        hold.
        """
        self._state.stop()
        if self._queue is not None:
            threading.Thread(target=self._queue.close, name="close").start()

    def _finish(self) -> int:
        """Finish after the last answer, or at the deadline."""
        if self._queue is not None:
            for item in self._queue.abandon():
                item.deliver(stopping())
        if self._failure is not None:
            print(f"tetris-instance: {self._failure}", file=sys.stderr, flush=True)
            if not isinstance(self._failure, ConfigurationError):
                _log.error("the model cannot be served", exc_info=self._failure)
        status = 0 if self._failure is None else 1
        if self._workers is None or not self._workers.join(1.0):
            # A library is loading or computing, and cannot be interrupted.
            sys.stdout.flush()
            os._exit(status)
        return status


class _Http(uvicorn.Server):
    """Exits with status 0 after a signal, and at once after a second one."""

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True
        self._on_stop()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        raise ConfigurationError(f"cannot listen on {host}, port {port}: {error}") from error
    return listener
