"""The command: see `python -m tetris_bench.gpu --help`."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..command_line import parser, require
from ..text import prose
from .shapes import shape_of

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
    command = _parser()
    options = command.parse_args(arguments)
    require(command, "torch")
    from . import report
    from .run import run

    found = run(options)
    if options.format == "json":
        print(json.dumps(found, indent=1))
    else:
        print("\n".join(map(prose, report.lines(found))))
    for part, reason in found["failures"].items():
        print(f"tetris_bench.gpu: {part} failed: {reason}", file=sys.stderr)
    return _exit_code(found)


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
    options = parser(
        "tetris_bench.gpu",
        "Measure models on a GPU of the node's mirror, with random weights, beside other ways to load them. The mirror "
        "must serve the store of TETRIS_STORE, and needs room for the largest model. MODEL is 1B, 7B or LAYERSxWIDTH.",
        EXIT_CODES,
    )
    add = options.add_argument
    add(
        "--device",
        default="cuda:0",
        help="cuda:N, or `simulated` for a trial without a GPU [default: %(default)s]",
    )
    add(
        "--only",
        type=_several(_part),
        default=list(PARTS),
        metavar="PART,...",
        help=f"parts to measure, of {', '.join(PARTS)} [default: all]",
    )
    add(
        "--models",
        type=_several(_model),
        default=["1B", "7B"],
        metavar="MODEL,...",
        help="starts: models [default: 1B,7B]",
    )
    add(
        "--tokens",
        type=_several(int),
        default=[512, 8192],
        metavar="N,...",
        help="starts: lengths of the texts in tokens [default: 512,8192]",
    )
    add(
        "--swaps",
        type=_several(_model),
        default=["2x1024", "8x1024", "1B", "7B"],
        metavar="MODEL,...",
        help="swaps: models [default: 2x1024,8x1024,1B,7B]",
    )
    add(
        "--rounds",
        type=int,
        default=5,
        metavar="N",
        help="starts and swaps: samples of each [default: %(default)s]",
    )
    add(
        "--functions",
        type=int,
        default=20,
        metavar="N",
        help="functions: number of them [default: %(default)s]",
    )
    add(
        "--kinds",
        type=_several(_model),
        default=["4x1024", "10x2048"],
        metavar="MODEL,...",
        help="functions: their models, by turns [default: 4x1024,10x2048]",
    )
    add(
        "--room",
        type=float,
        default=0.5,
        metavar="SHARE",
        help="functions: the executor's room, as a share of all their bytes [default: %(default)s]",
    )
    add(
        "--rates",
        type=_several(float),
        default=[20.0, 60.0],
        metavar="RATE,...",
        help="functions: requests per second of all together, one load for each rate [default: 20,60]",
    )
    add(
        "--seconds",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="functions: length of each load [default: %(default)g]",
    )
    add(
        "--zipf",
        type=float,
        default=0.9,
        metavar="EXPONENT",
        help="functions: exponent of their popularity, a Zipf distribution [default: %(default)s]",
    )
    add(
        "--text",
        type=int,
        default=128,
        metavar="N",
        help="functions: length of a request's text in tokens [default: %(default)s]",
    )
    add(
        "--part-mib",
        type=int,
        default=2048,
        metavar="MIB",
        help="size in MiB of each file that is loaded to take the room of others; a light model takes none from a "
        "heavy one [default: %(default)s]",
    )
    add(
        "--workdir",
        type=Path,
        metavar="DIR",
        help="directory on a tmpfs for files; needs twice their size, with the store [default: $TMPDIR]",
    )
    add("--keep", type=Path, metavar="FILE", help="write the report as JSON to this file too, after each part")
    add("--format", choices=("text", "json"), default="text", help="format of the report [default: %(default)s]")
    return options


if __name__ == "__main__":
    sys.exit(main())
