"""What a server is doing: loading, ready, or stopping."""

from __future__ import annotations

from dataclasses import dataclass

from tetris_instance.engines import Engine
from tetris_instance.errors import RequestError
from tetris_instance.metrics import Metrics
from tetris_instance.queue import RETRY_AFTER_S, BatchQueue, stopping


@dataclass(frozen=True)
class Loaded:
    """A model that answers."""

    engine: Engine
    queue: BatchQueue


class State:
    """Shared by the threads of a server. Each attribute is written by one of them, at once."""

    def __init__(self, metrics: Metrics) -> None:
        self._loaded: Loaded | None = None
        self._stopping = False
        metrics.watch_ready(lambda: self.ready)

    @property
    def ready(self) -> bool:
        """Whether requests are answered."""
        return self._loaded is not None and not self._stopping

    def set_loaded(self, loaded: Loaded) -> None:
        """The model is loaded and warm."""
        self._loaded = loaded

    def stop(self) -> None:
        """Be ready no more. What came before is still answered. Takes no lock, so that signal handlers may call it."""
        self._stopping = True

    def require_loaded(self) -> Loaded:
        """Return the model.

        Raises:
            RequestError: It is not there yet.
        """
        if self._loaded is None:
            if self._stopping:
                raise stopping()
            raise RequestError("the model is being loaded", 503, RETRY_AFTER_S)
        return self._loaded
