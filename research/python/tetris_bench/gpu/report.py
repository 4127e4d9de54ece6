"""The report as text, and its figures."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from .. import stats
from . import functions, starts


def figures(found: dict[str, Any]) -> dict[str, Any]:
    """Medians and ratios of a document's samples."""
    return {
        "starts": [_start(one) for one in found.get("starts", ())],
        "swaps": [_swap(one) for one in found.get("swaps", ())],
        "functions": _functions(found["functions"]) if "functions" in found else None,
    }


def _start(one: dict[str, Any]) -> dict[str, Any]:
    medians = {way: stats.median(samples) for way, samples in one["ways"].items()}
    ours = medians.get(starts.COLD)
    warm = medians.get(starts.WARM)
    others = (starts.PINNED, starts.FILE, starts.RUN_AI)
    peak = one["peak_bytes_per_second"]
    return {
        "model": one["model"],
        "bytes": one["bytes"],
        "tokens": one["tokens"],
        "median_s": medians,
        "over_cold": {way: seconds / ours for way, seconds in medians.items() if ours and seconds and way in others},
        "over_warm": {way: seconds / warm for way, seconds in medians.items() if warm and seconds},
        # No start without weights on the device is faster than the copy, or than the computing.
        "bound_s": max(one["bytes"] / peak, warm) if peak and warm else None,
        "prefix_share": one["prefix_bytes"] / one["bytes"],
        "answers": one["answers"],
        "missing": one["missing"],
    }


def _swap(one: dict[str, Any]) -> dict[str, Any]:
    rate, peak = stats.median(one["bytes_per_second"]), stats.median(one["peak_bytes_per_second"])
    return {
        "model": one["model"],
        "bytes": one["bytes"],
        "light": one["light"],
        "median_s": stats.median(one["seconds"]),
        "resident_s": stats.median(one["resident_seconds"]),
        "bytes_per_second": rate,
        "over_peak": rate / peak if rate and peak else None,
    }


def _functions(one: dict[str, Any]) -> dict[str, Any]:
    ways = {}
    for way, served in one["ways"].items():
        ways[way] = {
            "rates": [
                {
                    "rate": rate["rate"],
                    "requests": len(rate["latencies_s"]),
                    "p50_s": quantile(rate["latencies_s"], 0.5),
                    "p99_s": quantile(rate["latencies_s"], 0.99),
                }
                for rate in served["rates"]
            ],
            "throughput": served["throughput"],
            "device_bytes": served.get("device_bytes"),
        }
    return {
        "functions": one["functions"],
        "bytes": sum(one["bytes"]),
        "room_bytes": one["room_bytes"],
        "answers_agree": one["answers_agree"],
        "ways": ways,
    }


def quantile(samples: Sequence[float], share: float) -> float:
    """The least sample that so many are at most; infinite without samples."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.inf


def lines(found: dict[str, Any]) -> Iterator[str]:
    """The report."""
    device = found["device"]
    yield f"{device.get('name', device['device'])}, driver {device.get('driver')}, torch {device['torch']}"
    shown = found["figures"]
    for start in shown["starts"]:
        yield ""
        size = f"{start['model']}, {start['bytes'] / 1e9:.2f} GB"
        yield f"{size}, text of {start['tokens']} tokens: time to the first token"
        for way, seconds in start["median_s"].items():
            beside = start["over_cold"].get(way)
            more = f", {beside:.2f} times a cold start" if beside else ""
            yield f"  {seconds * 1e3:9.1f} ms  {start['over_warm'][way]:6.2f} x warm  {way}: {starts.WAYS[way]}{more}"
        if start["bound_s"]:
            yield f"  {start['bound_s'] * 1e3:9.1f} ms  the longer of a warm start and a copy at the link's peak rate"
        answers = f"different first tokens: {start['answers']} (1 is right)"
        yield f"  prefix: {start['prefix_share']:.0%} of the model; {answers}"
        for way, reason in start["missing"].items():
            yield f"  SKIPPED {way}: {reason}"
    if shown["swaps"]:
        yield ""
        yield "swaps: from the store to the device"
    for swap in shown["swaps"]:
        peak = f", {swap['over_peak']:.3f} of pinned memory" if swap["over_peak"] else ""
        kind = "light" if swap["light"] else "heavy"
        times = f"{swap['median_s'] * 1e3:8.2f} ms ({swap['resident_s'] * 1e3:.2f} ms if it is there)"
        rate = f"{swap['bytes_per_second'] / 1e9:.2f} GB/s{peak}"
        yield f"  {swap['model']:>8} {swap['bytes'] / 1e6:9.1f} MB, {kind}: {times}, {rate}"
    served = shown["functions"]
    if served:
        yield ""
        room = f"the executor's room is {served['room_bytes'] / 1e9:.2f} GB"
        yield f"{served['functions']} functions of {served['bytes'] / 1e9:.2f} GB; {room}"
        for way, one in served["ways"].items():
            held = (
                f"{one['device_bytes'] / 1e9:.2f} GB of device memory"
                if one["device_bytes"] is not None
                else "memory not counted"
            )
            rate = f"{one['throughput']:.1f} requests/s, one of each function at a time"
            yield f"  {way}: {functions.WAYS[way]}; {rate}; {held}"
            for load in one["rates"]:
                times = f"p50 {load['p50_s'] * 1e3:8.1f} ms, p99 {load['p99_s'] * 1e3:8.1f} ms"
                yield f"    {load['rate']:6.1f} requests/s: {times}, of {load['requests']}"
        yield f"  first tokens agree: {'yes' if served['answers_agree'] else 'NO'}"
