"""Memory of this process's cgroup, and budgets of bytes that clients can have it hold."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tetris_instance.errors import RequestError
from tetris_instance.queue import RETRY_AFTER_S

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")


def memory_limit(cgroups: Path = _CGROUPS, own: Path = _OWN_CGROUP) -> int:
    """Return the bytes that the smallest limit of this process's cgroups and the machine's memory allow it."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    try:
        lines = own.read_text().splitlines()
    except OSError:
        lines = []
    name = next((line[3:] for line in lines if line.startswith("0::")), "/")
    folder = cgroups / name.lstrip("/")
    for parent in [folder, *folder.parents]:
        if parent == cgroups.parent:
            break
        with contextlib.suppress(OSError, ValueError):
            # Without a limit it is the word `max`.
            limits.append(int((parent / "memory.max").read_text()))
    return min(limits)


class Budget:
    """Bytes that requests hold together. For one thread.

    Args:
        limit: Maximum number of bytes.
        what: Name of the bytes in errors.
    """

    def __init__(self, limit: int, what: str) -> None:
        self._limit = limit
        self._what = what
        self._held = 0

    @contextlib.contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Hold bytes while the block runs.

        Raises:
            RequestError: There is no room now, or never is for so many.
        """
        if size > self._limit:
            raise RequestError(f"{self._what} have {size} bytes; this instance takes at most {self._limit}", 413)
        if self._held + size > self._limit:
            raise RequestError(f"{self._what} of all requests have {self._held} bytes already", 503, RETRY_AFTER_S)
        self._held += size
        try:
            yield
        finally:
            self._held -= size
