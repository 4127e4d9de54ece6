"""State of a server: loading, ready, or stopping."""

from __future__ import annotations

from dataclasses import dataclass

from tetris_instance.engines import Engine
from tetris_instance.errors import RequestError
from tetris_instance.metrics import Metrics
from tetris_instance.queue import RETRY_AFTER_S, BatchQueue, stopping


@dataclass(frozen=True)
class Loaded:
    """A loaded model with its queue."""

    engine: Engine
    queue: BatchQueue


class State:
    """State shared by the threads of a server. One thread writes each attribute, atomically."""

    def __init__(self, metrics: Metrics) -> None:
        self._loaded: Loaded | None = None
        self._stopping = False
        metrics.watch_ready(lambda: self.ready)

    @property
    def ready(self) -> bool:
        """True if the server answers requests."""
        return self._loaded is not None and not self._stopping

    def set_loaded(self, loaded: Loaded) -> None:
        """Set the loaded and warm model."""
        self._loaded = loaded

    def stop(self) -> None:
        """End readiness. Earlier requests are still answered. Takes no lock, so that signal
        handlers may call it.
        """
        self._stopping = True

    def require_loaded(self) -> Loaded:
        """Return the model.

        Raises:
            RequestError: It is not loaded yet.
        """
        if self._loaded is None:
            if self._stopping:
                raise stopping()
            raise RequestError("the model is being loaded", 503, RETRY_AFTER_S)
        return self._loaded
