"""Loads a safetensors file onto a device with a library for PyTorch, once for each line on standard input.

Arguments: the way to load, the file, the device, the process id of the parent. Writes lines of JSON with a result or
an error, like the processes of `gpu-bench`.
"""

import ctypes
import inspect
import json
import os
import signal
import sys
import time


class Missing(Exception):
    """The reason this interpreter cannot load in this way."""


def say(kind, value):
    print(json.dumps({kind: value}), flush=True)


def of_safetensors(file, device, **options):
    """Loads with `safetensors.torch.load_file`."""
    import safetensors
    from safetensors.torch import load_file

    absent = [name for name in options if name not in inspect.signature(load_file).parameters]
    if absent:
        raise Missing(f"safetensors {safetensors.__version__} has no option {absent[0]} of load_file (0.8 has it)")
    return f"safetensors {safetensors.__version__}", lambda: load_file(file, device=device, **options)


def of_pinned_memory(file, device):
    """Copies tensors that are in pinned memory before the first load."""
    import torch
    from safetensors.torch import load_file

    # A host that is the device needs no pinned memory, and torch has none without CUDA.
    keep = torch.Tensor.pin_memory if device.startswith("cuda") else torch.Tensor.clone
    tensors = {}

    def load():
        if not tensors:
            tensors.update((name, keep(tensor)) for name, tensor in load_file(file).items())
        return {name: tensor.to(device, non_blocking=True, copy=True) for name, tensor in tensors.items()}

    return "torch alone", load


def of_run_ai(file, device):
    """Loads with the Run:ai model streamer."""
    from importlib.metadata import version

    try:
        from runai_model_streamer import SafetensorsStreamer
    except ImportError as error:
        raise Missing(f"this Python has no runai-model-streamer ({error})") from error
    # Older versions yield tensors of the host, over a buffer that they fill again.
    places = "device" in inspect.signature(SafetensorsStreamer.stream_file).parameters

    def load():
        with SafetensorsStreamer() as streamer:
            if places:
                streamer.stream_file(file, device=device)
                return dict(streamer.get_tensors())
            streamer.stream_file(file)
            return {name: tensor.to(device, copy=True) for name, tensor in streamer.get_tensors()}

    return f"runai-model-streamer {version('runai-model-streamer')}", load


WAYS = {
    "load-file": of_safetensors,
    "load-file-pread": lambda file, device: of_safetensors(file, device, backend="pread"),
    "pinned-copies": of_pinned_memory,
    "run-ai": of_run_ai,
}


def prepared(way, file, device):
    """Returns versions, the function that loads, and the one that waits for the device."""
    try:
        import safetensors.torch  # noqa: F401  every way needs it or its files
        import torch
    except ImportError as error:
        raise Missing(f"this Python has no torch or no safetensors ({error})") from error
    if device.startswith("cuda"):
        if not torch.cuda.is_available():
            raise Missing("torch finds no CUDA device")
        # The context, and the library's first use, are not part of a load.
        torch.zeros(1 << 20, device=device)
        torch.cuda.synchronize()
    library, load = WAYS[way](file, device)
    return {"torch": torch.__version__, "cuda": str(torch.version.cuda), "library": library}, load, torch.cuda


def main():
    way, file, device, parent = *sys.argv[1:4], int(sys.argv[4])
    # PR_SET_PDEATHSIG: a load does not outlive the benchmark.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        return
    try:
        versions, load, cuda = prepared(way, file, device)
    except Missing as reason:
        say("result", {"missing": str(reason)})
        return
    say("result", {"ready": versions})
    on_gpu = device.startswith("cuda")
    for _ in sys.stdin:
        start = time.perf_counter()
        tensors = load()
        if on_gpu:
            cuda.synchronize()
        seconds = time.perf_counter() - start
        loaded = sum(tensor.nbytes for tensor in tensors.values())
        del tensors
        if on_gpu:
            cuda.empty_cache()
        say("result", {"seconds": seconds, "bytes": loaded})


try:
    main()
except Exception as error:
    say("error", f"{type(error).__name__}: {error}")
