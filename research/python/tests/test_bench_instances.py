"""The benchmark of instances."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("tetris_instance")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def test_the_benchmark_measures_what_the_next_instance_adds(tmp_path: Path) -> None:
    config = transformers.BertConfig(vocab_size=2000, hidden_size=64, num_attention_heads=4, num_hidden_layers=2)
    transformers.BertModel(config).save_pretrained(tmp_path)
    command = [sys.executable, "-m", "tetris_bench.instances", "--format", "json", "--requests", "2"]
    options = ["--weights", str(tmp_path / "model.safetensors"), "--instances", "2"]
    ways = ["onnxruntime-own-file", "onnxruntime"]
    done = subprocess.run([*command, *options, "--ways", ",".join(ways)], check=True, text=True, stdout=subprocess.PIPE)
    report = json.loads(done.stdout)
    assert list(report["ways"]) == ways
    for way in report["ways"].values():
        first, second = (group["held_bytes"] for group in way["groups"])
        assert way["added_bytes"] == second - first > 0
        assert way["next_start_s"] > 0 < way["request_s"]
    assert [bar["way"] for bar in report["bars"]] == ["onnxruntime"]
