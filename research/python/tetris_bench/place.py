"""A place for a tensor store: a tmpfs mount of its own, or a directory on one that exists."""

import contextlib
import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .memory import tree_bytes

SHARED_MEMORY = Path("/dev/shm")
CLONE_NEWNS = 0x00020000
INODES = 100_000
"""Files that a store may have: a few per tensor."""
ROOM = 64 << 20
"""Bytes that a mount has beside a quarter more than the weights."""


@dataclass(frozen=True)
class Place:
    """An empty directory on a tmpfs."""

    path: Path
    mounted: bool
    description: str

    def used(self) -> int:
        """Bytes of memory that the files take, whether anybody maps them or not."""
        if not self.mounted:
            return tree_bytes(self.path)
        stat = os.statvfs(self.path)
        return (stat.f_blocks - stat.f_bfree) * stat.f_frsize


def enter_own_mounts() -> None:
    """Takes mounts of this process out of everyone else's sight, so that they go with it even if it is killed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0 and libc.unshare(CLONE_NEWNS) == 0:
        subprocess.run(["mount", "--make-rslave", "/"], check=False, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def place(size: int, parent: Path | None) -> Iterator[Place]:
    """Makes room for `size` bytes of weights; below `parent` when it is given. Removed afterwards."""
    if parent is None and os.geteuid() == 0:
        directory = Path(tempfile.mkdtemp(prefix="tetris-bench-store-"))
        if _mount(directory, size + size // 4 + ROOM):
            try:
                yield Place(directory / "store", True, "tmpfs mount of its own, huge=within_size")
            finally:
                # Detached even if a process should still map it; the memory goes with the last of them.
                subprocess.run(["umount", "--lazy", str(directory)], check=False)
                directory.rmdir()
            return
        directory.rmdir()
    directory = Path(tempfile.mkdtemp(prefix="tetris-bench-store-", dir=parent or SHARED_MEMORY))
    why = "" if parent else " (no right to mount one of its own)"
    try:
        yield Place(
            directory / "store", False, f"directory on {parent or SHARED_MEMORY} with the pages of that mount{why}"
        )
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _mount(directory: Path, size: int) -> bool:
    options = f"size={size},mode=0700,huge=within_size,nr_inodes={INODES}"
    command = ["mount", "-t", "tmpfs", "-o", options, "tetris-bench", str(directory)]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0
