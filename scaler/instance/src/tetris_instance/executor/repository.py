"""The models of a repository: a folder with a folder for each."""

from __future__ import annotations

from pathlib import Path

from tetris_instance.engines.encoder import Task
from tetris_instance.engines.torch_encoder import TorchEncoder
from tetris_instance.errors import ConfigurationError, shown
from tetris_instance.executor.device import Device
from tetris_instance.executor.model import ServedModel
from tetris_instance.executor.weights import Weights


def folders(repository: Path) -> dict[str, Path]:
    """Return the folders with models by their names.

    Raises:
        ConfigurationError: There are none, or a name cannot stand in a path.
    """
    found = {
        path.name: path
        for path in sorted(repository.iterdir())
        if (path / "config.json").is_file() and any(path.glob("*.safetensors"))
    }
    if not found:
        raise ConfigurationError(
            f"--model-repository is {repository}, without a folder that has config.json and safetensors"
        )
    for name in found:
        if not all(letter.isascii() and (letter.isalnum() or letter in "-_.") for letter in name):
            raise ConfigurationError(f"{repository}: the name {shown(name)} has more than letters, digits, - _ and .")
    return found


def serve(name: str, folder: Path, task: Task, threads: int, device: Device, load_timeout_s: float) -> ServedModel:
    """Prepare a model of PyTorch: its module without weights, and the list of its parts.

    Raises:
        ConfigurationError: It cannot be served.
    """
    import tetris

    engine = TorchEncoder(folder, task, threads, device.torch_name)
    try:
        files = tetris.agent().load(folder)
    except Exception as error:
        raise ConfigurationError(f"{folder}: {error}") from error
    parts = {tensor.id: tensor.nbytes for tensor in files.values() if tensor.id is not None}
    if not parts:
        raise ConfigurationError(
            f"{folder}: its tensors are not in a store ({tetris.agent().unavailable}); an executor needs the store of "
            "the node's GPU mirror"
        )
    weights = Weights(folder, engine.module, files, device.torch_name)
    weights.drop()
    return ServedModel(name, folder, engine, weights, parts, device, load_timeout_s)
