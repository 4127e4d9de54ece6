"""Life of a server process: listen, prepare, be ready, stop.

Flow:
    1. Listen, and print the address on standard output. Now the server is live, but not ready.
    2. In a thread: prepare. Then it is ready.
    3. SIGTERM or SIGINT: it is not ready and takes no new connections. It ends when all requests are
       answered, or at the deadline.
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
from abc import ABC, abstractmethod
from collections.abc import Callable
from queue import SimpleQueue
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from tetris_instance.connection import Connection, Connections
from tetris_instance.errors import ConfigurationError
from tetris_instance.options import Options

_log = logging.getLogger("tetris_instance")
_BACKLOG = 1024
#: Longer than the usual keep-alive of clients and proxies, so that they close idle connections.
_KEEP_ALIVE_S = 75


class Life(ABC):
    """A server from start to end.

    Args:
        options: Options of the server.
        application: Its HTTP application.
        orders: Application of the port for orders, if the options have one.
    """

    def __init__(self, options: Options, application: Starlette, orders: ASGIApp | None = None) -> None:
        self._options = options
        self._by_port = _ByPort(application, orders)
        self._failure: Exception | None = None
        self._bound: SimpleQueue[int] = SimpleQueue()
        self._orders_bound: SimpleQueue[int] = SimpleQueue()
        config = uvicorn.Config(
            self._by_port,
            lifespan="off",
            http=Connection,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=_BACKLOG,
            log_level=options.log_level if options.log_level != "info" else "warning",
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=options.stop_s,
        )
        self._http = _Http(config, self._on_stop)

    @abstractmethod
    def _prepare(self) -> None:
        """Make the server ready, in a thread.

        Raises:
            Exception: It cannot be ready, and ends with status 1.
        """

    @abstractmethod
    def _on_stop(self) -> None:
        """Stop from a signal handler in the main thread, without waiting for a lock that it may
        hold.
        """

    @abstractmethod
    def _end(self) -> bool:
        """End after the last answer, or at the deadline; return true if no thread computes."""

    def run(self) -> int:
        """Serve until a signal, and return the exit status.

        Raises:
            ConfigurationError: The server cannot listen on the address.
        """
        options = self._options
        listeners = [_listen(options.host, options.port)]
        if options.orders_port is not None:
            listeners.append(_listen(options.orders_host, options.orders_port))
        if threading.current_thread() is threading.main_thread():
            # A reader of the address may send a signal at once.
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._http.handle_exit)
        if len(listeners) > 1:
            _, port = address = listeners[1].getsockname()[:2]
            if port == listeners[0].getsockname()[1]:
                raise ConfigurationError(f"--orders-port is {port}, the port of requests; expected another")
            self._by_port.orders_port = port
            self._orders_bound.put(port)
            print(f"orders on {_url(address)}", flush=True)
        address = listeners[0].getsockname()[:2]
        self._bound.put(address[1])
        print(f"listening on {_url(address)}", flush=True)
        threading.Thread(target=self._load, name="load", daemon=True).start()
        asyncio.run(self._http.serve(listeners))
        return self._finish()

    def port(self) -> int:
        """Wait until :meth:`run` listens in another thread, and return the port. Call it once."""
        return self._bound.get()

    def orders_port(self) -> int:
        """Wait like :meth:`port` for the port of orders, and return it. Call it once."""
        return self._orders_bound.get()

    def stop(self) -> None:
        """Stop as on a signal, from another thread."""
        self._http.handle_exit(signal.SIGTERM, None)

    def _load(self) -> None:
        try:
            self._prepare()
        except Exception as error:
            self._failure = error
            self._http.should_exit = True

    def _finish(self) -> int:
        ended = self._end()
        if self._failure is not None:
            print(f"tetris-instance: {self._failure}", file=sys.stderr, flush=True)
            if not isinstance(self._failure, ConfigurationError):
                _log.error("the model cannot be served", exc_info=self._failure)
        status = 0 if self._failure is None else 1
        if not ended:
            # A library is loading or computing, and cannot be interrupted.
            sys.stdout.flush()
            os._exit(status)
        return status


class _Http(uvicorn.Server):
    """Exits with status 0 after a signal, and at once after a second one."""

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_stop = on_stop
        self._connections = Connections()

    async def on_tick(self, counter: int) -> bool:
        self._connections.look(list(self.server_state.connections), time.monotonic())
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True
        self._on_stop()


class _ByPort:
    """Gives a request to the application of the port that it came to."""

    def __init__(self, application: ASGIApp, orders: ASGIApp | None) -> None:
        self._application = application
        self._orders = orders
        self.orders_port: int | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The address of the socket, which no header changes.
        is_order = self._orders is not None and scope["server"][1] == self.orders_port
        application = self._orders if is_order and self._orders is not None else self._application
        await application(scope, receive, send)


def _url(address: tuple[str, int]) -> str:
    host, port = address
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


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
