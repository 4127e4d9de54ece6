"""Time that processes save which are ready before they are needed (:mod:`tetris.warm`), by what is ready.

Each sample is the time until a process has the first token of a small decoder with random weights: a new interpreter; a
process that has the modules; one that has the device's context, too; and one that has also run a decoder of the same
shapes, so that the device's kernels are loaded. Samples take turns.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tetris.warm import Pool

from . import machine, stats
from .command_line import count, parser

COLD, MODULES, CONTEXT, KERNELS = "nothing", "modules", "context", "kernels"
WAYS = {
    COLD: "nothing: a new interpreter",
    MODULES: "interpreter and modules",
    CONTEXT: "and the device's context",
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns 1 if the ways gave different tokens."""
    options = _parser().parse_args(arguments)
    os.environ[DEVICE] = options.device
    modules = ["torch", *options.modules]
    # As `python -m` runs it, this module is not the one that processes import.
    name = f"{__package__}.warmth"
    settings: dict[str, dict[str, Any]] = {
        MODULES: {},
        CONTEXT: {"device": options.device},
        KERNELS: {"device": options.device, "prepare": f"{name}:prepare"},
    }
    if not options.device.startswith("cuda"):
        del settings[CONTEXT]
    cold = f"import {', '.join(modules)}; from {name} import infer; print(infer())"

    def fresh() -> int:
        done = subprocess.run([sys.executable, "-c", cold], capture_output=True, text=True, check=True)
        return int(done.stdout)

    pools = {way: Pool(1, modules=modules, **setting) for way, setting in settings.items()}
    times: dict[str, list[float]] = {COLD: [], **{way: [] for way in pools}}
    tokens = set()
    order = random.Random(0)
    private: dict[str, int] = {}
    try:
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
    finally:
        for pool in pools.values():
            pool.close()
    medians = {way: stats.median(samples) or 0.0 for way, samples in times.items()}
    report = {
        "machine": machine.inspect(),
        "options": vars(options),
        "median_s": medians,
        "of_cold": {way: seconds / medians[COLD] for way, seconds in medians.items()},
        "private_bytes": private,
        "tokens": len(tokens),
        "samples_s": times,
    }
    if options.format == "json":
        print(json.dumps(report, indent=1))
    else:
        print(machine.line(machine.inspect()))
        print(f"modules {', '.join(modules)}; device {options.device}; time to the first token by what is ready")
        for way, seconds in medians.items():
            held = f", {private[way] / 2**20:.0f} MiB of private memory" if way in private else ""
            print(f"  {seconds * 1e3:8.1f} ms  {seconds / medians[COLD]:6.3f} of a new interpreter  {WAYS[way]}{held}")
    return 0 if len(tokens) == 1 else 1


def _parser() -> argparse.ArgumentParser:
    options = parser(
        "tetris.bench.warmth",
        "Measure the time that ready processes save (tetris.warm): the time to the first token of a small decoder with "
        "random weights in a new interpreter, in a process that has the modules, in one that also has the device's "
        "context, and in one that has also run a decoder of the same shapes. Samples take turns. Ends with code 1 if "
        "their tokens differ.",
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
