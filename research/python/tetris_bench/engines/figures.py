"""Figures of an engine, and the bars that it should meet beside itself without the store."""

import statistics
from collections.abc import Iterable
from typing import Any

from .. import stats
from ..stats import Ratio
from .registry import STOCK, TETRIS

COPIES, NEXT, SPEED = 1.05, 0.1, 0.98
"""Most copies of the weights; most of stock's time in the next replicas; least of stock's speed."""

Ways = dict[str, dict[str, Any]]


def of(replicas: int, ways: Ways, *, has_time_limit: bool = True) -> dict[str, Any]:
    """Sums up what was measured of each way, and judges it; the time of the weights if it has a limit."""
    groups = [group for way in ways.values() for group in way["groups"]]
    weight_bytes = _weight_bytes(groups)
    empty_bytes = _weight_bytes(group["empty"] for group in groups if group["empty"] is not None)
    for way in ways.values():
        samples = [_copies(group, weight_bytes, empty_bytes) for group in way["groups"]]
        way["copies"] = samples
        way["unmapped_copies"] = [group["unmapped_bytes"] / weight_bytes for group in way["groups"]]
        way["first_s"] = [group["weights_s"][0] for group in way["groups"]]
        way["next_s"] = [seconds for group in way["groups"] for seconds in group["weights_s"][1:]]
        way["outputs"] = sorted({output for group in way["groups"] for output in group["outputs"]})
        way["medians"] = {
            key: stats.median(way[key]) for key in ("copies", "unmapped_copies", "first_s", "next_s", "per_second")
        }
    agree = ways[TETRIS]["outputs"] == ways[STOCK]["outputs"] and len(ways[TETRIS]["outputs"]) == 1
    return {
        "weight_bytes": weight_bytes,
        "replicas": replicas,
        "ways": ways,
        "outputs_agree": agree,
        "bars": bars(replicas, ways, agree, NEXT if has_time_limit else None),
    }


def bars(replicas: int, ways: Ways, agree: bool, most_time: float | None = NEXT) -> list[dict[str, Any]]:
    """The bars; those that were not measured have no value, and none is judged that has no limit."""
    ours, stock = ways[TETRIS], ways[STOCK]
    copies = ours["copies"]
    speeds = [one / other for one, other in zip(ours["per_second"], stock["per_second"], strict=True)]
    return [
        _bar(
            f"memory of {replicas} replicas",
            "beyond empty engines / final weights",
            ("<=", COPIES),
            Ratio(statistics.median(copies), min(copies), max(copies)),
        ),
        _bar(
            "weights in the next replicas",
            "tetris / stock",
            ("<=", most_time),
            stats.ratio(ours["next_s"], stock["next_s"]),
        ),
        _bar(
            "speed",
            "tetris / stock",
            (">=", SPEED),
            Ratio(statistics.median(speeds), *stats.median_interval(speeds)) if speeds else None,
        ),
        {
            "name": "outputs",
            "formula": "tetris = stock",
            "relation": "=",
            "limit": None,
            "measured": None,
            "range": None,
            "met": agree,
        },
    ]


def _bar(name: str, formula: str, limit: tuple[str, float | None], found: Ratio | None) -> dict[str, Any]:
    relation, value = limit
    met = None
    if found is not None and value is not None:
        met = found.value <= value if relation == "<=" else found.value >= value
    return {
        "name": name,
        "formula": formula,
        "relation": relation,
        "limit": value,
        "measured": found.value if found else None,
        "range": [found.low, found.high] if found else None,
        "met": met,
    }


def _copies(group: dict[str, Any], weight_bytes: int, empty_bytes: int) -> float:
    """Memory of a group beyond empty engines, in copies of the weights; those on an empty model have some as well."""
    empty = group["empty"]
    if empty is None:
        return float(group["after_bytes"] - group["before_bytes"]) / weight_bytes
    return float(group["after_bytes"] - empty["after_bytes"]) / (weight_bytes - empty_bytes)


def _weight_bytes(groups: Iterable[dict[str, Any]]) -> int:
    """Bytes of the weights that one replica runs on, by the replicas that know them; 0 if none does."""
    known = [count for group in groups for count in group["weight_bytes"] if count is not None]
    return int(statistics.median(known)) if known else 0
