"""Captures of CUDA graphs keep device memory mapped. The graph is one in name only."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

from tetris import _native
from tetris._device.capture import guard


class Graph:
    """As `torch.cuda.CUDAGraph` has it."""

    def __init__(self, error: type[Exception] | None = None) -> None:
        self.error = error
        self.calls: list[Any] = []

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        self.calls.append((pool, capture_error_mode, self.is_paused()))
        if self.error:
            raise self.error

    def capture_end(self) -> None:
        self.calls.append(self.is_paused())
        if self.error:
            raise self.error

    def is_paused(self) -> bool:
        return isinstance(self.__dict__.get("_tetris_pause"), _native.UnmappingPause)


guard(Graph)


def test_unmapping_pauses_for_the_time_of_a_capture() -> None:
    graph = Graph()
    for _ in range(2):
        graph.capture_begin(pool=7, capture_error_mode="relaxed")
        assert graph.is_paused()
        graph.capture_end()
        assert not graph.is_paused()
    assert graph.calls == [(7, "relaxed", False), True] * 2


def test_a_capture_that_fails_leaves_no_pause() -> None:
    graph = Graph(RuntimeError)
    with pytest.raises(RuntimeError):
        graph.capture_begin()
    assert not graph.is_paused()
    graph.error = None
    graph.capture_begin()
    graph.error = RuntimeError
    with pytest.raises(RuntimeError):
        graph.capture_end()
    assert not graph.is_paused()
