"""Stores, servers in this process, and an environment that nothing leaks into."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Their assertions are to say what they found.
pytest.register_assert_rewrite("fakes", "serving", "programs")


@pytest.fixture(autouse=True)
def _environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that names no store has none, and b, p and c are those that it gives."""
    for name in [name for name in os.environ if name.startswith("TETRIS_")]:
        if name not in ("TETRIS_TEST_CACHE", "TETRIS_VENV"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TETRIS_STORE", str(tmp_path_factory.getbasetemp() / "there-is-no-store"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty store, which `TETRIS_STORE` names."""
    import tetris

    parent = Path(tempfile.mkdtemp(prefix="tetris-instance-test-", dir="/dev/shm"))
    tetris.create_store(parent / "store")
    monkeypatch.setenv("TETRIS_STORE", str(parent / "store"))
    yield parent / "store"
    shutil.rmtree(parent, ignore_errors=True)
