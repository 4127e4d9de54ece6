"""A store that interpreters can only read, as those of pods, with the daemon that publishes for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
import tetris
from process import HANGS_S

#: Mounts the store read-only for the program behind it, and for nobody else.
READ_ONLY = 'mount --bind "$0" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'


def node() -> str:
    """The program ``tetris-node``."""
    found = os.environ.get("TETRIS_NODE")
    if not found:
        pytest.skip("needs the program tetris-node: name it in TETRIS_NODE")
    return found


class Restricted:
    """A store with its daemon, and interpreters for which it is mounted read-only."""

    def __init__(self, directory: Path, preamble: str = "", configuration: str = "") -> None:
        if os.geteuid() != 0:
            pytest.skip("needs root, to mount")
        if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
            pytest.skip("no mount namespace can be made here")
        directory.chmod(0o755)
        #: Goes before every program.
        self.preamble = preamble
        self.store = directory / "store"
        self.home = directory / "home"
        self.home.mkdir()
        self.home.chmod(0o777)
        self.view = directory / "view"
        self.view.mkdir()
        tetris.create_store(self.store)
        self.log = directory / "log"
        self.configuration = directory / "node.toml"
        self.configuration.write_text(configuration)
        self.start()

    def start(self) -> None:
        """Start the daemon."""
        command = [node(), "run", "--config", self.configuration, "--store", f"store={self.store}"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + HANGS_S
        while not (self.store / "daemon").exists():
            assert self.process.poll() is None and time.monotonic() < end, self.log.read_text()
            time.sleep(0.01)

    @property
    def within(self) -> list[str | Path]:
        """The command that executes another where the store is mounted read-only."""
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", READ_ONLY, self.store, self.view]

    @property
    def env(self) -> dict[str, str]:
        """Variables of programs there."""
        return {"HOME": str(self.home), "TETRIS_STORE": str(self.view), "PYTHONDONTWRITEBYTECODE": "1"}

    def python(self, program: str, *arguments: object, user: int = 0, patch: bool = False) -> Any:
        """Run a program as the user; return what its last line is in JSON."""
        act = [] if user == 0 else ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
        interpreter = [*act, sys.executable, "-c", self.preamble + textwrap.dedent(program), *map(str, arguments)]
        done = subprocess.run(
            [*self.within, *interpreter],
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS_S,
            cwd=self.home,
            env={**os.environ, **self.env, "TETRIS_PATCH": "1" if patch else "0"},
        )
        assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.log.read_text()}"
        return json.loads(done.stdout.splitlines()[-1])

    def file(self, name: str) -> Path:
        """A path that every user can read."""
        path = self.store.parent / name
        path.parent.mkdir(exist_ok=True)
        return path

    def end(self) -> None:
        """End the daemon."""
        self.process.terminate()
        self.process.wait(HANGS_S)
