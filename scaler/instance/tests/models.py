"""Models for tests: small ones from fixed seeds, and all-MiniLM-L6-v2 if its weights have been
fetched.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "one", "copy", "of", "every", "tensor", "per", "node"]
MINILM_BYTES = 90_000_000


def minilm_weights() -> Path:
    """Return the weights of all-MiniLM-L6-v2, as tests/fetch-minilm.sh stores them; skip the test
    without them.
    """
    folders = [os.environ.get("TETRIS_TEST_CACHE"), os.environ.get("CARGO_TARGET_DIR"), REPOSITORY / "target"]
    for folder in folders:
        if folder and (path := Path(folder) / "minilm" / "model.safetensors").is_file():
            return path.resolve()
    pytest.skip("no MiniLM weights: run tests/fetch-minilm.sh")


def minilm(folder: Path) -> Path:
    """Create a model folder of all-MiniLM-L6-v2."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    weights = minilm_weights()
    transformers.BertConfig(
        vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    ).save_pretrained(folder)
    (folder / "model.safetensors").symlink_to(weights)
    return folder


def tiny_bert(folder: Path) -> Path:
    """Create a model folder with random weights, and a tokenizer of a few words."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(5)
    config = transformers.BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=24,
    )
    transformers.BertModel(config).save_pretrained(folder)
    write_tokenizer(folder)
    return folder


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer with wrong padding and truncation, which the server has to reset."""
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    made = tokenizers.Tokenizer(words)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.enable_padding(length=20)
    made.enable_truncation(max_length=4)
    made.save(str(folder / "tokenizer.json"))
