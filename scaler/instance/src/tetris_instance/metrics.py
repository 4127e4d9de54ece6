"""Metrics for Prometheus, all named ``tetris_instance_*``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

#: Histogram bounds in seconds, from a small idle model to a large one under load.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class _Model(Protocol):
    def state(self) -> str:
        """Return ``"resident"``, ``"loading"`` or ``"absent"``."""


class Metrics:
    """Metrics of a server."""

    def __init__(self) -> None:
        # Creation times double the output, and add nothing to the process's own metrics.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        registry = self._registry
        #: By status code; 499 if the client disconnected before the answer.
        self.requests = Counter(
            "tetris_instance_requests", "Inference requests completed, by status code.", ["code"], registry=registry
        )
        self.rows = Counter("tetris_instance_rows", "Rows computed.", registry=registry)
        self.latency = Histogram(
            "tetris_instance_request_seconds",
            "Time from the head of an inference request to its answer, for status 200.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.queue_wait = Histogram(
            "tetris_instance_queue_seconds",
            "Time from a row's arrival to its batch.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.compute = Histogram(
            "tetris_instance_compute_seconds", "Time of a run of the model.", buckets=_SECONDS, registry=registry
        )
        self.batch_rows = Histogram(
            "tetris_instance_batch_rows", "Number of rows of a run of the model.", buckets=_ROWS, registry=registry
        )
        self.weights_wait = Histogram(
            "tetris_instance_weights_seconds",
            "Time for which a request in its turn waited for its weights on the device. Executors only.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._models = Gauge(
            "tetris_instance_models",
            "Models of an executor, by the place of their weights.",
            ["state"],
            registry=registry,
        )
        self.in_flight = Gauge("tetris_instance_requests_in_flight", "Requests not answered yet.", registry=registry)
        self._ready = Gauge("tetris_instance_ready", "1 if the model is loaded and warm, else 0.", registry=registry)
        self._queue_rows = Gauge("tetris_instance_queue_rows", "Number of rows in the queue.", registry=registry)
        self._model_bytes = Gauge(
            "tetris_instance_model_bytes",
            "Size of the model's tensors in the store (shared) and in memory of this process (private).",
            ["memory"],
            registry=registry,
        )
        self._settings = Gauge("tetris_instance_setting", "Settings in force.", ["name"], registry=registry)
        ProcessCollector(registry=registry)

    def watch_ready(self, ready: Callable[[], bool]) -> None:
        """Read readiness from `ready` at each scrape."""
        self._ready.set_function(lambda: float(ready()))

    def watch_queue(self, rows: Callable[[], float]) -> None:
        """Read the length of the queue from `rows` at each scrape."""
        self._queue_rows.set_function(rows)

    def watch_models(self, models: Collection[_Model]) -> None:
        """Count models by state at each scrape."""

        def count(state: str) -> Callable[[], float]:
            return lambda: float(sum(model.state() == state for model in models))

        for state in ("resident", "loading", "absent"):
            self._models.labels(state).set_function(count(state))

    def set_model_bytes(self, shared: int, private: int) -> None:
        """Set the sizes of the tensors."""
        self._model_bytes.labels("shared").set(shared)
        self._model_bytes.labels("private").set(private)

    def set_settings(self, **settings: float) -> None:
        """Set b, p and other settings."""
        for name, value in settings.items():
            self._settings.labels(name).set(value)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
