"""A scorer over HTTP: a JSON list of 256 features in, 16 scores out. The graph and its weights are two files.

server.py --write NAME          writes NAME.onnx and NAME.safetensors, the same in every pod
server.py [--port N] NAME       serves them

ONNX Runtime takes initializers from memory that is given to it. Here that is the store's: tetris.numpy maps the tensors
of the safetensors file, read-only and shared by all processes of the node. Prepacking is off, since it would copy them.
"""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy
import onnxruntime
from tetris.numpy import load_file

FEATURES, HIDDEN, SCORES = 256, 2048, 16
SHAPES = {"first": (FEATURES, HIDDEN), "second": (HIDDEN, HIDDEN), "third": (HIDDEN, SCORES)}


def write(name: str) -> None:
    """Write a graph, and weights beside it."""
    from onnx import TensorProto, helper, save
    from safetensors.numpy import save_file

    random = numpy.random.default_rng(0)
    weights = {key: random.standard_normal(shape, numpy.float32) / shape[0] for key, shape in SHAPES.items()}
    save_file(weights, f"{name}.safetensors")
    nodes = [
        helper.make_node("MatMul", ["features", "first"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "second"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "third"], ["scores"]),
    ]
    external = [initializer(name, key, shape) for key, shape in SHAPES.items()]
    inputs = [helper.make_tensor_value_info("features", TensorProto.FLOAT, [1, FEATURES])]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, SCORES])]
    graph = helper.make_graph(nodes, "scorer", inputs, outputs, initializer=external)
    # What every ONNX Runtime of the last years reads.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, f"{name}.onnx")


def initializer(name: str, key: str, shape: tuple[int, ...]) -> object:
    """Return an initializer without bytes: the server brings them."""
    from onnx import StringStringEntryProto, TensorProto

    tensor = TensorProto(name=key, data_type=TensorProto.FLOAT, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.append(StringStringEntryProto(key="location", value=f"{Path(name).name}.safetensors"))
    return tensor


def load(name: str) -> tuple[onnxruntime.InferenceSession, list[object]]:
    """Return a session over shared weights, and what has to live as long as it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.disable_prepacking", "1")
    keep: list[object] = []
    for key, array in load_file(f"{name}.safetensors").items():
        value = onnxruntime.OrtValue.ortvalue_from_numpy(array)
        options.add_initializer(key, value)
        keep += [array, value]
    return onnxruntime.InferenceSession(f"{name}.onnx", options, providers=["CPUExecutionProvider"]), keep


class Handler(BaseHTTPRequestHandler):
    """GET answers probes, POST scores."""

    session: onnxruntime.InferenceSession

    def do_GET(self) -> None:
        """Say that the model is loaded."""
        self.answer(200, {"ready": True})

    def do_POST(self) -> None:
        """Score."""
        try:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            features = numpy.asarray(json.loads(body), dtype=numpy.float32).reshape(1, FEATURES)
        except (ValueError, TypeError) as error:
            self.answer(400, {"error": str(error)})
            return
        (scores,) = self.session.run(None, {"features": features})
        self.answer(200, {"scores": scores[0].tolist()})

    def answer(self, status: int, what: object) -> None:
        """Send JSON."""
        body = json.dumps(what).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="A scorer over HTTP.")
    parser.add_argument("--write", action="store_true", help="write the model and end")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("name")
    arguments = parser.parse_args()
    if arguments.write:
        write(arguments.name)
        return
    Handler.session, _weights = load(arguments.name)
    ThreadingHTTPServer(("", arguments.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
