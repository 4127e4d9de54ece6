"""Waits for weights on the consumer's own stream: kernels are queued ahead of the bytes that they read."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import torch

from tetris import _native


class StreamWaits:
    """Has streams wait for tensors of a model, each stream once for each tensor.

    The host goes on. A stream also goes on if a tensor will not arrive, so a result counts only after :meth:`check`.
    """

    def __init__(self, model: _native.DeviceModel, streams: Any) -> None:
        """Wait for tensors of `model` on streams.

        Args:
            model: The model.
            streams: Returns the current stream, an object with `cuda_stream`; `None` where only the host can wait, as
                while a graph is captured, which would keep the wait and repeat it.
        """
        self._model = model
        self._current = streams
        self._lock = threading.Lock()
        self._queued: set[tuple[str, int]] = set()

    @classmethod
    def of(cls, model: _native.DeviceModel) -> StreamWaits | None:
        """Return the waits of a model on a GPU; `None` for the simulated device, whose kernels are the host's."""
        if not model.device.startswith("cuda:"):
            return None
        device = torch.device(model.device)

        def current() -> torch.cuda.Stream | None:
            if torch.cuda.is_current_stream_capturing():
                return None
            return torch.cuda.current_stream(device)

        return cls(model, current)

    def wait_for(self, names: Iterable[str]) -> bool:
        """Let the current stream wait for tensors. Return false if the host has to wait for them.

        Raises:
            GpuUnavailableError: They will not arrive.
        """
        stream = self._current()
        if stream is None:
            return False
        waiting = False
        for name in names:
            with self._lock:
                known = (name, stream.cuda_stream) in self._queued
            if known or self._model.wait_on_stream(name, stream):
                waiting = True
                with self._lock:
                    self._queued.add((name, stream.cuda_stream))
        # Without any they have all arrived, which is as if the host had waited.
        return waiting

    def check(self, timeout: float) -> set[str]:
        """Wait on the host until all tensors have arrived for which streams wait; return their names.

        Raises:
            GpuUnavailableError: One will not arrive.
            TimeoutError: They have not all arrived within `timeout` seconds.
        """
        with self._lock:
            queued = set(self._queued)
        if queued:
            self._model.check_streams(timeout)
            with self._lock:
                self._queued -= queued
        return {name for name, _ in queued}
