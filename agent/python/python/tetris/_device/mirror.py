"""The GPU mirror's model for a file, if it has room, and counts of the ways to a device."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tetris import _native
from tetris._arguments import may_be_file
from tetris._device.names import mirror_device
from tetris._device.template import keep_as_asked
from tetris._log import logger
from tetris._order import Order, content_id, order_for, trace_for
from tetris._trace import Trace
from tetris.errors import GpuUnavailableError, LoadError


@dataclass
class DeviceLoads:
    """Counts of the ways in which models came to devices in this process."""

    #: Models that were mapped from the mirror, and their bytes.
    mirrored: int = 0
    mirrored_bytes: int = 0
    #: Models that the mirror should have had, and that were copied from the host instead, a copy for this process.
    copied: int = 0
    #: Why the last of them was copied.
    reason: str | None = None


#: Largest share of a model's bytes, and bytes that are always allowed, that a trace may have each process copy.
MAX_DYNAMIC_SHARE, MAX_DYNAMIC_BYTES = 0.25, 16 << 20


_lock = threading.Lock()
_loads = DeviceLoads()
#: Devices of which the log has said that models are copied to them.
_said: set[str] = set()


def _after_fork() -> None:
    """Whichever thread of the parent held the lock is not in the child."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def device_loads() -> DeviceLoads:
    """Return how models came to devices in this process so far: from the GPU mirror, or by separate copies."""
    with _lock:
        return replace(_loads)


def is_adapter(path: Any) -> bool:
    """Returns true if a file is an adapter as PEFT names it: each process has its own, and may train it."""
    return os.path.basename(os.fspath(path)) == "adapter_model.safetensors"


def mirror_for(filename: Any, device: Any, private: Any = None) -> str | None:
    """Return the device of the mirror's where a file is to be; `None` if it is to be loaded without the mirror.

    Args:
        filename: The file.
        device: Where it is wanted.
        private: Of which tensors copies are to be made; by default only of an adapter.
    """
    name = mirror_device(device)
    if name is None or private is True or not may_be_file(filename):
        return None
    return None if private is None and is_adapter(filename) else name


def trace_once(path: Any) -> Callable[[], Trace | None]:
    """Return a function that reads the trace of a file or directory at its first call."""
    return functools.cache(lambda: trace_for(path, lambda: content_id(path)))


def open_mirrored(
    path: Any, device: str, order: Order = None, trace: Callable[[], Trace | None] | None = None
) -> _native.DeviceModel | None:
    """Return the mirror's model for a file or directory; `None` if it is to be loaded without the mirror.

    The log has the reason, once for each device, and :func:`device_loads` counts it.

    Args:
        path: The file or directory.
        device: The device of the mirror's.
        order: In which order tensors come.
        trace: Returns the trace of `path`, if the caller has use for it as well.
    """
    try:
        from tetris import gpu

        # The mirror passes over names that the model does not have.
        names = order_for(path, None, order, trace_once(path) if trace is None else trace)
        model = gpu.load(path, device, order=names)
    except (LoadError, TypeError, ValueError) as error:
        # The loader that takes its place reports the error.
        logger.debug("%s does not come from the GPU mirror: %s", path, error)
        return None
    except (GpuUnavailableError, OSError, RuntimeError, ImportError, AttributeError) as error:
        count_copied(path, device, error)
        return None
    count_mirrored(path, model)
    keep_as_asked(path, device, names)
    return model


def dynamic_names(
    trace: Trace | None, model: _native.DeviceModel | Mapping[str, Any], path: str | os.PathLike[str]
) -> frozenset[str]:
    """Return the tensors of a file that differ between initializations, as far as they were recorded.

    Initialization writes to them, or replaces them, so that each process needs its own. A trace in which they are a
    large part of the model is none of initializations that share a model: then all tensors are shared.

    Args:
        trace: The trace of the file.
        model: Its tensors.
        path: The file, for the log.
    """
    if trace is None or not trace.origins.dynamic:
        return frozenset()
    sizes = {name: tensor.nbytes for name, tensor in model.items()}
    dynamic = frozenset(name for name in trace.origins.dynamic if name in sizes)
    copied, total = sum(sizes[name] for name in dynamic), sum(sizes.values())
    most = max(MAX_DYNAMIC_BYTES, int(total * MAX_DYNAMIC_SHARE))
    if copied > most:
        logger.warning(
            "%s: dynamic tensors of its trace are passed over: they have %d of %d bytes, expected at most %d; name "
            "them by `private=` if each process needs its own",
            path, copied, total, most,
        )  # fmt: skip
        return frozenset()
    return dynamic


def count_mirrored(path: Any, model: _native.DeviceModel) -> None:
    """Count a model that is mapped from the mirror."""
    with _lock:
        _loads.mirrored += 1
        _loads.mirrored_bytes += model.nbytes
    logger.debug("%s is on %s: %d bytes", path, model.device, model.nbytes)


def count_copied(path: Any, device: str, reason: object) -> None:
    """Count, and say, that a model is copied to a device because the mirror does not give it."""
    with _lock:
        _loads.copied += 1
        _loads.reason = str(reason)
        first = device not in _said
        _said.add(device)
    if first:
        logger.warning("models are copied to %s, nothing is shared there: %s", device, reason)
    else:
        logger.info("%s is copied to %s: %s", path, device, reason)
