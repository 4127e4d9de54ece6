"""Stores, the command `tetris`, and an environment that no default store and no patch leaks into."""

from __future__ import annotations

import shutil
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import tetris

# Their assertions are to say what they found.
pytest.register_assert_rewrite("containers", "differential", "gpu_mirror", "process", "restricted")

from gpu_mirror import Mirror
from mounts import mounted

#: Room of the mounted tmpfs: a limit, not an allocation.
MOUNT_BYTES = 256 << 20


@pytest.fixture(autouse=True)
def _environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that names no store has none: that of the machine is not the tests' to fill.

    Files are shared whatever their size, since those of tests are small.
    """
    monkeypatch.setenv("TETRIS_MIN_SHARED_BYTES", "0")
    monkeypatch.delenv("TETRIS_PATCH", raising=False)
    monkeypatch.delenv("TETRIS_GPU_SOCKET", raising=False)
    monkeypatch.setenv("TETRIS_STORE", str(tmp_path_factory.getbasetemp() / "there-is-no-store"))


@pytest.fixture
def empty_dir() -> Iterator[Path]:
    """An empty directory on a tmpfs."""
    directory = Path(tempfile.mkdtemp(prefix="tetris-test-", dir="/dev/shm"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def store(empty_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store, which `TETRIS_STORE` names."""
    directory = empty_dir / "store"
    tetris.create_store(directory)
    monkeypatch.setenv("TETRIS_STORE", str(directory))
    return directory


@pytest.fixture(params=["0", "65536"], ids=["shared", "unshared"])
def min_shared_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once all files are shared, and once those of tests are too small."""
    monkeypatch.setenv("TETRIS_MIN_SHARED_BYTES", request.param)


@pytest.fixture
def mirror(store: Path) -> Iterator[Mirror]:
    """A GPU mirror of the store, with 64 MiB of the simulated device's memory."""
    with Mirror(store) as mirror:
        yield mirror


@pytest.fixture
def huge_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty store on a tmpfs with 2 MiB pages, which `TETRIS_STORE` names."""
    directory = tmp_path / "huge"
    directory.mkdir()
    with mounted(directory, f"size={MOUNT_BYTES},huge=always"):
        tetris.create_store(directory)
        monkeypatch.setenv("TETRIS_STORE", str(directory))
        yield directory


@pytest.fixture(params=["store", "huge_store"])
def any_store(request: pytest.FixtureRequest) -> Path:
    """A store with pages of 4 KiB, and one with pages of 2 MiB where one can be mounted."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def tetris_bin() -> str:
    """The command `tetris`, which the wheel brings."""
    return str(Path(sysconfig.get_path("scripts"), "tetris"))
