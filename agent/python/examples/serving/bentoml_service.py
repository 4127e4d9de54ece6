"""A service of BentoML with several workers.

TETRIS_PATCH=1 MODEL=classifier.safetensors bentoml serve bentoml_service:Classifier
"""

from __future__ import annotations

import os
from typing import Any

import bentoml
import plain


@bentoml.service(workers=int(os.environ.get("WORKERS", "4")), traffic={"timeout": 300})
class Classifier:
    """The classifier."""

    def __init__(self) -> None:
        self._model = plain.load()

    @bentoml.api
    def classify(self, features: list[float]) -> dict[str, Any]:
        """Return the scores, and the process that computed them."""
        return {"pid": os.getpid(), "scores": plain.scores(self._model, features)}
