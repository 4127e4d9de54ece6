"""Captures of CUDA graphs, in which device memory stays mapped.

Before memory is unmapped the device is waited for, and that wait would end a capture anywhere in the process.
"""

from __future__ import annotations

from typing import Any

import torch

from tetris import _native

_guarded = False


def guard_captures() -> None:
    """Let every capture of torch keep the mirror's memory mapped while it lasts."""
    global _guarded
    if _guarded:
        return
    _guarded = True
    guard(torch.cuda.CUDAGraph)


def guard(graph: Any) -> None:
    """Let captures of this class of graphs keep the mirror's memory mapped."""
    begin, end = graph.capture_begin, graph.capture_end

    def capture_begin(self: Any, *args: Any, **options: Any) -> None:
        pause = _native.UnmappingPause()
        try:
            begin(self, *args, **options)
        except BaseException:
            pause.end()
            raise
        # It ends with the graph, too.
        self._tetris_pause = pause

    def capture_end(self: Any) -> None:
        try:
            end(self)
        finally:
            pause = self.__dict__.pop("_tetris_pause", None)
            if pause is not None:
                pause.end()

    graph.capture_begin, graph.capture_end = capture_begin, capture_end
