"""A GPU mirror over the simulated device, as a separate process: its device memory is the host's."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest
import tetris.gpu

MIB = 1 << 20
#: Far longer than anything takes: who waits as long has found a fault.
LONG_S = 120
#: The program's chunks.
CHUNK_BYTES = 4 * MIB
#: The name of a chunk in /proc/PID/maps.
CHUNK = "/memfd:tetris-device-chunk"


def program() -> str:
    """The server: the example ``simulated`` of the package ``tetris-gpu-server``."""
    found = os.environ.get("TETRIS_SIMULATED_MIRROR")
    if not found:
        pytest.skip("needs the example simulated of tetris-gpu-server: name it in TETRIS_SIMULATED_MIRROR")
    return found


class Mirror:
    """A server of a store, at the socket where its clients look for it. Killed at the end of the block."""

    def __init__(
        self, store: Path, device_bytes: int = 64 * MIB, store_bytes: int | None = None, socket: Path | None = None
    ) -> None:
        self.socket = socket or store / "gpu"
        arguments = [str(store), str(self.socket), str(device_bytes)]
        self._command = [program(), *arguments, *([str(store_bytes)] if store_bytes is not None else [])]
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "serving\n", f"it ended with status {process.wait()}"
        return process

    def kill(self) -> None:
        """Send SIGKILL. Processes keep the memory that they have mapped."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def restart(self) -> None:
        """Kill it and start another, which knows of nothing."""
        self.kill()
        self.process = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def threads() -> int:
    """Number of this process's threads."""
    return len(list(Path("/proc/self/task").iterdir()))


def eventually(what: str, is_so: Callable[[], bool]) -> None:
    """Look until something is so."""
    end = time.monotonic() + LONG_S
    while not is_so():
        assert time.monotonic() < end, f"expected that {what}"
        time.sleep(0.01)


def held_bytes() -> int:
    """Bytes of device memory that some process holds."""
    return tetris.gpu.usage()["devices"][0]["held_bytes"]


def chunks(pid: int | str = "self") -> dict[int, str]:
    """The chunks that a process has mapped: inode and access."""
    found = {}
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith(CHUNK):
            found[int(fields[4])] = fields[1]
    return found
