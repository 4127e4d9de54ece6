"""``safe_open``: the interface of safetensors, over the store.

Whatever this module cannot do exactly as safetensors does, such as other frameworks or an invalid file, it leaves to
safetensors itself. So errors are its errors, and a file that only it can read is read.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import safetensors

from tetris import _native
from tetris._agent import Mode, agent, log_load
from tetris._arguments import may_be_left, require_mode
from tetris._log import logger
from tetris._order import Order
from tetris._patch import completed
from tetris.errors import LoadError

if TYPE_CHECKING:
    import torch

    from tetris._device.file import MirroredFile

#: Taken before `tetris.patch` replaces it.
_Original = getattr(safetensors.safe_open, "_tetris_original", safetensors.safe_open)

_TORCH = ("pt", "torch", "pytorch")
_NUMPY = ("np", "numpy")


def load_original(filename: str | os.PathLike[str], backend: str) -> dict[str, torch.Tensor]:
    """Load a file that is too new to be shared, with safetensors itself."""
    logger.debug("%s is left to safetensors: it is too new to be shared", filename)
    # "mmap" is what versions without the argument do.
    keywords = {} if backend == "mmap" else {"backend": backend}
    with _Original(filename, "pt", "cpu", **keywords) as opened:
        return opened.get_tensors()


_handles: weakref.WeakSet[safe_open] = weakref.WeakSet()


def _after_fork() -> None:
    """Whichever thread of the parent held a lock is not in the child."""
    for handle in _handles:
        handle._lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


class safe_open:
    """Open a safetensors file, and load its tensors through the store when they are asked for.

    The same arguments, methods, results and errors as ``safetensors.safe_open``; it can be iterated over as well.
    Frameworks are ``"pt"`` and ``"numpy"`` with their other names; for the rest, and where there is no store, this is
    ``safetensors.safe_open``.

    Tensors share their memory with every process that has loaded the same bytes. Opening reads the header; the first
    tensor attaches the file, or publishes it if it is new to the node.

    Args:
        filename: The file.
        framework: ``"pt"`` or ``"numpy"``.
        device: Where the tensors are to be. On a CUDA device they are in the memory that the node's GPU mirror holds
            for all processes, where nothing may write to them; moving to others copies.
        backend: ``"mmap"`` or ``"pread"``, without effect: of a known file only samples are read.
        mode: ``"copy_on_write"``, or ``"read_only"`` for tensors that cannot be written to
            (:class:`tetris.torch.ReadOnlyTensor`; read-only arrays for NumPy).
        order: In which order tensors come to a device; as of :func:`tetris.torch.load_file`.
        private: Make copies on the device, without the node's GPU mirror. By default only of adapters, as of
            :func:`tetris.torch.load_file`.

    Raises:
        FileNotFoundError: There is no such file.
        safetensors.SafetensorError: The file or an argument is invalid.
    """

    _tetris_original = _Original
    #: Whether files are loaded here even if there is no store to share them.
    _without_store = False
    #: The element types that NumPy may have; all that it can if `None`.
    _numpy_types: frozenset[str] | None = frozenset(
        # Those of safetensors itself.
        ("F64", "F32", "F16", "I64", "U64", "I32", "U32", "I16", "U16", "I8", "U8", "BOOL", "C64"),
    )

    def __init__(
        self,
        filename: str | os.PathLike[str],
        framework: str,
        device: str | int | torch.device = "cpu",
        *,
        backend: str = "mmap",
        mode: Mode = "copy_on_write",
        order: Order = None,
        private: bool | None = None,
    ) -> None:
        require_mode(mode)
        self._device: MirroredFile | None = None
        if framework in _TORCH and device != "cpu":
            from tetris._device.file import mirrored_file
            from tetris._device.names import torch_device

            self._device = mirrored_file(filename, device, order, private)
            device = torch_device(device)
        self._arguments = (framework, device, backend)
        self._mode = mode
        self._closed = False
        self._file: _native.File | None = None
        self._loaded: _native.Model | None = None
        self._original: Any = None
        # transformers takes tensors in several threads.
        self._lock = threading.RLock()
        _handles.add(self)
        self._filename = filename
        if framework in _TORCH and not private and (planned := sys.modules.get("tetris._device.plan")) is not None:
            self._device = planned.file_of(filename) or self._device
        self._file = self._open()
        if self._file is None:
            self._original = self._open_original(filename)
            return
        self._tensors = self._file.tensors()
        self._torch = framework in _TORCH
        # Theirs are copies then: a write to one tensor does not show in what is taken later.
        self._independent = mode == "copy_on_write" and not (self._torch and backend == "mmap")
        self._given: set[str] = set()
        if device != "cpu":
            # It knows which devices there are.
            self._open_original(filename)

    def _open(self) -> _native.File | None:
        framework, _, backend = self._arguments
        if framework not in (*_TORCH, *_NUMPY) or backend not in ("mmap", "pread"):
            return None
        if not isinstance(self._filename, (str, os.PathLike)):
            return None
        opener = agent()
        if opener.store is None and not self._without_store:
            return None
        try:
            file = opener.open_file(self._filename)
        except (LoadError, TypeError, ValueError):
            return None
        # What differs from safetensors, such as tensors that cannot be written to, is to be had here alone.
        as_theirs = self._device is None and self._mode == "copy_on_write" and not self._without_store
        if as_theirs and may_be_left(self._filename):
            reason = file.leave()
            if reason is not None:
                logger.debug("%s is left to safetensors: %s", self._filename, reason)
                return None
        return file

    def _open_original(self, filename: str | os.PathLike[str]) -> Any:
        framework, device, backend = self._arguments
        # "mmap" is what versions without the argument do.
        keywords = {} if backend == "mmap" else {"backend": backend}
        return _Original(filename, framework, device, **keywords)

    def _fallback(self) -> Any:
        """Return safetensors' own handle on the very file that is open here."""
        with self._lock:
            if self._original is None:
                assert self._file is not None
                # Whatever the path names by now.
                self._original = self._open_original(f"/proc/self/fd/{self._file.fileno()}")
            return self._original

    def _require_open(self) -> None:
        if self._closed:
            raise safetensors.SafetensorError("File is closed")

    def _model(self) -> _native.Model:
        with self._lock:
            if self._loaded is None:
                assert self._file is not None
                protected = not self._torch and self._mode == "read_only"
                self._loaded = self._file.load(mode="read_only" if protected else "copy_on_write")
                log_load(self._filename, self._loaded)
            return self._loaded

    def _give(self, name: str) -> _native.Tensor | None:
        """Return a tensor, over private memory where safetensors would copy."""
        with self._lock:
            if self._independent:
                if name in self._given:
                    self._loaded = None
                    self._given.clear()
                self._given.add(name)
            return self._model().get(name)

    def __enter__(self) -> Self:
        self._require_open()
        if self._file is None:
            self._original = self._original.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closed = True
        if self._original is not None:
            self._original.__exit__(kind, error, traceback)
            if self._file is not None:
                # Slices that were taken open it again.
                self._original = None
        # They keep what they need.
        self._loaded = None
        self._device = None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the tensors, in the order of the file."""
        return iter(self.offset_keys())

    def __contains__(self, name: object) -> bool:
        return name in self.offset_keys() if self._file is None else name in self._tensors

    def keys(self) -> list[str]:
        """Return the names of the tensors, sorted."""
        if self._file is None:
            return self._original.keys()
        self._require_open()
        return sorted(self._tensors)

    def offset_keys(self) -> list[str]:
        """Return the names of the tensors, in the order of the file."""
        if self._file is None:
            return self._original.offset_keys()
        self._require_open()
        return list(self._tensors)

    def metadata(self) -> dict[str, str] | None:
        """Return the strings under ``__metadata__`` in the header; ``None`` if it has none."""
        if self._file is None:
            return self._original.metadata()
        self._require_open()
        found = self._file.metadata()
        # Absent or empty: safetensors knows.
        return self._fallback().metadata() if found is None else found

    def get_tensor(self, name: str) -> Any:
        """Return a tensor: a ``torch.Tensor`` or ``numpy.ndarray`` over shared memory.

        Raises:
            safetensors.SafetensorError: There is no tensor of this name, or its element type is unknown.
        """
        if self._file is None:
            return self._original.get_tensor(name)
        self._require_open()
        self._require_name(name)
        return self._convert(name)

    def get_tensors(self) -> dict[str, Any]:
        """Return all tensors by name."""
        if self._file is None:
            return self._original.get_tensors()
        self._require_open()
        return {name: self._convert(name) for name in self._tensors}

    def get_slice(self, name: str) -> Any:
        """Return a handle on a tensor that gives parts of it: ``f.get_slice("weight")[:, :8]``.

        Raises:
            safetensors.SafetensorError: There is no tensor of this name.
        """
        if self._file is None:
            return self._original.get_slice(name)
        self._require_open()
        self._require_name(name)
        return Slice(self, name)

    def _require_name(self, name: str) -> None:
        if not isinstance(name, str):
            self._fallback().get_tensor(name)
        if name not in self._tensors:
            raise safetensors.SafetensorError(f"File does not contain tensor {name}")

    def _has_numpy(self, dtype: str) -> bool:
        return self._numpy_types is None or dtype in self._numpy_types

    def _on_device(self, name: str, device: Any = None) -> Any:
        """Return a tensor in the GPU mirror's memory; `None` if it is to be had without the mirror.

        Args:
            name: The tensor.
            device: Where it is wanted, if not where the file was opened for.
        """
        mirrored = self._device
        if mirrored is None or self._file is None:
            return None
        return mirrored.tensor(self._filename, self._file, name, self._mode, device)

    def _convert(self, name: str) -> Any:
        on_device = self._on_device(name)
        if on_device is not None:
            return on_device
        tensor = self._give(name)
        if tensor is None:
            # Changed in place since it was opened.
            return self._fallback().get_tensor(name)
        found: Any
        if self._torch:
            from tetris._torch_tensor import as_torch

            found = as_torch(tensor, self._mode)
            device = self._arguments[1]
            if found is not None and device != "cpu":
                found = found.to(device)
        else:
            from tetris._numpy_array import as_numpy

            found = as_numpy(tensor) if self._has_numpy(tensor.dtype) else None
        return self._fallback().get_tensor(name) if found is None else found


class Slice:
    """A tensor of which parts can be taken; see :meth:`safe_open.get_slice`."""

    def __init__(self, opened: safe_open, name: str) -> None:
        self._opened = opened
        self._name = name
        self._dtype, self._shape = opened._tensors[name]
        self._whole: Any = None
        self._own: Any = None

    def get_shape(self) -> list[int]:
        """Return the shape, in elements."""
        return list(self._shape)

    def get_dtype(self) -> str:
        """Return the element type as safetensors spells it, such as ``"BF16"``."""
        return self._dtype

    def on_device(self, device: Any) -> Any:
        """Return the tensor in the GPU mirror's memory, if the file is on this device; `None` if not."""
        return self._opened._on_device(self._name, device)

    def __getitem__(self, index: Any) -> Any:
        """Return a part of the tensor: a view of shared memory wherever the framework has views."""
        opened = self._opened
        if not self._shares(index) or (opened._independent and self._name in opened._given):
            if self._own is None:
                self._own = self._opened._fallback().get_slice(self._name)
            return self._own[index]
        if opened._independent:
            return opened._convert(self._name)[index]
        if self._whole is None:
            self._whole = opened._convert(self._name)
        return self._whole[index]

    def _shares(self, index: Any) -> bool:
        if self._opened._torch:
            # Elements of half a byte have another shape in torch.
            return self._dtype != "F4" or 0 in self._shape
        if self._opened._numpy_types is None:
            return True
        if not self._opened._has_numpy(self._dtype):
            return False
        # What safetensors slices as NumPy does; of an array without dimensions, NumPy makes a number.
        index = index if isinstance(index, tuple) else (index,)
        return 0 < len(self._shape) >= len(index) and all(
            isinstance(part, slice)
            and part.step is None
            and (part.start is None or (type(part.start) is int and 0 <= part.start < size))
            and (part.stop is None or (type(part.stop) is int and 0 < part.stop <= size))
            and (part.start or 0) < (size if part.stop is None else part.stop)
            for part, size in zip(index, self._shape, strict=False)
        )


completed(__name__)
