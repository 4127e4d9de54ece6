"""ONNX models for the tests, made from fixed seeds, with inputs for them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 256


@dataclass
class Case:
    """A model and something to run it on."""

    model: onnx.ModelProto
    inputs: dict[str, np.ndarray]

    def save(self, path: str | os.PathLike) -> str:
        """Write the model with its tensors inline; returns the path."""
        with open(path, "wb") as file:
            file.write(self.model.SerializeToString())
        return os.fspath(path)


def matrix(seed: int, width: int = WIDTH) -> np.ndarray:
    """A float32 matrix, width by width, that keeps the norm of what it is applied to."""
    values = np.random.default_rng(seed).standard_normal((width, width), dtype=np.float32)
    return values / np.float32(np.sqrt(width))


def _inputs(width: int = WIDTH) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(99).standard_normal((4, width), dtype=np.float32)}


def _value(name: str, shape: list[int | str] | None, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def build(
    nodes: list[onnx.NodeProto],
    initializers: list[onnx.TensorProto],
    *,
    inputs: list[onnx.ValueInfoProto] | None = None,
    outputs: list[onnx.ValueInfoProto] | None = None,
    sparse: list[onnx.SparseTensorProto] | None = None,
    functions: list[onnx.FunctionProto] | None = None,
    opset: int = 21,
    ir_version: int = 10,
) -> onnx.ModelProto:
    """A model from `x` to `y` of these nodes, unless said otherwise."""
    graph = helper.make_graph(
        nodes,
        "graph",
        inputs or [_value("x", ["n", WIDTH])],
        outputs or [_value("y", None)],
        initializers,
        sparse_initializer=sparse,
    )
    domains = [helper.make_opsetid("", opset)] + ([helper.make_opsetid("local", 1)] if functions else [])
    model = helper.make_model(graph, opset_imports=domains, ir_version=ir_version, functions=functions)
    model.metadata_props.add(key="note", value="kept")
    return model


def matmul_stack(layers: int = 4, width: int = WIDTH, seed: int = 0) -> Case:
    """MatMul, Add and Relu, several times: initializers `w0`, `b0`, ..."""
    nodes, initializers, value = [], [], "x"
    for i in range(layers):
        bias = np.random.default_rng(1000 + seed + i).standard_normal(width, dtype=np.float32)
        initializers += [
            numpy_helper.from_array(matrix(seed + i, width), f"w{i}"),
            numpy_helper.from_array(bias, f"b{i}"),
        ]
        out = "y" if i == layers - 1 else f"r{i}"
        nodes += [
            helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"]),
            helper.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}"]),
            helper.make_node("Relu", [f"a{i}"], [out]),
        ]
        value = out
    model = build(nodes, initializers, inputs=[_value("x", ["n", width])])
    return Case(model, _inputs(width))


def gemm_stack() -> Case:
    """Two Gemm, one with a transposed weight."""
    nodes = [
        helper.make_node("Gemm", ["x", "w0", "b0"], ["h"], transB=1),
        helper.make_node("Gemm", ["h", "w1"], ["y"], alpha=0.5),
    ]
    bias = np.arange(WIDTH, dtype=np.float32)
    tensors = [("w0", matrix(1)), ("b0", bias), ("w1", matrix(2))]
    return Case(build(nodes, [numpy_helper.from_array(v, n) for n, v in tensors]), _inputs())


def conv_stack(layers: int = 3, channels: int = 64) -> Case:
    """Convolutions, whose weights ONNX Runtime's optimizers lay out anew for the processor."""
    nodes, initializers, value = [], [], "x"
    for i in range(layers):
        rng = np.random.default_rng(50 + i)
        weight = rng.standard_normal((channels, channels, 3, 3), dtype=np.float32) / np.float32(24)
        bias = rng.standard_normal(channels, dtype=np.float32)
        initializers += [numpy_helper.from_array(weight, f"w{i}"), numpy_helper.from_array(bias, f"b{i}")]
        out = "y" if i == layers - 1 else f"r{i}"
        nodes += [
            helper.make_node("Conv", [value, f"w{i}", f"b{i}"], [f"c{i}"], pads=[1] * 4),
            helper.make_node("Relu", [f"c{i}"], [out]),
        ]
        value = out
    model = build(nodes, initializers, inputs=[_value("x", ["n", channels, 16, 16])])
    x = np.random.default_rng(98).standard_normal((1, channels, 16, 16), dtype=np.float32)
    return Case(model, {"x": x})


def _product_with(weight: onnx.TensorProto, *before: onnx.NodeProto, source: str = "w") -> Case:
    return Case(build([*before, helper.make_node("MatMul", ["x", source], ["y"])], [weight]), _inputs())


def typed_data() -> Case:
    """A float32 weight in `float_data`, not in `raw_data`."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH])
    weight.float_data.extend(matrix(3).ravel().tolist())
    return _product_with(weight)


def typed_float16() -> Case:
    """A float16 weight in `int32_data`: its bits as integers."""
    bits = matrix(3).astype(np.float16).view(np.uint16)
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT16, dims=[WIDTH, WIDTH])
    weight.int32_data.extend(bits.ravel().tolist())
    return _product_with(weight, helper.make_node("Cast", ["w"], ["f"], to=TensorProto.FLOAT), source="f")


def typed_int8() -> Case:
    """An int8 weight in `int32_data`, with negative numbers."""
    values = np.random.default_rng(4).integers(-128, 127, (WIDTH, WIDTH))
    weight = TensorProto(name="w", data_type=TensorProto.INT8, dims=[WIDTH, WIDTH])
    weight.int32_data.extend(values.ravel().tolist())
    return _product_with(weight, helper.make_node("Cast", ["w"], ["f"], to=TensorProto.FLOAT), source="f")


def _cast_from(dtype: np.dtype, code: int) -> Case:
    weight = helper.make_tensor("w", code, [WIDTH, WIDTH], matrix(5).astype(dtype).tobytes(), raw=True)
    return _product_with(weight, helper.make_node("Cast", ["w"], ["f"], to=TensorProto.FLOAT), source="f")


def bfloat16() -> Case:
    """A weight of type bfloat16."""
    return _cast_from(ml_dtypes.bfloat16, TensorProto.BFLOAT16)


def float8() -> Case:
    """A weight of type float8_e4m3fn."""
    return _cast_from(ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FN)


def _four_bits(code: int) -> Case:
    data = np.random.default_rng(6).integers(0, 255, 4 * WIDTH * WIDTH // 2).astype(np.uint8).tobytes()
    weight = helper.make_tensor("w", code, [WIDTH, 4 * WIDTH], data, raw=True)
    scale = numpy_helper.from_array(np.float32(0.5), "s")
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["f"]),
        helper.make_node("MatMul", ["x", "f"], ["y"]),
    ]
    return Case(build(nodes, [weight, scale]), _inputs())


def int4() -> Case:
    """A weight of type int4: two elements in a byte, and a scalar initializer."""
    return _four_bits(TensorProto.INT4)


def uint4() -> Case:
    """A weight of type uint4."""
    return _four_bits(TensorProto.UINT4)


def strings() -> Case:
    """An initializer of strings beside one that can be shared."""
    words = [f"word {i}".encode() for i in range(WIDTH)]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Identity", ["names"], ["z"])]
    model = build(
        nodes,
        [
            helper.make_tensor("names", TensorProto.STRING, [WIDTH], words),
            numpy_helper.from_array(matrix(7), "w"),
        ],
        outputs=[_value("y", None), _value("z", [WIDTH], TensorProto.STRING)],
    )
    return Case(model, _inputs())


def sparse() -> Case:
    """A sparse initializer beside one that can be shared."""
    values = numpy_helper.from_array(np.array([1.0, 2.0, 3.0], np.float32), "s")
    indices = numpy_helper.from_array(np.array([0, 5, 250], np.int64), "s_indices")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "s"], ["y"])]
    model = build(
        nodes,
        [numpy_helper.from_array(matrix(8), "w")],
        sparse=[helper.make_sparse_tensor(values, indices, [WIDTH])],
    )
    return Case(model, _inputs())


def empty_and_scalar() -> Case:
    """Initializers of no elements, and of no dimensions."""
    nodes = [
        helper.make_node("Concat", ["x", "none"], ["c"], axis=0),
        helper.make_node("Mul", ["c", "two"], ["d"]),
        helper.make_node("MatMul", ["d", "w"], ["y"]),
    ]
    tensors = [("none", np.zeros((0, WIDTH), np.float32)), ("two", np.float32(2)), ("w", matrix(9))]
    return Case(build(nodes, [numpy_helper.from_array(np.asarray(v), n) for n, v in tensors]), _inputs())


def constant_nodes() -> Case:
    """A weight that is a Constant node, and one that is an attribute of another kind of node."""
    nodes = [
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(matrix(10), "w")),
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Shape", ["m"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["o"], value=numpy_helper.from_array(np.ones(1, np.float32))),
        helper.make_node("Add", ["m", "o"], ["y"]),
    ]
    return Case(build(nodes, []), _inputs())


def nested() -> Case:
    """If and Loop with initializers, and Constant nodes, of their own; the names repeat."""

    def branch(weight: np.ndarray) -> onnx.GraphProto:
        return helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["branch_y"])],
            "branch",
            [],
            [_value("branch_y", None)],
            [numpy_helper.from_array(weight, "w")],
        )

    body = helper.make_graph(
        [
            helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(matrix(13), "w")),
            helper.make_node("MatMul", ["carried", "w"], ["next"]),
            helper.make_node("Identity", ["go_on"], ["still"]),
        ],
        "body",
        [
            _value("i", [], TensorProto.INT64),
            _value("go_on", [], TensorProto.BOOL),
            _value("carried", None),
        ],
        [_value("still", [], TensorProto.BOOL), _value("next", None)],
    )
    nodes = [
        helper.make_node("If", ["first"], ["h"], then_branch=branch(matrix(11)), else_branch=branch(matrix(12))),
        helper.make_node("Loop", ["times", "true", "h"], ["y"], body=body),
    ]
    model = build(
        nodes,
        [numpy_helper.from_array(np.array(3), "times"), numpy_helper.from_array(np.array(True), "true")],
        inputs=[_value("x", ["n", WIDTH]), _value("first", [], TensorProto.BOOL)],
    )
    return Case(model, {**_inputs(), "first": np.array(False)})


def function() -> Case:
    """A model with a function of its own, which has a weight inside, and takes one."""
    body = [
        helper.make_node("Constant", [], ["inner"], value=numpy_helper.from_array(matrix(14), "inner")),
        helper.make_node("MatMul", ["a", "inner"], ["m"]),
        helper.make_node("MatMul", ["m", "outer"], ["b"]),
    ]
    made = helper.make_function("local", "Twice", ["a", "outer"], ["b"], body, [helper.make_opsetid("", 21)])
    nodes = [helper.make_node("Twice", ["x", "w"], ["y"], domain="local")]
    return Case(build(nodes, [numpy_helper.from_array(matrix(15), "w")], functions=[made]), _inputs())


def overridable() -> Case:
    """An initializer that is an input too, so that a caller may replace it."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    inputs = [_value("x", ["n", WIDTH]), _value("w", [WIDTH, WIDTH])]
    return Case(build(nodes, [numpy_helper.from_array(matrix(16), "w")], inputs=inputs), _inputs())


def old_ir() -> Case:
    """IR version 3, where every initializer has to be an input."""
    case = overridable()
    model = build(list(case.model.graph.node), list(case.model.graph.initializer), opset=8, ir_version=3,
                  inputs=list(case.model.graph.input))  # fmt: skip
    del model.metadata_props[:]
    return Case(model, case.inputs)


def as_output() -> Case:
    """An initializer that is an output as well."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    outputs = [_value("y", None), _value("w", [WIDTH, WIDTH])]
    return Case(build(nodes, [numpy_helper.from_array(matrix(17), "w")], outputs=outputs), _inputs())


def many_small() -> Case:
    """Biases of 2 KiB, enough of them to be gathered in one object."""
    count, width = 64, 512
    nodes, initializers, value = [], [], "x"
    for i in range(count):
        bias = np.random.default_rng(200 + i).standard_normal(width, dtype=np.float32)
        initializers.append(numpy_helper.from_array(bias, f"b{i}"))
        out = "y" if i == count - 1 else f"a{i}"
        # Sin keeps the optimizers from adding the biases up.
        nodes += [helper.make_node("Add", [value, f"b{i}"], [f"s{i}"]), helper.make_node("Sin", [f"s{i}"], [out])]
        value = out
    return Case(build(nodes, initializers, inputs=[_value("x", ["n", width])]), _inputs(width))


def lstm() -> Case:
    """A recurrent layer, whose kernel packs two weights, and a product of integers."""
    rng = np.random.default_rng(18)
    hidden = 128
    tensors = [
        ("w", rng.standard_normal((2, 4 * hidden, hidden), dtype=np.float32) / np.float32(16)),
        ("r", rng.standard_normal((2, 4 * hidden, hidden), dtype=np.float32) / np.float32(16)),
        ("q", rng.integers(-127, 127, (hidden, 1024)).astype(np.int8)),
    ]
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=hidden, direction="bidirectional"),
        helper.make_node("MatMulInteger", ["u", "q"], ["z"]),
    ]
    model = build(
        nodes,
        [numpy_helper.from_array(v, n) for n, v in tensors],
        inputs=[_value("x", [5, 1, hidden]), _value("u", [4, hidden], TensorProto.UINT8)],
        outputs=[_value("y", None), _value("z", None, TensorProto.INT32)],
    )
    x = rng.standard_normal((5, 1, hidden), dtype=np.float32)
    return Case(model, {"x": x, "u": rng.integers(0, 255, (4, hidden)).astype(np.uint8)})


#: By name, as the tests show it.
CASES: dict[str, Callable[[], Case]] = {
    made.__name__: made
    for made in (
        matmul_stack, gemm_stack, conv_stack, typed_data, typed_float16, typed_int8, bfloat16, float8, int4, uint4,
        strings, sparse, empty_and_scalar, constant_nodes, nested, function, overridable, old_ir, as_output, many_small,
        lstm,
    )
}  # fmt: skip


def make_external(case: Case, folder: str | os.PathLike, *, files: dict[str, str], offset: int = 0) -> str:
    """Write a model with external data.

    Args:
        case: The model; its initializers become references.
        folder: Where `model.onnx` goes.
        files: Location, relative to `folder`, of each initializer by name. Those in one file follow each other.
        offset: Bytes before the first tensor of a file, and between two.

    Returns:
        The path of the model.
    """
    folder = os.fspath(folder)
    contents: dict[str, bytearray] = {}
    for tensor in case.model.graph.initializer:
        location = files.get(tensor.name)
        if location is None:
            continue
        content = contents.setdefault(location, bytearray())
        content.extend(b"\xff" * offset)
        data = tensor.raw_data
        entries = {"location": location, "offset": str(len(content)), "length": str(len(data))}
        content.extend(data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)
    for location, content in contents.items():
        path = os.path.join(folder, location)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
    return case.save(os.path.join(folder, "model.onnx"))
