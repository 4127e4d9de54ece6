"""Memory of an engine's process: what it gives back, and what it counts as its own."""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch


def count_shared_pages_once() -> None:
    """Have vLLM's CPU worker count each page that processes share in parts, and not in whole for each of them.

    The worker takes what the process holds from its share of the machine, and gives the rest to the cache. Pages of the
    store are counted in whole for each process otherwise, as if each had a private copy.
    """
    from vllm.v1.worker import cpu_worker

    if not isinstance(cpu_worker.psutil, _Proportional):
        cpu_worker.psutil = _Proportional(cpu_worker.psutil)


def give_back() -> None:
    """Give free memory back to the kernel and the device: after a load as large as the model, among memory in use."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    # Only glibc keeps what is below a block that is in use.
    if trim is not None:
        trim(0)


class _Proportional:
    """psutil, of which processes have their proportional set size as the resident set size."""

    def __init__(self, psutil: Any) -> None:
        self._psutil = psutil

    def __getattr__(self, name: str) -> Any:
        return getattr(self._psutil, name)

    def Process(self, pid: int | None = None) -> Any:
        process = self._psutil.Process(pid)
        nbytes = proportional_bytes(os.getpid() if pid is None else pid)
        if nbytes is None:
            return process
        return SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=nbytes))


def proportional_bytes(pid: int) -> int | None:
    """Return the proportional set size of a process, in bytes; `None` where the kernel does not tell."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), None)
