"""A model of Triton's Python backend, which runs each instance in a separate process.

TETRIS_PATCH=1 MODEL=classifier.safetensors tritonserver --model-repository triton_models

These processes are Python interpreters that ignore PYTHONPATH: the package has to be installed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy

sys.path.append(str(Path(__file__).parents[3]))
import plain
import triton_python_backend_utils as triton


class TritonPythonModel:
    """The classifier."""

    def initialize(self, arguments: dict[str, str]) -> None:
        """Load the model."""
        self._model = plain.load()

    def execute(self, requests: list[Any]) -> list[Any]:
        """Return the scores, and the process that computed them."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        features = triton.get_input_tensor_by_name(request, "features").as_numpy()
        scores = numpy.array(plain.scores(self._model, features.tolist()), numpy.float32)
        outputs = {"scores": scores, "pid": numpy.array([os.getpid()], numpy.int64)}
        return triton.InferenceResponse([triton.Tensor(name, array) for name, array in outputs.items()])
