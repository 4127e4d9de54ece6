"""Prefixes of models that stay on devices between processes, as the environment asks for them.

``TETRIS_GPU_TEMPLATE`` is ``1``, or the time to the first token with the whole model on the device: ``250ms`` or
``1.5s``. Then every model that comes from the mirror has it keep the model's prefix (:func:`tetris.gpu.keep_prefix`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

from tetris._environment import OFF, ON, tell
from tetris._log import logger
from tetris.errors import GpuUnavailableError, LoadError

VARIABLE = "TETRIS_GPU_TEMPLATE"
#: Longest time to a first token, in seconds, as of the mirror's configuration.
MOST_S = 3600.0

_lock = threading.Lock()
#: Models and devices for which the mirror was asked.
_asked: set[tuple[str, str]] = set()


def _after_fork() -> None:
    """Whichever thread of the parent held the lock is not in the child. What the parent asked for holds for it, too."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def wanted(text: str) -> float | bool | None:
    """Return a time to the first token in seconds, `None` for the node's, or `False` if no prefix is asked for.

    Raises:
        ValueError: The text is none of these.
    """
    value = text.strip().lower()
    if not value or value in OFF:
        return False
    if value in ON:
        return None
    number, scale = (value[:-2], 1e-3) if value.endswith("ms") else (value.removesuffix("s"), 1.0)
    try:
        # Python also reads "nan", "1_0" and the like.
        seconds = float(number) * scale if value.endswith("s") and set(number) <= set("0123456789.") else -1.0
    except ValueError:
        seconds = -1.0
    if not 0.0 < seconds <= MOST_S:
        raise ValueError(
            f"{VARIABLE} has no effect: expected one of {' '.join(ON)}; {' '.join(OFF)}; or a time of at most "
            f"{MOST_S:.0f} s such as 250ms or 1.5s, found {text!r}"
        )
    return seconds


def keep_as_asked(path: Any, device: str, order: Sequence[str] | None) -> None:
    """Have the mirror keep the prefix of a model that was loaded, if the environment asks for it. Does not wait."""
    try:
        ttft = wanted(os.environ.get(VARIABLE, ""))
    except ValueError as error:
        tell(str(error))
        return
    if ttft is False:
        return
    key = (os.path.realpath(path), device)
    with _lock:
        if key in _asked:
            return
        _asked.add(key)
    # Nothing waits for it, least of all the first token.
    threading.Thread(target=_keep, args=(key, ttft, order), name="tetris-template", daemon=True).start()


def _keep(key: tuple[str, str], ttft: float | None, order: Sequence[str] | None) -> None:
    from tetris import gpu

    path, device = key
    try:
        kept, rate = gpu.keep_prefix(path, device, ttft=ttft, order=order)
    except (GpuUnavailableError, LoadError, OSError, RuntimeError) as error:
        logger.warning("the GPU mirror keeps no prefix of %s on %s: %s", path, device, error)
        with _lock:
            _asked.discard(key)
        return
    logger.info("the GPU mirror keeps %d bytes of %s on %s, at %d bytes per second", kept, path, device, rate)
