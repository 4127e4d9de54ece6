"""Models in device memory, one copy of each tensor for all processes of the node.

The node's daemon holds them (its *GPU mirror*, table ``[gpu_mirror]``)::

    import tetris.gpu, torch

    model = tetris.gpu.load("model.safetensors", "cuda:0")     # returns when its places are known; bytes may still come
    weight = torch.from_dlpack(model["weight"])                # waits for this tensor alone

The memory stays mapped, and cannot be evicted, as long as the model, one of its tensors or anything that a framework
made of them lives. It is not the framework's: ``torch.cuda.empty_cache`` does not touch it. Nothing may write to it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from tetris import _native
from tetris._agent import agent
from tetris._cuda_numbers import cuda_numbers
from tetris._native import DeviceModel as DeviceModel
from tetris._native import DeviceTensor as DeviceTensor
from tetris._native import Memory
from tetris._native import Prefetch as Prefetch
from tetris._order import content_id, trace_for
from tetris._types import GpuDevice, GpuStatus, GpuUsage
from tetris.errors import GpuUnavailableError as GpuUnavailableError

__all__ = [
    "DeviceModel",
    "DeviceTensor",
    "GpuUnavailableError",
    "Prefetch",
    "devices",
    "keep_prefix",
    "load",
    "load_memories",
    "prefetch",
    "release",
    "status",
    "usage",
]

_registry = _native.DeviceRegistry()


def _after_fork() -> None:
    """A child has a separate connection for each model that it loads."""
    global _registry
    _registry = _native.DeviceRegistry()


os.register_at_fork(after_in_child=_after_fork)


def load(
    path: str | os.PathLike[str],
    device: str | int = "cuda:0",
    *,
    order: Sequence[str] | None = None,
    wait: float | None = None,
    timeout: float | None = None,
    keep: bool = False,
) -> DeviceModel:
    """Map a model in device memory: a safetensors file, or a directory as Hugging Face lays it out.

    The file goes through the node's store first, so that the mirror has its tensors. What is on the device already is
    not copied again. The same tensors on the same device are mapped once in a process, however often they are loaded.
    A thread may still map memory when this returns: waits for a tensor include that.

    Args:
        path: The file or directory.
        device: ``"cuda:1"`` or 1 is the second device that this process sees; ``"cuda"`` one that the mirror chooses,
            where most of the model is already; ``"simulated"`` the host memory of a mirror that runs without a GPU, for
            tests and for trying it out.
        order: Names of tensors in the order of their use. They are copied first, in this order. Unknown names are
            ignored.
        wait: Longest wait, in seconds, for room on the device; 0 by default.
        timeout: Longest wait, in seconds, for an answer of the mirror; 10 by default.
        keep: Keep the model for a later load in this process, until :func:`release`.

    Raises:
        ValueError: `device` is none that there can be, or a time is negative.
        LoadError: The model's files are missing or invalid.
        GpuUnavailableError: There is no mirror, or no room, or the store cannot hold the model. Load it without a
            mirror.
    """
    return _registry.load(agent(), path, _name(device), order=order, wait=wait, timeout=timeout, keep=keep)


def load_memories(
    memories: Sequence[Memory],
    device: str | int = "cuda:0",
    *,
    wait: float | None = None,
    timeout: float | None = None,
    keep: bool = False,
) -> DeviceModel:
    """Map memory of the store in device memory: published bytes, derived tensors, or the objects of a layout.

    What is on the device already, as part of whatever model or layout, is not copied again.

    Args:
        memories: Bytes that are in the store, such as ``agent().publish`` returns. They need not live any longer once
            the model has arrived.
        device: As of :func:`load`.
        wait: As of :func:`load`.
        timeout: As of :func:`load`.
        keep: As of :func:`load`.

    Returns:
        A tensor of bytes for each memory, in this order, named after its object. Those of one object have one address.

    Raises:
        ValueError: `device` is none that there can be, or a time is negative.
        GpuUnavailableError: There is no mirror, or no room, or some memory is private.
    """
    return _registry.load_memories(agent(), memories, _name(device), wait=wait, timeout=timeout, keep=keep)


def keep_prefix(
    path: str | os.PathLike[str],
    device: str | int = "cuda:0",
    *,
    ttft: float | None = None,
    most_bytes: int | None = None,
    order: Sequence[str] | None = None,
    wait: float | None = None,
) -> tuple[int, int]:
    """Have the mirror keep the first part of a model on a device, also while no process has it.

    The part is so long that the rest arrives during the first inference: the model's bytes less `ttft` times the
    measured bandwidth (TIDAL, equation 1), in the recorded order of use. It stays until it is ended with
    ``most_bytes=0``, the mirror restarts, or others need its room. The node's budget is ``gpu_mirror.template_bytes``.

    Args:
        path: The file or directory. The model is loaded, unless another process has it.
        device: As of :func:`load`.
        ttft: Measured time in seconds to the first token with the whole model on the device. Later measurements adapt
            the part. By default the node's ``gpu_mirror.template_ttft_ms``.
        most_bytes: Limit of the part in bytes; 0 ends it.
        order: Names of tensors in the order of their use; by default that of the model's order file.
        wait: As of :func:`load`.

    Returns:
        The bytes of the part, and the measured bytes per second of the device; 0 if unknown.

    Raises:
        ValueError: `device` is none that there can be, or a time is negative.
        LoadError: The model's files are missing or invalid.
        GpuUnavailableError: There is no mirror, or no room, or the mirror does not know this request.
    """
    if order is None:
        trace = trace_for(path, lambda: content_id(path))
        order = None if trace is None else trace.order()
    # Not the process's own: an older mirror hangs up.
    registry = _native.DeviceRegistry()
    model = registry.load(agent(), path, _name(device), order=order, wait=wait)
    model.wait()
    return model.keep_prefix(0.0 if ttft is None else ttft, (1 << 64) - 1 if most_bytes is None else most_bytes)


def devices() -> list[GpuDevice]:
    """Return the mirror's devices.

    CUDA is not initialized for it, so that children of a fork can still use CUDA: a short-lived process is asked for
    the devices' numbers.

    Raises:
        GpuUnavailableError: There is no mirror.
    """
    found = _registry.devices(agent())
    if any(device["device"] is None for device in found):
        numbers = cuda_numbers()
        for device in found:
            number = numbers.get(device["uuid"])
            if device["device"] is None and number is not None:
                device["device"] = f"cuda:{number}"
    return found


def prefetch(
    path: str | os.PathLike[str],
    device: str | int = 0,
    *,
    order: Sequence[str] | None = None,
    wait: float | None = None,
    timeout: float | None = None,
) -> Prefetch:
    """Have the mirror bring a model to a device, and hold it there, without mapping it here.

    It returns at once; a thread does the rest, through the node's store as :func:`load`. The mirror does not evict the
    model until the result is closed or gone. :func:`load`, in any process of the store, then copies nothing.

    Args:
        path: A safetensors file, or a directory as Hugging Face lays it out.
        device: 1 or ``"cuda:1"`` is the second GPU that this process sees; with a simulated mirror, 1 or
            ``"simulated:1"`` its second device; ``"GPU-..."`` the device of this UUID. With ``"cuda"`` or
            ``"simulated"`` the mirror chooses, where most of the model is already.
        order: As of :func:`load`.
        wait: Longest wait, in seconds, for room on the device; by default as long as the mirror lets it: 5 minutes.
        timeout: Longest wait, in seconds, for an answer of the mirror; 10 by default.

    Raises:
        ValueError: `device` is none that there can be, or a time is negative.
        GpuUnavailableError: There is no mirror, or it does not have the device. Later failures, such as want of room
            or an invalid file, are the result's.
    """
    return _registry.prefetch(agent(), path, _number(device), order=order, wait=wait, timeout=timeout)


def status(device: str | int = 0) -> GpuStatus:
    """Return the state of a device: its memory, its links, what is on its way, and this process's models.

    The mirror reports no model that this process has not named by :func:`load`, :func:`load_memories` or
    :func:`prefetch`; the latest 1,024 of these are listed, with those that are no longer on the device. Bytes of all
    other models that are on their way are one number, of model `None`.

    Args:
        device: As of :func:`prefetch`; ``"cuda"`` and ``"simulated"`` are the mirror's first device.

    Raises:
        ValueError: `device` is none that there can be.
        GpuUnavailableError: There is no mirror, or it does not have the device, or has lost it.
    """
    return _registry.describe(agent(), _number(device))


def usage() -> GpuUsage:
    """Return what the mirror holds on all devices, for all processes of the node.

    Raises:
        GpuUnavailableError: There is no mirror.
    """
    return _registry.usage(agent())


def release() -> int:
    """Give models back that were loaded with ``keep=True`` and that are no longer used.

    Returns:
        The bytes of device memory that are no longer mapped here. The mirror may keep the model until it needs room.
    """
    return _registry.release()


def _number(device: str | int) -> int | None:
    """The number of a device at the mirror; `None` for one that the mirror chooses."""
    name = _name(device)
    if name in ("cuda", "simulated"):
        return None
    kind, _, rest = name.partition(":")
    found = devices()
    simulated = all(one["device"] == "simulated" for one in found)
    for one in found:
        # A number alone is that of the mirror's kind of device.
        is_number = simulated and (kind == "simulated" or not isinstance(device, str)) and str(one["number"]) == rest
        if is_number or one["device"] == name or name.removeprefix("GPU-").lower() == one["uuid"]:
            return one["number"]
    if not (kind in ("cuda", "simulated") and rest.isascii() and rest.isdigit()) and not name.startswith("GPU-"):
        raise ValueError(
            f'expected a number, "cuda:N", "simulated:N", "cuda", "simulated" or "GPU-" and a UUID, found {device!r}'
        )
    known = ", ".join(one["device"] or "GPU-" + one["uuid"] for one in found)
    raise GpuUnavailableError(f"expected device {name} at the mirror, found {known}; tetris.gpu.devices() lists them")


def _name(device: str | int) -> str:
    """The device as the native half names it."""
    if isinstance(device, int) and not isinstance(device, bool):
        return f"cuda:{device}"
    if not isinstance(device, str):
        raise TypeError(f"device must be a string or a number, found {device!r}")
    return device
