"""Memory that the allocator keeps after a session was made."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    # Only glibc has it; other C libraries give memory back by themselves, or not at all.
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def trim() -> None:
    """Give freed memory back to the kernel.

    ONNX Runtime packs each weight to find the packed data that it was given, and optimizers reorder weights; both
    free what they no longer need, and glibc would keep tens of MiB of it in every process.
    """
    if (malloc_trim := _malloc_trim()) is not None:
        malloc_trim(0)
