"""Inference times: one process per kind of memory, all alive, asked by turns."""

import contextlib
import random
from functools import partial
from typing import Any

from . import memory, stats
from .context import Context
from .files import own_copies
from .helpers import helper_for
from .methods import BY_NAME, Method
from .workers import Worker

BASELINE = "clone"
CONTROL = "clone-again"
"""A second process with private tensors: how far from 1 it is, is what the place of pages in memory does."""


def compare(context: Context, methods: list[Method], passes: int, seed: int) -> list[dict[str, Any]]:
    """Passes of each method, with the ratio to private tensors in the same round."""
    compared = [method for method in methods if method.compared and method.name not in context.failures]
    if BASELINE not in [method.name for method in compared]:
        return []
    needed = context.model.tensor_bytes * (len(compared) + 1)
    if needed > memory.available() // 2:
        return []
    with contextlib.ExitStack() as stack:
        contestants = {CONTROL: _enter(context, BY_NAME[BASELINE], stack)}
        for method in compared:
            context.progress.say(f"{context.model.name}: inference side by side: {method.name}")
            worker = context.attempt(method, partial(_enter, context, method, stack))
            if worker is not None:
                contestants[method.name] = worker
        return _take_turns(context, contestants, passes, random.Random(seed))


def _enter(context: Context, method: Method, stack: contextlib.ExitStack) -> Worker:
    helper = stack.enter_context(helper_for(method, context.model.file, context.vineyard_server, context.deadline_s))
    file = context.file_for(method)
    if method.own_file:
        file = stack.enter_context(own_copies(context.model.file, context.workdir, 1))[0]
    where = helper.fill()
    worker = stack.enter_context(context.start(method, infers=True)).ready()
    context.back(method)
    worker.ask("load", file=str(file), **where)
    worker.ask("infer", count=2)
    return worker


def _take_turns(
    context: Context, contestants: dict[str, Worker], passes: int, order: random.Random
) -> list[dict[str, Any]]:
    samples: dict[str, list[int]] = {name: [] for name in contestants}
    for number in range(passes):
        context.progress.say(f"{context.model.name}: inference side by side: pass {number + 1} of {passes}")
        turns = list(contestants)
        order.shuffle(turns)
        for name in turns:
            samples[name] += contestants[name].ask("infer", count=1)["infer_ns"]
    return [_summary(name, times, samples[BASELINE]) for name, times in samples.items()]


def _summary(name: str, times: list[int], private: list[int]) -> dict[str, Any]:
    ratios = [own / other for own, other in zip(times, private, strict=True)]
    low, high = stats.median_interval(ratios)
    return {
        "method": name,
        "infer_ns": times,
        "median_ns": stats.median(times),
        "ratio_to_private": stats.median(ratios),
        "ratio_interval_95": [low, high],
    }
