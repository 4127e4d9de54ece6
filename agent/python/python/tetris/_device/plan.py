"""Files that transformers is about to take to a device, so that they come from the GPU mirror.

transformers opens files for the CPU and moves each tensor. While it loads a model whose weights all go to one device
of the mirror's, as they are in the files, :func:`planned` has its files opened for the mirror too, and what it
allocates on the device in advance, the size of the model, is left out.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from tetris import _native
from tetris._agent import agent
from tetris._device.file import MirroredFile
from tetris._device.mirror import is_adapter
from tetris._device.names import mirror_device
from tetris._log import logger
from tetris._torch_tensor import DTYPES
from tetris.errors import LoadError

_plan: ContextVar[dict[str, MirroredFile] | None] = ContextVar("tetris_device_plan", default=None)


def file_of(filename: Any) -> MirroredFile | None:
    """Return how a file that is about to be opened comes to its device, if that is planned."""
    plan = _plan.get()
    return plan.get(os.path.realpath(filename)) if plan and isinstance(filename, (str, os.PathLike)) else None


def is_planned() -> bool:
    """Returns true if a model that is being loaded comes from the mirror."""
    return bool(_plan.get())


@contextlib.contextmanager
def planned(files: Sequence[str] | None, load_config: Any) -> Iterator[None]:
    """While this is entered, files of a model are opened for the mirror, where that spares copies on the device."""
    plan: dict[str, MirroredFile] = {}
    try:
        plan = _plan_of(files or (), load_config)
    except Exception as error:
        # What transformers hands over may change. It loads without a plan.
        logger.warning("models of this version of transformers are copied to devices: %r", error)
    token = _plan.set(plan)
    try:
        yield
    finally:
        _plan.reset(token)


def _plan_of(files: Sequence[str], load_config: Any) -> dict[str, MirroredFile]:
    device = _only_device(load_config.device_map)
    quantizer = load_config.hf_quantizer
    # With a mesh of devices, each gets a part of each tensor.
    if (
        device is None
        or load_config.device_mesh is not None
        or (quantizer is not None and not quantizer.pre_quantized)
        or agent().store is None
    ):
        return {}
    plan = {}
    for path in files:
        if not path.endswith(".safetensors") or is_adapter(path):
            return {}
        try:
            file = agent().open_file(path)
        except (LoadError, ValueError):
            return {}
        if not _is_kept(file, load_config):
            logger.debug("%s does not come from the GPU mirror: most of it is cast or merged", path)
            return {}
        mirrored = MirroredFile(device, None, implied=False)
        if mirrored.load(path, file) is None:
            return {}
        plan[os.path.realpath(path)] = mirrored
    return plan


def _only_device(device_map: Any) -> str | None:
    """The device of the mirror's where the whole model goes, if there is one."""
    devices = {mirror_device(device) for device in (device_map or {}).values()}
    return devices.pop() if len(devices) == 1 else None


def _is_kept(file: _native.File, load_config: Any) -> bool:
    """Returns true if most bytes of a file get to the model as they are."""
    # What makes other tensors of those whose names match.
    converters = [mapping for mapping in load_config.weight_mapping or () if getattr(mapping, "operations", None)]
    kept = everything = 0
    for name, (dtype, shape) in file.tensors().items():
        known = DTYPES.get(dtype)
        if known is None:
            continue
        nbytes = known.itemsize
        for size in shape:
            nbytes *= size
        everything += nbytes
        # A quantized model has several types.
        as_it_is = (
            load_config.dtype in (None, known) or load_config.hf_quantizer is not None or not known.is_floating_point
        )
        if as_it_is and not any(converter.compiled_sources.search(name) for converter in converters):
            kept += nbytes
    return kept * 2 > everything
