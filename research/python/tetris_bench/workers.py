"""The parent's side: processes that are asked with a deadline, and always ended."""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

TAIL = 2000
"""Characters of a worker's standard error that an error message shows."""
GRACE_S = 5.0
"""Seconds that a worker has to end once its input is closed."""


class WorkerError(Exception):
    """A worker could not do what it was asked, or died."""


class Asked:
    """A live process that runs a module of the package, and answers requests (:mod:`tetris_bench.replies`)."""

    def __init__(self, interpreter: str, module: str, arguments: Sequence[str], env: dict[str, str], deadline_s: float):
        self.deadline_s = deadline_s
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the worker)
        self._process = subprocess.Popen(
            [interpreter, "-W", "ignore", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=env,
            start_new_session=True,
        )
        self._received = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def ready(self) -> Self:
        """Waits until everything is imported."""
        self._receive("start")
        return self

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Sends a request and waits for the reply."""
        assert self._process.stdin is not None
        # A worker that has died is recognized by the answer that does not come.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        return self._receive(do)

    def _receive(self, doing: str) -> dict[str, Any]:
        assert self._process.stdout is not None
        end = time.monotonic() + self.deadline_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._received:
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise WorkerError(f"worker {self.pid} did not {doing} within {self.deadline_s:.0f} s (--deadline)")
                piece = os.read(self._process.stdout.fileno(), 1 << 16)
                if not piece:
                    status = self._process.wait()
                    raise WorkerError(f"worker {self.pid} died ({status}) while it was to {doing}: {self._tail()}")
                self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        reply = json.loads(line)
        if "error" in reply:
            raise WorkerError(f"could not {doing}: {reply['error']}")
        return reply

    def _tail(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace").strip()[-TAIL:]

    def close(self) -> None:
        """Ends the process: by the end of its input, or by force."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._process.kill()
        self.close()


class Worker(Asked):
    """A live process that runs :mod:`tetris_bench.worker`."""

    def __init__(
        self,
        method: str,
        *,
        kind: str = "",
        file: Path | str = "",
        store: str = "",
        deadline_s: float,
        shares_all: bool = True,
    ):
        env = environment(store, shares_all)
        super().__init__(sys.executable, "tetris_bench.worker", [method, kind, str(file)], env, deadline_s)


def close_all(workers: Iterable[Asked]) -> None:
    """Ends several processes, whatever becomes of one of them."""
    for worker in workers:
        worker.close()


def environment(store: str, shares_all: bool) -> dict[str, str]:
    """The caller's environment without settings of Tetris, which could change what other methods do.

    With `shares_all` files are shared whatever their size, since it is sharing that is measured.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TETRIS_")}
    if store:
        kept["TETRIS_STORE"] = store
    if shares_all:
        kept["TETRIS_MIN_SHARED_BYTES"] = "0"
    return kept
