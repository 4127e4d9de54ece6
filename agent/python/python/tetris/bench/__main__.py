"""The command: see `python -m tetris.bench --help`."""

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import report
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
    options = _parser().parse_args(arguments)
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
        print("\ntetris.bench: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (WorkerError, OSError) as error:
        print(f"tetris.bench: {error}", file=sys.stderr)
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
    parser = argparse.ArgumentParser(
        prog="python -m tetris.bench",
        description="What loading a model costs N processes, by the way they load it: load, first touch, first "
        "inference and memory, each in fresh processes that take turns.",
        epilog=EXIT_CODES + "\nmethods:\n" + "\n".join(f"  {m.name:22}{m.description}" for m in METHODS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--model", type=_file, nargs="+", default=[], metavar="FILE", help="safetensors files to measure as well")
    add(
        "--size",
        type=_size,
        default=DEFAULT_BYTES,
        metavar="BYTES",
        help="size of the synthetic model, such as 1.2GB or 512MiB; 0 for none [default: 1.2GB]",
    )
    add(
        "--files",
        type=_size,
        default=1000,
        metavar="N",
        help="small files saved and loaded for each of their measures; 0 for none [default: 1000]",
    )
    add("--processes", type=_count, default=8, metavar="N", help="processes that share memory [default: 8]")
    add("--rounds", type=_count, default=7, metavar="N", help="samples per method [default: 7]")
    add("--passes", type=_count, default=40, metavar="N", help="inferences per method, side by side [default: 40]")
    add(
        "--methods",
        type=_methods,
        default=list(BY_NAME),
        metavar="NAME,...",
        help="methods to compare [default: all that are installed]",
    )
    add(
        "--store",
        type=Path,
        metavar="DIR",
        help="make the run's store below this directory on a tmpfs [default: an own mount, or /dev/shm]",
    )
    add("--workdir", type=Path, metavar="DIR", help="directory for models and copies, on a disk [default: $TMPDIR]")
    add("--seed", type=int, default=1, metavar="N", help="seed of weights and order [default: 1]")
    add("--deadline", type=float, default=180.0, metavar="SECONDS", help="longest wait for a process [default: 180]")
    add("--json", type=Path, metavar="FILE", help="write all figures and samples to this file as JSON")
    add("--format", choices=("text", "json"), default="text", help="what to print; json has every sample")
    return parser


def _file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"no such file: `{text}`")
    return path


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, found `{text}`")
    return int(text)


def _size(text: str) -> int:
    units = {"kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9, "": 1}
    unit = next(unit for unit in units if text.lower().endswith(unit))
    try:
        return round(float(text[: len(text) - len(unit)]) * units[unit])
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a size such as 1.2GB, found `{text}`") from None


def _methods(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise argparse.ArgumentTypeError(f"no method `{unknown[0]}`; there are {', '.join(BY_NAME)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
