"""Description of the machine of a run."""

import os
import platform
from pathlib import Path
from typing import Any

from . import memory


def inspect() -> dict[str, Any]:
    """Processor, memory in bytes, kernel, settings of large pages, and what else was running."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": memory.total(),
        "memory_available_bytes": memory.available(),
        "kernel": platform.release(),
        "transparent_hugepage": _selected("enabled"),
        "load_average": os.getloadavg()[0],
    }


def line(machine: dict[str, Any]) -> str:
    """The same for the head of a report."""
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.1f} GiB, "
        f"Linux {machine['kernel']}, transparent large pages {machine['transparent_hugepage']}, "
        f"load average {machine['load_average']:.2f}"
    )


def _processor() -> str:
    for entry in Path("/proc/cpuinfo").read_text().splitlines():
        if entry.startswith("model name"):
            return entry.partition(":")[2].strip()
    return platform.machine()


def _selected(setting: str) -> str:
    """The word in brackets of a kernel setting."""
    try:
        text = Path(f"/sys/kernel/mm/transparent_hugepage/{setting}").read_text()
    except OSError:
        return "unknown"
    return text.partition("[")[2].partition("]")[0] or text.strip()
