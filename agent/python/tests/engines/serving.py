"""Servers of serving stacks, as in `examples/serving`, and what is checked of all of them."""

from __future__ import annotations

import http.client
import urllib.request
from pathlib import Path
from typing import Any

from server_programs import (
    EXAMPLES,
    HANGS_S,
    WORKERS,
    Kind,
    Model,
    Server,
    Store,
    assert_nothing_held,
    assert_one_copy,
    wait_until,
)

FOLDER = EXAMPLES / "serving"
#: The Open Inference Protocol's path of the classifier.
OPEN_INFERENCE = "/v2/models/classifier"


def serving(name: str, command: list[str], url: str, request: Any, answer: Any, **environment: str) -> Kind:
    """A server of `examples/serving`, which differs from one without the store in its environment alone."""
    own = {"TETRIS_PATCH": "1", "PYTHONPATH": str(FOLDER), "WORKERS": str(WORKERS), **environment}
    return Kind(name, command, "classifier", url, request, answer, (), own)


def open_inference(name: str, command: list[str], **environment: str) -> Kind:
    """The same with the Open Inference Protocol, in which tensors have names."""
    kind = serving(name, command, f"{OPEN_INFERENCE}/infer", _tensors, lambda document: _output(document, "scores"))
    own = {**kind.environment, **environment}
    return kind._replace(environment=own, pid=lambda document: _output(document, "pid")[0])


def _tensors(features: list[float]) -> dict[str, Any]:
    return {"inputs": [{"name": "features", "shape": [len(features)], "datatype": "FP32", "data": features}]}


def _output(document: Any, name: str) -> Any:
    return next(output["data"] for output in document["outputs"] if output["name"] == name)


def wait_until_ready(server: Server, url: str, said: str = "") -> None:
    """Wait until a server that listens before it has its model says, at `url`, that it has."""
    wait_until(lambda: server.process.poll() is not None or _says(server.port, url, said), server.log)
    assert server.process.poll() is None, server.log()


def _says(port: int, url: str, said: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{url}", timeout=HANGS_S) as answer:
            return said in answer.read().decode()
    except (OSError, http.client.HTTPException):
        return False


def check(
    kind: Kind,
    model: Model,
    store: Store,
    tmp_path: Path,
    ready: tuple[str, str] | None = None,
) -> None:
    """All workers hold one copy, their answers are right, and they leave nothing behind.

    Where `ready` is a path and a part of the answer, nothing is asked before the server answers so.
    """
    with Server(kind, model, store, tmp_path / "log") as server:
        if ready is not None:
            wait_until_ready(server, *ready)
        workers = server.answers_of(model, WORKERS, in_turn=False)
        assert_one_copy(store, model, server.pids(), workers)
        server.terminate()
        assert_nothing_held(store)
