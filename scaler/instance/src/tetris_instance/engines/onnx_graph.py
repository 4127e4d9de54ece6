"""Engine for ONNX graphs by ONNX Runtime, with initializers mapped from the store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tetris_instance.engines import ModelBytes
from tetris_instance.engines.onnx_session import Weights, session
from tetris_instance.engines.onnx_signature import signature_of
from tetris_instance.engines.tokens import tokenizer_beside
from tetris_instance.tensors import DATATYPES, Array, Tensors

#: Default of a variable size in the warm-up.
_EXAMPLE_SIZE = 16
#: Maximum number of tokens of a text if the folder does not specify it.
_TOKENS_MAX = 512


class OnnxGraph:
    """One session for all workers.

    Args:
        path: The model, with its external data beside it.
        weights: Sharing mode; see :mod:`tetris.onnxruntime`.
        threads: Number of threads per run.
        workers: Number of concurrent runs.
        dimensions: Variable sizes by name, for the warm-up.

    Raises:
        ConfigurationError: The model cannot be loaded, or its types are not in the protocol.
    """

    platform = "onnx_onnxv1"

    def __init__(self, path: Path, weights: Weights, threads: int, workers: int, dimensions: Mapping[str, int]) -> None:
        self._path = path
        self._session = session(path, weights, threads, workers)
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        self.signature = signature_of(inputs, outputs)
        self._names = [spec.name for spec in self.signature.outputs]
        self._strings = {spec.name for spec in self.signature.inputs if spec.datatype == "BYTES"}
        self._dimensions = {tensor.name: [_size(size, dimensions) for size in tensor.shape] for tensor in inputs}
        names = frozenset(self._dimensions)
        takes_tokens = "input_ids" in names and names <= {"input_ids", "attention_mask", "token_type_ids"}
        self.text = tokenizer_beside(path.parent, names, _TOKENS_MAX) if takes_tokens else None

    @property
    def session_threads(self) -> int:
        """Number of threads in the session's own count: helpers, and one worker."""
        return int(self._session.get_session_options().intra_op_num_threads)

    def memory(self) -> ModelBytes:
        """Return the size of tensors mapped from the store, or if there are none, of the model's
        files.
        """
        sharing = self._session.sharing
        if sharing.weights is None:
            return ModelBytes(0, _bytes_of_files(self._path))
        return ModelBytes(sharing.tensor_bytes + sharing.packed_bytes, 0)

    def enter_worker(self) -> None:
        """Do nothing: helper threads belong to the session."""

    def example(self, rows: int) -> Tensors:
        """Return rows of ones, which are valid as a mask and in every vocabulary."""
        made: Tensors = {}
        for spec in self.signature.inputs:
            shape = list(self._dimensions[spec.name])
            if self.signature.batches:
                shape[0] = rows
            if spec.datatype == "BYTES":
                made[spec.name] = np.full(shape, b"1", dtype=np.object_)
            else:
                made[spec.name] = np.ones(shape, dtype=DATATYPES[spec.datatype])
        return made

    def check(self, inputs: Tensors) -> None:
        """Do nothing: only the graph knows its valid values."""

    def run(self, inputs: Tensors) -> Tensors:
        """Compute the outputs."""
        fed = {name: _decoded(array) if name in self._strings else array for name, array in inputs.items()}
        found = self._session.run(self._names, fed)
        return {
            name: _encoded(array) if array.dtype == np.object_ else array
            for name, array in zip(self._names, found, strict=True)
        }


def _bytes_of_files(path: Path) -> int:
    """Return the size of a model with its external data."""
    import onnx

    graph = onnx.load_model(path, load_external_data=False).graph
    external = {
        entry.value for tensor in graph.initializer for entry in tensor.external_data if entry.key == "location"
    }
    return sum(one.stat().st_size for one in [path, *(path.parent / name for name in external)])


def _size(size: object, dimensions: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    return dimensions.get(str(size), _EXAMPLE_SIZE)


def _decoded(array: Array) -> Array:
    """Decode bytes, as ONNX Runtime takes strings."""
    return np.array([value.decode() for value in array.ravel()], dtype=np.object_).reshape(array.shape)


def _encoded(array: Array) -> Array:
    made = np.empty(array.size, dtype=np.object_)
    made[:] = [value if isinstance(value, bytes) else str(value).encode() for value in array.ravel()]
    return made.reshape(array.shape)
