"""Sessions of ONNX Runtime, with initializers mapped from the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from tetris_instance.errors import ConfigurationError

#: Sharing modes of a session: see :mod:`tetris.onnxruntime`.
Weights = Literal["prepacked", "unpacked", "private_prepacked", "optimized"]
_EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"


def session(path: Path, weights: Weights, threads: int, workers: int, model: bytes | None = None) -> Any:
    """Return a session for all workers.

    Args:
        path: The model; or with `model` the folder of its external data.
        weights: Sharing mode.
        threads: Number of threads per run.
        workers: Number of concurrent runs.
        model: The model, if it is no file.

    Raises:
        ConfigurationError: ONNX Runtime is missing, or cannot load the model.
    """
    try:
        from tetris.onnxruntime import InferenceSession, SessionOptions
    except ImportError as error:
        raise ConfigurationError(
            f"the engine onnxruntime needs ONNX Runtime ({error}): pip install 'tetris-instance[onnxruntime]'"
        ) from error
    options = SessionOptions()
    # Workers compute themselves, and the session's threads help them. The total is workers times
    # threads, so the session has the threads beyond the workers; its own count includes one worker.
    options.intra_op_num_threads = workers * (threads - 1) + 1
    options.inter_op_num_threads = 1
    # Spinning threads would take the quota of computing ones.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if model is not None:
        options.add_session_config_entry(_EXTERNAL_FOLDER, str(path.absolute()))
    try:
        return InferenceSession(model or path, options, providers=["CPUExecutionProvider"], weights=weights)
    except Exception as error:
        raise ConfigurationError(f"{path}: ONNX Runtime cannot load it: {error}") from error
