"""The command: see `python -m tetris.bench.onnx --help`."""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import machine
from ..place import enter_own_mounts
from . import __doc__ as what
from . import report
from .measure import measure
from .methods import METHODS
from .models import SEED, generate

DISAGREEMENT = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns 0, or 3 where a method did not compute what plain ONNX Runtime does."""
    options = _parser().parse_args(arguments)
    enter_own_mounts()
    found: dict[str, Any] = {"machine": machine.inspect(), "seed": SEED, "options": vars(options), "models": []}
    with tempfile.TemporaryDirectory(prefix="tetris-bench-onnx-") as directory:
        models = [Path(model) for model in options.model] or generate(
            Path(directory), layers=options.layers, width=options.width, channels=options.channels
        )
        for model in models:
            found["models"].append(measure(model, options))
    if options.format == "json":
        print(json.dumps(found, indent=1, default=str))
    else:
        report.show(found)
    return 0 if all(model["outputs_agree"] for model in found["models"]) else DISAGREEMENT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tetris.bench.onnx", description=what)
    parser.add_argument("--model", action="append", default=[], help="an ONNX file; without one, two are generated")
    parser.add_argument("--layers", type=int, default=6, help="layers of the generated transformer")
    parser.add_argument("--width", type=int, default=768, help="width of the generated transformer")
    parser.add_argument("--channels", type=int, default=512, help="channels of the generated convolutions")
    parser.add_argument("--processes", type=int, default=8, help="that share a model")
    parser.add_argument("--rounds", type=int, default=5, help="of timing")
    parser.add_argument("--runs", type=int, default=20, help="inferences in a round")
    parser.add_argument("--threads", type=int, default=1, help="of a session")
    parser.add_argument(
        "--dimension",
        action="append",
        default=[],
        metavar="NAME=N",
        help="a symbolic dimension of the inputs; 1 where it is not given",
    )
    parser.add_argument("--store-parent", type=Path, help="directory on a tmpfs for the stores")
    methods = "; ".join(f"{name}: {what}" for name, what in METHODS.items())
    parser.add_argument(
        "--methods", default=",".join(METHODS), help=f"which to measure, separated by commas. {methods}"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    return parser


if __name__ == "__main__":
    sys.exit(main())
