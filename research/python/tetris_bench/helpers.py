"""Processes that hold weights for others, from the parent's side."""

import contextlib
import secrets
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .methods import Method
from .workers import Worker, environment

ROOM = 64 << 20
"""Bytes that a vineyard server gets beside the weights."""


@dataclass
class Helper:
    """Processes beside those that load. They belong to the group whose memory is measured."""

    pids: list[int]
    _fill: Callable[[], dict[str, Any]]

    def fill(self) -> dict[str, Any]:
        """Makes it hold the weights; returns what a load needs to know beside the file."""
        return self._fill()


@contextlib.contextmanager
def helper_for(method: Method, file: Path, server: str, deadline_s: float) -> Iterator[Helper]:
    """Starts what a method needs, still without the weights; ends it afterwards."""
    if not method.helper:
        yield Helper([], dict)
        return
    with contextlib.ExitStack() as stack:
        # Sockets have short names only, so they are not in the work directory.
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="tetris-bench-"))
        socket = f"{directory}/socket"
        pids = []
        if method.helper == "vineyard":
            pids.append(_vineyardd(stack, server, socket, file.stat().st_size + ROOM).pid)
        worker = stack.enter_context(Worker(method.name, deadline_s=deadline_s)).ready()
        pids.append(worker.pid)
        key = secrets.token_hex(16)

        def fill() -> dict[str, Any]:
            if method.helper == "vineyard":
                return {"socket": socket, **worker.ask("put", file=str(file), socket=socket, deadline_s=deadline_s)}
            worker.ask("share", file=str(file), socket=socket, key=key)
            return {"socket": socket, "key": key}

        yield Helper(pids, fill)


def _vineyardd(stack: contextlib.ExitStack, server: str, socket: str, size: int) -> subprocess.Popen[bytes]:
    """A server without metadata service or network; ended with the stack."""
    command = [server, "--meta", "local", "--size", str(size), "--socket", socket, "--rpc=false"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment("", shares_all=False),
        start_new_session=True,
    )

    def end() -> None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(end)
    return process
