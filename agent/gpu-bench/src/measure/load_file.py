"""Loads a safetensors file onto a device with torch, once for each line on standard input.

Writes lines of JSON with a result or an error, like the processes of `gpu-bench`.
"""

import ctypes
import json
import os
import signal
import sys
import time


def say(kind, value):
    print(json.dumps({kind: value}), flush=True)


def main():
    file, device, parent = sys.argv[1], sys.argv[2], int(sys.argv[3])
    # PR_SET_PDEATHSIG: a load does not outlive the benchmark.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        return
    try:
        import safetensors
        import torch
        from safetensors.torch import load_file
    except ImportError as error:
        say("result", {"missing": f"this Python has no torch or no safetensors ({error})"})
        return
    if not torch.cuda.is_available():
        say("result", {"missing": "torch finds no CUDA device"})
        return
    # The context, and the library's first use, are not part of a load.
    torch.zeros(1 << 20, device=device)
    torch.cuda.synchronize()
    versions = {"torch": torch.__version__, "cuda": str(torch.version.cuda), "safetensors": safetensors.__version__}
    say("result", {"ready": versions})
    for _ in sys.stdin:
        start = time.perf_counter()
        tensors = load_file(file, device=device)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        del tensors
        torch.cuda.empty_cache()
        say("result", seconds)


try:
    main()
except Exception as error:  # noqa: BLE001  the parent reports it
    say("error", f"{type(error).__name__}: {error}")
