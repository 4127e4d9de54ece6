"""The device, and the mirror's memory on it."""

import time
from pathlib import Path
from typing import Any

import torch
from tetris import gpu

from . import models

MIB = 1 << 20
#: Far longer than any transfer takes.
LONG_S = 120.0
#: Longest wait for the mirror to register pages, which it does while nothing is copied.
SETTLE_S = 2.0


class Node:
    """The device of a run.

    Args:
        device: Its name: `cuda:0`, or `simulated`.
        folder: A folder for files.
        part_bytes: Bytes of a file that takes room on the device.
    """

    def __init__(self, device: str, folder: Path, part_bytes: int) -> None:
        self.device = device
        self.folder = folder
        self.torch_device = "cpu" if device.startswith("simulated") else device
        self.on_gpu = self.torch_device != "cpu"
        self.capacity_bytes = int(gpu.status(device)["capacity_bytes"])
        self.part_bytes = part_bytes
        self._parts: list[Path] = []
        self._next = 0

    def describe(self) -> dict[str, Any]:
        """The device and its software."""
        found: dict[str, Any] = {
            "device": self.device,
            "torch": torch.__version__,
            "capacity_bytes": self.capacity_bytes,
        }
        if self.on_gpu:
            found |= {
                "name": torch.cuda.get_device_name(self.torch_device),
                "cuda": torch.version.cuda,
                "driver": _driver(),
            }
        return found

    def sync(self) -> None:
        """Waits for the device."""
        if self.on_gpu:
            torch.cuda.synchronize(self.torch_device)

    def empty_cache(self) -> None:
        """Gives back what torch has allocated and does not use."""
        if self.on_gpu:
            torch.cuda.empty_cache()

    def used_bytes(self) -> int | None:
        """Device memory that anybody has taken, in bytes; `None` for the simulated device."""
        if not self.on_gpu:
            return None
        free, total = torch.cuda.mem_get_info(self.torch_device)
        return total - free

    def settle(self) -> None:
        """Lets the mirror register the pages of what it has copied."""
        time.sleep(SETTLE_S if self.on_gpu else 0.0)

    def parts(self) -> list[Path]:
        """Files that fill the mirror's room on the device, and one more."""
        if not self._parts:
            for number in range(self.capacity_bytes // self.part_bytes + 1):
                path = self.folder / f"part-{number}.safetensors"
                models.write_bytes(path, self.part_bytes, 1000 + number, self.torch_device)
                self._parts.append(path)
            self.empty_cache()
        return self._parts

    def bytes_left(self, model: str) -> int:
        """Bytes of a model that are not on the device.

        Raises:
            RuntimeError: The mirror does not list it.
        """
        for known in gpu.status(self.device)["models"]:
            if known["model"] == model:
                return int(known["bytes_left"])
        raise RuntimeError(f"expected model {model} in the status of {self.device}, found others only")

    def evict(self, model: str, nbytes: int, kept: int = 0) -> None:
        """Gives the room of a model to others, but for the part that the mirror keeps of it.

        Raises:
            RuntimeError: It stays.
        """
        parts = self.parts()
        # What is kept ends with a whole group of the transfer.
        enough = nbytes - kept - (nbytes // 20 if kept else 0)
        for _ in range(2 * len(parts)):
            if self.bytes_left(model) >= enough:
                return
            path = parts[self._next % len(parts)]
            self._next += 1
            with gpu.prefetch(path, self.device, wait=LONG_S) as held:
                held.wait(LONG_S)
        left = self.bytes_left(model)
        if left < enough:
            raise RuntimeError(f"expected {enough} bytes of the model to leave {self.device}, found {left}")

    def peak(self, nbytes: int, rounds: int) -> float | None:
        """The best median rate of copies from pinned memory, in bytes per second; `None` for the simulated device."""
        if not self.on_gpu:
            return None
        host = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        target = torch.empty(nbytes, dtype=torch.uint8, device=self.torch_device)
        times = []
        for _ in range(rounds + 1):
            self.sync()
            begun = time.perf_counter()
            target.copy_(host, non_blocking=True)
            self.sync()
            times.append(time.perf_counter() - begun)
        return nbytes / sorted(times[1:])[rounds // 2]


def _driver() -> str | None:
    try:
        text = Path("/sys/module/nvidia/version").read_text()
    except OSError:
        return None
    return text.strip()
