"""vLLM: the weights that an engine runs on, made by one engine of the node and mapped by all."""

from __future__ import annotations

from types import ModuleType

#: The name that `--load-format` takes.
LOAD_FORMAT = "tetris"


def register() -> None:
    """Make `--load-format tetris` known to vLLM, which calls this in each of its processes."""
    from vllm.model_executor import model_loader

    hook(model_loader)


def hook(model_loader: ModuleType) -> None:
    """Add the load format to vLLM's loaders, where it is not."""
    from tetris._vllm.loader import TetrisModelLoader

    # vLLM warns of a loader that is registered twice.
    if model_loader._LOAD_FORMAT_TO_MODEL_LOADER.get(LOAD_FORMAT) is not TetrisModelLoader:
        model_loader.register_model_loader(LOAD_FORMAT)(TetrisModelLoader)


def unhook(model_loader: ModuleType) -> None:
    """Leave the load format: engines that ask for it go on to find it."""
