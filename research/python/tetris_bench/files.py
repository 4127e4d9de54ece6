"""Model files: hot in the page cache, and own copies as downloads leave them."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

PIECE = 16 * 1024
"""Bytes per write of a copy: what a download writes at a time, so the page cache gets the pages that downloads get."""
READ = 1 << 20
"""Bytes per read when a file is brought into the page cache."""
RESERVE = 1 << 30
"""Bytes that stay free on the disk."""


class DiskFullError(Exception):
    """The copies would not leave enough room."""


def refresh_cache(path: Path) -> None:
    """Drops a file from the page cache and reads it again in large reads: the page cache at its best."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        # Only clean pages can be dropped.
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        while os.read(descriptor, READ):
            pass
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def own_copies(original: Path, directory: Path, count: int) -> Iterator[list[Path]]:
    """Freshly written copies, removed afterwards: before the kernel begins to write them back, if it has not yet."""
    free, needed = shutil.disk_usage(directory).free, count * original.stat().st_size + RESERVE
    if free < needed:
        raise DiskFullError(f"`{directory}` has {free} bytes free but {needed} are needed; choose another --workdir")
    paths = [directory / f"own-{number}.safetensors" for number in range(count)]
    try:
        for path in paths:
            _download(original, path)
        yield paths
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def _download(source: Path, target: Path) -> None:
    buffer = memoryview(bytearray(PIECE))
    with source.open("rb", buffering=0) as reader, target.open("xb", buffering=0) as writer:
        while count := reader.readinto(buffer):
            writer.write(buffer[:count])
