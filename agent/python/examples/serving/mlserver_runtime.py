"""A runtime of MLServer, of which each parallel worker loads every model.

TETRIS_PATCH=1 MODEL=classifier.safetensors PYTHONPATH=. MLSERVER_PARALLEL_WORKERS=4 mlserver start mlserver_classifier
"""

from __future__ import annotations

import os

import numpy
import plain
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Classifier(MLModel):
    """The classifier."""

    async def load(self) -> bool:
        """Load the model."""
        self._model = plain.load()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Return the scores, and the process that computed them."""
        features = NumpyCodec.decode_input(payload.inputs[0])
        scores = numpy.array(plain.scores(self._model, features.flatten().tolist()))
        outputs = [
            NumpyCodec.encode_output("scores", scores),
            NumpyCodec.encode_output("pid", numpy.array([os.getpid()])),
        ]
        return InferenceResponse(model_name=self.name, outputs=outputs)
