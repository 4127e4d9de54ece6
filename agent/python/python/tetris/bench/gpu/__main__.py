"""The command: see `python -m tetris.bench.gpu --help`."""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from .. import machine
from ..context import Progress
from . import functions, report, starts, swaps
from .models import shape_of
from .node import MIB, Node

SCHEMA = "tetris-python-gpu-bench/1"
PARTS = ("starts", "swaps", "functions")
DISAGREEMENT = 3
EXIT_CODES = """\
exit codes:
  0    all parts were measured
  1    a part failed (the report has the others)
  2    the command line is wrong
  3    the ways gave different first tokens
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code."""
    options = _parser().parse_args(arguments)
    progress = Progress()

    def say(text: str) -> None:
        progress.say(text)

    with tempfile.TemporaryDirectory(prefix="tetris-bench-gpu-", dir=options.workdir) as folder:
        node = Node(options.device, Path(folder), options.part_mib * MIB)
        found: dict[str, Any] = {
            "schema": SCHEMA,
            "command": ["python", "-m", "tetris.bench.gpu", *sys.argv[1:]],
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": machine.inspect(),
            "device": node.describe(),
            "failures": {},
        }
        for part in options.only:
            try:
                _take(part, node, options, found, say)
            except Exception as error:
                found["failures"][part] = f"{type(error).__name__}: {error}"
            progress.clear()
            found["figures"] = report.figures(found)
            if options.keep:
                _keep(options.keep, found)
    if options.format == "json":
        print(json.dumps(found, indent=1))
    else:
        print("\n".join(report.lines(found)))
    for part, reason in found["failures"].items():
        print(f"tetris.bench.gpu: {part} failed: {reason}", file=sys.stderr)
    return _exit_code(found)


def _take(
    part: str, node: Node, options: argparse.Namespace, found: dict[str, Any], say: Callable[[str], None]
) -> None:
    with torch.inference_mode():
        if part == "starts":
            found["starts"] = []
            for name in options.models:
                found["starts"] += starts.measure(node, name, shape_of(name), options.tokens, options.rounds, say)
        elif part == "swaps":
            found["swaps"] = []
            for name in options.swaps:
                found["swaps"].append(swaps.measure(node, name, shape_of(name), options.rounds, say))
        else:
            shapes = [shape_of(name) for name in options.kinds]
            each = [shapes[number % len(shapes)] for number in range(options.functions)]
            found["functions"] = functions.measure(
                node, each, options.room, options.rates, options.seconds, options.zipf, options.text, say
            )


def _keep(path: Path, found: dict[str, Any]) -> None:
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(found, indent=1))
    os.replace(new, path)


def _exit_code(found: dict[str, Any]) -> int:
    if found["failures"]:
        return 1
    served = found["figures"]["functions"]
    agree = all(start["answers"] == 1 for start in found["figures"]["starts"]) and (
        served is None or served["answers_agree"]
    )
    return 0 if agree else DISAGREEMENT


def _several(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def parsed(text: str) -> list[Any]:
        return [kind(one) for one in text.split(",")]

    parsed.__name__ = f"list of {kind.__name__}"
    return parsed


def _model(text: str) -> str:
    shape_of(text)
    return text


def _part(text: str) -> str:
    if text not in PARTS:
        raise ValueError(text)
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tetris.bench.gpu",
        description="Measures models on a GPU of the node's mirror, with random weights, beside other ways to load "
        "them. The mirror must serve the store of TETRIS_STORE, and needs room for the largest model.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", default="cuda:0", help="cuda:N, or simulated for a trial without a GPU")
    parser.add_argument(
        "--only", type=_several(_part), default=list(PARTS), metavar="PART,...", help="of " + ", ".join(PARTS)
    )
    parser.add_argument(
        "--models",
        type=_several(_model),
        default=["1B", "7B"],
        metavar="MODEL,...",
        help="of starts: 1B, 7B or LAYERSxWIDTH",
    )
    parser.add_argument(
        "--tokens", type=_several(int), default=[512, 8192], metavar="N,...", help="lengths of the texts of starts"
    )
    parser.add_argument(
        "--swaps",
        type=_several(_model),
        default=["2x1024", "8x1024", "1B", "7B"],
        metavar="MODEL,...",
        help="models of swaps",
    )
    parser.add_argument("--functions", type=int, default=20, help="number of functions")
    parser.add_argument(
        "--kinds",
        type=_several(_model),
        default=["4x1024", "10x2048"],
        metavar="MODEL,...",
        help="their models, by turns",
    )
    parser.add_argument("--room", type=float, default=0.5, help="the executor's room, as a share of all their bytes")
    parser.add_argument(
        "--rates",
        type=_several(float),
        default=[20.0, 60.0],
        metavar="RATE,...",
        help="requests a second, of all functions together",
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each load")
    parser.add_argument("--zipf", type=float, default=0.9, help="exponent of the functions' popularity")
    parser.add_argument("--text", type=int, default=128, help="length of a request's text in tokens")
    parser.add_argument("--rounds", type=int, default=5, help="samples of each start and swap")
    parser.add_argument(
        "--part-mib",
        type=int,
        default=2048,
        help="MiB of each file that takes the room of others; a light one takes none of a heavy model",
    )
    parser.add_argument(
        "--workdir", type=Path, help="directory for files, on a tmpfs; twice their bytes are needed, with the store's"
    )
    parser.add_argument("--keep", type=Path, help="file for the report, whole after each part")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    return parser


if __name__ == "__main__":
    sys.exit(main())
