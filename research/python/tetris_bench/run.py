"""A whole run: prepare, measure every model, sum up."""

import contextlib
import random
import shlex
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from . import agreement, bars, group, machine, memory, side_by_side, small, stats, timing
from .context import Context, Model, Progress
from .files import refresh_cache
from .methods import BY_NAME, METHODS, Method
from .place import place
from .workers import Worker

SCHEMA = "tetris-python-bench/1"
SHARE = 0.75
"""Part of the available memory that the groups of one method may take."""
TIMES = ("load_ns", "touch_ns", "touch_again_ns", "load_and_touch_ns", "first_inference_ns", "first_result_ns")

NOTES = (
    "load ends when every tensor can be read; first touch reads one byte per 4 KiB of every tensor; second touch is "
    "the same again, without page faults. First inference is in another fresh process that touched nothing before; "
    "first result is load + first inference. Interpreter and imports come before all of them.",
    "The page cache is hot. The shared file was dropped and read in again in large reads: the page cache at its best. "
    "Own files are copies written in pieces of 16 KiB, as a download is, right before each sample.",
    "Methods take turns in random order; every sample is a fresh process; figures are medians of the rounds.",
    "Before loads into private memory as much memory is touched and given back, so that the host of a virtual machine "
    "has it backed and no method pays for that.",
    "Memory is the sum of PSS and page tables of the group, with store pages that nobody maps, minus the same sum of "
    "the same processes before they loaded: with PyTorch and the module of the method imported. Processes that hold "
    "the weights for others are part of the group. Page cache that nobody maps is not.",
    "Small files: two processes run the same code by turns, one with safetensors and torch patched, which has 16 MiB "
    "mapped from the store; files are in --workdir. A fresh file was written just before, a known one loaded before.",
    "Inference: one process per kind of memory, all alive, asked by turns. Ratios are within a round; clone-again is a "
    "second process with private tensors and shows the noise.",
)


def run(arguments: Namespace, show: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Runs everything; `show` gets the head, then each model as soon as it is measured."""
    progress = Progress()
    with Worker("", deadline_s=arguments.deadline) as worker:
        progress.say("preparing")
        worker.ready()
        report: dict[str, Any] = {
            "schema": SCHEMA,
            "command": shlex.join(["python", "-m", "tetris_bench", *sys.argv[1:]]),
            "started_unix_s": int(time.time()),
            "machine": machine.inspect(),
            "versions": worker.ask("versions"),
            "seed": arguments.seed,
            "rounds": arguments.rounds,
            "processes": arguments.processes,
            "notes": list(NOTES),
            "models": [],
        }
        show(report)
        progress.say("looking for what is installed")
        missing, server = _missing(arguments)
        if arguments.files:
            report["small"] = small.measure(
                worker,
                arguments.workdir,
                arguments.store,
                arguments.files,
                arguments.seed,
                arguments.deadline,
                progress,
            )
            progress.clear()
            show(report["small"])
        for model in _models(arguments, worker, progress):
            measured = _measure_model(arguments, worker, _Setup(model, missing, server, progress))
            progress.clear()
            show(measured)
            report["models"].append(measured)
    report["duration_s"] = time.time() - report["started_unix_s"]
    return report


def _models(arguments: Namespace, worker: Worker, progress: Progress) -> Iterator[Model]:
    for path in arguments.model:
        yield _model(worker, path.resolve())
    if arguments.size:
        progress.say("synthetic model")
        path = arguments.workdir / "synthetic.safetensors"
        worker.ask("synthesize", path=str(path), size=arguments.size, seed=arguments.seed)
        try:
            yield _model(worker, path)
        finally:
            path.unlink(missing_ok=True)


def _model(worker: Worker, path: Path) -> Model:
    described = worker.ask("describe", file=str(path))
    return Model(file=path, file_bytes=path.stat().st_size, **described)


@dataclass(frozen=True)
class _Setup:
    """A model, and what can be measured on it."""

    model: Model
    missing: dict[str, str]
    vineyard_server: str
    progress: Progress


def _measure_model(arguments: Namespace, worker: Worker, setup: _Setup) -> dict[str, Any]:
    model, progress = setup.model, setup.progress
    methods = [method for method in METHODS if method.name in arguments.methods and method.name not in setup.missing]
    with contextlib.ExitStack() as stack:
        if any(method.file == "torch" for method in methods):
            progress.say(f"{model.name}: saving for torch.load")
            model.torch_file = arguments.workdir / f"{model.name}.pt"
            stack.callback(model.torch_file.unlink, missing_ok=True)
            worker.ask("save_for_torch", source=str(model.file), target=str(model.torch_file))
            refresh_cache(model.torch_file)
        refresh_cache(model.file)
        store = None
        if any(method.uses_store for method in methods):
            store = stack.enter_context(place(model.tensor_bytes, arguments.store))
            store.path.mkdir()
            worker.ask("create_store", path=str(store.path))
        context = Context(model, arguments.workdir, store, setup.vineyard_server, arguments.deadline, progress)
        first_load = _publish(context, methods)
        return _figures(arguments, context, methods, (setup.missing, first_load))


def _figures(
    arguments: Namespace, context: Context, methods: list[Method], known: tuple[dict[str, str], int | None]
) -> dict[str, Any]:
    missing, first_load = known
    samples = timing.rounds(context, methods, arguments.rounds, arguments.seed)
    groups = _groups(arguments, context, methods)
    inference = side_by_side.compare(context, methods, arguments.passes, arguments.seed)
    wrong = agreement.disagreement(samples)
    model, store = context.model, context.store
    return {
        "name": model.name,
        "file_bytes": model.file_bytes,
        "tensor_bytes": model.tensor_bytes,
        "tensors": model.tensors,
        "inference_kind": model.inference,
        "store_place": store.description if store else "",
        "first_load_ns": first_load,
        "methods": [
            _method(method, samples, groups, missing | context.failures)
            for method in METHODS
            if method.name in arguments.methods
        ],
        "inference": inference,
        "bars": bars.of(samples, groups, inference),
        "outputs_agree": not wrong,
        "disagreement": wrong,
    }


def _missing(arguments: Namespace) -> tuple[dict[str, str], str]:
    """Methods that cannot be used here, with the reason; and vineyard's server."""
    missing, server = {}, ""
    # A process for each module, all at once: an import that fails may leave half of itself behind.
    first = {BY_NAME[name].module: name for name in reversed(arguments.methods)}
    with contextlib.ExitStack() as stack:
        workers = {module: stack.enter_context(Worker("", deadline_s=arguments.deadline)) for module in first}
        found = {module: worker.ready().ask("installed", method=first[module]) for module, worker in workers.items()}
    for name in arguments.methods:
        answer = found[BY_NAME[name].module]
        server = answer["server"] or server
        if answer["reason"]:
            missing[name] = answer["reason"]
    return missing, server


def _publish(context: Context, methods: list[Method]) -> int | None:
    """The first load of all, which puts the model into the store; its duration in nanoseconds."""
    method = next((method for method in methods if method.uses_store), None)
    if method is None:
        return None
    context.progress.say(f"{context.model.name}: first load")
    with context.start(method).ready() as worker:
        memory.back(context.model.tensor_bytes)
        return int(worker.ask("load", file=str(context.model.file))["load_ns"])


def _groups(arguments: Namespace, context: Context, methods: list[Method]) -> dict[str, dict[str, Any]]:
    groups: dict[str, dict[str, Any]] = {}
    order = list(methods)
    random.Random(arguments.seed).shuffle(order)
    for method in order:
        copies = arguments.processes if method.private or method.own_file else 2
        if copies * context.model.file_bytes > SHARE * memory.available():
            context.progress.clear()
            print(f"tetris_bench: no memory for {copies} copies: {method.name} has no group", file=sys.stderr)
            continue
        measured = context.attempt(method, partial(group.measure, context, method, arguments.processes))
        if measured is not None:
            groups[method.name] = measured
    return groups


def _method(
    method: Method,
    samples: dict[str, list[dict[str, Any]]],
    groups: dict[str, dict[str, Any]],
    reasons: dict[str, str],
) -> dict[str, Any]:
    own = samples.get(method.name, [])
    reason = reasons.get(method.name, "")
    outcome = "measured"
    if reason:
        outcome = "skipped" if reason.startswith("not installed") else "failed"
    return {
        "method": method.name,
        "description": method.description,
        "installed": method.install,
        "outcome": outcome,
        "reason": reason,
        "medians": {key: stats.median([sample[key] for sample in own]) for key in TIMES},
        "samples": own,
        "memory": groups.get(method.name),
    }
