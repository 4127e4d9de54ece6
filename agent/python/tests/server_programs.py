"""The examples as processes, what they answer, and what the kernel knows of them."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Self

import process
import pytest
import tetris

EXAMPLES = Path(__file__).parents[1] / "examples"
#: What hangs is a failure. Nothing is to be concluded from less time.
HANGS_S = 240
POLL_S = 0.05
#: Pages of the store that only one process happens to have touched are dirty, as all pages of a tmpfs, and private.
PRIVATE_DIRTY_BYTES = 64 << 10
#: Requests to a server.
AT_A_TIME = 8
WORKERS = 4

FEATURES = [[((index + 1) * (place + 3) % 11) / 11 for place in range(64)] for index in range(3)]


def require(*modules: str) -> None:
    """Skip the test where something is not installed."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}: pip install -r {Path(__file__).with_name('requirements-servers.txt')}")


def wait_until(condition: Callable[[], object], what: Callable[[], str]) -> None:
    """Wait until a condition holds; `what` says what that was, where it never does."""
    deadline = time.monotonic() + HANGS_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what()}"
        time.sleep(POLL_S)


def signal_all(pids: Collection[int], number: signal.Signals) -> None:
    """Send a signal to processes, some of which may have ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def assert_close(found: list[float], expected: list[float]) -> None:
    """The numbers are the same, up to the order in which they were added."""
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-5), f"{found} is not {expected}"


# The store, as the kernel sees it.


class Pages(NamedTuple):
    """The pages of the store's objects that a process has in memory, in bytes."""

    rss: int
    pss: int
    private_dirty: int
    #: Copies that writes have made.
    anonymous: int


class Store:
    """A store, and who uses it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.objects_dir = directory / "objects-v1"
        tetris.create_store(directory)

    def objects(self) -> dict[str, os.stat_result]:
        """The objects by name."""
        return {entry.name: entry.stat() for entry in os.scandir(self.objects_dir)}

    def identities(self) -> dict[str, tuple[int, int]]:
        """Records of known files by name, with inode and ctime: a file that is hashed again gets a new record."""
        found = {entry.name: entry.stat() for entry in os.scandir(self.directory / "identities-v1")}
        return {name: (stat.st_ino, stat.st_ctime_ns) for name, stat in found.items()}

    def references(self) -> list[int]:
        """Number of references to each object."""
        counts = {self._inode(stat): 0 for stat in self.objects().values()}
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if fields[1] == "OFDLCK" and fields[3] == "READ" and fields[5] in counts:
                counts[fields[5]] += 1
        return list(counts.values())

    @staticmethod
    def _inode(stat: os.stat_result) -> str:
        return f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"

    def pages_of(self, pid: int) -> Pages:
        """Objects that a process maps."""
        found = process.smaps(self.directory, pid)
        return Pages(*(found.get(name, 0) for name in ("Rss", "Pss", "Private_Dirty", "Anonymous")))


class Model(NamedTuple):
    """A model on disk."""

    path: Path
    #: The bytes of its weights.
    nbytes: int
    #: What is asked, and what the answers are to be.
    questions: list[Any]
    expected: list[list[float]]


def stored(path: Path) -> dict[str, Any]:
    """The tensors of a file, loaded without the store."""
    from safetensors.torch import load_file

    return load_file(path)


def made_classifier(folder: Path) -> Model:
    """The model of most examples, computed here without the store and without the examples."""
    import torch

    path = folder / "classifier.safetensors"
    subprocess.run([sys.executable, EXAMPLES / "classifier.py", path], check=True, timeout=HANGS_S)
    weights = stored(path)
    hidden = torch.tensor(FEATURES)
    for layer in (0, 2, 4):
        hidden = (hidden @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"]).relu()
    scores = (hidden @ weights["6.weight"].T + weights["6.bias"]).softmax(-1)
    return Model(path, sum(weight.nbytes for weight in weights.values()), FEATURES, scores.tolist())


# Programs.


class Program:
    """A program in a separate session, which ends with this value, all its processes with it."""

    #: Whether it answers on its standard output, which is a part of its log otherwise.
    answers_lines = False

    def __init__(self, command: list[str | Path], store: Store, log: Path, **environment: str | Path) -> None:
        self._log = log
        self._hung = False
        own = {"TETRIS_STORE": store.directory, "PYTHONPATH": EXAMPLES, "HOME": log.parent, **environment}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TETRIS_")}
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if self.answers_lines else output,
                stderr=output,
                env=inherited | {name: str(value) for name, value in own.items()},
                start_new_session=True,
            )
        self._watchdog = threading.Timer(HANGS_S, self._give_up)
        self._watchdog.start()

    def pids(self) -> list[int]:
        """The processes of its session that have not ended."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                # After the name, which can contain anything: state, parent, group, session.
                state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(session) == self.process.pid and state not in "ZX":
                    found.append(int(entry.name))
        return found

    def log(self) -> str:
        """Its output."""
        said = self._log.read_text(errors="replace")
        return f"{self.process.args}, status {self.process.poll()}:\n{said}"

    def terminate(self) -> None:
        """End it as a service manager does."""
        self.process.terminate()
        self.process.wait(HANGS_S)
        self.wait_for_end()

    def wait_for_end(self, but: Collection[int] = ()) -> None:
        """Wait until all its processes have ended, `but` these."""
        wait_until(lambda: set(self.pids()) <= set(but), lambda: f"the end of the workers of {self.log()}")

    def kill(self) -> None:
        """End all its processes at once."""
        signal_all(self.pids(), signal.SIGKILL)

    def _give_up(self) -> None:
        self._hung = True
        self.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._watchdog.cancel()
        # One that is being killed may have started another.
        wait_until(lambda: self.kill() or not self.pids(), lambda: f"the end of {self.log()}")
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                if stream is not None:
                    stream.close()
        assert kind is not None or not self._hung, f"it hung: {self.log()}"


class Filter(Program):
    """An example that answers lines with lines."""

    answers_lines = True

    def __init__(self, example: str | Path, arguments: list[str | Path], store: Store, log: Path, **more: str) -> None:
        super().__init__([sys.executable, EXAMPLES / example, *arguments], store, log, **more)

    def ask(self, question: Any) -> dict[str, Any]:
        """Its answer to a line."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{json.dumps(question)}\n".encode())
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"no answer from {self.log()}"
        return json.loads(line)

    def answers_of(self, model: Model, count: int) -> set[int]:
        """Ask until `count` processes have answered; all answers must be right."""
        found: set[int] = set()
        deadline = time.monotonic() + HANGS_S
        for question, expected in itertools.cycle(zip(model.questions, model.expected, strict=True)):
            answer = self.ask(question)
            assert_close(answer["scores"], expected)
            found.add(answer["pid"])
            if len(found) == count:
                return found
            assert time.monotonic() < deadline, f"only {found} answer of {self.log()}"
        raise AssertionError("unreachable")

    def finish(self) -> None:
        """End its input, and wait for it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(HANGS_S) == 0, self.log()
        self.wait_for_end()


class Server(Program):
    """A server on a free port."""

    def __init__(self, kind: Kind, model: Model, store: Store, log: Path, *options: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._kind = kind
        command = [part.format(port=self.port, workers=WORKERS) for part in kind.command]
        environment = {name: value.format(port=self.port, workers=WORKERS) for name, value in kind.environment.items()}
        program = [] if Path(command[0]).is_absolute() else [sys.executable, "-m"]
        super().__init__([*program, *command, *options], store, log, MODEL=model.path, **environment)

    def ask(self, question: Any) -> tuple[int, list[float]] | None:
        """The process that answered and its answer; `None` if nobody did."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANGS_S)
        body, headers = json.dumps(self._kind.request(question)), {"Content-Type": "application/json"}
        try:
            connection.request("POST", self._kind.url, body, headers)
            response = connection.getresponse()
            document = json.loads(response.read())
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        assert response.status == http.HTTPStatus.OK, document
        return self._kind.pid(document), self._kind.answer(document)

    def answers_of(self, model: Model, count: int, without: Collection[int] = (), *, in_turn: bool = True) -> set[int]:
        """Ask until `count` processes, `without` not counted, have answered; all answers must be right.

        A process that is faster to accept than the others can get every request. So a process that has
        answered, or does not count, is stopped until the others have answered, unless `in_turn` is false.
        """
        found: set[int] = set()
        stopped: set[int] = set()
        deadline = time.monotonic() + HANGS_S
        try:
            while len(found) < count:
                if in_turn:
                    # No request is under way now.
                    stopped |= found.union(without)
                    signal_all(stopped, signal.SIGSTOP)
                found |= self._round(model) - set(without)
                assert self.process.poll() is None, self.log()
                assert time.monotonic() < deadline, f"only {found} answer of {self.log()}"
        finally:
            signal_all(stopped, signal.SIGCONT)
        return found

    def _round(self, model: Model) -> set[int]:
        """Ask several times at once; returns who has answered."""
        questions = list(itertools.islice(itertools.cycle(model.questions), AT_A_TIME))
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            answers = list(pool.map(self.ask, questions))
        for answer, expected in zip(answers, itertools.cycle(model.expected), strict=False):
            if answer is not None:
                assert_close(answer[1], expected)
        if not any(answers):
            time.sleep(POLL_S)
        return {answer[0] for answer in answers if answer is not None}


class Kind(NamedTuple):
    """Commands that serve an example, and a request for it."""

    name: str
    #: Arguments of `python -m`, or a program by its absolute path, with places for the port and the workers.
    command: list[str]
    #: The fixture of its model.
    model: str
    url: str
    #: Make a request of a question, and take the numbers from what is answered.
    request: Callable[[Any], Any]
    answer: Callable[[Any], list[float]]
    #: Modules that have to be installed.
    needs: tuple[str, ...]
    #: Variables, with the same places.
    environment: dict[str, str]
    #: Take the process from what is answered.
    pid: Callable[[Any], int] = lambda document: document["pid"]

    def require(self) -> None:
        """Skip the test where something is not installed."""
        require(*self.needs)


# What is checked of all.


def assert_one_copy(store: Store, model: Model, group: Collection[int], workers: Collection[int]) -> None:
    """The group has the weights in memory once, each worker all of them, and nobody a page of its own."""
    pages = {pid: store.pages_of(pid) for pid in {*group, *workers}}
    together = sum(page.pss for page in pages.values())
    print(f"{len(workers)} workers of {len(pages)} processes: {together / model.nbytes:.3f} copies in memory")
    assert together <= 1.1 * model.nbytes, pages
    for pid in workers:
        assert 0.9 * model.nbytes <= pages[pid].rss <= 1.1 * model.nbytes, pages
    for one in pages.values():
        assert one.anonymous == 0, pages
        assert one.private_dirty <= PRIVATE_DIRTY_BYTES, pages
    stored = sum(stat.st_size for stat in store.objects().values())
    assert model.nbytes <= stored <= 1.1 * model.nbytes


def assert_nothing_held(store: Store) -> None:
    """The objects are there, and soon nobody has a reference: threads of who was killed end after their leader."""
    assert store.objects()
    wait_for_references(store, 0)


def wait_for_references(store: Store, count: int) -> None:
    """Wait until there are so many references to every object."""
    wait_until(
        lambda: set(store.references()) == {count},
        lambda: f"{count} references to each object, found {store.references()}",
    )
