"""Small graphs with ONNX Runtime, through the server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import write_tokenizer
from serving import HANGS_S, Serving

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper

from tetris_instance.engines.onnx_graph import OnnxGraph
from tetris_instance.errors import ConfigurationError

WIDTH = 192
ONNX_TYPES = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BYTES": TensorProto.STRING,
}


def save(path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, Any]) -> Path:
    graph = helper.make_graph(
        nodes, "graph", inputs, outputs, [numpy_helper.from_array(array, name) for name, array in weights.items()]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def value(name: str, kind: str, *shape: Any) -> Any:
    return helper.make_tensor_value_info(name, ONNX_TYPES[kind], list(shape))


def matrix() -> Any:
    return np.random.default_rng(3).standard_normal((WIDTH, WIDTH), dtype=np.float32)


def linear(folder: Path) -> Path:
    """Create y = x W, with W in a file beside the model."""
    path = save(
        folder / "linear.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [value("x", "FP32", "n", WIDTH)],
        [value("y", "FP32", "n", WIDTH)],
        {"w": matrix()},
    )
    onnx.save_model(onnx.load(path), path, save_as_external_data=True, location="linear.data", size_threshold=0)
    return path


def serving(path: Path, *arguments: str, **dimensions: int) -> Serving:
    return Serving(OnnxGraph(path, "prepacked", 1, 1, dimensions), *arguments)


@pytest.fixture
def echo(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[str, Serving]]:
    """Create a graph that returns its input, of one datatype."""
    kind = request.param
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    path = save(tmp_path / "echo.onnx", nodes, [value("x", kind, "n", 2)], [value("y", kind, "n", 2)], {})
    with serving(path) as started:
        yield kind, started


@pytest.mark.parametrize("echo", ONNX_TYPES, indirect=True)
def test_every_datatype_goes_through(echo: tuple[str, Serving]) -> None:
    kind, started = echo
    data: list[Any] = {"BOOL": [True, False], "BYTES": ["a", "€"]}.get(kind, [1, 2])
    document = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": kind, "data": data}]}
    answer = started.client.infer(document)
    assert answer.status == 200, answer
    assert answer.json()["outputs"] == [{"name": "y", "shape": [1, 2], "datatype": kind, "data": data}]
    assert started.client.ask("/v2/models/fake").json()["platform"] == "onnx_onnxv1"


def test_weights_are_in_the_store_and_results_are_right(store: Path, tmp_path: Path) -> None:
    engine = OnnxGraph(linear(tmp_path), "prepacked", 1, 1, {})
    x = np.random.default_rng(4).standard_normal((3, WIDTH), dtype=np.float32)
    np.testing.assert_allclose(engine.run({"x": x})["y"], x @ matrix(), rtol=1e-4, atol=1e-4)
    assert engine.memory().shared >= WIDTH * WIDTH * 4
    assert engine.memory().private == 0


def test_without_a_store_weights_are_private(tmp_path: Path) -> None:
    engine = OnnxGraph(linear(tmp_path), "prepacked", 1, 1, {})
    assert engine.memory().shared == 0
    assert engine.memory().private >= WIDTH * WIDTH * 4


def test_requests_share_runs(tmp_path: Path) -> None:
    with serving(linear(tmp_path), "--batch", "2", "--batch-wait-millis", "60000") as started:
        x = np.random.default_rng(4).standard_normal((2, WIDTH), dtype=np.float32)
        tensors = [
            {"name": "x", "shape": [1, WIDTH], "datatype": "FP32", "data": row.tolist()}
            for row in x.reshape(2, 1, WIDTH)
        ]
        with ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(started.client.infer, {"inputs": [tensor]}) for tensor in tensors]
            answers = [future.result(HANGS_S).json()["outputs"][0]["data"] for future in futures]
        np.testing.assert_allclose(np.array(answers), x @ matrix(), rtol=1e-4, atol=1e-4)
        assert started.client.metric("tetris_instance_batch_rows_count") == 1


def test_failure_of_the_graph_is_an_error_and_the_next_request_is_answered(tmp_path: Path) -> None:
    nodes = [helper.make_node("Gather", ["w", "i"], ["y"])]
    path = save(
        tmp_path / "gather.onnx", nodes, [value("i", "INT64", "n")], [value("y", "FP32", "n")], {"w": np.ones(4, "f4")}
    )
    with serving(path) as started:
        asked = [{"name": "i", "shape": [1], "datatype": "INT64", "data": [index]} for index in (99, 3)]
        wrong, right = (started.client.infer({"inputs": [one]}) for one in asked)
        assert wrong.status == 500
        assert wrong.json()["error"].startswith("the model failed: ")
        assert right.json()["outputs"][0]["data"] == [1.0]


def test_sizes_that_the_warm_up_needs_can_be_given(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    inputs, outputs = [value("x", "FP32", "n", "h")], [value("y", "FP32", "n", 2)]
    path = save(tmp_path / "m.onnx", nodes, inputs, outputs, {"w": np.ones((5, 2), "f4")})
    with serving(path, h=5) as started:
        document = {"inputs": [{"name": "x", "shape": [1, 5], "datatype": "FP32", "data": [1, 2, 3, 4, 5]}]}
        assert started.client.infer(document).json()["outputs"][0]["data"] == [15.0, 15.0]
    engine = OnnxGraph(path, "prepacked", 1, 1, {})
    with pytest.raises(Exception, match=r"MatMul|imension"):
        engine.run(engine.example(1))


def test_texts_are_taken_where_a_tokenizer_is_beside_the_graph(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    names = ["input_ids", "attention_mask", "token_type_ids"]
    nodes = [
        helper.make_node("Mul", names[:2], ["shown"]),
        helper.make_node("Add", ["shown", names[2]], ["all"]),
        helper.make_node("ReduceSum", ["all", "one"], ["y"], keepdims=0),
    ]
    inputs = [value(name, "INT64", "n", "s") for name in names]
    path = save(tmp_path / "sum.onnx", nodes, inputs, [value("y", "INT64", "n")], {"one": np.array([1], "i8")})
    with serving(path, "--batch", "4") as started:
        data = ["one copy", "node"]
        answer = started.client.infer({"inputs": [{"name": "text", "shape": [2], "datatype": "BYTES", "data": data}]})
        # [CLS] and [SEP] are 2 and 3, the words 4, 5 and 10.
        assert answer.json()["outputs"][0]["data"] == [2 + 4 + 5 + 3, 2 + 10 + 3], answer
        both = {"name": "input_ids", "shape": [1, 1], "datatype": "INT64", "data": [1]}
        text = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["x"]}
        assert started.client.infer({"inputs": [text, both]}).json() == {
            "error": "inputs has `text` and others; expected it alone"
        }
        text["data"] = ["x" * 70_000]
        assert started.client.infer({"inputs": [text]}).json() == {
            "error": "`text` has a value of 70000 bytes; expected at most 65536"
        }


def test_what_is_no_model_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    with pytest.raises(ConfigurationError, match="ONNX Runtime cannot load it"):
        OnnxGraph(tmp_path / "bad.onnx", "prepacked", 1, 1, {})


@pytest.mark.parametrize(("threads", "workers", "expected"), [(1, 1, 1), (2, 1, 2), (1, 2, 1), (2, 2, 3), (4, 3, 10)])
def test_workers_and_their_helpers_are_as_many_as_the_cpus(
    tmp_path: Path, threads: int, workers: int, expected: int
) -> None:
    engine = OnnxGraph(linear(tmp_path), "prepacked", threads, workers, {})

    assert engine.session_threads == expected
    assert workers + expected - 1 == threads * workers
