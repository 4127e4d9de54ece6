"""Containers as pods of a restricted namespace have them, with the programs of this machine in place of an image's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Self

import pytest
import tetris
from process import HANGS_S, Helper

#: The user of the samples' pods.
USER = 65532
#: Where pods have the store.
VIEW = Path("/run/tetris/store")

#: Folders of programs and libraries of this machine.
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc")
_numbers = count()


def require_docker() -> None:
    """Skip a test where no containers can be started that see this machine's directories."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to see what containers hold")
    if shutil.which("docker") is None:
        pytest.skip("there is no docker command")
    done = _docker("version", "--format", "{{.Server.Version}}")
    if done.returncode != 0:
        pytest.skip(f"no Docker daemon answers (tests/docker.sh starts one): {done.stderr.strip()}")
    daemon = Path("/run/docker.pid")
    if not daemon.exists() or not Path(f"/proc/{daemon.read_text().strip()}/ns/mnt").samefile("/proc/self/ns/mnt"):
        pytest.skip("the Docker daemon runs in another mount namespace")


class Image:
    """An image of nothing, whose containers see the programs of this machine, and can write to none of them."""

    def __init__(self) -> None:
        require_docker()
        self.name = _unique()
        with tempfile.NamedTemporaryFile(suffix=".tar") as file:
            with tarfile.open(fileobj=file, mode="w") as archive:
                # What is mounted here takes its mode.
                folder = tarfile.TarInfo("tmp")
                folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
                archive.addfile(folder)
            file.flush()
            done = _docker("import", file.name, self.name)
        assert done.returncode == 0, done.stderr

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _docker("rmi", "--force", self.name)


class Pod(Helper):
    """A program in a container that has no right, no network, and the store read-only.

    `volumes` are folders and files by the places where the container sees them.
    """

    def __init__(
        self,
        image: Image,
        store: Path,
        program: str,
        *arguments: object,
        volumes: Mapping[Path, Path] | None = None,
        env: Mapping[str, str] | None = None,
        shm_bytes: int = 64 << 20,
    ) -> None:
        self._name = _unique()
        mounted = {**_programs(), **(volumes or {}), VIEW: store}
        # Only what is named comes into the container: none of the variables of the tests.
        variables = {"HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
        super().__init__(
            program,
            *arguments,
            within=[
                *("docker", "run", "--interactive", "--rm", "--name", self._name, "--network", "none"),
                *("--user", f"{USER}:{USER}", "--read-only", "--cap-drop", "ALL"),
                *("--security-opt", "no-new-privileges", "--tmpfs", "/tmp:exec", "--workdir", "/tmp"),
                *("--shm-size", str(shm_bytes)),
                *(word for at, path in mounted.items() for word in ("--volume", f"{path}:{at}:ro")),
                *(word for name, value in variables.items() for word in ("--env", f"{name}={value}")),
                image.name,
            ],
        )

    @property
    def pid(self) -> int:
        """The process id of its first process on this machine."""
        return int(_docker("inspect", "--format", "{{.State.Pid}}", self._name).stdout)

    def __exit__(self, *arguments: object) -> None:
        _docker("rm", "--force", self._name)
        super().__exit__(*arguments)


def readable(folder: Path) -> Path:
    """Have every user read a folder: those of pytest, and files of safetensors, are for this user alone."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def _programs() -> dict[Path, Path]:
    """Return folders that an interpreter like this one needs, by the same places."""
    folders = [Path(path) for path in (*_SYSTEM, sys.prefix, sys.base_prefix) if Path(path).exists()]
    # Where it is installed for development, the package lies elsewhere.
    folders.append(Path(tetris.__file__).resolve().parent)
    return {folder: folder for folder in folders}


def _unique() -> str:
    return f"tetris-test-{os.getpid()}-python-{next(_numbers)}"


def _docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False, timeout=HANGS_S)
