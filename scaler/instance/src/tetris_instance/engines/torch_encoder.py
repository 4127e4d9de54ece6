"""Engine for transformers encoders by PyTorch: texts or tokens to embeddings or hidden states."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from tetris_instance.engines import ModelBytes
from tetris_instance.engines.encoder import Encoder, Task, activation_of, pooling_of
from tetris_instance.engines.tokens import tokenizer_beside
from tetris_instance.errors import ConfigurationError
from tetris_instance.tensors import Array, Tensors


class TorchEncoder(Encoder):
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
        self._model = _load(folder, task)
        config = self._model.config
        self._task = task
        self._pooling, self._normalize = pooling_of(folder)
        width = int(config.num_labels if task == "classification" else config.hidden_size)
        self._activation = activation_of(getattr(config, "problem_type", None), width)
        pad = int(getattr(config, "pad_token_id", None) or 0)
        super().__init__(task, width, pad, int(config.vocab_size), _positions(self._model))
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

    def run(self, inputs: Tensors) -> Tensors:
        """Compute the outputs."""
        torch = self._torch
        # Avoid torch.from_numpy on the caller's arrays, which may be read-only.
        ids, mask = (torch.as_tensor(np.ascontiguousarray(inputs[name])) for name in ("input_ids", "attention_mask"))
        ids, mask = ids.to(self._device), mask.to(self._device)
        with torch.inference_mode():
            output = self._model(input_ids=ids, attention_mask=mask)
            if self._task == "classification":
                return {"logits": _array(output.logits), "scores": _array(self._scores(output.logits.float()))}
            hidden = output.last_hidden_state
            if self._task == "feature-extraction":
                return {"last_hidden_state": _array(hidden)}
            pooled = hidden[:, 0] if self._pooling == "cls" else _mean(hidden, mask)
            if self._normalize:
                pooled = torch.nn.functional.normalize(pooled, dim=1)
            return {"embedding": _array(pooled)}

    def _scores(self, logits: Any) -> Any:
        if self._activation == "identity":
            return logits
        return logits.softmax(dim=-1) if self._activation == "softmax" else logits.sigmoid()


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


def _load(folder: Path, task: Task) -> Any:
    import tetris

    # Patch before the import: transformers keeps references to the loading functions of
    # safetensors.
    tetris.patch()
    from transformers import AutoModel, AutoModelForSequenceClassification
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    kind = AutoModelForSequenceClassification if task == "classification" else AutoModel
    try:
        # No pickles, no code from the model's folder, nothing from the network.
        model = kind.from_pretrained(folder, local_files_only=True, use_safetensors=True, trust_remote_code=False)
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
