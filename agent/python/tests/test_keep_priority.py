"""Models that are kept in a store with too little room for all of them."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from process import HANGS_S
from restricted import Restricted
from safetensors.torch import save_file
from tetris._pull import _command

#: No user of the machine.
USER = 47_130
MIB = 1 << 20


class Kept:
    """A process that keeps a model, as the pod of a `Model` does."""

    def __init__(self, restricted: Restricted, model: Path, priority: int) -> None:
        act = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"]
        keep = [_command(), "keep", "--format", "json", "--name", model.name, f"--priority={priority}", str(model)]
        self.process = subprocess.Popen(
            [*restricted.within, *act, *keep],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=restricted.home,
            env={**os.environ, **restricted.env},
        )

    def document(self) -> Any:
        """Read its output: once the model is there, or when it cannot be kept."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def failure(self) -> str:
        """The reason that it has ended for."""
        _, errors = self.process.communicate(timeout=HANGS_S)
        assert self.process.returncode == 1, errors
        return errors

    def runs(self) -> bool:
        """True while the model is kept."""
        return self.process.poll() is None

    def end(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(HANGS_S)


@pytest.fixture
def small(empty_dir: Path) -> Iterator[Restricted]:
    """A store with 48 MiB, and its daemon."""
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", empty_dir], check=False).returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    made = Restricted(empty_dir)
    yield made
    made.end()
    subprocess.run(["umount", "--lazy", empty_dir], check=True)


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user can read."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


def model(folder: Path, name: str, mib: int) -> Path:
    """A folder with a model of so many MiB."""
    made = folder / name
    made.mkdir()
    made.chmod(0o755)
    tensors = {f"w{index}": torch.randn(4 * MIB // 4) for index in range(mib // 4)}
    save_file(tensors, made / "model.safetensors")
    (made / "model.safetensors").chmod(0o644)
    return made


def test_models_of_lower_priority_give_way_in_a_full_store(small: Restricted, public: Path) -> None:
    low, middle, high = (model(public, name, mib) for name, mib in (("low", 16), ("middle", 16), ("high", 24)))
    kept = {made.name: Kept(small, made, priority) for priority, made in enumerate((low, middle))}
    assert kept["low"].document()["name"] == "low"
    assert kept["middle"].document()["name"] == "middle"

    urgent = Kept(small, high, 2)
    assert urgent.document()["name"] == "high"
    assert "beside those of higher priority" in kept["low"].failure()
    assert kept["middle"].runs()
    # The one that gave way has to wait until there is room.
    refused = Kept(small, low, 0)
    assert "no room" in refused.document()["error"]["message"]
    refused.failure()
    assert urgent.runs() and kept["middle"].runs()
    urgent.end()
    again = Kept(small, low, 0)
    assert again.document()["name"] == "low"
    for process in (again, kept["middle"]):
        process.end()
