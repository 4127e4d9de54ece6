"""The parent's side: groups of replicas, and two that take turns."""

import contextlib
import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tetris

from .. import memory
from ..context import Progress
from ..files import refresh_cache
from ..memory import ProcessMemory
from ..place import Place, place
from ..workers import Asked, WorkerError, close_all, environment
from . import figures, models
from .models import Shape
from .registry import TETRIS, Engine

STORE_COPIES = 3
"""Size of a store in copies of the model's files: sources and what is made of them."""


@dataclass(frozen=True)
class Options:
    """Settings of a run."""

    replicas: int
    rounds: int
    runs: int
    threads: int
    """Threads of each replica."""
    shape: Shape
    own_files: bool
    seed: int
    deadline_s: float
    workdir: Path
    store_parent: Path | None
    interpreter: str


def installed(engine: Engine, interpreter: str) -> tuple[str, dict[str, str]]:
    """The reason an engine cannot run, empty if it can; and versions of its packages."""
    command = [interpreter, "-W", "ignore", "-m", "tetris_bench.engines.installed"]
    command += [",".join(("tetris", *engine.modules)), ",".join(engine.packages)]
    try:
        asked = subprocess.run(command, env=environment("", True), capture_output=True, text=True, check=False)
    except OSError as error:
        return f"cannot start {interpreter}: {error.strerror}", {}
    if asked.returncode != 0:
        last = (asked.stderr.strip().splitlines() or ["no message"])[-1]
        return f"{interpreter} cannot run tetris_bench.engines: {last}", {}
    found = json.loads(asked.stdout)
    missing = ", ".join(found["missing"])
    return f"not installed for {interpreter}: {missing}" if missing else "", found["versions"]


def write_model(writer: str, folder: Path, shape: Shape, options: Options) -> None:
    """Writes a model by a module of this package, where it is not there yet.

    Raises:
        WorkerError: The engine's interpreter cannot write it.
    """
    if folder.exists():
        return
    command = models.command(options.interpreter, writer, folder, shape, options.seed)
    made = subprocess.run(command, env=environment("", True), capture_output=True, text=True, check=False)
    if made.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        raise WorkerError(f"cannot write a model: {made.stderr.strip().splitlines()[-1:]}")
    for file in folder.iterdir():
        refresh_cache(file)


class Replica(Asked):
    """A live process with an engine."""

    def __init__(self, engine: Engine, way: str, empty: Path, store: Place | None, options: Options) -> None:
        task = {"program": engine.program, "way": way, "empty": os.fspath(empty)}
        threads = str(options.threads)
        env = {**environment(str(store.path) if store else "", True), **engine.environment}
        env |= {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        arguments = [json.dumps(task)]
        super().__init__(options.interpreter, "tetris_bench.engines.replica", arguments, env, options.deadline_s)


@dataclass(frozen=True)
class Bench:
    """One engine, and its models."""

    engine: Engine
    options: Options
    folders: list[Path]
    """A folder of the model for each replica."""
    empty: Path
    progress: Progress

    @property
    def file_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.folders[0].iterdir())


def measure(engine: Engine, options: Options, progress: Progress) -> dict[str, Any]:
    """Figures of one engine, with its bars.

    Raises:
        WorkerError: A replica died, or could not do what it was asked.
    """
    name, workdir = engine.name, options.workdir
    whole, empty = (workdir / f"{engine.writer}-{kind}" for kind in ("whole", "empty"))
    progress.say(f"{name}: models")
    for folder, shape in ((whole, options.shape), (empty, options.shape.empty())):
        write_model(engine.writer, folder, shape, options)
    order = random.Random(options.seed)
    own_files = options.own_files or engine.maps_file
    with _folders(whole, options.replicas, own_files) as folders, contextlib.ExitStack() as last_round:
        bench = Bench(engine, options, folders, empty, progress)
        ways: dict[str, dict[str, Any]] = {
            way: {"description": what, "groups": []} for way, what in engine.ways.items()
        }
        replicas: dict[str, Replica] = {}
        for number in range(options.rounds):
            for way in shuffled(ways, order):
                progress.say(f"{name}: round {number + 1} of {options.rounds}: {way}")
                group = Group(bench, way)
                if number + 1 == options.rounds:
                    last_round.enter_context(group)
                    ways[way]["groups"].append(group.measure())
                    replicas[way] = group.keep_last()
                else:
                    with group:
                        ways[way]["groups"].append(group.measure())
        for way, speeds in _side_by_side(bench, replicas, order).items():
            ways[way]["per_second"] = speeds
    return figures.of(options.replicas, ways, has_time_limit=engine.saves_time)


def shuffled(names: Iterable[str], order: random.Random) -> list[str]:
    """Names in random order."""
    turns = list(names)
    order.shuffle(turns)
    return turns


@contextlib.contextmanager
def _folders(whole: Path, replicas: int, own_files: bool) -> Iterator[list[Path]]:
    """A folder of the model for each replica: the same, or a copy."""
    if not own_files:
        yield [whole] * replicas
        return
    copies = [whole.with_name(f"{whole.name}-{number}") for number in range(replicas)]
    try:
        for copy in copies:
            shutil.copytree(whole, copy)
            for file in copy.iterdir():
                refresh_cache(file)
        yield copies
    finally:
        for copy in copies:
            shutil.rmtree(copy, ignore_errors=True)


class Group(contextlib.ExitStack):
    """Replicas of one way, over a store that is empty at first."""

    def __init__(self, bench: Bench, way: str) -> None:
        super().__init__()
        self._bench, self._way = bench, way
        self._replicas: list[Replica] = []

    def measure(self) -> dict[str, Any]:
        """The replicas load one after the other; sizes in bytes."""
        bench = self._bench
        empty = None
        if bench.engine.keeps_caches:
            with Group(bench, self._way) as others:
                empty = others._loaded([bench.empty] * len(bench.folders))
        return {**self._loaded(bench.folders), "empty": empty}

    def keep_last(self) -> Replica:
        """Ends all replicas but the last one."""
        *others, last = self._replicas
        close_all(others)
        return last

    def _loaded(self, folders: list[Path]) -> dict[str, Any]:
        bench = self._bench
        store = self._store()
        for _ in folders:
            replica = Replica(bench.engine, self._way, bench.empty, store, bench.options)
            self._replicas.append(self.enter_context(replica))
        for replica in self._replicas:
            replica.ready()
        before, _ = self._held(store)
        unmapped = self._unmapped(store)
        loads, outputs = [], []
        for replica, folder in zip(self._replicas, folders, strict=True):
            memory.back(bench.file_bytes)
            loads.append(replica.ask("load", folder=os.fspath(folder)))
            outputs.append(replica.ask("run", count=1)["output"])
        after, mapped = self._held(store)
        return {
            "weights_s": [load["weights_s"] for load in loads],
            "weight_bytes": [load["weight_bytes"] for load in loads],
            "outputs": outputs,
            "before_bytes": before,
            "after_bytes": after,
            "mapped_bytes": mapped,
            "unmapped_bytes": self._unmapped(store) - unmapped,
        }

    def _store(self) -> Place | None:
        """An empty store, where the way uses one."""
        if self._way != TETRIS:
            return None
        room = self.enter_context(place(STORE_COPIES * self._bench.file_bytes, self._bench.options.store_parent))
        tetris.create_store(room.path)
        return room

    def _held(self, store: Place | None) -> tuple[int, int]:
        """Memory of the replicas with the store's pages that nobody maps, and the store's pages that they map.

        Of file pages those of the models alone: how many of a library's pages are mapped says nothing of weights.
        """
        for replica in self._replicas:
            replica.ask("settle")
        pids = [replica.pid for replica in self._replicas]
        total = ProcessMemory.of_all(pids)
        files = sum(memory.mapped_pages(pid, self._bench.options.workdir) for pid in pids)
        held = total.pss_anon + total.pss_shmem + total.page_tables + files
        if store is None:
            return held, 0
        mapped = sum(memory.mapped_pages(pid, store.path) for pid in pids)
        return held + max(0, store.used() - mapped), mapped

    def _unmapped(self, store: Place | None) -> int:
        """Bytes of the store's objects that no replica maps."""
        return memory.unmapped((replica.pid for replica in self._replicas), store.path) if store else 0


def _side_by_side(bench: Bench, replicas: dict[str, Replica], order: random.Random) -> dict[str, list[float]]:
    """Speeds of a replica of each way, all alive, that take turns."""
    speeds: dict[str, list[float]] = {way: [] for way in bench.engine.ways}
    for number in range(bench.options.runs):
        bench.progress.say(f"{bench.engine.name}: side by side: turn {number + 1} of {bench.options.runs}")
        for way in shuffled(replicas, order):
            speeds[way] += replicas[way].ask("run", count=1)["per_second"]
    return speeds
