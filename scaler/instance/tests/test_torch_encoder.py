"""The PyTorch engine on a small encoder with random weights, against transformers itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import WORDS, tiny_bert, write_tokenizer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tetris_instance.engines.torch_encoder import TorchEncoder
from tetris_instance.errors import ConfigurationError, RequestError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    """Copy the model to the test's own folder."""
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    return tmp_path


def hidden(folder: Path, ids: list[list[int]], mask: list[list[int]]) -> Any:
    model = transformers.BertModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        return model(input_ids=torch.tensor(ids), attention_mask=torch.tensor(mask)).last_hidden_state.numpy()


def tensors(ids: list[list[int]], mask: list[list[int]]) -> dict[str, Any]:
    return {"input_ids": np.array(ids), "attention_mask": np.array(mask)}


IDS, MASK = [[2, 4, 5, 3], [2, 6, 3, 0]], [[1, 1, 1, 1], [1, 1, 1, 0]]


def mean(states: Any) -> Any:
    return np.stack([states[0].mean(axis=0), states[1, :3].mean(axis=0)])


def test_embedding_is_the_mean_of_what_the_mask_shows(folder: Path) -> None:
    found = TorchEncoder(folder, "embedding", 1).run(tensors(IDS, MASK))
    np.testing.assert_allclose(found["embedding"], mean(hidden(folder, IDS, MASK)), rtol=1e-5, atol=1e-6)
    assert (found["embedding"].dtype, found["embedding"].shape) == (np.float32, (2, 32))


def test_feature_extraction_is_the_hidden_state(folder: Path) -> None:
    engine = TorchEncoder(folder, "feature-extraction", 1)
    found = engine.run(tensors(IDS, MASK))["last_hidden_state"]
    np.testing.assert_allclose(found, hidden(folder, IDS, MASK), rtol=1e-5, atol=1e-6)
    assert engine.signature.sequence_outputs == {"last_hidden_state"}


def describe(folder: Path, pooling: dict[str, Any], *types: str) -> None:
    """Write files as sentence-transformers does."""
    listed = [{"idx": i, "path": f"{i}_{one}" if i else "", "type": f"a.b.{one}"} for i, one in enumerate(types)]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


def test_pooling_and_length_are_what_sentence_transformers_says(copied: Path) -> None:
    describe(copied, {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "Transformer", "Pooling")
    states = hidden(copied, IDS, MASK)
    found = TorchEncoder(copied, "embedding", 1).run(tensors(IDS, MASK))["embedding"]
    np.testing.assert_allclose(found, states[:, 0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "pooling",
    [
        {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True, "include_prompt": True},
        {"pooling_mode": "mean", "include_prompt": True, "embedding_dimension": 32},
    ],
)
def test_embeddings_are_of_length_1_where_they_are_to_be(copied: Path, pooling: dict[str, Any]) -> None:
    describe(copied, pooling, "Transformer", "Pooling", "Normalize")
    expected = mean(hidden(copied, IDS, MASK))
    found = TorchEncoder(copied, "embedding", 1).run(tensors(IDS, MASK))["embedding"]
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("pooling", "types", "message"),
    [
        ({"pooling_mode_max_tokens": True}, ("Transformer", "Pooling"), "max; expected pooling by mean or cls"),
        ({"pooling_mode": "lasttoken"}, ("Transformer", "Pooling"), "lasttoken; expected pooling by mean or cls"),
        ({"pooling_mode_mean_tokens": True}, ("Transformer", "Pooling", "Dense"), "Dense; expected"),
        ({}, ("Transformer", "Pooling", "Pooling2"), "Pooling2; expected"),
    ],
)
def test_pooling_that_it_has_not_is_an_error_and_not_another_embedding(
    copied: Path, pooling: dict[str, Any], types: tuple[str, ...], message: str
) -> None:
    describe(copied, pooling, *types)
    with pytest.raises(ConfigurationError, match=message):
        TorchEncoder(copied, "embedding", 1)


@pytest.mark.parametrize("content", ["", "[1]", "{}", '[{"type": "a.Pooling", "path": "none"}]'])
def test_broken_files_of_sentence_transformers_are_errors(copied: Path, content: str) -> None:
    (copied / "modules.json").write_text(content)
    if content == "{}":
        content = "an empty list of modules says nothing"
        assert TorchEncoder(copied, "embedding", 1).signature.batches
    else:
        with pytest.raises(ConfigurationError, match=r"modules\.json"):
            TorchEncoder(copied, "embedding", 1)


def test_texts_become_tokens_without_the_padding_and_the_cut_of_the_file(folder: Path) -> None:
    engine = TorchEncoder(folder, "embedding", 1)
    assert engine.text is not None
    made = engine.text.encode(["one copy of every tensor", "node", ""])
    word = WORDS.index
    assert made["input_ids"].tolist() == [
        [2, word("one"), word("copy"), word("of"), word("every"), word("tensor"), 3],
        [2, word("node"), 3, 0, 0, 0, 0],
        [2, 3, 0, 0, 0, 0, 0],
    ]
    assert made["attention_mask"].sum(axis=1).tolist() == [7, 3, 2]
    engine.check(made)


def test_texts_are_cut_to_what_the_model_takes(copied: Path) -> None:
    engine = TorchEncoder(copied, "embedding", 1)
    assert engine.text is not None
    assert engine.text.encode(["one " * 100])["input_ids"].shape == (1, 24)
    (copied / "sentence_bert_config.json").write_text('{"max_seq_length": 8}')
    engine = TorchEncoder(copied, "embedding", 1)
    assert engine.text is not None
    assert engine.text.encode(["one " * 100])["input_ids"].shape == (1, 8)


@pytest.mark.parametrize(
    ("ids", "mask", "message"),
    [
        ([[2, 64]], [[1, 1]], "`input_ids` has the token 64; expected 0 to 63"),
        ([[-1, 2]], [[1, 1]], "`input_ids` has the token -1; expected 0 to 63"),
        ([[2, 3]], [[1, 2]], "`attention_mask` has the value 2; expected 0 or 1"),
        ([[2, 3]], [[-1, 1]], "`attention_mask` has the value -1; expected 0 or 1"),
        ([[2, 3], [2, 3]], [[1, 1], [0, 0]], "`attention_mask` has a row of zeros"),
        ([[2] * 25], [[1] * 25], "`input_ids` has 25 tokens per row; expected 1 to 24"),
        ([[]], [[]], "`input_ids` has 0 tokens per row; expected 1 to 24"),
    ],
)
def test_tokens_that_the_model_has_not_are_refused(
    folder: Path, ids: list[list[int]], mask: list[list[int]], message: str
) -> None:
    engine = TorchEncoder(folder, "embedding", 1)
    given = {name: np.array(rows, dtype=np.int64) for name, rows in (("input_ids", ids), ("attention_mask", mask))}
    with pytest.raises(RequestError) as caught:
        engine.check(given)
    assert str(caught.value).startswith(message)


def test_positions_that_padding_takes_are_no_tokens(tmp_path: Path) -> None:
    config = transformers.RobertaConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=26,
        pad_token_id=1,
    )
    transformers.RobertaModel(config).save_pretrained(tmp_path)
    engine = TorchEncoder(tmp_path, "embedding", 1)
    longest = tensors([[5] * 24], [[1] * 24])
    engine.check(longest)
    assert engine.run(longest)["embedding"].shape == (1, 32)
    with pytest.raises(RequestError, match="25 tokens per row; expected 1 to 24"):
        engine.check(tensors([[5] * 25], [[1] * 25]))
    assert engine.signature.padding == {"input_ids": 1, "attention_mask": 0}


def test_each_worker_has_the_threads_it_may_use(folder: Path) -> None:
    import threading

    engine = TorchEncoder(folder, "embedding", 2)
    found = []

    def worker() -> None:
        engine.enter_worker()
        found.append(torch.get_num_threads())

    thread = threading.Thread(target=worker)
    thread.start()
    thread.join()
    assert found == [2]
    torch.set_num_threads(1)


def test_a_folder_that_is_no_encoder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "no such type"}')
    with pytest.raises(ConfigurationError, match="transformers cannot load it"):
        TorchEncoder(tmp_path, "embedding", 1)


def test_a_broken_tokenizer_is_an_error(copied: Path) -> None:
    (copied / "tokenizer.json").unlink()
    (copied / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="not a tokenizer"):
        TorchEncoder(copied, "embedding", 1)
    (copied / "tokenizer.json").unlink()
    write_tokenizer(copied)
    (copied / "sentence_bert_config.json").write_text("[]")
    with pytest.raises(ConfigurationError, match="not a tokenizer"):
        TorchEncoder(copied, "embedding", 1)
