"""A hub with one repository, `org/m`, which promises the SHA-256 of its weights."""

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


FILES = {"config.json": b"{}", "model.safetensors": model()}
SIBLINGS = [
    {"rfilename": name, "size": len(content), "blobId": hashlib.sha1(content).hexdigest()}
    for name, content in FILES.items()
]
SIBLINGS[1]["lfs"] = {
    "sha256": hashlib.sha256(FILES["model.safetensors"]).hexdigest(),
    "size": len(FILES["model.safetensors"]),
}


class Request(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Send the listing, or a range of a file."""
        if "/org/m" not in self.path:
            return self.answer(404, b"no such repository")
        if self.path.startswith("/api/"):
            return self.answer(200, json.dumps({"id": "org/m", "sha": "1" * 40, "siblings": SIBLINGS}).encode())
        content = FILES[self.path.rpartition("/")[2]]
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
