"""Construction of the engine from the options."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from tetris_instance.cpus import threads_per_worker
from tetris_instance.engines import Engine
from tetris_instance.engines.encoder import task_of
from tetris_instance.errors import ConfigurationError
from tetris_instance.options import Options


def load(options: Options) -> Engine:
    """Load the model.

    Raises:
        ConfigurationError: It cannot be loaded.
    """
    path = options.model_path
    engine = options.engine if options.engine != "auto" else _engine_for(path)
    task = options.task or task_of(path)
    threads = threads_per_worker(options.cpus, options.concurrency)
    if engine == "torch":
        if not (path / "config.json").is_file():
            raise ConfigurationError(f"--model-path is {path}; the engine torch expects a folder with config.json")
        from tetris_instance.engines.torch_encoder import TorchEncoder

        return TorchEncoder(path, task, threads)
    if _has_safetensors(path) and (options.engine == "auto" or not any(path.glob("*.onnx"))):
        from tetris_instance.engines.onnx_encoder import OnnxEncoder

        return OnnxEncoder(path, task, options.onnx_weights, threads, options.concurrency)
    from tetris_instance.engines.onnx_graph import OnnxGraph

    return OnnxGraph(_onnx_file(path), options.onnx_weights, threads, options.concurrency, options.dimensions)


def _engine_for(path: Path) -> str:
    if not path.exists():
        raise ConfigurationError(f"--model-path is {path}, which does not exist")
    if not _has_safetensors(path):
        return "onnxruntime"
    from tetris_instance.engines.onnx_encoder import serves

    # ONNX Runtime takes a tenth of PyTorch's memory, and starts in a tenth of its time.
    return "onnxruntime" if find_spec("onnxruntime") and serves(path) else "torch"


def _has_safetensors(path: Path) -> bool:
    return (path / "config.json").is_file() and any(path.glob("*.safetensors"))


def _onnx_file(path: Path) -> Path:
    """Return the file itself, or the only .onnx file of a folder."""
    if path.is_file():
        return path
    found = sorted(path.glob("*.onnx"))
    if len(found) != 1:
        raise ConfigurationError(
            f"--model-path is {path}, with {len(found)} .onnx files; expected such a file, a folder with one, "
            "or a folder with config.json and safetensors"
        )
    return found[0]
