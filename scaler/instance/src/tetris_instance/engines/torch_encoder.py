"""Engine for transformers encoders by PyTorch: texts or tokens to embeddings or hidden states."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from tetris_instance.engines import ModelBytes
from tetris_instance.engines.tokens import tokenizer_beside
from tetris_instance.errors import ConfigurationError, RequestError
from tetris_instance.tensors import Array, Signature, Tensors, TensorSpec

Task = Literal["embedding", "feature-extraction"]
Pooling = Literal["mean", "cls"]
TASKS: tuple[str, ...] = get_args(Task)

#: Number of tokens per row in the warm-up: a short sentence.
_EXAMPLE_TOKENS = 16


class TorchEncoder:
    """A model folder: ``config.json`` and safetensors files with tensors mapped from the store.

    Args:
        folder: The folder.
        task: Task of the model, which selects the output.
        threads: Number of threads per run.
        device: Device of the weights when it runs, as PyTorch names it.

    Raises:
        ConfigurationError: The model cannot be loaded, or is not an encoder.
    """

    platform = "pytorch_safetensors"

    def __init__(self, folder: Path, task: Task, threads: int, device: str = "cpu") -> None:
        self._torch = _import_torch()
        self._threads = threads
        self._device = device
        # OpenMP keeps the number per thread; PyTorch applies the last number to each new thread.
        self._torch.set_num_threads(threads)
        self._model = _load(folder)
        config = self._model.config
        self._task = task
        self._pooling, self._normalize = _pooling(folder)
        self._vocabulary = int(config.vocab_size)
        self._positions = _positions(self._model)
        self.signature = _signature(task, int(config.hidden_size), int(getattr(config, "pad_token_id", None) or 0))
        self.text = tokenizer_beside(folder, frozenset(self.signature.padding), self._positions)

    @property
    def module(self) -> Any:
        """The PyTorch module."""
        return self._model

    def memory(self) -> ModelBytes:
        """Return the sizes of parameters and buffers."""
        import tetris.torch

        # Tensors already in the store are only counted.
        report = tetris.torch.share_module_(self._model)
        return ModelBytes(report.bytes_shared, report.bytes_private)

    def enter_worker(self) -> None:
        """Give the calling thread its own OpenMP team."""
        self._torch.set_num_threads(self._threads)

    def example(self, rows: int) -> Tensors:
        """Return short rows."""
        length = min(_EXAMPLE_TOKENS, self._positions)
        ids = np.arange(rows * length, dtype=np.int64).reshape(rows, length) % self._vocabulary
        return {"input_ids": ids, "attention_mask": np.ones_like(ids)}

    def check(self, inputs: Tensors) -> None:
        """Check the values: a token without an embedding would fail the whole batch."""
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        if not 0 < ids.shape[1] <= self._positions:
            raise RequestError(f"`input_ids` has {ids.shape[1]} tokens per row; expected 1 to {self._positions}")
        if ids.min() < 0 or ids.max() >= self._vocabulary:
            found = ids.min() if ids.min() < 0 else ids.max()
            raise RequestError(f"`input_ids` has the token {found}; expected 0 to {self._vocabulary - 1}")
        if mask.min() < 0 or mask.max() > 1:
            found = mask.min() if mask.min() < 0 else mask.max()
            raise RequestError(f"`attention_mask` has the value {found}; expected 0 or 1")
        if not mask.any(axis=1).all():
            raise RequestError("`attention_mask` has a row of zeros; expected at least one 1 in each")

    def run(self, inputs: Tensors) -> Tensors:
        """Compute the outputs."""
        torch = self._torch
        # Avoid torch.from_numpy on the caller's arrays, which may be read-only.
        ids, mask = (torch.as_tensor(np.ascontiguousarray(inputs[name])) for name in ("input_ids", "attention_mask"))
        ids, mask = ids.to(self._device), mask.to(self._device)
        with torch.inference_mode():
            hidden = self._model(input_ids=ids, attention_mask=mask).last_hidden_state
            if self._task == "feature-extraction":
                return {"last_hidden_state": _array(hidden)}
            pooled = hidden[:, 0] if self._pooling == "cls" else _mean(hidden, mask)
            if self._normalize:
                pooled = torch.nn.functional.normalize(pooled, dim=1)
            return {"embedding": _array(pooled)}


def _signature(task: Task, width: int, pad: int) -> Signature:
    tokens = (-1, -1)
    inputs = (TensorSpec("input_ids", "INT64", tokens), TensorSpec("attention_mask", "INT64", tokens))
    padding = {"input_ids": pad, "attention_mask": 0}
    if task == "embedding":
        return Signature(inputs, (TensorSpec("embedding", "FP32", (-1, width)),), True, padding)
    outputs = (TensorSpec("last_hidden_state", "FP32", (-1, -1, width)),)
    return Signature(inputs, outputs, True, padding, frozenset({"last_hidden_state"}))


def _mean(hidden: Any, mask: Any) -> Any:
    """Return the mean over the tokens of the mask, which has no empty row."""
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1)


def _array(tensor: Any) -> Array:
    array: Array = tensor.float().contiguous().cpu().numpy()
    return array


def _import_torch() -> Any:
    # OpenMP reads the variable when PyTorch loads it. Spinning threads would take quota and
    # processor from computing ones: beside another busy process, a run on two threads took seven
    # times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        import torch
        import transformers  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            f"the engine torch needs PyTorch and transformers ({error}): pip install 'tetris-instance[torch]'"
        ) from error
    return torch


def _load(folder: Path) -> Any:
    import tetris

    # Patch before the import: transformers keeps references to the loading functions of
    # safetensors.
    tetris.patch()
    from transformers import AutoModel
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    try:
        # No pickles, no code from the model's folder, nothing from the network.
        model = AutoModel.from_pretrained(folder, local_files_only=True, use_safetensors=True, trust_remote_code=False)
    except Exception as error:
        raise ConfigurationError(f"{folder}: transformers cannot load it: {error}") from error
    if not hasattr(model.config, "vocab_size") or not hasattr(model.config, "hidden_size"):
        raise ConfigurationError(
            f"{folder}: {type(model).__name__} is not a text encoder; export it, and serve the .onnx with ONNX Runtime"
        )
    return model.eval().requires_grad_(False)


def _positions(model: Any) -> int:
    """Return the maximum number of tokens of a row; practically unlimited if positions are not
    learned.
    """
    positions = int(getattr(model.config, "max_position_embeddings", 0) or np.iinfo(np.int32).max)
    for name, module in model.named_modules():
        # RoBERTa and its successors count positions from the one after that of padding.
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            positions -= int(module.padding_idx) + 1
    return positions


def _pooling(folder: Path) -> tuple[Pooling, bool]:
    """Return the pooling of sentence-transformers, and true if embeddings are normalized; the mean
    without their file.

    Raises:
        ConfigurationError: The pooling is not supported.
    """
    modules = folder / "modules.json"
    if not modules.is_file():
        return "mean", False
    try:
        listed = json.loads(modules.read_bytes())
        kinds = {str(one["type"]).rpartition(".")[2]: str(one["path"]) for one in listed}
        unknown = kinds.keys() - {"Transformer", "Pooling", "Normalize"}
        options = json.loads((folder / kinds["Pooling"] / "config.json").read_bytes()) if "Pooling" in kinds else {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{modules}: not that of sentence-transformers: {error!r}") from error
    modes = _modes(options)
    if len(modes) == 1:
        unknown |= modes - {"mean", "cls"}
    if unknown or len(modes) > 1:
        raise ConfigurationError(
            f"{modules}: {', '.join(sorted(unknown or modes))}; expected pooling by mean or cls, and perhaps Normalize"
        )
    return "cls" if modes == {"cls"} else "mean", "Normalize" in kinds


def _modes(options: dict[str, Any]) -> set[str]:
    """Return the modes of pooling, from either format of sentence-transformers: a flag each, or one
    name.
    """
    prefix = "pooling_mode_"
    flags = {name.removeprefix(prefix) for name, on in options.items() if name.startswith(prefix) and on}
    named = {str(options["pooling_mode"])} if "pooling_mode" in options else set()
    return {mode.removesuffix("_tokens").removesuffix("_token") for mode in flags} | named
