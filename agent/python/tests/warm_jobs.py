"""Functions that run in processes of a pool."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from tetris import warm

#: What an earlier job left.
LEFT: list[str] = []


def prepare() -> None:
    LEFT.append("prepared")


def prepare_much() -> None:
    global _much
    _much = bytearray(os.urandom(64 << 20))


def prepare_after_kernels() -> None:
    LEFT.append("kernels" if "tetris._kernels_replay" in sys.modules else "no kernels")


def has_module(name: str) -> bool:
    return name in sys.modules


def left() -> list[str]:
    return LEFT


def fail() -> None:
    raise RuntimeError("no kernels here")


def seen(secret: str) -> tuple[int, list[str], str | None, bool]:
    found = list(LEFT)
    LEFT.append(secret)
    return os.getpid(), found, os.environ.get("TETRIS_TEST_SECRET"), "json" in sys.modules


def raises() -> None:
    raise KeyError("absent")


def ends() -> None:
    os._exit(7)


def unsendable() -> object:
    return lambda: None


def sleeps() -> None:
    time.sleep(600)


def serve_that_ends(*arguments: Any) -> None:
    _serve(lambda *_: os.abort(), arguments)


def serve_that_hangs(*arguments: Any) -> None:
    _serve(lambda *_: time.sleep(600), arguments)


def serve_that_raises(*arguments: Any) -> None:
    _serve(lambda *_: fail(), arguments)


def _serve(load: Any, arguments: Any) -> None:
    """Life of a process in which kernels are loaded by `load`."""
    warm.load_kernels = load
    warm._serve(*arguments)
