"""A model of KServe's Python server, one process in each pod.

TETRIS_PATCH=1 MODEL=/mnt/models/classifier.safetensors python kserve_model.py --http_port 8080 --enable_grpc false
"""

from __future__ import annotations

import os
from typing import Any

import plain
from kserve import Model, ModelServer


class Classifier(Model):
    """The classifier."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.load()

    def load(self) -> bool:
        """Load the model."""
        self._model = plain.load()
        self.ready = True
        return self.ready

    def predict(self, payload: dict[str, Any], headers: dict[str, str] | None = None, **_: Any) -> dict[str, Any]:
        """Return the scores, and the process that computed them."""
        scores = [plain.scores(self._model, features) for features in payload["instances"]]
        return {"predictions": scores, "pid": os.getpid()}


if __name__ == "__main__":
    ModelServer().start([Classifier("classifier")])
