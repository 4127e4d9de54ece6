"""Names of devices, for torch and for the GPU mirror."""

from __future__ import annotations

from typing import Any

import torch

from tetris._environment import switch

#: The device whose memory is the host's, of a mirror that runs without a GPU.
SIMULATED = "simulated"


def torch_device(device: Any) -> Any:
    """Return a device as torch and safetensors know it: the simulated device's tensors are on the CPU.

    safetensors takes no ``torch.device``. One of CUDA is given by its name, others are left for it to refuse.
    """
    if isinstance(device, torch.device) and device.type == "cuda" and torch.cuda.is_available():
        return str(device)
    return "cpu" if device == SIMULATED else device


def mirror_device(device: Any) -> str | None:
    """Return a device as :mod:`tetris.gpu` names it; `None` if it is none of the mirror's.

    ``"cuda"`` is torch's current device, as everywhere in torch. With ``TETRIS_GPU=0``, or another value that
    switches off, there is none.
    """
    if switch("TETRIS_GPU") == "off":
        return None
    if device == SIMULATED:
        return SIMULATED
    if isinstance(device, int) and not isinstance(device, bool):
        device = f"cuda:{device}"
    try:
        known = torch.device(device)
    except (RuntimeError, TypeError):
        return None
    # Without a driver, torch fails when it copies.
    if known.type != "cuda" or torch.version.cuda is None or not torch.cuda.is_available():
        return None
    return f"cuda:{torch.cuda.current_device() if known.index is None else known.index}"
