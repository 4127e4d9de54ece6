"""The command: see `python -m tetris_bench.engines --help`."""

import argparse
import json
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import machine
from ..command_line import count, names, parser
from ..context import Progress
from ..place import enter_own_mounts
from ..workers import WorkerError
from . import report
from .measure import Options, installed, measure
from .models import Shape
from .registry import BY_NAME, ENGINES, Engine

SCHEMA = "tetris-engines-bench/1"
FAILED, DISAGREEMENT, INTERRUPTED = 1, 3, 130
EXIT_CODES = """\
exit codes:
  0    every engine asked for was measured, or skipped with a reason
  1    an engine failed (the report is still printed)
  2    the command line is wrong
  3    outputs with the store differ from those without it
  130  interrupted; processes, mounts and files were cleaned up
"""
NOTES = (
    "Memory is the sum of the replicas' anonymous and shared memory, page tables and mapped pages of the model's "
    "files, proportional where several map a page, with the store's pages that nobody maps, minus the same of as many "
    "empty engines, in copies of the weights that one replica runs on. An empty engine is the same process before: it "
    "has worked on an empty model (the same but for inner layers of 64), and dropped it. Of vLLM and llama.cpp, which "
    "keep caches, it is another process that runs on the empty model; its weights are left out on both sides.",
    "Unmapped: objects of the store that no replica maps, such as the float32 weights of which others were cast. They "
    "are part of the memory; the store gives them up when it needs room, or when its reclaimer says so.",
    "Time of weights is that of the load without that of making the model's modules. The first replica fills an empty "
    "store; the next ones find it filled. The page cache is hot. Engines, libraries and first calls come before.",
    "Speed: a replica of each way, all alive, asked by turns in random order; the ratio is the median of those within "
    "a turn, its range the 95 % interval of that median. Other ranges are those of rounds, or their middle half.",
    "llama.cpp runs on the mapped file and makes nothing of it: the time of its weights has no limit. Each of its "
    "replicas has a copy of the file, since the page cache would share one. Through the store each replica reads its "
    "copy once, to know its content.",
    "With share_module_ each process makes its weights and hashes them: it saves memory, and no time: that of the "
    "weights has no limit.",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    enter_own_mounts()

    def show(text: str) -> None:
        if options.format == "text":
            print(text, end="", flush=True)

    try:
        with tempfile.TemporaryDirectory(prefix="tetris-bench-engines-", dir=options.workdir) as workdir:
            # As the kernel names what is mapped.
            found = _run(options, Path(workdir).resolve(), show)
    except KeyboardInterrupt:
        print("\ntetris_bench.engines: interrupted", file=sys.stderr)
        return INTERRUPTED
    if options.format == "json":
        print(json.dumps(found, indent=1))
    show(report.closing(found))
    return _exit_code(found)


def _run(options: argparse.Namespace, workdir: Path, show: Callable[[str], None]) -> dict[str, Any]:
    progress = Progress()
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "command": shlex.join(["python", "-m", "tetris_bench.engines", *sys.argv[1:]]),
        "machine": machine.inspect(),
        "seed": options.seed,
        "replicas": options.replicas,
        "rounds": options.rounds,
        "options": {
            "layers": options.layers,
            "width": options.width,
            "runs": options.runs,
            "threads": options.threads,
            "own_files": options.own_files,
        },
        "notes": list(NOTES),
        "engines": [],
    }
    begun = time.monotonic()
    show(report.head(found))
    settings = Options(
        replicas=options.replicas,
        rounds=options.rounds,
        runs=options.runs,
        threads=options.threads,
        shape=Shape.of(options.layers, options.width),
        own_files=options.own_files,
        seed=options.seed,
        deadline_s=options.deadline,
        workdir=workdir,
        store_parent=options.store_parent,
        interpreter=sys.executable,
    )
    interpreters = dict(options.python)
    for name in options.engines:
        one = replace(settings, interpreter=interpreters.get(name, sys.executable))
        measured = _engine(BY_NAME[name], one, progress)
        progress.clear()
        show(report.engine(measured))
        found["engines"].append(measured)
    found["duration_s"] = time.monotonic() - begun
    return found


def _engine(engine: Engine, options: Options, progress: Progress) -> dict[str, Any]:
    """Figures of an engine, or the reason that there are none."""
    found: dict[str, Any] = {"engine": engine.name, "description": engine.description, "unit": engine.unit}
    progress.say(f"{engine.name}: looking for what is installed")
    reason, found["versions"] = installed(engine, options.interpreter)
    if reason:
        return found | {"outcome": "skipped", "reason": reason}
    try:
        return found | {"outcome": "measured", "reason": "", **measure(engine, options, progress)}
    except (WorkerError, OSError) as error:
        return found | {"outcome": "failed", "reason": str(error)}


def _exit_code(found: dict[str, Any]) -> int:
    if any(engine.get("outputs_agree") is False for engine in found["engines"]):
        return DISAGREEMENT
    return FAILED if any(engine["outcome"] == "failed" for engine in found["engines"]) else 0


def _parser() -> argparse.ArgumentParser:
    options = parser(
        "tetris_bench.engines",
        "Compare engines with and without the store: memory of replicas, time until their weights are there, speed, "
        "and equality of outputs.",
        EXIT_CODES,
        names("engines", ((engine.name, engine.description) for engine in ENGINES)),
    )
    add = options.add_argument
    add(
        "--engines",
        type=_engines,
        default=list(BY_NAME),
        metavar="NAME,...",
        help="engines to measure, separated by commas [default: all that are installed]",
    )
    add(
        "--python",
        type=_interpreter,
        action="append",
        default=[],
        metavar="NAME=PROGRAM",
        help="interpreter of an engine that has its own, with tetris-store in it or on PYTHONPATH; can be repeated",
    )
    for option, kind, default, about in (
        ("--replicas", count, 4, "processes that share memory"),
        ("--rounds", count, 3, "groups of replicas for each way, with and without the store"),
        ("--runs", count, 20, "runs for the speed of each way, side by side"),
        ("--threads", count, 1, "threads of a replica"),
        ("--layers", count, 16, "layers of the model"),
        ("--width", _width, 1024, "width of the model, a multiple of 128 elements"),
    ):
        add(option, type=kind, default=default, metavar="N", help=f"{about} [default: %(default)s]")
    add("--own-files", action="store_true", help="give each replica a copy of the model's files")
    add("--seed", type=int, default=1, metavar="N", help="seed of weights and order [default: %(default)s]")
    add(
        "--deadline",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="longest wait for a process [default: %(default)g]",
    )
    add("--workdir", type=Path, metavar="DIR", help="directory for the models, on a disk [default: $TMPDIR]")
    add(
        "--store-parent",
        type=Path,
        metavar="DIR",
        help="directory on a tmpfs for the stores [default: mounts of their own as root, else /dev/shm]",
    )
    add(
        "--format",
        choices=("text", "json"),
        default="text",
        help="format of the report; json has every sample, in seconds and bytes [default: %(default)s]",
    )
    return options


def _engines(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise argparse.ArgumentTypeError(f"no engine `{unknown[0]}`; there are {', '.join(BY_NAME)}")
    return names


def _interpreter(text: str) -> tuple[str, str]:
    name, separator, program = text.partition("=")
    if not separator or name not in BY_NAME:
        raise argparse.ArgumentTypeError(f"expected NAME=PROGRAM with one of {', '.join(BY_NAME)}, found `{text}`")
    return name, program


def _width(text: str) -> int:
    if not text.isdecimal() or int(text) < 128 or int(text) % 128:
        raise argparse.ArgumentTypeError(f"expected a multiple of 128, found `{text}`")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
