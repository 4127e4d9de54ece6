"""Memory of instances of one function: `python -m tetris_bench.instances --help`."""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tetris

from . import machine
from .command_line import count, names, parser, require
from .memory import ProcessMemory
from .place import Place, enter_own_mounts, place
from .text import prose, table

MIB = 1 << 20
WAYS = {
    "torch-own-file": ("torch", False, "PyTorch, each instance with a copy of the file, as pods that download it"),
    "torch": ("torch", True, "PyTorch, weights from the store"),
    "onnxruntime-own-file": ("onnxruntime", False, "ONNX Runtime, each instance with a copy of the file"),
    "onnxruntime": ("onnxruntime", True, "ONNX Runtime, weights from the store"),
}
"""Engine, whether the instances share a store, and a description."""
BARS = {"torch": 120 * MIB, "onnxruntime": 60 * MIB}
"""Bytes that an instance may add to the first."""
MINILM = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}
"""Configuration of all-MiniLM-L6-v2."""
STORE_COPIES = 3
"""A store has packed weights twice, and room must be left for what is being made."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command."""
    command = _parser()
    options = command.parse_args(arguments)
    require(command, "tetris_instance", "torch", "transformers", "onnxruntime", "onnx")
    if not options.weights.is_file():
        command.exit(1, f"{command.prog}: {options.weights} is missing; expected a safetensors file\n")
    enter_own_mounts()
    result: dict[str, Any] = {"machine": machine.inspect(), "options": vars(options), "ways": {}}
    with tempfile.TemporaryDirectory(prefix="tetris-bench-instances-") as directory:
        result["model_bytes"] = options.weights.stat().st_size
        for way in options.ways:
            engine, shared, _ = WAYS[way]
            print(f"{way}: {max(options.instances)} instances", file=sys.stderr)
            with place(STORE_COPIES * result["model_bytes"], None) as room:
                if shared:
                    tetris.create_store(room.path)
                result["ways"][way] = _measure(options, Path(directory), engine, room)
    result["bars"] = [_bar(result["ways"][way], way, limit) for way, limit in BARS.items() if way in result["ways"]]
    if options.format == "json":
        print(json.dumps(result, indent=1, default=str))
    else:
        show(result)
    return 0


def _parser() -> argparse.ArgumentParser:
    options = parser(
        "tetris_bench.instances",
        "Start reference instances of one text encoder, by PyTorch and by ONNX Runtime, with a tensor store and with a "
        "file each, and measure what the node holds, the time to readiness and the time of a request.",
        names("ways", ((way, described) for way, (_, _, described) in WAYS.items())),
    )
    add = options.add_argument
    add(
        "--weights",
        type=Path,
        default=Path("target/minilm/model.safetensors"),
        metavar="FILE",
        help="safetensors file of a text encoder, of all-MiniLM-L6-v2 if there is no config.json beside it [default: "
        "%(default)s, where tests/fetch-minilm.sh puts it]",
    )
    add(
        "--ways",
        type=_ways,
        default=list(WAYS),
        metavar="NAME,...",
        help="ways to run instances, separated by commas [default: all]",
    )
    add("--instances", type=_counts, default=[1, 2, 8, 16], metavar="N,...", help="groups [default: 1,2,8,16]")
    add("--requests", type=count, default=40, metavar="N", help="requests to the last instance [default: %(default)s]")
    add("--tokens", type=count, default=64, metavar="N", help="tokens of a request [default: %(default)s]")
    add("--format", choices=("text", "json"), default="text", help="format of the report [default: %(default)s]")
    return options


def _ways(text: str) -> list[str]:
    ways = text.split(",")
    for way in ways:
        if way not in WAYS:
            raise argparse.ArgumentTypeError(f"expected {', '.join(WAYS)}, found `{way}`")
    return ways


def _counts(text: str) -> list[int]:
    counts = sorted({1, *(count(number) for number in text.split(","))})
    if len(counts) < 2:
        raise argparse.ArgumentTypeError(f"expected a number of at least 2, found `{text}`")
    return counts


def _model(weights: Path, folder: Path, *, copied: bool) -> Path:
    folder.mkdir()
    config = weights.parent / "config.json"
    (folder / "config.json").write_text(config.read_text() if config.is_file() else json.dumps(MINILM))
    if copied:
        shutil.copyfile(weights, folder / "model.safetensors")
    else:
        (folder / "model.safetensors").symlink_to(weights.resolve())
    return folder


def _measure(options: argparse.Namespace, directory: Path, engine: str, room: Place) -> dict[str, Any]:
    shared = room.path.exists()
    folder = directory / f"{engine}-{shared}"
    folder.mkdir()
    groups: list[dict[str, Any]] = []
    starts: list[float] = []
    with contextlib.ExitStack() as stack:
        processes = []
        for number in range(1, max(options.instances) + 1):
            model = _model(options.weights, folder / str(number), copied=not shared)
            begin = time.monotonic()
            process, port = stack.enter_context(_instance(model, engine, room))
            starts.append(time.monotonic() - begin)
            processes.append(process)
            # Memory that the first requests take is an instance's too.
            times = _ask(port, options.requests, options.tokens)
            if number in options.instances:
                memory = ProcessMemory.of_all(process.pid for process in processes)
                unmapped = max(0, room.used() - memory.pss_shmem) if shared else 0
                groups.append({"instances": number, "held_bytes": memory.held + unmapped})
    first, last = groups[0], groups[-1]
    added = (last["held_bytes"] - first["held_bytes"]) / (last["instances"] - 1)
    return {
        "groups": groups,
        "added_bytes": round(added),
        "first_start_s": starts[0],
        "next_start_s": statistics.median(starts[1:]),
        "request_s": statistics.median(times),
    }


@contextlib.contextmanager
def _instance(model: Path, engine: str, room: Place) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Runs an instance on its port, once it is ready."""
    command = [sys.executable, "-m", "tetris_instance", "--model-path", str(model), "--model-name", "m", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--engine", engine, "--cpus", "1"],
        env=os.environ | {"TETRIS_STORE": str(room.path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        port = 0
        for line in process.stdout:
            if line.startswith("listening on "):
                port = int(line.rpartition(":")[2])
            if line.startswith("ready: "):
                break
        else:
            raise RuntimeError(f"an instance by {engine} ended with {process.wait()} before it was ready")
        yield process, port
    finally:
        process.terminate()
        process.wait()


def _ask(port: int, requests: int, tokens: int) -> list[float]:
    data = {"shape": [1, tokens], "datatype": "INT64"}
    ids = {"name": "input_ids", **data, "data": [1 + token % 1000 for token in range(tokens)]}
    mask = {"name": "attention_mask", **data, "data": [1] * tokens}
    body = json.dumps({"inputs": [ids, mask]}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v2/models/m/infer", body)
    times = []
    for _ in range(requests):
        begin = time.perf_counter()
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
        times.append(time.perf_counter() - begin)
    return times


def _bar(way: dict[str, Any], name: str, limit: int) -> dict[str, Any]:
    return {"way": name, "measured_bytes": way["added_bytes"], "limit_bytes": limit, "met": way["added_bytes"] <= limit}


def saved(result: dict[str, Any], engine: str) -> list[tuple[int, float]]:
    """Part of the memory that the store saves, by the number of instances."""
    groups = zip(result["ways"][f"{engine}-own-file"]["groups"], result["ways"][engine]["groups"], strict=True)
    return [(alone["instances"], 1 - shared["held_bytes"] / alone["held_bytes"]) for alone, shared in groups]


def show(result: dict[str, Any]) -> None:
    """Prints the report."""
    print(prose(machine.line(result["machine"])))
    counts = result["options"]["instances"]
    rows = [("way", *(f"memory of {number}" for number in counts), "each next", "first start", "next", "request")]
    for name, way in result["ways"].items():
        sizes = (f"{group['held_bytes'] / MIB:.0f} MiB" for group in way["groups"])
        times = (f"{way[key] * 1e3:.0f} ms" for key in ("first_start_s", "next_start_s", "request_s"))
        rows.append((name, *sizes, f"{way['added_bytes'] / MIB:.1f} MiB", *times))
    print("", *table(rows), sep="\n")
    print()
    for engine in ("torch", "onnxruntime"):
        if not {engine, f"{engine}-own-file"} <= result["ways"].keys():
            continue
        parts = ", ".join(f"{part:.0%} with {number}" for number, part in saved(result, engine))
        print(prose(f"{engine}: the store saves {parts}, each with a copy of the file"))
    for bar in result["bars"]:
        verdict = "met" if bar["met"] else "missed"
        measured, limit = bar["measured_bytes"] / MIB, bar["limit_bytes"] / MIB
        print(prose(f"{bar['way']}: an instance adds {measured:.1f} MiB, bar {limit:.0f} MiB: {verdict}"))


if __name__ == "__main__":
    sys.exit(main())
