"""A node's daemon with a GPU mirror, over host memory unless there is a GPU."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

from process import HANGS_S


def daemon_bin() -> str | None:
    """The daemon's program, if there is one."""
    return os.environ.get("TETRIS_RECLAIMER_BIN") or shutil.which("tetris-reclaimer")


class Daemon:
    """A daemon that serves the mirror of one store."""

    def __init__(self, store: Path, folder: Path, device_bytes: int, implementation: str = "stand-in") -> None:
        self.socket = store / "gpu"
        program = daemon_bin()
        assert program is not None
        config = folder / "daemon.toml"
        config.write_text(
            f'[[stores]]\nname = "test"\npath = "{store}"\n[scrub]\nenabled = false\n[ingest]\nenabled = false\n'
            f'[gpu_mirror]\nimplementation = "{implementation}"\ndevice_bytes = {device_bytes}\n'
        )
        self.log = folder / "daemon.log"
        with self.log.open("a") as log:
            command = [program, "--log", "info,tetris_gpu_mirror=debug", "run", "--config", str(config)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + HANGS_S
        while not self.socket.exists():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.01)

    def pause(self) -> None:
        """Let nothing arrive until :meth:`go_on`."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Undo :meth:`pause`."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on()
        self.kill()
