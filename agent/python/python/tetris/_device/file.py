"""An open file whose tensors come from the GPU mirror."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

import torch

from tetris import _native
from tetris._agent import Mode
from tetris._device.mirror import count_copied, mirror_for, open_mirrored
from tetris._device.names import mirror_device, torch_device
from tetris._device.tensor import as_device_torch
from tetris._order import Order
from tetris.errors import GpuUnavailableError

_files: weakref.WeakSet[MirroredFile] = weakref.WeakSet()


def _after_fork() -> None:
    """Whichever thread of the parent held a lock is not in the child."""
    for file in _files:
        file._lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def mirrored_file(filename: Any, device: Any, order: Order, private: bool | None) -> MirroredFile | None:
    """Return what gives a file's tensors on a device; `None` if they are to be had without the mirror."""
    name = mirror_for(filename, device, private)
    return None if name is None else MirroredFile(name, order)


class MirroredFile:
    """A file on a device of the mirror's. The first tensor that is asked for has the file loaded."""

    def __init__(self, device: str, order: Order, *, implied: bool = True) -> None:
        self._device = device
        self._order = order
        #: Whether tensors are given to who names no device.
        self._implied = implied
        self._model: _native.DeviceModel | None = None
        self._tried = False
        self._lock = threading.Lock()
        _files.add(self)

    def tensor(
        self, filename: Any, file: _native.File, name: str, mode: Mode, device: Any = None
    ) -> torch.Tensor | None:
        """Return a tensor as soon as it is there; `None` if it is to be had without the mirror.

        Args:
            filename: The path of the file.
            file: The file, as it was opened.
            name: The tensor.
            mode: How it may be used.
            device: Where it is wanted, if the caller chose.
        """
        if not (self._implied if device is None else self.is_on(device)):
            return None
        model = self.load(filename, file)
        tensor = None if model is None else model.get(name)
        if tensor is None or (tensor.dtype, list(tensor.shape)) != file.tensors()[name]:
            return None
        try:
            return as_device_torch(tensor, mode)
        except (GpuUnavailableError, TimeoutError) as error:
            count_copied(filename, self._device, error)
            with self._lock:
                self._model = None
            return None

    def is_on(self, device: Any) -> bool:
        """Returns true if the file is on this device, as torch names it."""
        wanted = torch.device(device)
        return wanted == torch.device(torch_device(self._device)) or mirror_device(wanted) == self._device

    def load(self, filename: Any, file: _native.File) -> _native.DeviceModel | None:
        """Return the model on the device, asked for at the first call; `None` if the mirror does not give it."""
        with self._lock:
            if not self._tried:
                self._tried = True
                # The path may name another file by now, and while it is loaded.
                before = _is_same(filename, file)
                model = open_mirrored(filename, self._device, self._order) if before else None
                self._model = model if _is_same(filename, file) else None
            return self._model


def _is_same(filename: Any, file: _native.File) -> bool:
    """Returns true if a path names the file that is open."""
    try:
        named, opened = os.stat(filename), os.fstat(file.fileno())
    except OSError:
        return False
    return (named.st_dev, named.st_ino, named.st_mtime_ns, named.st_size) == (
        opened.st_dev,
        opened.st_ino,
        opened.st_mtime_ns,
        opened.st_size,
    )
