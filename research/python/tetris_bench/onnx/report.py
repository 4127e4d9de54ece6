"""The report."""

import statistics
from typing import Any

from .. import machine
from ..text import prose, table
from .methods import METHODS, SHARED

MIB = 1 << 20
COLUMNS = ("method", "memory", "private each", "store", "first session", "session", "first run", "run", "of plain")
LEGEND = (
    "memory: what all processes hold beyond their start, and the whole store; of files, what is mapped.",
    "first session: the first of the node, which fills the store.",
    "session, first run: medians of the rounds.",
    "run, of plain: medians of runs that the methods take in turns, and of their ratios to the first method.",
)


def show(report: dict[str, Any]) -> None:
    import onnxruntime

    count, threads = report["options"]["processes"], report["options"]["threads"]
    print(prose(machine.line(report["machine"])))
    print(
        prose(f"ONNX Runtime {onnxruntime.__version__}, {count} processes, {threads} thread(s), seed {report['seed']}")
    )
    for model in report["models"]:
        first = next(iter(model["methods"].values()))
        print()
        print(prose(f"{model['model']}, {model['model_bytes'] / MIB:.0f} MiB; {first['place']}"))
        agree = "yes" if model["outputs_agree"] else "NO"
        print(f"outputs agree among packed and among unpacked methods: {agree}")
        rows = [COLUMNS, *(_row(name, method, first) for name, method in model["methods"].items())]
        print("", *table(rows), sep="\n")
    print()
    for name, what in METHODS.items():
        print(prose(f"{name}: {what}"))
    print("", *map(prose, LEGEND), sep="\n")


def _row(name: str, method: dict[str, Any], first: dict[str, Any]) -> tuple[str, ...]:
    shared = name in SHARED
    label = name if not shared or method["weights"] == name else f"{name} (as {method['weights']})"
    return (
        label,
        f"{method['memory_bytes'] / MIB:.0f} MiB",
        f"{method['private_bytes_each'] / MIB:.1f} MiB",
        f"{method['store_bytes'] / MIB:.0f} MiB" if shared else "-",
        f"{method['made_s'] * 1e3:.0f} ms" if shared else "-",
        *(f"{statistics.median(method[key]) * 1e3:.1f} ms" for key in ("session_s", "first_s", "run_s")),
        f"{_ratio(method['run_s'], first['run_s']):.2f}",
    )


def _ratio(times: list[float], others: list[float]) -> float:
    """Median of the ratios within the turns."""
    return statistics.median(one / other for one, other in zip(times, others, strict=True))
