"""Safetensors folders of encoders by ONNX Runtime, against transformers itself; and wrong files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import tiny_bert

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from tetris_instance.engines import encoder_files, encoder_graph
from tetris_instance.engines.encoder_files import UnsupportedEncoderError
from tetris_instance.engines.onnx_encoder import OnnxEncoder, serves
from tetris_instance.engines.torch_encoder import TorchEncoder
from tetris_instance.errors import ConfigurationError, RequestError
from tetris_instance.load import load
from tetris_instance.options import parse

SIZES = {
    "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "max_position_embeddings": 26,
}  # fmt: skip
DISTILBERT_SIZES = {
    "vocab_size": 64, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 26,
}  # fmt: skip
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", SIZES),
    "bert with tanh": ("Bert", SIZES | {"hidden_act": "gelu_new"}),
    "bert with relu": ("Bert", SIZES | {"hidden_act": "relu"}),
    "roberta": ("Roberta", SIZES | {"pad_token_id": 1}),
    "xlm-roberta": ("XLMRoberta", SIZES | {"pad_token_id": 1}),
    "camembert": ("Camembert", SIZES | {"pad_token_id": 1}),
    "distilbert": ("DistilBert", DISTILBERT_SIZES),
}


def saved(folder: Path, name: str, head: str = "Model", **more: Any) -> Path:
    """Save a model with random weights."""
    prefix, sizes = FAMILIES[name]
    torch.manual_seed(7)
    config = getattr(transformers, f"{prefix}Config")(**sizes)
    getattr(transformers, f"{prefix}{head}")(config).save_pretrained(folder, **more)
    return folder


def agrees(folder: Path, task: Any = "embedding") -> None:
    """Check that both engines compute the same of rows of unequal length."""
    pad = json.loads((folder / "config.json").read_text()).get("pad_token_id", 0)
    ids = np.array([[2, 4, 5, 3, 9], [2, 6, 3, pad, pad]])
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    inputs = {"input_ids": ids, "attention_mask": mask}
    expected = TorchEncoder(folder, task, 1)
    engine = OnnxEncoder(folder, task, "prepacked", 1, 1)
    assert engine.signature == expected.signature
    shown = mask[..., None] if task == "feature-extraction" else 1
    outputs, wanted = engine.run(inputs), expected.run(inputs)
    assert list(outputs) == list(wanted) == [output.name for output in engine.signature.outputs]
    for name, output in outputs.items():
        assert (output.dtype, output.shape) == (np.float32, wanted[name].shape)
        np.testing.assert_allclose(output * shown, wanted[name] * shown, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("task", ["embedding", "feature-extraction"])
@pytest.mark.parametrize("name", FAMILIES)
def test_an_encoder_computes_what_transformers_does(tmp_path: Path, store: Path, name: str, task: str) -> None:
    agrees(saved(tmp_path, name), task)


@pytest.mark.parametrize("name", ["bert", "roberta", "xlm-roberta", "camembert", "distilbert"])
@pytest.mark.parametrize(
    ("labels", "problem"),
    [(3, "single_label_classification"), (3, "multi_label_classification"), (1, None), (2, "regression")],
)
def test_a_classifier_has_the_logits_and_scores_of_transformers(
    tmp_path: Path, name: str, labels: int, problem: str | None
) -> None:
    prefix, sizes = FAMILIES[name]
    torch.manual_seed(7)
    config = getattr(transformers, f"{prefix}Config")(**sizes, num_labels=labels, problem_type=problem)
    model = getattr(transformers, f"{prefix}ForSequenceClassification")(config)
    model.save_pretrained(tmp_path)
    agrees(tmp_path, "classification")
    engine = load(parse(["--model-path", str(tmp_path)], {}))
    assert engine.platform == "onnx_safetensors"
    rows = engine.run({"input_ids": np.array([[2, 4, 3]]), "attention_mask": np.ones((1, 3), np.int64)})
    with torch.inference_mode():
        logits = model.eval()(input_ids=torch.tensor([[2, 4, 3]])).logits
    np.testing.assert_allclose(rows["logits"], logits.numpy(), rtol=1e-4, atol=2e-6)
    scores = {"regression": logits, "single_label_classification": logits.softmax(-1)}.get(problem, logits.sigmoid())
    np.testing.assert_allclose(rows["scores"], scores.numpy(), rtol=1e-4, atol=2e-6)


def test_a_sentence_transformer_of_a_classifier_has_embeddings(tmp_path: Path) -> None:
    folder = saved(tmp_path, "bert", "ForSequenceClassification")
    outputs = [output.name for output in load(parse(["--model-path", str(folder)], {})).signature.outputs]
    assert outputs == ["logits", "scores"]
    (folder / "modules.json").write_text("[]")
    for arguments in ([], ["--task", "embedding"]):
        engine = load(parse(["--model-path", str(folder), *arguments], {}))
        assert [output.name for output in engine.signature.outputs] == ["embedding"]


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert"])
def test_weights_under_a_prefix_are_those_of_the_encoder(tmp_path: Path, name: str) -> None:
    agrees(saved(tmp_path, name, "ForMaskedLM"))


def test_weights_in_several_files_and_behind_links_are_found(tmp_path: Path) -> None:
    files, links = tmp_path / "files", tmp_path / "links"
    saved(files, "bert", max_shard_size="20KB")
    links.mkdir()
    for path in files.iterdir():
        (links / path.name).symlink_to(path)
    assert len(list(files.glob("*.safetensors"))) > 2
    agrees(links)


@pytest.mark.parametrize(("kind", "normalized"), [("cls", False), ("mean", True), ("cls", True)])
def test_pooling_is_that_of_sentence_transformers(tmp_path: Path, kind: str, normalized: bool) -> None:
    saved(tmp_path, "bert")
    types = ["Transformer", "Pooling", *(["Normalize"] if normalized else [])]
    listed = [{"idx": i, "path": f"{i}_{name}" if i else "", "type": f"a.b.{name}"} for i, name in enumerate(types)]
    (tmp_path / "modules.json").write_text(json.dumps(listed))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": kind}))
    agrees(tmp_path)


def test_positions_are_limited_to_those_that_tokens_have(tmp_path: Path) -> None:
    engine = OnnxEncoder(saved(tmp_path, "roberta"), "embedding", "prepacked", 1, 1)
    longest = {"input_ids": np.full((1, 24), 5), "attention_mask": np.ones((1, 24), np.int64)}
    engine.check(longest)
    assert engine.run(longest)["embedding"].shape == (1, 32)
    with pytest.raises(RequestError, match="25 tokens per row; expected 1 to 24"):
        engine.check({"input_ids": np.full((1, 25), 5), "attention_mask": np.ones((1, 25), np.int64)})


def test_the_engine_is_chosen_by_the_files(tmp_path: Path) -> None:
    known, other = saved(tmp_path / "known", "bert"), tmp_path / "other"
    transformers.AlbertModel(
        transformers.AlbertConfig(**SIZES | {"embedding_size": 32, "num_hidden_groups": 1})
    ).save_pretrained(other)
    half = tmp_path / "half"
    transformers.BertModel(transformers.BertConfig(**SIZES)).half().save_pretrained(half)
    platforms = {folder: load(parse(["--model-path", str(folder)], {})).platform for folder in (known, other, half)}
    assert platforms == {known: "onnx_safetensors", other: "pytorch_safetensors", half: "pytorch_safetensors"}
    assert load(parse(["--model-path", str(known), "--engine", "torch"], {})).platform == "pytorch_safetensors"
    with pytest.raises(ConfigurationError, match=r"'albert'; expected one of bert, .* need --engine torch"):
        load(parse(["--model-path", str(other), "--engine", "onnxruntime"], {}))
    with pytest.raises(ConfigurationError, match=r"weights of F16; expected F32"):
        load(parse(["--model-path", str(half), "--engine", "onnxruntime"], {}))


def test_a_process_that_finds_the_graph_imports_neither_onnx_nor_torch(tmp_path: Path, store: Path) -> None:
    folder = saved(tmp_path, "bert")
    program = (
        "import sys; from pathlib import Path; from tetris_instance.engines.onnx_encoder import OnnxEncoder;"
        f"engine = OnnxEncoder(Path({str(folder)!r}), 'embedding', 'prepacked', 1, 1); engine.run(engine.example(1));"
        "print(engine.memory().private, 'onnx' in sys.modules, 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    first, second = (subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(2))
    assert (first, second) == ("0 True False\n", "0 False False\n")


Change = Callable[[Path], object]
WORDS = "embeddings.word_embeddings.weight"


def config(**changes: Any) -> Change:
    """Change the configuration."""

    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def entry(value: dict[str, Any] | list[int]) -> Change:
    """Change the weights' entry of words, and keep the data."""

    def change(folder: Path) -> None:
        path = folder / "model.safetensors"
        content = path.read_bytes()
        size = int.from_bytes(content[:8], "little")
        entries = json.loads(content[8 : 8 + size])
        entries[WORDS] = entries[WORDS] | value if isinstance(value, dict) else value
        text = json.dumps(entries).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])

    return change


def content(name: str, data: bytes) -> Change:
    """Replace a file."""
    return lambda folder: (folder / name).write_bytes(data)


INDEX = b'{"weight_map": {"a": "../model.safetensors"}}'
WRONG: dict[str, tuple[Change, str]] = {
    "layers": (config(num_hidden_layers=3), "encoder.layer.2.attention.self.query.weight` is missing"),
    "many layers": (config(num_hidden_layers=1 << 30), "expected a position, heads"),
    "heads": (config(num_attention_heads=5), "expected a position, heads"),
    "a width of text": (config(hidden_size="32"), "hidden_size is '32'; expected a positive integer"),
    "a decoder": (config(is_decoder=True), "is_decoder is True; expected False"),
    "positions": (config(position_embedding_type="relative_key"), "expected 'absolute'"),
    "an activation": (config(hidden_act="silu"), "activation is 'silu'; expected one of gelu"),
    "a type": (config(model_type=["bert"]), "model_type is ['bert']; expected one of"),
    "an activation of many": (config(hidden_act={}), "activation is {}; expected one of gelu"),
    "an epsilon": (config(layer_norm_eps="small"), "layer_norm_eps is 'small'; expected a number"),
    "labels": (config(id2label=[]), "id2label is []; expected an object with labels"),
    "a shape": (entry({"shape": [32, 64]}), "expected F32 [64, 32]"),
    "offsets": (entry({"data_offsets": [0, 1 << 40]}), "a tensor at 0"),
    "no offsets": (entry({"data_offsets": None}), "not a safetensors file"),
    "a list": (entry([1]), "not a safetensors file"),
    "a short file": (content("model.safetensors", b"\x08"), "not a safetensors file"),
    "a huge header": (content("model.safetensors", b"\xff" * 64), "a header of"),
    "nested arrays": (content("config.json", b"[" * 100_000), "config.json"),
    "a path": (content("model.safetensors.index.json", INDEX), "expected one in the same folder"),
}


@pytest.mark.parametrize("name", WRONG)
def test_files_that_are_wrong_are_errors_with_their_path(tmp_path: Path, name: str) -> None:
    folder = saved(tmp_path / "model", "bert")
    change, message = WRONG[name]
    change(folder)
    with pytest.raises(ConfigurationError) as caught:
        OnnxEncoder(folder, "embedding", "prepacked", 1, 1)
    assert message in str(caught.value) and str(folder) in str(caught.value)


def test_damaged_files_are_errors_and_nothing_else(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", "bert")
    random = np.random.default_rng(11)
    intact = {name: (folder / name).read_bytes() for name in ("config.json", "model.safetensors")}
    refused = 0
    for round_ in range(400):
        for name, content in intact.items():
            damaged = bytearray(content)
            reach = min(len(damaged), 4_000)
            for _ in range(1 + round_ % 4):
                damaged[random.integers(reach)] = random.integers(256)
            (folder / name).write_bytes(bytes(damaged))
        try:
            files = encoder_files.read(folder)
            encoder_graph.build(files, encoder_graph.shape_of(files), "classification", "mean", True)
        except UnsupportedEncoderError:
            refused += 1
    assert refused > 200


def test_weights_that_links_scatter_are_an_error(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", "bert", max_shard_size="20KB")
    first = min(folder.glob("*.safetensors"))
    (tmp_path / "elsewhere").mkdir()
    shutil.move(first, tmp_path / "elsewhere")
    first.symlink_to(tmp_path / "elsewhere" / first.name)
    assert not serves(folder)
    with pytest.raises(ConfigurationError, match="files in 2 folders"):
        OnnxEncoder(folder, "embedding", "prepacked", 1, 1)


def test_texts_are_encoded_by_the_tokenizer_beside(tmp_path: Path) -> None:
    engine = OnnxEncoder(tiny_bert(tmp_path), "embedding", "prepacked", 1, 1)
    assert engine.text is not None
    encoded = engine.text.encode(["one copy", "every tensor per node"])
    engine.check(encoded)
    assert engine.run(encoded)["embedding"].shape == (2, 32)
