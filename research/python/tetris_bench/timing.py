"""Load, first touch and first inference, each in a fresh process, by turns."""

import random
from functools import partial
from pathlib import Path
from typing import Any

from .context import Context
from .files import own_copies
from .helpers import helper_for
from .methods import Method
from .workers import Worker, close_all

Sample = dict[str, Any]


def rounds(context: Context, methods: list[Method], count: int, seed: int) -> dict[str, list[Sample]]:
    """Samples per method; within a round the order is random, and the same for the same seed."""
    order = random.Random(seed)
    samples: dict[str, list[Sample]] = {method.name: [] for method in methods}
    for number in range(count):
        turns = list(methods)
        order.shuffle(turns)
        for method in turns:
            context.progress.say(f"{context.model.name}: round {number + 1} of {count}: {method.name}")
            sample = context.attempt(method, partial(measure, context, method))
            if sample is not None:
                samples[method.name].append(sample)
    return samples


def measure(context: Context, method: Method) -> Sample:
    """One sample: a process that loads and touches, and a second one that loads and infers at once."""
    if not method.own_file:
        file = context.file_for(method)
        return _measure(context, method, (file, file))
    with own_copies(context.model.file, context.workdir, 2) as copies:
        return _measure(context, method, (copies[0], copies[1]))


def _measure(context: Context, method: Method, files: tuple[Path, Path]) -> Sample:
    with helper_for(method, context.model.file, context.vineyard_server, context.deadline_s) as helper:
        workers: list[Worker] = []
        try:
            # Both import at the same time.
            for infers in (False, True):
                workers.append(context.start(method, infers=infers))
            for worker in workers:
                worker.ready()
            return _sample(context, method, files, helper.fill(), workers)
        finally:
            close_all(workers)


def _sample(
    context: Context, method: Method, files: tuple[Path, Path], where: dict[str, Any], workers: list[Worker]
) -> Sample:
    touching, inferring = workers
    context.back(method)
    loaded = touching.ask("load", file=str(files[0]), **where)
    touched = touching.ask("touch")
    check = touching.ask("checksum")
    touching.close()
    context.back(method)
    loaded_again = inferring.ask("load", file=str(files[1]), **where)
    inferred = inferring.ask("infer", count=1)
    return {
        "load_ns": loaded["load_ns"],
        **touched,
        "load_and_touch_ns": loaded["load_ns"] + touched["touch_ns"],
        "second_load_ns": loaded_again["load_ns"],
        "first_inference_ns": inferred["infer_ns"][0],
        "first_result_ns": loaded_again["load_ns"] + inferred["infer_ns"][0],
        "tensors": loaded["tensors"],
        "checksum": check["checksum"],
        "output": inferred["output"],
    }
