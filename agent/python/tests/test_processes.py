"""Threads, forks and other processes: the same values everywhere, and nothing held for the dead."""

from __future__ import annotations

import gc
import io
import multiprocessing
import os
import queue
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import model_files
import numpy as np
import pytest
import tetris
import tetris.numpy
import tetris.torch
import torch
import torch.multiprocessing
from model_files import floats, settle
from process import Helper, contents, held, mappings, python

NAMES = [f"layer {number}" for number in range(12)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with some large tensors and many small ones."""
    tensors = {name: floats([64, 300] if i % 4 == 0 else [i + 1], i) for i, name in enumerate(NAMES)}
    return model_files.write(tmp_path_factory.mktemp("processes") / "file", tensors)


def expected(name: str) -> bytes:
    """The bytes of a tensor of the file."""
    i = NAMES.index(name)
    return floats([64, 300] if i % 4 == 0 else [i + 1], i).data


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Do work in several threads that begin at once; raises what the first of them raised."""
    errors: queue.Queue[BaseException] = queue.Queue()
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:
            errors.put(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not errors.empty():
        raise errors.get()


def test_threads_that_load_read_write_and_drop_do_not_disturb_each_other(store: Path, path: Path) -> None:
    def work(number: int) -> None:
        rng = random.Random(number)
        for _ in range(15):
            way = rng.randrange(4)
            if way == 0:
                loaded = tetris.torch.load_file(path)
            elif way == 1:
                with tetris.safe_open(path, "pt") as opened:
                    loaded = {name: opened.get_tensor(name) for name in rng.sample(NAMES, 5)}
            elif way == 2:
                loaded = tetris.torch.load_file(path, mode="read_only")
            else:
                loaded = {name: torch.tensor(array) for name, array in tetris.numpy.load_file(path).items()}
            for name in rng.sample(list(loaded), 4):
                assert loaded[name].numpy().tobytes() == expected(name)
                if way != 2:
                    loaded[name].fill_(number)
            rng.shuffle(names := list(loaded))
            for name in names:
                del loaded[name]

    in_threads(8, work)
    gc.collect()
    assert mappings(store) == []
    assert held(store) == []


def test_threads_share_one_handle(store: Path, path: Path) -> None:
    for framework in ("pt", "np"):
        with tetris.safe_open(path, framework) as opened:

            def work(number: int, opened: Any = opened) -> None:
                for name in NAMES[number % 3 :]:
                    assert np.asarray(opened.get_tensor(name)).tobytes() == expected(name)
                    assert (
                        np.asarray(opened.get_slice(name)[:1]).tobytes()
                        == expected(name)[: 4 * (300 if name in ("layer 0", "layer 4", "layer 8") else 1)]
                    )

            in_threads(6, work)


def test_threads_make_one_agent(store: Path) -> None:
    agents: list[tetris.Agent] = []
    in_threads(8, lambda _: agents.append(tetris.agent()))
    assert len({id(agent) for agent in agents}) == 1


def forked(work: Callable[[], object]) -> int:
    """Do work in a child made by fork; returns its exit status, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_forked_child_reads_loads_and_writes_for_itself(store: Path, path: Path) -> None:
    loaded = tetris.torch.load_file(path)
    before = contents(store)

    def child() -> None:
        for name, tensor in loaded.items():
            assert tensor.numpy().tobytes() == expected(name)
            tensor.numpy()[...] = 5
        again = tetris.numpy.load_file(path)
        assert all(array.tobytes() == expected(name) for name, array in again.items())
        assert tetris.agent().store is not None

    assert forked(child) == 0
    assert all(tensor.numpy().tobytes() == expected(name) for name, tensor in loaded.items())
    assert contents(store) == before


def test_what_the_parent_wrote_the_child_has_as_well(store: Path, path: Path) -> None:
    loaded = tetris.torch.load_file(path)
    loaded["layer 0"].numpy()[0] = 3

    def child() -> None:
        assert (loaded["layer 0"].numpy()[0] == 3).all()
        loaded["layer 0"].numpy()[1] = 4

    assert forked(child) == 0
    assert loaded["layer 0"].numpy()[1].tobytes() == expected("layer 0")[1200:2400]


def test_memory_is_held_until_the_last_of_parent_and_child_is_gone(store: Path, path: Path) -> None:
    loaded = tetris.torch.load_file(path)
    ready, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        ok = all(tensor.numpy().tobytes() == expected(name) for name, tensor in loaded.items())
        os._exit(0 if ok else 1)
    os.read(ready[0], 1)
    del loaded
    gc.collect()
    assert mappings(store) == []
    assert held(store)
    os.write(go[1], b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert held(store) == []
    for end in (*ready, *go):
        os.close(end)


def test_forks_while_threads_load_neither_hang_nor_fail(store: Path, path: Path) -> None:
    stop = threading.Event()
    failures: list[BaseException] = []

    def load() -> None:
        while not stop.is_set():
            try:
                assert tetris.numpy.load_file(path)["layer 3"].tobytes() == expected("layer 3")
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()

    def child() -> None:
        # A child that hangs is a failure, not a wait for ever.
        signal.alarm(120)
        for _ in range(3):
            assert tetris.numpy.load_file(path)["layer 4"].tobytes() == expected("layer 4")

    try:
        statuses = [forked(child) for _ in range(20)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert statuses == [0] * 20
    assert failures == []


def check_in_child(loaded: dict[str, torch.Tensor], results: Any) -> None:
    """Values of the given tensors in a child of multiprocessing."""
    ok = all(tensor.numpy().tobytes() == expected(name) for name, tensor in loaded.items())
    results.put((ok, sorted(loaded)))


def load_in_child(path: str, results: Any) -> None:
    """Tensors that a child of multiprocessing loads."""
    loaded = tetris.numpy.load_file(path)
    results.put((all(array.tobytes() == expected(name) for name, array in loaded.items()), sorted(loaded)))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_of_multiprocessing_load_and_are_given_tensors(store: Path, path: Path, method: str) -> None:
    context = torch.multiprocessing.get_context(method)
    results = context.Queue()
    loaded = tetris.torch.load_file(path)
    read_only = tetris.torch.load_file(path, mode="read_only")
    # The tensors travel through shared memory of torch's own, which copies them once.
    given = {**{name: loaded[name] for name in NAMES[:6]}, **{name: read_only[name] for name in NAMES[6:]}}
    before = contents(store)
    for target, argument in ((load_in_child, str(path)), (check_in_child, given)):
        process = context.Process(target=target, args=(argument, results))
        process.start()
        assert results.get(timeout=240) == (True, sorted(NAMES))
        process.join()
        assert process.exitcode == 0
    assert contents(store) == before


def echo(requests: Any, answers: Any) -> None:
    """Send tensors back, changed."""
    while (tensor := requests.get()) is not None:
        answers.put(tensor.float() + 1)
        del tensor


def test_tensors_travel_through_queues(store: Path, path: Path) -> None:
    context = torch.multiprocessing.get_context("fork")
    requests, answers = context.Queue(), context.Queue()
    process = context.Process(target=echo, args=(requests, answers))
    process.start()
    tetris.load(path)
    before = contents(store)
    for mode in ("copy_on_write", "read_only"):
        for name, tensor in tetris.torch.load_file(path, mode=mode).items():
            requests.put(tensor)
            answer = answers.get(timeout=240).clone()
            assert torch.equal(
                answer, torch.frombuffer(bytearray(expected(name)), dtype=torch.float32).view_as(answer) + 1
            )
    requests.put(None)
    process.join()
    assert process.exitcode == 0
    assert contents(store) == before


class Rows(torch.utils.data.Dataset):
    """Rows of an embedding."""

    def __init__(self, table: torch.Tensor, path: Path | None = None) -> None:
        self.table = table
        self.path = path

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.path is not None:
            assert torch.equal(tetris.torch.load_file(self.path)["layer 0"][index], self.table[index])
        return self.table[index] * 2


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_data_loader_use_tensors_and_files(store: Path, path: Path, method: str) -> None:
    table = tetris.torch.load_file(path, mode="read_only" if method == "fork" else "copy_on_write")["layer 0"]
    loader = torch.utils.data.DataLoader(
        Rows(table, path), batch_size=16, num_workers=2, multiprocessing_context=method
    )
    found = torch.cat(list(loader))
    assert torch.equal(found, table.clone() * 2)


def test_share_memory_moves_a_tensor_out_of_the_store_and_keeps_its_values(store: Path, path: Path) -> None:
    tensor = tetris.torch.load_file(path)["layer 0"]
    before = contents(store)
    tensor.share_memory_()
    assert tensor.is_shared() and tensor.numpy().tobytes() == expected("layer 0")
    tensor.zero_()
    assert contents(store) == before


def test_a_dictionary_is_saved_and_loaded_by_torch(store: Path, path: Path) -> None:
    for mode in ("copy_on_write", "read_only"):
        loaded = tetris.torch.load_file(path, mode=mode)
        buffer = io.BytesIO()
        torch.save(loaded, buffer)
        buffer.seek(0)
        # Only what a plain tensor needs is in it.
        again = torch.load(buffer, weights_only=True)
        assert {name: tensor.numpy().tobytes() for name, tensor in again.items()} == {n: expected(n) for n in NAMES}
        # One tensor of a pack does not drag the pack along.
        buffer = io.BytesIO()
        torch.save(loaded["layer 1"], buffer)
        assert len(buffer.getvalue()) < 4096


LOAD = """
    import sys, json, tetris.numpy
    weights = tetris.numpy.load_file(sys.argv[1])
    print(json.dumps(len(weights)))
    sys.stdin.readline()
"""


def test_a_killed_process_holds_nothing(store: Path, path: Path) -> None:
    settle(path)
    with Helper(LOAD, path) as helper:
        assert helper.line() == len(NAMES)
        assert held(store)
        os.kill(helper.pid, signal.SIGKILL)
        helper.process.wait()
        assert held(store) == []
    # What it published is of use to the next.
    model = tetris.load(path)
    assert model.report["bytes_new"] == 0 and model.report["bytes_read"] == 0


def test_a_process_that_becomes_another_program_holds_nothing(store: Path, path: Path) -> None:
    program = """
        import os, sys, tetris.numpy
        weights = tetris.numpy.load_file(sys.argv[1])
        os.execv(sys.executable, [sys.executable, "-u", "-c", "print(1); input()"])
    """
    with Helper(program, path) as helper:
        assert helper.line() == 1
        assert held(store) == []
        assert mappings(store, helper.pid) == []


def test_programs_that_are_started_inherit_no_reference(store: Path, path: Path) -> None:
    weights = tetris.numpy.load_file(path)
    with Helper("print(1); input()") as helper:
        assert helper.line() == 1
        del weights
        gc.collect()
        assert held(store) == []


def test_a_process_that_is_killed_while_it_publishes_leaves_the_store_as_it_should_be(
    store: Path, tmp_path: Path
) -> None:
    path = model_files.write(tmp_path / "big", {str(i): floats([50_000], i) for i in range(40)})
    program = """
        import os, signal, sys, tetris
        def progress(done, total):
            os.kill(os.getpid(), signal.SIGKILL)
        tetris.load(sys.argv[1], progress=progress)
    """
    with Helper(program, path) as helper:
        assert helper.process.wait() == -signal.SIGKILL
    assert held(store) == []
    loaded = tetris.torch.load_file(path)
    assert all(loaded[str(i)].numpy().tobytes() == floats([50_000], i).data for i in range(40))


def test_processes_that_load_a_new_file_at_once_publish_it_once(store: Path, path: Path) -> None:
    helpers = [Helper("input();" + LOAD.strip().replace("\n    ", "\n"), path) for _ in range(5)]
    try:
        for helper in helpers:
            helper.go_on()
        assert [helper.line() for helper in helpers] == [len(NAMES)] * 5
        total = sum(len(content) for content in contents(store).values())
        assert total < 2 * sum(len(expected(name)) for name in NAMES)
    finally:
        for helper in helpers:
            helper.__exit__()
    assert held(store) == []


def test_an_interpreter_ends_well_whatever_is_still_loaded(store: Path, path: Path) -> None:
    program = """
        import atexit, json, sys, threading, tetris, tetris.torch
        weights = tetris.torch.load_file(sys.argv[1])
        view = memoryview(tetris.load(sys.argv[1])["layer 0"])
        capsule = tetris.load(sys.argv[1], mode="copy_on_write")["layer 0"].__dlpack__()
        opened = tetris.safe_open(sys.argv[1], "pt")
        part = opened.get_slice("layer 0")
        class Late:
            def __del__(self):
                float(weights["layer 0"].sum())
        late = Late()
        late.itself = late
        atexit.register(lambda: tetris.torch.load_file(sys.argv[1]))
        threading.Thread(target=lambda: tetris.load(sys.argv[1])).start()
        print(json.dumps(len(weights)))
    """
    assert python(program, path) == len(NAMES)
    assert held(store) == []


def test_the_package_can_be_imported_again(store: Path, path: Path) -> None:
    program = """
        import json, sys
        import tetris.numpy
        first = tetris.numpy.load_file(sys.argv[1])
        for name in [name for name in sys.modules if name.startswith("tetris")]:
            if name != "tetris._native":
                del sys.modules[name]
        import tetris.numpy
        second = tetris.numpy.load_file(sys.argv[1])
        print(json.dumps(all((first[name] == second[name]).all().item() for name in first)))
    """
    assert python(program, path) is True


def test_multiprocessing_of_the_standard_library_takes_arrays(store: Path, path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        arrays = list(tetris.numpy.load_file(path).values())
        assert pool.map(np.sum, arrays) == [np.sum(array) for array in arrays]
