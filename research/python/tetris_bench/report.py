"""Tables for people; programs take `--format json`."""

from typing import Any

from . import machine
from .side_by_side import CONTROL
from .text import notes, prose, size, table, time

COLUMNS = ("method", "load", "first touch", "second", "both", "first inference", "first result", "inference", "memory")


def part(found: dict[str, Any]) -> str:
    """The head of a report, its small files, or one of its models."""
    if "machine" in found:
        return head(found)
    return small(found) if "small_files" in found else model(found)


def small(found: dict[str, Any]) -> str:
    """Small files and modules, and their bars."""
    rows = [(case["name"], time(case["plain_ns"]), time(case["patched_ns"])) for case in found["cases"]]
    lines = ["", f"small files and modules: {found['small_files']} of each", ""]
    lines += table([("what", "safetensors, torch", "patched"), *rows])
    lines += ["", *table([("bar", "ratio", "measured", "range", "limit", ""), *map(_bar, found["bars"])])]
    return "\n".join(lines) + "\n"


def head(report: dict[str, Any]) -> str:
    """Machine, versions and seed."""
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    lines = (
        f"machine: {machine.line(report['machine'])}",
        f"versions: {versions}",
        f"seed {report['seed']}, {report['rounds']} rounds, groups of {report['processes']}",
    )
    return "\n".join(prose(line) for line in lines) + "\n"


def model(measured: dict[str, Any]) -> str:
    """One model under all methods, and its bars."""
    first = measured["first_load_ns"]
    lines = [
        "",
        prose(
            f"{measured['name']}: {size(measured['tensor_bytes'])} in {measured['tensors']} tensors, "
            f"inference: {measured['inference_kind']}"
        ),
    ]
    if first is not None:
        store = f"store: {measured['store_place']}; the first load of all, which publishes, took {time(first)}"
        lines.append(prose(store))
    lines += ["", *table([COLUMNS, *(_row(entry, measured["inference"]) for entry in measured["methods"])])]
    lines += [prose(f"  {entry['method']}: {entry['reason']}") for entry in measured["methods"] if entry["reason"]]
    lines += _control(measured["inference"])
    lines += ["", *table([("bar", "ratio", "measured", "range", "limit", ""), *map(_bar, measured["bars"])])]
    if measured["disagreement"]:
        lines.append(prose(f"METHODS DISAGREE: {measured['disagreement']}"))
    return "\n".join(lines) + "\n"


def closing(report: dict[str, Any]) -> str:
    """Notes that a reader needs to judge the figures."""
    return notes(report["notes"])


def _row(entry: dict[str, Any], inference: list[dict[str, Any]]) -> tuple[str, ...]:
    if entry["outcome"] == "skipped":
        return (entry["method"], "not installed", *[""] * (len(COLUMNS) - 2))
    keys = ("load_ns", "touch_ns", "touch_again_ns", "load_and_touch_ns", "first_inference_ns", "first_result_ns")
    ratios = {other["method"]: other["ratio_to_private"] for other in inference}
    ratio = ratios.get(entry["method"])
    memory = entry["memory"]
    held = f"{size(memory['beyond_interpreter_bytes'])} = {memory['copies']:.3f} copies" if memory else "-"
    times = (time(entry["medians"][key]) for key in keys)
    return (entry["method"], *times, f"{ratio:.3f}" if ratio else "-", held)


def _control(inference: list[dict[str, Any]]) -> list[str]:
    control = next((entry for entry in inference if entry["method"] == CONTROL), None)
    if control is None:
        return []
    ratio = f"{CONTROL}, which should be 1: {control['ratio_to_private']:.3f}"
    return [prose(f"  inference: ratio to private tensors; {ratio}")]


def _bar(bar: dict[str, Any]) -> tuple[str, ...]:
    if bar["measured"] is None:
        return (bar["name"], bar["formula"], "-", "", f"<= {bar['limit']:g}", "not measured")
    low, high = bar["range"]
    verdict = "met" if bar["met"] else "MISSED"
    if bar["met"] is None:
        verdict = f"too noisy to tell ({bar['noise']:.3f})"
    elif bar["met"] and bar["measured"] > bar["limit"]:
        verdict = f"met within noise ({bar['noise']:.3f})"
    measured, limit = f"{bar['measured']:.3f}", f"<= {bar['limit']:g}"
    return (bar["name"], bar["formula"], measured, f"{low:.3f} to {high:.3f}", limit, verdict)
