"""Servers in separate processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Self

from serving import HANGS_S, Client, wait_until


class Program:
    """The command in a separate process, or a program that runs a server of the test.

    Args:
        arguments: Options of the command.
        model: Name of the model.
        program: Program to run instead of the command.
        environment: Variables in addition to those of this process.
    """

    def __init__(
        self, arguments: list[str], model: str = "fake", program: str | None = None, **environment: str
    ) -> None:
        start = ["-m", "tetris_instance"] if program is None else ["-c", textwrap.dedent(program)]
        self.process = subprocess.Popen(
            [sys.executable, *start, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environment},
            cwd=Path(__file__).parent,
        )
        self._model = model
        self._said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._watchdog = threading.Timer(2 * HANGS_S, self.process.kill)
        self._watchdog.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def client(self) -> Client:
        """Wait until it listens."""
        wait_until(lambda: "listening on " in self.said() or self.process.poll() is not None, "listening")
        lines = [line for line in self.said().splitlines() if line.startswith("listening on ")]
        assert lines, f"it ended: {self.said()}"
        return Client(int(lines[0].rpartition(":")[2]), self._model)

    def ready_client(self) -> Client:
        """Wait until it is ready."""
        client = self.client()

        def ready() -> bool:
            assert self.process.poll() is None, f"it ended: {self.said()}"
            return client.ask("/v2/health/ready").status == 200

        wait_until(ready, "readiness")
        return client

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Wait for its end, and return its status."""
        status = self.process.wait(HANGS_S)
        self._reader.join(HANGS_S)
        return status

    def go_on(self) -> None:
        """Send it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def said(self) -> str:
        """Its output so far."""
        return "".join(self._said)

    def _read(self) -> None:
        assert self.process.stdout is not None
        # Line by line, as other threads read the output meanwhile.
        for line in self.process.stdout:
            self._said.append(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._watchdog.cancel()
        self.process.kill()
        self.process.wait()
