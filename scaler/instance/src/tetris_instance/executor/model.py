"""A model of an executor: its engine stays, its weights come and go."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path
from typing import Any

from tetris_instance.engines import Engine
from tetris_instance.errors import RequestError
from tetris_instance.executor.device import Device, Document, Lease
from tetris_instance.executor.weights import Weights
from tetris_instance.queue import RETRY_AFTER_S
from tetris_instance.tensors import Tensors


class ServedModel:
    """A model. All methods are thread-safe.

    Args:
        name: Name in the protocol.
        folder: Its folder.
        engine: Its engine, without weights.
        weights: The weights of the engine's module.
        parts: Identity and size of each different tensor in the files.
        device: Device for the weights.
        load_timeout_s: Longest wait for them, in seconds.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        engine: Engine,
        weights: Weights,
        parts: dict[str, int],
        device: Device,
        load_timeout_s: float,
    ) -> None:
        self.name = name
        self.engine = engine
        self._folder = folder
        self._weights = weights
        self._parts = parts
        self._device = device
        self._load_timeout_s = load_timeout_s
        self._content = hashlib.sha256("".join(sorted(parts)).encode()).hexdigest()
        #: Held while weights come and go.
        self._lock = threading.Lock()
        #: Held for a moment only.
        self._counting = threading.Lock()
        self._lease: Lease | None = None
        #: Tensors in device memory, while the engine has them.
        self._mapped: Any = None
        self._uses = 0
        #: True from an order to load, or a request, to an order to unload.
        self._wanted = False

    def load(self) -> None:
        """Ask for residency, if no request has. Does not wait for the bytes.

        Raises:
            RequestError: There is no mirror.
        """
        self._wanted = True
        self.ask()

    def unload(self) -> None:
        """Give residency up, once no request uses the model."""
        self._wanted = False
        self.settle()

    def begin(self) -> None:
        """Keep the model until :meth:`end`. Does not wait."""
        with self._counting:
            self._wanted = True
            self._uses += 1

    def end(self) -> bool:
        """End a use, and return true if :meth:`settle` must follow. Does not wait."""
        with self._counting:
            self._uses -= 1
            return not self._wanted

    def ask(self) -> None:
        """Ask for residency, if no request has.

        Raises:
            RequestError: There is no mirror.
        """
        with self._lock:
            if self._lease is not None and self._lease.state not in ("failed", "closed"):
                return
            self._drop()
            try:
                self._lease = self._device.prefetch(self._folder, self._load_timeout_s)
            except Exception as error:
                raise _unavailable(self.name, error) from error

    def settle(self) -> None:
        """Drop weights that are not used or wanted."""
        with self._lock:
            if not self._wanted and self._uses == 0:
                self._drop()

    def run(self, inputs: Tensors) -> tuple[Tensors, float]:
        """Wait for the weights, and compute.

        Returns:
            The outputs, and the time of the wait in seconds.

        Raises:
            RequestError: The weights do not come.
            Exception: Exception of the engine.
        """
        # The request itself may end before the run: its client may leave.
        with self._counting:
            self._uses += 1
        try:
            begin = time.monotonic()
            self._resident(begin + self._load_timeout_s)
            waited_s = time.monotonic() - begin
            return self.engine.run(inputs), waited_s
        finally:
            if self.end():
                self.settle()

    def state(self) -> str:
        """Return ``"resident"``, ``"loading"`` or ``"absent"``."""
        lease = self._lease
        states = {"resident": "resident", "loading": "loading", "waiting": "loading"}
        return "absent" if lease is None else states.get(lease.state, "absent")

    def document(self, with_parts: bool) -> Document:
        """Return the model as ``GET /v2/gpu`` has it."""
        state = self.state()
        document: Document = {
            "name": self.name,
            "model": self._content,
            "bytes": sum(self._parts.values()),
            "state": state,
            "held": state != "absent",
        }
        if with_parts:
            document["parts"] = [{"id": part, "bytes": length} for part, length in self._parts.items()]
        return document

    def _resident(self, until: float) -> None:
        lease = self._lease
        if lease is None:
            raise _unavailable(self.name, RuntimeError("they were given up"))
        try:
            lease.wait(max(0.0, until - time.monotonic()))
            with self._lock:
                if self._mapped is None:
                    tensors = self._device.map(self._folder)
                    self._weights.take(tensors)
                    self._mapped = tensors
        except Exception as error:
            # The daemon may have ended: the next request asks again.
            raise _unavailable(self.name, error) from error

    def _drop(self) -> None:
        if self._mapped is not None:
            self._weights.drop()
            self._mapped = None
        if self._lease is not None:
            self._lease.close()
            self._lease = None


def _unavailable(name: str, error: Exception) -> RequestError:
    kind = type(error).__name__
    return RequestError(f"the weights of `{name}` do not come to the device: {kind}: {error}", 503, RETRY_AFTER_S)
