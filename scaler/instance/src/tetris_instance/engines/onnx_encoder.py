"""Engine for safetensors folders of text encoders by ONNX Runtime, without PyTorch."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from tetris_instance.engines import ModelBytes, encoder_files, encoder_graph
from tetris_instance.engines.encoder import Encoder, Pooling, Task, pooling_of
from tetris_instance.engines.encoder_files import EncoderFiles, UnsupportedEncoderError
from tetris_instance.engines.encoder_graph import Shape
from tetris_instance.engines.onnx_session import Weights, session
from tetris_instance.engines.tokens import tokenizer_beside
from tetris_instance.errors import ConfigurationError
from tetris_instance.tensors import Tensors


class OnnxEncoder(Encoder):
    """A model folder: ``config.json`` and safetensors files, as a graph that refers to them.

    Args:
        folder: The folder.
        task: Task of the model, which selects the output.
        weights: Sharing mode; see :mod:`tetris.onnxruntime`.
        threads: Number of threads per run.
        workers: Number of concurrent runs.

    Raises:
        ConfigurationError: The model cannot be loaded, or is of no family that
            :mod:`tetris_instance.engines.encoder_graph` knows.
    """

    platform = "onnx_safetensors"

    def __init__(self, folder: Path, task: Task, weights: Weights, threads: int, workers: int) -> None:
        pooling, normalize = pooling_of(folder)
        try:
            files = encoder_files.read(folder)
            shape = encoder_graph.shape_of(files)
            model = _graph(files, shape, task, pooling, normalize)
        except UnsupportedEncoderError as error:
            raise ConfigurationError(f"{error}; other encoders need --engine torch") from error
        width = shape.labels if task == "classification" else shape.width
        super().__init__(task, width, shape.pad, shape.vocabulary, shape.positions)
        self._private = sum(weight.nbytes for weight in files.weights.values())
        self._session = session(files.data, weights, threads, workers, model)
        self.text = tokenizer_beside(folder, frozenset(self.signature.padding), shape.positions)

    def memory(self) -> ModelBytes:
        """Return the size of tensors mapped from the store, or if there are none, of the files' tensors."""
        sharing = self._session.sharing
        if sharing.weights is None:
            return ModelBytes(0, self._private)
        return ModelBytes(sharing.tensor_bytes + sharing.packed_bytes, 0)

    def enter_worker(self) -> None:
        """Do nothing: helper threads belong to the session."""

    def run(self, inputs: Tensors) -> Tensors:
        """Compute the outputs."""
        names = [output.name for output in self.signature.outputs]
        outputs: list[Any] = self._session.run(names, inputs)
        return dict(zip(names, outputs, strict=True))


def serves(folder: Path) -> bool:
    """Return true if this engine knows the family of a folder's model."""
    try:
        encoder_graph.shape_of(encoder_files.read(folder))
    except UnsupportedEncoderError:
        return False
    return True


def _graph(files: EncoderFiles, shape: Shape, task: Task, pooling: Pooling, normalize: bool) -> bytes:
    """Return the graph: made by one process of the node, as the package onnx costs time and memory."""
    import tetris

    def make() -> bytes:
        graph: bytes = encoder_graph.build(files, shape, task, pooling, normalize).SerializeToString(deterministic=True)
        return graph

    # The graph depends on where tensors are, not on their values.
    parts = (sorted(files.config.items()), sorted(files.weights.items()), task, pooling, normalize)
    source = hashlib.sha256(repr(parts).encode()).hexdigest()
    return bytes(memoryview(tetris.agent().derive(source, "instance/encoder", encoder_graph.VERSION, make)))
