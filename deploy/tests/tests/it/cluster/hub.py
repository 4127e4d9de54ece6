"""A hub with repositories of `org`, which promises the SHA-256 of their weights."""

import hashlib
import json
import random
import struct
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TENSORS = [("large", 40 << 20), ("other", 6 << 20), ("small", 4000), ("bias", 40)]


def model() -> bytes:
    """A safetensors file."""
    header, end = {}, 0
    for name, size in TENSORS:
        header[name] = {"dtype": "F32", "shape": [size // 4], "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + random.Random(1).randbytes(end)


def field(number: int, value: int | bytes | str) -> bytes:
    """A field of a protobuf message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    payload = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


def graph() -> bytes:
    """An ONNX graph that multiplies rows of 256 numbers by a matrix of 1 MiB, and the results 32 times by one of 4 MiB."""
    rows, columns, times = 256, 1024, 32

    def value(name: str, columns: int) -> bytes:
        shape = field(1, field(2, "batch")) + field(1, field(1, columns))
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))

    def product(left: str, right: str, result: str) -> bytes:
        return field(1, field(1, left) + field(1, right) + field(2, result) + field(4, "MatMul"))

    def weights(name: str, rows: int) -> bytes:
        numbers = struct.pack(f"<{rows * columns}f", *(index % 7 / 7e3 for index in range(rows * columns)))
        return field(5, field(1, rows) + field(1, columns) + field(2, 1) + field(8, name) + field(9, numbers))

    names = ["first", *(f"result{number}" for number in range(times - 1)), "y"]
    nodes = product("x", "w", "first") + b"".join(
        product(left, "v", result) for left, result in zip(names, names[1:], strict=False)
    )
    initial = weights("w", rows) + weights("v", columns)
    ends = field(11, value("x", rows)) + field(12, value("y", columns))
    return field(1, 8) + field(7, nodes + field(2, "graph") + initial + ends) + field(8, field(2, 17))


REPOSITORIES = {
    "m": {"config.json": b"{}", "model.safetensors": model()},
    "encoder": {"config.json": b'{"architectures": ["BertModel"]}', "model.onnx": graph()},
    "unserved": {"config.json": b'{"architectures": ["LlamaForCausalLM"]}', "model.safetensors": model()},
}


def siblings(files: dict[str, bytes]) -> list[dict[str, object]]:
    """The files of a repository as the hub lists them, with the SHA-256 of all but the configuration."""
    listed: list[dict[str, object]] = []
    for name, content in files.items():
        entry: dict[str, object] = {"rfilename": name, "size": len(content), "blobId": hashlib.sha1(content).hexdigest()}
        if name != "config.json":
            entry["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        listed.append(entry)
    return listed


class Request(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Send the listing, or a range of a file."""
        name = self.path.partition("/org/")[2].partition("?")[0].partition("/")[0]
        files = REPOSITORIES.get(name)
        if files is None:
            return self.answer(404, b"no such repository")
        if self.path.startswith("/api/"):
            listing = {"id": f"org/{name}", "sha": "1" * 40, "siblings": siblings(files)}
            return self.answer(200, json.dumps(listing).encode())
        content = files[self.path.rpartition("/")[2]]
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last) + 1]
        self.answer(206, part, f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}")

    def answer(self, status: int, body: bytes, content_range: str = "") -> None:
        """Send a body."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("", 8000), Request).serve_forever()
