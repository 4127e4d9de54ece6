"""A server in this process with its HTTP side on a real socket, and a client."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self

from tetris_instance import options
from tetris_instance.engines import Engine
from tetris_instance.server import Server

#: Timeout for anything that hangs. Tests conclude nothing from a shorter time.
HANGS_S = 120


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + HANGS_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


class Answer:
    """A response."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"{self.status} {self.body[:500]!r}"


def at_once(ask: Callable[[str], Answer], names: list[str]) -> list[tuple[str, Answer]]:
    """Ask for all names at the same time; return each answer with its name."""
    with ThreadPoolExecutor(len(names)) as pool:
        return list(zip(names, pool.map(ask, names, timeout=HANGS_S), strict=True))


class Client:
    """Client of one server."""

    def __init__(self, port: int, model: str = "fake") -> None:
        self.port = port
        self.infer_path = f"/v2/models/{model}/infer"
        self._pool = ThreadPoolExecutor(64)

    def ask(
        self, path: str, body: bytes | None = None, headers: dict[str, str] | None = None, method: str | None = None
    ) -> Answer:
        """Send GET, or POST if there is a body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANGS_S)
        try:
            connection.request(method or ("GET" if body is None else "POST"), path, body, headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def infer(self, document: object, path: str | None = None) -> Answer:
        """POST a document."""
        return self.ask(path or self.infer_path, json.dumps(document).encode())

    def values(self, rows: list[list[int]]) -> Answer:
        """Let the fake model compute rows."""
        return self.infer(values_request(rows))

    def start_values(self, rows: list[list[int]]) -> Future[Answer]:
        """Start such a request without waiting for the answer."""
        return self._pool.submit(self.values, rows)

    def send_and_keep(self, document: object) -> socket.socket:
        """POST a document, and return the connection before its answer."""
        body = json.dumps(document).encode()
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=HANGS_S)
        head = f"POST {self.infer_path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        return connection

    def metric(self, sample: str) -> float:
        """Return the value of a sample of the metrics; 0 if it is missing."""
        for line in self.ask("/metrics").body.decode().splitlines():
            name, _, value = line.rpartition(" ")
            if name == sample:
                return float(value)
        return 0.0


def values_request(rows: list[list[int]]) -> dict[str, Any]:
    """Return a request of the fake model."""
    shape = [len(rows), len(rows[0])]
    return {"inputs": [{"name": "values", "shape": shape, "datatype": "INT64", "data": rows}]}


class Serving:
    """A server with the test's engine, in a thread.

    Args:
        engine: Engine of the server.
        arguments: Options of the command, after the model's.
    """

    def __init__(self, engine: Engine, *arguments: str) -> None:
        chosen = options.parse(
            ["--model-path", "/nowhere/fake", "--port", "0", "--cpus", "1", "--stop-seconds", "60", *arguments], {}
        )
        self.server = Server(chosen, lambda _: engine)
        self._thread = threading.Thread(target=self.server.run)

    def __enter__(self) -> Self:
        self._thread.start()
        self.client = Client(self.server.port())
        wait_until(lambda: self.client.ask("/v2/health/ready").status == 200, "readiness")
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()
        self._thread.join(HANGS_S)
        assert not self._thread.is_alive()
