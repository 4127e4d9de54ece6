"""Memory of N processes that all hold the model."""

import contextlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .context import Context
from .files import own_copies
from .helpers import helper_for
from .memory import ProcessMemory
from .methods import Method
from .workers import Worker, close_all


def measure(context: Context, method: Method, processes: int) -> dict[str, Any]:
    """The group before and after it loads and touches everything; all sizes in bytes."""
    context.progress.say(f"{context.model.name}: memory of {processes}: {method.name}")
    with (
        _files(context, method, processes) as files,
        helper_for(method, context.model.file, context.vineyard_server, context.deadline_s) as helper,
    ):
        workers: list[Worker] = []
        try:
            for _ in range(processes):
                workers.append(context.start(method))
            pids = [worker.ready().pid for worker in workers] + helper.pids
            # The same processes before and after, because PSS depends on who shares.
            idle = ProcessMemory.of_all(pids)
            where = helper.fill()
            for worker, file in zip(workers, files, strict=True):
                worker.ask("load", file=str(file), **where)
                worker.ask("touch")
            return _report(context, method, processes, (idle, ProcessMemory.of_all(pids)))
        finally:
            close_all(workers)


def _report(
    context: Context, method: Method, processes: int, memory: tuple[ProcessMemory, ProcessMemory]
) -> dict[str, Any]:
    idle, held = memory
    store = context.store.used() if method.uses_store and context.store else 0
    # Whatever of the store is mapped is in the PSS already.
    unmapped = max(0, store - (held.pss_shmem - idle.pss_shmem))
    beyond = held.held - idle.held + unmapped
    return {
        "processes": processes,
        "group_bytes": held.held + unmapped,
        "interpreter_bytes": idle.held,
        "beyond_interpreter_bytes": beyond,
        "copies": beyond / context.model.tensor_bytes,
        "store_bytes": store,
        "idle": asdict(idle),
        "held": asdict(held),
    }


@contextlib.contextmanager
def _files(context: Context, method: Method, count: int) -> Iterator[list[Path]]:
    if not method.own_file:
        yield [context.file_for(method)] * count
        return
    with own_copies(context.model.file, context.workdir, count) as copies:
        yield copies
