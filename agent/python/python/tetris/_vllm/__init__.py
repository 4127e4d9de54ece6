"""vLLM: the weights that an engine runs on, made by one engine of the node and mapped by all."""

from __future__ import annotations


def register() -> None:
    """Make `--load-format tetris` known to vLLM, which calls this in each of its processes."""
    from vllm.model_executor import model_loader

    from tetris._vllm.loader import LOAD_FORMAT, TetrisModelLoader

    # vLLM warns of a loader that is registered twice.
    if model_loader._LOAD_FORMAT_TO_MODEL_LOADER.get(LOAD_FORMAT) is not TetrisModelLoader:
        model_loader.register_model_loader(LOAD_FORMAT)(TetrisModelLoader)
