"""The ratios that `tetris` should reach, measured side by side in one run."""

from typing import Any

from . import stats
from .side_by_side import CONTROL

NOISY = 0.1
"""Noise of a ratio above which it says nothing about 1.00."""

Samples = dict[str, list[dict[str, Any]]]


def of(samples: Samples, memory: dict[str, dict[str, Any]], inference: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The bars of one model; those whose methods did not run have no value."""

    def against(what: str, key: str, other: str, limit: float) -> dict[str, Any]:
        ours, theirs = ([sample[key] for sample in samples.get(name, [])] for name in ("tetris", other))
        found = stats.ratio(ours, theirs)
        return bar(what, f"tetris / {other}", limit, found)

    both = "load + first touch"
    result = [
        against("load", "load_ns", "safetensors", 0.7),
        against("first touch", "touch_ns", "safetensors", 1.1),
        against("first touch", "touch_ns", "safetensors-own-file", 0.5),
        against(both, "load_and_touch_ns", "pread", 0.05),
        against(both, "load_and_touch_ns", "clone", 0.05),
        against(both, "load_and_touch_ns", "runai-streamer", 0.05),
    ]
    own = memory.get("tetris-own-file")
    copies = stats.Ratio(own["copies"], own["copies"], own["copies"]) if own else None
    count = f"{own['processes']} processes" if own else "processes"
    result.append(bar(f"memory of {count}, own file each", "beyond interpreters / one copy", 1.05, copies))
    return [*result, _inference(inference)]


def _inference(inference: list[dict[str, Any]]) -> dict[str, Any]:
    """The ratio to private tensors; met when it is at most 1.00 within noise, undecided when there is too much of it.

    Noise is the 95 % interval of the median, or how far a second process with private tensors is from the first.
    """
    found = {entry["method"]: entry for entry in inference}
    ours, control = found.get("tetris"), found.get(CONTROL)
    if ours is None or control is None:
        return bar("inference", "tetris / clone", 1.0, None)
    low, high = ours["ratio_interval_95"]
    found_bar = bar("inference", "tetris / clone", 1.0, stats.Ratio(ours["ratio_to_private"], low, high))
    noise = max(ours["ratio_to_private"] - low, abs(control["ratio_to_private"] - 1.0))
    met = ours["ratio_to_private"] <= 1.0 + noise if noise <= NOISY else None
    return found_bar | {"noise": noise, "met": met}


def bar(name: str, formula: str, limit: float, found: stats.Ratio | None) -> dict[str, Any]:
    """A ratio that should not be exceeded; it has no value where it was not measured."""
    return {
        "name": name,
        "formula": formula,
        "limit": limit,
        "measured": found.value if found else None,
        "range": [found.low, found.high] if found else None,
        "met": found.value <= limit if found else None,
    }
