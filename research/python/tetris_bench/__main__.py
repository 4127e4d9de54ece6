"""The command: see `python -m tetris_bench --help`."""

import argparse
import json
import math
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import report
from .command_line import count, count_or_none, names, parser, require
from .methods import BY_NAME, METHODS
from .models import DEFAULT_BYTES
from .place import enter_own_mounts
from .run import run
from .workers import WorkerError

EXIT_CODES = """\
exit codes:
  0    every method asked for was measured, or skipped with a reason
  1    the run could not go on, or a method failed (the report is still printed)
  2    the command line is wrong
  3    the methods did not load or compute the same
  130  interrupted; processes, mounts and files were cleaned up
"""
FAILED, DISAGREEMENT, INTERRUPTED = 1, 3, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code."""
    command = _parser()
    options = command.parse_args(arguments)
    require(command, "torch")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    enter_own_mounts()

    def show(part: dict[str, Any]) -> None:
        if options.format == "text":
            print(report.part(part), end="", flush=True)

    try:
        with tempfile.TemporaryDirectory(prefix="tetris-bench-", dir=options.workdir) as workdir:
            options.workdir = Path(workdir)
            found = run(options, show)
    except KeyboardInterrupt:
        print("\ntetris_bench: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (WorkerError, OSError) as error:
        print(f"tetris_bench: {error}", file=sys.stderr)
        return FAILED
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    print(report.closing(found) if options.format == "text" else json.dumps(found, indent=1))
    return _exit_code(found)


def _exit_code(found: dict[str, Any]) -> int:
    if not all(model["outputs_agree"] for model in found["models"]):
        return DISAGREEMENT
    failed = any(entry["outcome"] == "failed" for model in found["models"] for entry in model["methods"])
    return FAILED if failed else 0


def _parser() -> argparse.ArgumentParser:
    options = parser(
        "tetris_bench",
        "Compare loading methods: time of the load, of the first touch and of the first inference, each in fresh "
        "processes, and memory of N processes with one model. Before that, time of small files with and without the "
        "patch. Methods take turns.",
        EXIT_CODES,
        names("methods", ((method.name, method.description) for method in METHODS)),
    )
    add = options.add_argument
    add("--model", type=_file, nargs="+", default=[], metavar="FILE", help="safetensors files to measure as well")
    add(
        "--size",
        type=_size,
        default=DEFAULT_BYTES,
        metavar="SIZE",
        help="size of the synthetic model, such as 1.2GB or 512MiB; 0 for none [default: 1.2GB]",
    )
    add(
        "--files",
        type=count_or_none,
        default=1000,
        metavar="N",
        help="small files saved and loaded for each of their measures; 0 for none [default: %(default)s]",
    )
    add("--processes", type=count, default=8, metavar="N", help="processes that share memory [default: %(default)s]")
    add("--rounds", type=count, default=7, metavar="N", help="samples per method [default: %(default)s]")
    add(
        "--passes",
        type=count,
        default=40,
        metavar="N",
        help="inferences per method, side by side [default: %(default)s]",
    )
    add(
        "--methods",
        type=_methods,
        default=list(BY_NAME),
        metavar="NAME,...",
        help="methods to compare, separated by commas [default: all that are installed]",
    )
    add(
        "--store",
        type=Path,
        metavar="DIR",
        help="directory on a tmpfs for the run's store [default: a mount of its own as root, else /dev/shm]",
    )
    add("--workdir", type=Path, metavar="DIR", help="directory for models and copies, on a disk [default: $TMPDIR]")
    add("--seed", type=int, default=1, metavar="N", help="seed of weights and order [default: %(default)s]")
    add(
        "--deadline",
        type=float,
        default=180.0,
        metavar="SECONDS",
        help="longest wait for a process [default: %(default)g]",
    )
    add("--json", type=Path, metavar="FILE", help="write all figures and samples to this file as JSON")
    add(
        "--format",
        choices=("text", "json"),
        default="text",
        help="format of the report; json has every sample [default: %(default)s]",
    )
    return options


def _file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"no such file: `{text}`")
    return path


def _size(text: str) -> int:
    units = {"kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9, "": 1}
    unit = next(unit for unit in units if text.lower().endswith(unit))
    try:
        number = float(text[: len(text) - len(unit)])
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a size such as 1.2GB, found `{text}`")
    return round(number * units[unit])


def _methods(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise argparse.ArgumentTypeError(f"no method `{unknown[0]}`; there are {', '.join(BY_NAME)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
