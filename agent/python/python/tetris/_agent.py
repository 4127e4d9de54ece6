"""The agent of this process."""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Callable
from time import monotonic
from typing import Literal, NamedTuple

from tetris import _native
from tetris._environment import tell
from tetris._log import logger

Mode = Literal["copy_on_write", "read_only"]

#: Below this, a tensor stays private: a separate object would take a page and a mapping in every process.
MIN_BYTES = 64 << 10

#: Seconds between two looks for a store where there was none.
LOOK_AGAIN_S = 1.0


class _Made(NamedTuple):
    """The agent of this process."""

    agent: _native.Agent
    #: Variables of the environment that decide on the agent, as they were then.
    variables: tuple[str | None, str | None]
    #: The value of ``TETRIS_PATCH`` then.
    patch: str | None
    #: Time by :func:`time.monotonic` from which on a store is looked for again.
    look_again: float


_lock = threading.Lock()
_made: _Made | None = None
#: True after a warning of :func:`log_derived`.
_derived_told = False


def _after_fork() -> None:
    """Whichever thread of the parent held the lock is not in the child."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def agent() -> _native.Agent:
    """Return the agent of this process, made at the first call.

    It uses the store that the environment variable ``TETRIS_STORE`` names, or else the default one:
    ``/run/tetris/store``, but this user's own at ``/dev/shm/tetris`` where the other may only be read and no node
    daemon serves it; ``agent().store_choice`` has the reason. Without a usable store it loads into private
    memory, logs it once as ``tetris``, and ``agent().unavailable`` has the reason. A store that is created later is
    noticed by the next call, one second after the last look at the earliest.

    Files smaller than ``TETRIS_MIN_SHARED_BYTES``, 65536 by default, are not shared, and neither are files of less than
    64 times as many bytes that were written within the last 100 ms: it would cost more than it saves. With 0, all are.

    When one of these variables changes, the next call makes a new agent.
    """
    global _made
    environment = os.environ
    variables = (environment.get("TETRIS_STORE"), environment.get("TETRIS_MIN_SHARED_BYTES"))
    patch = environment.get("TETRIS_PATCH")
    with _lock:
        made = _made
        if (
            made is None
            or made.variables != variables
            or made.patch != patch
            or (made.look_again < math.inf and monotonic() >= made.look_again)
        ):
            made = _made = _look(made, variables, patch)
        return made.agent


def current() -> _native.Agent | None:
    """Return the agent of this process; `None` before the first call of :func:`agent`."""
    return None if _made is None else _made.agent


def _look(before: _Made | None, variables: tuple[str | None, str | None], patch: str | None) -> _Made:
    """Return an agent of the store that there is now, or the one of before where nothing has changed for it."""
    if patch and (before is None or before.patch != patch):
        from tetris._patch_status import problems

        for problem in problems():
            tell(problem)
    if before is not None and before.variables == variables and before.agent.store is not None:
        return before._replace(patch=patch)
    found = _native.Agent.from_env()
    if found.store is not None:
        return _Made(found, variables, patch, math.inf)
    look_again = monotonic() + LOOK_AGAIN_S
    if before is not None and before.variables == variables and before.agent.unavailable == found.unavailable:
        # It keeps its counts.
        return before._replace(patch=patch, look_again=look_again)
    logger.warning("nothing is shared: %s; %s", found.unavailable, found.unavailable_remedy)
    return _Made(found, variables, patch, look_again)


def log_derived(name: str, memory: _native.Memory) -> None:
    """Warn, once in this process, of a result that the store could not take."""
    global _derived_told
    if memory.private_reason is not None and not _derived_told and agent().store is not None:
        _derived_told = True
        logger.warning("%d bytes, the result of %r, stay private: %s", memory.nbytes, name, memory.private_reason)


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
        mode: ``"read_only"`` forbids writes to consumers, and NumPy and others obey; with ``"copy_on_write"`` they
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
