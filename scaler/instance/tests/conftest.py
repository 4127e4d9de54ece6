"""Stores, servers in this process, and an isolated environment."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Rewrite their assertions, to report the values found.
pytest.register_assert_rewrite("fakes", "serving", "programs", "gpu_pool")


@pytest.fixture(autouse=True)
def _environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear the variables, so that a test has only the store, b, p and c that it sets."""
    for name in [name for name in os.environ if name.startswith("TETRIS_")]:
        if name not in ("TETRIS_TEST_CACHE", "TETRIS_VENV", "TETRIS_SIMULATED_MIRROR", "TETRIS_GATEWAY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TETRIS_STORE", str(tmp_path_factory.getbasetemp() / "there-is-no-store"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Create an empty store, and name it in `TETRIS_STORE`."""
    import tetris

    parent = Path(tempfile.mkdtemp(prefix="tetris-instance-test-", dir="/dev/shm"))
    tetris.create_store(parent / "store")
    monkeypatch.setenv("TETRIS_STORE", str(parent / "store"))
    yield parent / "store"
    shutil.rmtree(parent, ignore_errors=True)
