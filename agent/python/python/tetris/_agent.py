"""The agent of this process."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Literal

from tetris import _native

Mode = Literal["copy_on_write", "read_only"]

#: Below this, a tensor stays private: an object of its own would take a page and a mapping in every process.
MIN_BYTES = 64 << 10

logger = logging.getLogger("tetris")

_lock = threading.Lock()
#: The agent, and what the environment said when it was made.
_agent: tuple[tuple[str | None, str | None], _native.Agent] | None = None


def _after_fork() -> None:
    """Whichever thread of the parent held the lock is not in the child."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def agent() -> _native.Agent:
    """Return the agent of this process, made at the first call.

    It uses the store that the environment variable ``TETRIS_STORE`` names, or else the default one:
    ``/run/tetris/store`` if that is mounted, and ``/dev/shm/tetris``. If there is no store that can be used, it loads
    into private memory, says so once in the log ``tetris``, and ``agent().unavailable`` says why.

    Files smaller than ``TETRIS_MIN_SHARED_BYTES``, 65536 by default, are not shared, and neither are files of less than
    64 times as many bytes that were written within the last 100 ms: it would cost more than it saves. With 0, all are.

    When one of these variables changes, the next call makes a new agent.
    """
    global _agent
    environment = os.environ
    named = (environment.get("TETRIS_STORE"), environment.get("TETRIS_MIN_SHARED_BYTES"))
    with _lock:
        if _agent is None or _agent[0] != named:
            made = _native.Agent.from_env()
            if made.unavailable is not None:
                logger.warning("no tensor store is used, nothing is shared: %s", made.unavailable)
            _agent = (named, made)
        return _agent[1]


def load(
    path: str | os.PathLike[str],
    *,
    mode: Mode = "read_only",
    prefault: bool = False,
    threads: int | None = None,
    wait: float | None = None,
    progress: Callable[[int, int], object] | None = None,
    min_shared_bytes: int | None = None,
) -> _native.Model:
    """Load a model without any framework: a safetensors file, or a directory as Hugging Face lays it out.

    The tensors have the buffer protocol and DLPack, so that NumPy, JAX, CuPy and others take them without a copy:
    ``numpy.asarray(model["weight"])``, ``jax.dlpack.from_dlpack(model["weight"])``.

    Args:
        path: The file or directory.
        mode: ``"read_only"`` tells consumers not to write, and NumPy and others do not; with ``"copy_on_write"`` they
            may. In either case a write copies the page, 4 KiB or 2 MiB, for this process alone.
        prefault: Fill the page tables now, so that the first pass over the weights does not fault.
        threads: Threads of a first load; one per core by default.
        wait: Longest wait, in seconds, for another process that reads the same file just now; 60 by default.
        progress: Called with the bytes done and the bytes in all, while an unknown file is read.
        min_shared_bytes: Files smaller than this are not shared; as of :func:`agent` by default. 0 shares every file.

    Raises:
        LoadError: The model's files are missing or invalid. Never because of the store.
    """
    model = agent().load(
        path,
        mode=mode,
        prefault=prefault,
        threads=threads,
        wait=wait,
        progress=progress,
        min_shared_bytes=min_shared_bytes,
    )
    log_load(path, model)
    return model


def log_load(path: str | os.PathLike[str], model: _native.Model) -> None:
    """Log what a load did, at level DEBUG."""
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("loaded %s: %s", path, model.report)
