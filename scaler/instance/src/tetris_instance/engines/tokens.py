"""Tokenizer of texts, from the file beside a model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from tetris_instance.errors import ConfigurationError
from tetris_instance.tensors import Tensors

_FILE = "tokenizer.json"


class Tokenizer:
    """A fast Hugging Face tokenizer; it computes in its own threads, without the GIL."""

    def __init__(self, tokenizer: Any, inputs: frozenset[str], length: int) -> None:
        self._tokenizer = tokenizer
        self._inputs = inputs
        # Padding and truncation in the file are for training; requests are padded within their
        # batch.
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_length=length)

    def encode(self, texts: list[str]) -> Tensors:
        """Return the inputs, one row per text, padded to the longest. Long texts are truncated."""
        encodings = self._tokenizer.encode_batch(texts)
        longest = max(1, *(len(encoding.ids) for encoding in encodings))
        made = {name: np.zeros((len(texts), longest), dtype=np.int64) for name in self._inputs}
        for row, one in enumerate(encodings):
            for name, values in (
                ("input_ids", one.ids),
                ("attention_mask", one.attention_mask),
                ("token_type_ids", one.type_ids),
            ):
                if name in made:
                    made[name][row, : len(values)] = values
        return made


def tokenizer_beside(folder: Path, inputs: frozenset[str], length: int) -> Tokenizer | None:
    """Return the tokenizer of a folder; `None` if it has no tokenizer file or the library is
    missing.

    Args:
        folder: Folder of the model.
        inputs: Names of the model's inputs.
        length: Maximum number of tokens of the model; a lower limit of sentence-transformers wins.

    Raises:
        ConfigurationError: The folder's files are invalid.
    """
    path = folder / _FILE
    if not path.is_file():
        return None
    # Texts are short, and its threads would add to the workers'.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        from tokenizers import Tokenizer as Fast
    except ImportError:
        return None
    try:
        said = folder / "sentence_bert_config.json"
        if said.is_file():
            length = min(length, int(json.loads(said.read_bytes())["max_seq_length"]))
        return Tokenizer(Fast.from_file(str(path)), inputs, length)
    except Exception as error:
        raise ConfigurationError(f"{path}: not a tokenizer: {error}") from error
