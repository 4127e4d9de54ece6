"""Small files and modules: what the patch costs a program whose files are not worth sharing.

Two processes run the same code, one of them with safetensors and torch patched (:func:`tetris.patch`), by turns.
"""

import contextlib
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import stats
from .bars import bar
from .context import Progress
from .place import place
from .workers import Worker

TURNS = 20
"""Into so many turns the operations of each process are divided."""
STORE_BYTES = 64 << 20
"""Room of the store."""


@dataclass(frozen=True)
class Case:
    """Operation of both processes, and the limit on the ratio of their times."""

    name: str
    do: str
    size: int
    limit: float


CASES = (
    Case("fresh file of 4 KiB", "fresh", 4 << 10, 2.0),
    Case("fresh file of 1 MiB", "fresh", 1 << 20, 2.0),
    Case("4 KiB saved and loaded again", "again", 4 << 10, 1.15),
    Case("1 MiB saved and loaded again", "again", 1 << 20, 1.15),
    Case("known file of 4 KiB", "settled", 4 << 10, 1.0),
    Case("load_state_dict of a small module", "state_dict", 0, 1.1),
)


def measure(
    worker: Worker, workdir: Path, parent: Path | None, count: int, seed: int, deadline_s: float, progress: Progress
) -> dict[str, Any]:
    """Times of `count` operations of each case with and without the patch, and the bars of their ratios."""
    order = random.Random(seed)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(place(STORE_BYTES, parent))
        store.path.mkdir()
        worker.ask("create_store", path=str(store.path))
        workers = {}
        for name, where in (("patched", str(store.path)), ("plain", "")):
            directory = workdir / f"small-{name}"
            directory.mkdir()
            workers[name] = stack.enter_context(Worker("", store=where, deadline_s=deadline_s, shares_all=False))
        for name, started in workers.items():
            directory = workdir / f"small-{name}"
            started.ready().ask("prepare_small", directory=str(directory), patched=name == "patched")
        found = [_case(case, workers, count, order, progress) for case in CASES]
    return {"small_files": count, "cases": found, "bars": [case.pop("bar") for case in found]}


def _case(
    case: Case, workers: dict[str, Worker], count: int, order: random.Random, progress: Progress
) -> dict[str, Any]:
    turns: dict[str, list[list[int]]] = {name: [] for name in workers}
    for number in range(min(TURNS, count)):
        progress.say(f"small files: {case.name}: turn {number + 1} of {TURNS}")
        share = count // TURNS + (number < count % TURNS)
        names = list(workers)
        order.shuffle(names)
        for name in names:
            turns[name].append(workers[name].ask("small", what=case.do, size=case.size, count=share)["times_ns"])
    # Per turn: what else the machine does comes and goes.
    ours, theirs = ([stats.median(times) or 0.0 for times in turns[name]] for name in ("patched", "plain"))
    return {
        "name": case.name,
        "patched_ns": stats.median(ours),
        "plain_ns": stats.median(theirs),
        "turns_ns": turns,
        "bar": bar(case.name, "patched / safetensors, torch", case.limit, stats.ratio(ours, theirs)),
    }
