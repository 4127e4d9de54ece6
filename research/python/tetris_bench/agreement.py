"""Check that all methods loaded the same weights and computed the same."""

import math
from typing import Any

TOLERANCE = 1e-4
"""Of outputs, relative: kernels of matrix products depend on how weights are aligned. Weights must agree exactly."""


def disagreement(samples: dict[str, list[dict[str, Any]]]) -> str:
    """The first disagreement as a sentence; empty when there is none."""
    first: tuple[str, dict[str, Any]] | None = None
    for name, entries in samples.items():
        for entry in entries:
            if first is None:
                first = (name, entry)
            if entry["checksum"] != first[1]["checksum"]:
                return f"{name} loaded weights with sum {entry['checksum']}, {first[0]} with {first[1]['checksum']}"
            if not _close(entry["output"], first[1]["output"]):
                return f"{name} computed {entry['output'][:3]}, {first[0]} {first[1]['output'][:3]}"
    return ""


def _close(one: list[float], other: list[float]) -> bool:
    pairs = zip(one, other, strict=False)
    scale = max((abs(value) for value in other), default=1.0)
    return len(one) == len(other) and all(
        math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE * scale) for a, b in pairs
    )
