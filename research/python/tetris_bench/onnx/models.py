"""The models, and copies of them that ONNX Runtime maps by itself."""

import os
from pathlib import Path
from typing import Any

SEED = 20240417


def generate(directory: Path, *, layers: int, width: int, channels: int) -> list[Path]:
    """Writes a transformer's matrix products with an embedding, and a stack of convolutions."""
    transformer, convolutional = directory / "transformer.onnx", directory / "convolutional.onnx"
    _transformer(transformer, layers, width)
    _convolutional(convolutional, channels)
    return [transformer, convolutional]


def _transformer(path: Path, layers: int, width: int) -> None:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(SEED)
    nodes = [helper.make_node("Gather", ["embedding", "ids"], ["h0"])]
    initializers = []

    def weight(name: str, *shape: int) -> str:
        values = rng.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[0]))
        initializers.append(numpy_helper.from_array(values, name))
        return name

    weight("embedding", 40 * width, width)
    for i in range(layers):
        value = f"h{i}"
        shapes = [(width, width)] * 4 + [(width, 4 * width), (4 * width, width)]
        for j, shape in enumerate(shapes):
            out = f"v{i}_{j}"
            nodes.append(helper.make_node("MatMul", [value, weight(f"w{i}_{j}", *shape)], [f"m{i}_{j}"]))
            nodes.append(helper.make_node("Add", [f"m{i}_{j}", weight(f"b{i}_{j}", shape[1])], [f"a{i}_{j}"]))
            nodes.append(helper.make_node("Tanh", [f"a{i}_{j}"], [out]))
            value = out
        nodes.append(helper.make_node("Add", [value, f"h{i}"], [f"h{i + 1}"]))
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, [16])]
    outputs = [helper.make_tensor_value_info(f"h{layers}", TensorProto.FLOAT, None)]
    _save(path, helper.make_graph(nodes, "transformer", inputs, outputs, initializers))


def _convolutional(path: Path, channels: int) -> None:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(SEED)
    nodes, initializers = [], []
    for i in range(6):
        values = rng.standard_normal((channels, channels, 3, 3), dtype=np.float32) / np.float32(3 * channels**0.5)
        initializers.append(numpy_helper.from_array(values, f"w{i}"))
        nodes.append(helper.make_node("Conv", [f"h{i}", f"w{i}"], [f"c{i}"], pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"h{i + 1}"]))
    inputs = [helper.make_tensor_value_info("h0", TensorProto.FLOAT, [1, channels, 7, 7])]
    outputs = [helper.make_tensor_value_info("h6", TensorProto.FLOAT, None)]
    _save(path, helper.make_graph(nodes, "convolutional", inputs, outputs, initializers))


def _save(path: Path, graph: Any) -> None:
    from onnx import helper

    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())


def mapped_copies(model: Path, directory: Path) -> dict[str, Path]:
    """Copies of a model that ONNX Runtime maps by itself, by method."""
    import onnx
    import onnxruntime

    external = directory / f"{model.stem}-external.onnx"
    onnx.save_model(
        onnx.load(model), external, save_as_external_data=True, location=external.name + ".data", size_threshold=1024
    )
    saved = directory / f"{model.stem}-saved.onnx"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = os.fspath(saved)
    for key, value in {
        "session.optimized_model_external_initializers_file_name": saved.name + ".data",
        "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
        "session.save_external_prepacked_constant_initializers": "1",
    }.items():
        options.add_session_config_entry(key, value)
    onnxruntime.InferenceSession(os.fspath(model), options)
    return {"file-unpacked": external, "file-prepacked": saved}
