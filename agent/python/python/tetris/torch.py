"""``safetensors.torch`` through the store: the same functions, results and errors.

::

    from tetris.torch import load_file

    weights = load_file("model.safetensors")
    model.load_state_dict(weights, assign=True)    # without assign=True, torch copies the weights

Tensors are views of shared memory, mapped copy-on-write by default: code that works in place goes on to work, on pages
of its own. The memory lives as long as any tensor, view or storage over it, in any thread or forked process.
"""

from __future__ import annotations

import os

import safetensors.torch as _safetensors
import torch
from safetensors.torch import load, save, save_file, save_model

from tetris._agent import Mode, agent, log_load
from tetris._arguments import may_be_file, may_be_left, require_mode
from tetris._device.load import load_mirrored, load_model_mirrored, require_names
from tetris._device.mirror import DeviceLoads, device_loads
from tetris._device.module import place, private_, release, wait
from tetris._device.names import mirror_device, torch_device
from tetris._device.slots import Slots
from tetris._device.tensor import Private, is_mirrored, require_private
from tetris._kernels_record import KernelRecording, record_kernels
from tetris._order import Order
from tetris._patch import completed
from tetris._safe_open import load_original, safe_open
from tetris._share import ShareReport, share_loaded, share_module_, share_state_dict
from tetris._torch_derived import derived
from tetris._torch_layout import Layout, layout
from tetris._torch_tensor import ReadOnlyTensor, as_torch
from tetris._trace_record import Initialization, Recording, record_initialization, record_order
from tetris.errors import LoadError

#: Taken before `tetris.patch` replaces it.
_load_file = getattr(_safetensors.load_file, "_tetris_original", _safetensors.load_file)
_load_model = getattr(_safetensors.load_model, "_tetris_original", _safetensors.load_model)

__all__ = [
    "DeviceLoads",
    "Initialization",
    "KernelRecording",
    "Layout",
    "ReadOnlyTensor",
    "Recording",
    "ShareReport",
    "derived",
    "device_loads",
    "is_mirrored",
    "layout",
    "load",
    "load_file",
    "load_model",
    "private_",
    "record_initialization",
    "record_kernels",
    "record_order",
    "release",
    "safe_open",
    "save",
    "save_file",
    "save_model",
    "share_module_",
    "share_state_dict",
    "wait",
]


def load_file(
    filename: str | os.PathLike[str],
    device: str | int | torch.device = "cpu",
    *,
    backend: str = "mmap",
    mode: Mode = "copy_on_write",
    order: Order = None,
    private: Private | None = None,
) -> dict[str, torch.Tensor]:
    """Load a safetensors file, as ``safetensors.torch.load_file`` does, into shared memory.

    On a CUDA device, tensors are in the memory that the node's GPU mirror holds for all processes. Nothing may write
    to it: see `docs/gpu.md`. Without a mirror, or if it has no room, they are copied to the device; the log
    ``tetris`` has one message, and :func:`device_loads` counts it.

    Args:
        filename: The file.
        device: Where the tensors are to be: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, a number, a ``torch.device``; or
            ``"simulated"`` for the host memory of a mirror that runs without a GPU. Moving to others copies.
        backend: ``"mmap"`` or ``"pread"``, without effect: of a known file only samples are read.
        mode: ``"copy_on_write"``: a write copies the page, 4 KiB or 2 MiB, for this process alone; on a device of the
            mirror nothing may be written to. ``"read_only"``: a write raises an error (:class:`ReadOnlyTensor`), on
            devices as well.
        order: In which order tensors come to the device: an order file, or names. By default that of
            :func:`record_order`, if there is one.
        private: ``True``: copies for this process alone, without the mirror. Names, or a function of a name: copies of
            these tensors. By default all of PEFT's ``adapter_model.safetensors``, and the tensors that
            :func:`record_initialization` found to differ. Without effect on the CPU, where a write makes copies.

    Returns:
        The tensors by name, in the order of the file.

    Raises:
        FileNotFoundError: There is no such file.
        safetensors.SafetensorError: The file or an argument is invalid.
    """
    require_mode(mode)
    require_private(private)
    on_device = load_mirrored(filename, device, mode, order, private) if backend in ("mmap", "pread") else None
    if on_device is not None:
        return on_device
    device = torch_device(device)
    loader = agent()
    # A directory is not a file to safetensors either; everything unusual goes its way.
    if device == "cpu" and backend in ("mmap", "pread") and loader.store is not None and may_be_file(filename):
        try:
            # safetensors has no tensors that cannot be written to.
            if mode == "copy_on_write" and may_be_left(filename):
                model = loader.load_unless_new(filename)
            else:
                model = loader.load(filename, mode="copy_on_write")
        except (LoadError, TypeError, ValueError):
            pass  # safetensors reports what is wrong, or knows better
        else:
            if model is None:
                return load_original(filename, backend)
            log_load(filename, model)
            # Not items(): its pairs would bring garbage collection about, which takes as long as half of the load.
            names_and_tensors = zip(model, model.values(), strict=True)
            tensors = {name: as_torch(tensor, mode) for name, tensor in names_and_tensors}
            if all(tensor is not None for tensor in tensors.values()):
                return tensors  # type: ignore[return-value]
    with safe_open(filename, "pt", device, backend=backend, mode=mode, private=True) as opened:
        return opened.get_tensors()


def load_model(
    model: torch.nn.Module,
    filename: str | os.PathLike[str],
    strict: bool = True,
    device: str | int | torch.device = "cpu",
    *,
    backend: str = "mmap",
    overlap: bool = False,
    order: Order = None,
    private: Private | None = None,
) -> tuple[list[str], list[str]]:
    """Load a file into a module, as ``safetensors.torch.load_model`` does, and let the module share its memory.

    safetensors copies into private memory of the module. Here, each parameter and buffer on the CPU that then holds
    what is in the file, in the same element type, gives that memory back and takes the shared one. Parameters
    stay the same objects. What differs, such as a cast parameter, stays as it is: see :func:`share_module_`.

    With another device than ``"cpu"`` the module goes there; it may be on the meta device before. On a CUDA device, its
    parameters and buffers use the memory that the node's GPU mirror holds for all processes, or copies if that cannot
    be.

    Args:
        model: The module, which is changed.
        filename: The file.
        strict: Raise an error if names are missing or unexpected.
        device: Where the module is to be; as of :func:`load_file`.
        backend: As of :func:`load_file`.
        overlap: Return before all weights have come to the device. Each is waited for when it is used first; see
            :func:`wait` for what needs a wait for all before.
        order: In which order tensors come to the device; as of :func:`load_file`.
        private: Of which tensors the module is to have private copies; as of :func:`load_file`.

    Returns:
        The missing and the unexpected names.

    Raises:
        RuntimeError: Names are missing or unexpected, or shapes differ.
        FileNotFoundError: There is no such file.
        safetensors.SafetensorError: The file is invalid.
    """
    require_private(private)
    wait(model)
    if device not in ("cpu", torch.device("cpu")):
        names = load_model_mirrored(model, filename, strict, device, order, private, overlap)
        if names is None:
            loaded = load_file(filename, device, backend=backend, private=True)
            placed = place(model, loaded, torch_device(device))
            names = placed.missing, placed.unexpected
            require_names(model, strict, *names)
        return names
    names = _load_model(model, filename, strict, "cpu", backend=backend)
    if agent().store is not None:
        share_loaded(model, _in_store(filename))
    return names


def _in_store(filename: str | os.PathLike[str]) -> dict[str, torch.Tensor]:
    """Return those tensors of a file that the store holds."""
    try:
        model = agent().load_unless_new(filename)
    except (LoadError, TypeError, ValueError):
        return {}
    tensors = {}
    for name, tensor in [] if model is None else zip(model, model.values(), strict=True):
        if tensor.origin in ("shared", "new") and (found := as_torch(tensor, "copy_on_write")) is not None:
            tensors[name] = found
    return tensors


def _load_model_in_place(
    model: torch.nn.Module,
    filename: str | os.PathLike[str],
    strict: bool = True,
    device: str | int = "cpu",
    *,
    backend: str = "mmap",
) -> tuple[list[str], list[str]]:
    """Replacement of ``safetensors.torch.load_model`` by :func:`tetris.patch`: the module stays where it is."""
    target = mirror_device(device)
    if device == "cpu" or (
        target is not None and all(str(tensor.device) == target for _, tensor in Slots(model).items())
    ):
        return load_model(model, filename, strict, device, backend=backend)
    return _load_model(model, filename, strict, device, backend=backend)


load_file._tetris_original = _load_file  # type: ignore[attr-defined]
load_model._tetris_original = _load_model  # type: ignore[attr-defined]
_load_model_in_place._tetris_original = _load_model  # type: ignore[attr-defined]
completed(__name__)
