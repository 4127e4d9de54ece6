"""A classifier over HTTP: a JSON list of 64 features in, the scores of 16 labels out.

server.py --write FILE          writes a model with weights that are the same in every pod
server.py [--port N] FILE       serves it
"""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from safetensors.torch import load_file, save_file
from torch import nn

FEATURES, HIDDEN, LABELS = 64, 2048, 16


def build() -> nn.Sequential:
    """Return the model, initialized at random."""
    return nn.Sequential(
        nn.Linear(FEATURES, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, LABELS),
        nn.Softmax(dim=-1),
    )


def write(path: str) -> None:
    """Write a model."""
    torch.manual_seed(0)
    save_file(build().state_dict(), path)


def load(path: str) -> nn.Sequential:
    """Return the model with the weights of a file."""
    with torch.device("meta"):  # no memory for weights that are about to be replaced
        model = build()
    model.load_state_dict(load_file(path), assign=True)
    return model.eval().requires_grad_(False)


class Handler(BaseHTTPRequestHandler):
    """GET answers probes, POST classifies."""

    model: nn.Sequential

    def do_GET(self) -> None:
        """Say that the model is loaded."""
        self.answer(200, {"ready": True})

    def do_POST(self) -> None:
        """Classify."""
        try:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            features = torch.tensor(json.loads(body), dtype=torch.float32).reshape(FEATURES)
        except (ValueError, TypeError, RuntimeError) as error:
            self.answer(400, {"error": str(error)})
            return
        with torch.inference_mode():
            self.answer(200, {"scores": self.model(features).tolist()})

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
    parser = argparse.ArgumentParser(description="A classifier over HTTP.")
    parser.add_argument("--write", action="store_true", help="write the model and end")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("file")
    arguments = parser.parse_args()
    if arguments.write:
        write(arguments.file)
        return
    torch.set_num_threads(1)
    Handler.model = load(arguments.file)
    ThreadingHTTPServer(("", arguments.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
