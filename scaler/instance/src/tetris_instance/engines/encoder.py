"""Properties of text encoders that do not depend on the library: inputs, outputs, pooling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from tetris_instance.errors import ConfigurationError, RequestError
from tetris_instance.tensors import Signature, Tensors, TensorSpec

Task = Literal["embedding", "feature-extraction", "classification"]
#: How scores follow from logits.
Activation = Literal["softmax", "sigmoid", "identity"]
Pooling = Literal["mean", "cls"]
TASKS: tuple[str, ...] = get_args(Task)

#: Number of tokens per row in the warm-up: a short sentence.
_EXAMPLE_TOKENS = 16


class Encoder:
    """An encoder's signature, and the values that it takes.

    Args:
        task: Task of the model, which selects the output.
        width: Size of an embedding; number of labels of a classification.
        pad: Token of padding.
        vocabulary: Number of tokens.
        positions: Maximum number of tokens per row.
    """

    def __init__(self, task: Task, width: int, pad: int, vocabulary: int, positions: int) -> None:
        self.signature = _signature(task, width, pad)
        self._vocabulary = vocabulary
        self._positions = positions

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


def _signature(task: Task, width: int, pad: int) -> Signature:
    tokens = (-1, -1)
    inputs = (TensorSpec("input_ids", "INT64", tokens), TensorSpec("attention_mask", "INT64", tokens))
    padding = {"input_ids": pad, "attention_mask": 0}
    if task == "embedding":
        return Signature(inputs, (TensorSpec("embedding", "FP32", (-1, width)),), True, padding)
    if task == "classification":
        rows = (-1, width)
        return Signature(
            inputs, (TensorSpec("logits", "FP32", rows), TensorSpec("scores", "FP32", rows)), True, padding
        )
    outputs = (TensorSpec("last_hidden_state", "FP32", (-1, -1, width)),)
    return Signature(inputs, outputs, True, padding, frozenset({"last_hidden_state"}))


def task_of(folder: Path) -> Task:
    """Return the task of a folder: classification, if its architecture has labels and it is no sentence-transformer."""
    try:
        architectures = json.loads((folder / "config.json").read_bytes())["architectures"]
        labels = str(architectures[0]).endswith("ForSequenceClassification")
    except (OSError, ValueError, KeyError, IndexError, TypeError, RecursionError):
        return "embedding"
    return "classification" if labels and not (folder / "modules.json").is_file() else "embedding"


def activation_of(problem_type: object, labels: int) -> Activation:
    """Return how scores follow from logits, as transformers has it by the configuration's `problem_type`."""
    if problem_type == "regression":
        return "identity"
    return "sigmoid" if labels == 1 or problem_type == "multi_label_classification" else "softmax"


def pooling_of(folder: Path) -> tuple[Pooling, bool]:
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
        kinds = {str(module["type"]).rpartition(".")[2]: str(module["path"]) for module in listed}
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
