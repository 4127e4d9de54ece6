"""The parts of a run, one after another."""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .. import machine
from ..context import Progress
from . import functions, report, starts, swaps
from .node import MIB, Node
from .shapes import shape_of

SCHEMA = "tetris-python-gpu-bench/1"


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Measures the parts of the options; returns all samples, the figures, and by part why it failed."""
    progress = Progress()
    with tempfile.TemporaryDirectory(prefix="tetris-bench-gpu-", dir=options.workdir) as folder:
        node = Node(options.device, Path(folder), options.part_mib * MIB)
        found: dict[str, Any] = {
            "schema": SCHEMA,
            "command": ["python", "-m", "tetris_bench.gpu", *sys.argv[1:]],
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": machine.inspect(),
            "device": node.describe(),
            "failures": {},
        }
        for part in options.only:
            try:
                _take(part, node, options, found, progress.say)
            except Exception as error:
                found["failures"][part] = f"{type(error).__name__}: {error}"
            progress.clear()
            found["figures"] = report.figures(found)
            if options.keep:
                _keep(options.keep, found)
    return found


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
