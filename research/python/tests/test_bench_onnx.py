"""The benchmark of ONNX Runtime."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


def test_the_benchmark_measures_and_finds_equal_outputs() -> None:
    command = [sys.executable, "-m", "tetris_bench.onnx", "--format", "json", "--store-parent", "/dev/shm"]
    small = ["--layers", "1", "--width", "128", "--channels", "32", "--processes", "2", "--rounds", "1", "--runs", "2"]
    methods = ["plain", "plain-unpacked", "file-prepacked", "prepacked", "unpacked", "optimized"]
    found = subprocess.run(
        [*command, *small, "--methods", ",".join(methods)], check=True, text=True, stdout=subprocess.PIPE
    )
    report = json.loads(found.stdout)
    assert [model["model"] for model in report["models"]] == ["transformer.onnx", "convolutional.onnx"]
    for model in report["models"]:
        assert model["outputs_agree"]
        assert list(model["methods"]) == methods
        for name in ("prepacked", "unpacked", "optimized"):
            assert model["methods"][name]["weights"] == name
            assert model["methods"][name]["store_bytes"] > 0
