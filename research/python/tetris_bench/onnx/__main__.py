"""The command: see `python -m tetris_bench.onnx --help`."""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import machine
from ..command_line import count, names, parser, require
from ..place import enter_own_mounts
from . import report
from .measure import measure
from .methods import METHODS
from .models import SEED, generate

DISAGREEMENT = 3
EXIT_CODES = """\
exit codes:
  0    the methods computed what plain ONNX Runtime does
  1    the run could not go on
  2    the command line is wrong
  3    a method computed something else
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns 0, or 3 where a method did not compute what plain ONNX Runtime does."""
    command = _parser()
    options = command.parse_args(arguments)
    require(command, "numpy", "onnxruntime", *(() if options.model else ("onnx",)))
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
    options = parser(
        "tetris_bench.onnx",
        "Measure the cost of ONNX Runtime's prepacking, and the savings of each form of sharing, beside plain ONNX "
        "Runtime: time of sessions and of runs, and memory of processes that share a model.",
        EXIT_CODES,
        names("methods", METHODS.items()),
    )
    add = options.add_argument
    add(
        "--model",
        action="append",
        default=[],
        metavar="FILE",
        help="ONNX file to measure; can be repeated [default: two generated models]",
    )
    for option, default, about in (
        ("--layers", 6, "layers of the generated transformer"),
        ("--width", 768, "width of the generated transformer"),
        ("--channels", 512, "channels of the generated convolutions"),
        ("--processes", 8, "processes that share a model"),
        ("--rounds", 5, "rounds of timing"),
        ("--runs", 20, "inferences in a round"),
        ("--threads", 1, "threads of a session"),
    ):
        add(option, type=count, default=default, metavar="N", help=f"{about} [default: %(default)s]")
    add(
        "--dimension",
        action="append",
        default=[],
        metavar="NAME=N",
        help="size of a symbolic dimension of the inputs; can be repeated [default: 1 for each]",
    )
    add(
        "--store-parent",
        type=Path,
        metavar="DIR",
        help="directory on a tmpfs for the stores [default: mounts of their own as root, else /dev/shm]",
    )
    add(
        "--methods",
        default=",".join(METHODS),
        metavar="NAME,...",
        help="methods to measure, separated by commas [default: all]",
    )
    add("--format", choices=("text", "json"), default="text", help="format of the report [default: %(default)s]")
    return options


if __name__ == "__main__":
    sys.exit(main())
