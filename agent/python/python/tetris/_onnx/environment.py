"""Build and processor, on which prepacked weights and optimized graphs depend besides the model."""

from __future__ import annotations

import functools
import hashlib
import platform

import onnxruntime

#: Providers that use prepacked weights in host memory, and that do nothing else to initializers.
HOST_PROVIDERS = frozenset({"CPUExecutionProvider", "AzureExecutionProvider"})


@functools.cache
def fingerprint() -> str:
    """16 hex digits: ONNX Runtime's version and build, the architecture, and the processor's features.

    ONNX Runtime chooses layouts by the processor's features, so a record made on one processor must not be
    taken for that of another one, although both would be checked by content again.
    """
    parts = [onnxruntime.__version__, onnxruntime.get_build_info(), platform.machine(), _processor()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _processor() -> str:
    """Model and feature lines of the first processor; the empty string where the kernel lists none."""
    wanted = ("vendor_id", "model name", "flags", "features", "cpu implementer", "cpu part", "cpu variant")
    lines: list[str] = []
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as cpuinfo:
            for line in cpuinfo:
                if not line.strip():
                    break
                if line.split(":")[0].strip().lower() in wanted:
                    lines.append(line.strip())
    except OSError:
        return ""
    return "\n".join(lines)
