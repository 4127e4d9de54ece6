"""Servers of serving stacks, as in `examples/serving`, and what is checked of all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from server_programs import (
    EXAMPLES,
    WORKERS,
    Kind,
    Model,
    Server,
    Store,
    assert_nothing_held,
    assert_one_copy,
)

FOLDER = EXAMPLES / "serving"


def serving(name: str, command: list[str], url: str, request: Any, answer: Any, **environment: str) -> Kind:
    """A server of `examples/serving`, which differs from one without the store in its environment alone."""
    own = {"TETRIS_PATCH": "1", "PYTHONPATH": str(FOLDER), "WORKERS": str(WORKERS), **environment}
    return Kind(name, command, "classifier", url, request, answer, (), own)


def check(kind: Kind, model: Model, store: Store, tmp_path: Path) -> None:
    """All workers hold one copy, their answers are right, and they leave nothing behind."""
    with Server(kind, model, store, tmp_path / "log") as server:
        workers = server.answers_of(model, WORKERS, in_turn=False)
        assert_one_copy(store, model, server.pids(), workers)
        server.terminate()
        assert_nothing_held(store)
