"""The executor's device at the node's GPU mirror: the one place that speaks with ``tetris.gpu``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

Document = dict[str, Any]


class Lease(Protocol):
    """A model that the mirror has on the device, or gets there, and holds until it is closed."""

    @property
    def state(self) -> str:
        """``"loading"``, ``"waiting"`` for room, ``"resident"``, ``"failed"`` or ``"closed"``."""

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the model is resident.

        Raises:
            TimeoutError: It is still on its way.
            Exception: It will not be there.
        """

    def close(self) -> None:
        """Let go of the model: the mirror may evict it."""


class Device:
    """A device.

    Args:
        name: Its name at the mirror, such as ``"cuda:0"``.
        node: Name of its node.
    """

    def __init__(self, name: str, node: str) -> None:
        self.name = name
        self.node = node

    @property
    def torch_name(self) -> str:
        """Name of the device in PyTorch: memory of a simulated one is the host's."""
        return "cpu" if self.name.startswith("simulated") else self.name

    def describe(self) -> Document:
        """Return the device as ``GET /v2/gpu`` has it, without its models.

        Raises:
            GpuUnavailableError: There is no mirror.
        """
        import tetris.gpu

        status: Document = dict(tetris.gpu.status(self.name))
        fields = ("uuid", "capacity_bytes", "free_bytes", "bytes_per_second", "switch", "links", "transfers")
        document = {field: status[field] for field in fields}
        # A link that was not measured yet counts as none.
        document["links"] = [link for link in document["links"] if link["bytes_per_second"]]
        return {**document, "device": self.name, "node": self.node}

    def prefetch(self, path: Path, wait_s: float) -> Lease:
        """Ask for a model's residency. Returns at once.

        Raises:
            GpuUnavailableError: There is no mirror.
        """
        import tetris.gpu

        lease: Lease = tetris.gpu.prefetch(path, self.name, wait=wait_s)
        return lease

    def map(self, path: Path) -> Any:
        """Map a resident model, and return its tensors by name.

        Raises:
            GpuUnavailableError: It is not there any more.
        """
        import tetris.gpu

        return tetris.gpu.load(path, self.name)
