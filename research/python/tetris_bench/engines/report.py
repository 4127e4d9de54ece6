"""Tables for people; programs take `--format json`."""

from typing import Any

from .. import machine
from ..text import notes, prose, size, table, time

UNMAPPED = 0.01
"""Copies in the store that nobody maps, from which on they are told."""


def head(report: dict[str, Any]) -> str:
    """Machine and settings."""
    options = report["options"]
    files = "a copy of the model each" if options["own_files"] else "all of the same files"
    lines = (
        f"machine: {machine.line(report['machine'])}",
        f"seed {report['seed']}, {report['rounds']} rounds of {report['replicas']} replicas, "
        f"{options['threads']} threads each, {files}",
    )
    return "\n".join(prose(line) for line in lines) + "\n"


def engine(found: dict[str, Any]) -> str:
    """One engine."""
    lines = ["", prose(f"{found['engine']}: {found['description']}")]
    if found["outcome"] != "measured":
        return "\n".join([*lines, prose(f"  {found['outcome']}: {found['reason']}")]) + "\n"
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    lines += [prose(f"{versions}; {size(found['weight_bytes'])} of weights as they run"), ""]
    columns = ("way", f"memory of {found['replicas']}", "weights, first", "weights, next", found["unit"])
    lines += table([columns, *(_row(name, way) for name, way in found["ways"].items())])
    lines += [prose(f"  {name}: {way['description']}") for name, way in found["ways"].items()]
    lines += ["", *table([("bar", "ratio", "measured", "range", "limit", ""), *map(_bar, found["bars"])])]
    if not found["outputs_agree"]:
        lines.append("OUTPUTS DIFFER")
    return "\n".join(lines) + "\n"


def closing(report: dict[str, Any]) -> str:
    """Notes that a reader needs to judge the figures."""
    return notes(report["notes"])


def _row(name: str, way: dict[str, Any]) -> tuple[str, ...]:
    medians = way["medians"]
    seconds = (medians["first_s"], medians["next_s"])
    first, following = (time(None if value is None else 1e9 * value) for value in seconds)
    copies = f"{medians['copies']:.3f} copies"
    if medians["unmapped_copies"] >= UNMAPPED:
        copies += f", {medians['unmapped_copies']:.3f} unmapped"
    return (name, copies, first, following, f"{medians['per_second']:.3g}")


def _bar(bar: dict[str, Any]) -> tuple[str, ...]:
    verdict = {None: "not judged", True: "met", False: "MISSED"}[bar["met"]]
    if bar["measured"] is None:
        return (bar["name"], bar["formula"], "-", "", _limit(bar), verdict)
    low, high = bar["range"]
    return (bar["name"], bar["formula"], f"{bar['measured']:.3f}", f"{low:.3f} to {high:.3f}", _limit(bar), verdict)


def _limit(bar: dict[str, Any]) -> str:
    return "" if bar["limit"] is None else f"{bar['relation']} {bar['limit']:g}"
