"""Time that processes save which are ready before they are needed (:mod:`tetris.warm`), by what is ready.

Each sample is the time until a process has the first token of a small decoder with random weights: a new interpreter; a
process that has the modules; one that has the device's context, too; one that has also run the operators of a trace,
which another process recorded beforehand; and one that has run a decoder of the same shapes instead. The last two have
the device's kernels, the former without the model's code. Samples take turns.
"""

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from tetris.warm import Pool

from . import machine, stats
from .command_line import count, parser, require
from .text import prose, table

COLD, MODULES, CONTEXT, TRACE, KERNELS = "nothing", "modules", "context", "kernels_from_trace", "kernels"
WAYS = {
    COLD: "nothing: a new interpreter",
    MODULES: "interpreter and modules",
    CONTEXT: "and the device's context",
    TRACE: "and kernels, from a trace",
    KERNELS: "and kernels",
}
DEVICE = "TETRIS_BENCH_WARMTH_DEVICE"


def infer() -> int:
    """Returns the first token of a decoder, on the device that the environment names."""
    import torch

    from .engines.models import Shape
    from .engines.programs.decoder import Decoder
    from .gpu.models import first_token, tokens

    device = os.environ.get(DEVICE, "cpu")
    torch.manual_seed(0)
    with torch.device(device):
        decoder = Decoder(Shape.of(2, 256), fused=False).eval()
    return first_token(decoder, tokens(16, device))


def prepare() -> None:
    """Loads the kernels of :func:`infer`."""
    infer()


def record(path: str) -> None:
    """Records the kernels of :func:`infer` for a model's file."""
    from tetris.torch import record_kernels

    with record_kernels(path):
        infer()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns 1 if the ways gave different tokens, or if nothing of the trace ran."""
    command = _parser()
    options = command.parse_args(arguments)
    require(command, "torch")
    os.environ[DEVICE] = options.device
    modules = ["torch", *options.modules]
    # As `python -m` runs it, this module is not the one that processes import.
    name = f"{__package__}.warmth"
    cold = f"import {', '.join(modules)}; from {name} import infer; print(infer())"

    def fresh() -> int:
        done = subprocess.run([sys.executable, "-c", cold], capture_output=True, text=True, check=True)
        return int(done.stdout)

    times: dict[str, list[float]] = {}
    tokens = set()
    order = random.Random(0)
    private: dict[str, int] = {}
    with contextlib.ExitStack() as stack:
        model = os.path.join(stack.enter_context(tempfile.TemporaryDirectory(prefix="tetris-warmth-")), "model")
        with Pool(1, modules=modules) as recorder:
            recorder.run(f"{name}:record", model).result(600)
            loaded = recorder.run("tetris.warm:load_kernels", model, options.device).result(600)
        settings: dict[str, dict[str, Any]] = {
            MODULES: {},
            CONTEXT: {"device": options.device},
            TRACE: {"device": options.device, "kernels": [model]},
            KERNELS: {"device": options.device, "prepare": f"{name}:prepare"},
        }
        if not options.device.startswith("cuda"):
            del settings[CONTEXT]
        pools = {way: stack.enter_context(Pool(1, modules=modules, **setting)) for way, setting in settings.items()}
        times |= {COLD: [], **{way: [] for way in pools}}
        for _ in range(options.rounds):
            ways: list[tuple[str, Callable[[], int]]] = [(COLD, fresh)]
            ways += [(way, lambda pool=pool: pool.run(f"{name}:infer").result(600)) for way, pool in pools.items()]  # type: ignore[misc]
            order.shuffle(ways)
            for way, take in ways:
                for pool in pools.values():
                    pool.wait()
                private |= {other: pool.private_bytes for other, pool in pools.items()}
                begun = time.perf_counter()
                tokens.add(take())
                times[way].append(time.perf_counter() - begun)
    medians = {way: stats.median(samples) or 0.0 for way, samples in times.items()}
    report = {
        "machine": machine.inspect(),
        "options": vars(options),
        "median_s": medians,
        "of_cold": {way: seconds / medians[COLD] for way, seconds in medians.items()},
        "private_bytes": private,
        "tokens": len(tokens),
        "trace": {"ran": loaded.ran, "left_out": loaded.left_out},
        "samples_s": times,
    }
    if options.format == "json":
        print(json.dumps(report, indent=1))
    else:
        print(prose(machine.line(machine.inspect())))
        print(f"modules {', '.join(modules)}; device {options.device}; time to the first token")
        rows = [("what is ready", "first token", "of a new interpreter", "private memory")]
        for way, seconds in medians.items():
            held = f"{private[way] / 2**20:.0f} MiB" if way in private else "-"
            rows.append((WAYS[way], f"{seconds * 1e3:.1f} ms", f"{seconds / medians[COLD]:.3f}", held))
        print("", *table(rows), "", sep="\n")
        print(f"the trace: {loaded.ran} calls of operators ran, {loaded.left_out} were left out")
    return 0 if len(tokens) == 1 and loaded.ran else 1


def _parser() -> argparse.ArgumentParser:
    options = parser(
        "tetris_bench.warmth",
        "Measure the time that ready processes save (tetris.warm): the time to the first token of a small decoder with "
        "random weights in a new interpreter, in a process that has the modules, in one that also has the device's "
        "context, in one that has also run the operators of a recorded trace, and in one that has run a decoder of the "
        "same shapes instead. Samples take turns. Ends with code 1 if their tokens differ, or if nothing of "
        "the trace ran.",
    )
    add = options.add_argument
    add("--device", default="cpu", help="cpu, or cuda:N [default: %(default)s]")
    add(
        "--modules",
        nargs="*",
        default=[],
        metavar="MODULE",
        help="modules besides torch, such as transformers [default: none]",
    )
    add("--rounds", type=count, default=5, metavar="N", help="samples of each kind of process [default: %(default)s]")
    add("--format", choices=("text", "json"), default="text", help="format of the report [default: %(default)s]")
    return options


if __name__ == "__main__":
    sys.exit(main())
