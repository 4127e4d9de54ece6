"""Parts of the targets in Python: the fuzzer, the replay of seeds, and the bound of heap.

Atheris is the fuzzer where it is installed: it sees which code an input reaches. Without it, seeds are changed at
random.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

HERE = Path(__file__).resolve().parent
#: Longest input of the fuzzer, in bytes.
MAX_BYTES = 10_000

T = TypeVar("T")


@dataclass(frozen=True)
class Target:
    """A target, whose seeds are in ``corpus/<name>``."""

    name: str
    #: The committed seeds by name: ``valid-...`` is accepted, ``hostile-...`` refused.
    seeds: Callable[[], dict[str, bytes]]
    #: Checks the conditions on an input, with a folder for files; returns true if the input is accepted.
    check: Callable[[Path, bytes], bool]
    #: Tokens that a mutation inserts.
    words: Sequence[bytes]

    @property
    def corpus(self) -> Path:
        """Folder of the seeds."""
        return HERE / "corpus" / self.name


@dataclass(frozen=True)
class Bound:
    """Most bytes of heap for an input: for any, and for each byte of it."""

    fixed: int
    per_byte: int

    def hold(self, size: int, work: Callable[[], T]) -> T:
        """Return the result of `work`, for an input of `size` bytes; fail if it held more at a time."""
        started = not tracemalloc.is_tracing()
        if started:
            tracemalloc.start()
        try:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            try:
                return work()
            finally:
                _, most = tracemalloc.get_traced_memory()
                allowed = self.fixed + self.per_byte * size
                assert most - before <= allowed, f"{most - before} bytes of heap for an input of {size}: {self}"
        finally:
            if started:
                tracemalloc.stop()


@contextlib.contextmanager
def instrumented(module: str) -> Iterator[None]:
    """Let the fuzzer see the code of the modules that are imported within, if `module` is the program."""
    if module != "__main__" or (atheris := _atheris()) is None:
        yield
        return
    with atheris.instrument_imports(include=["tetris", "tetris_instance"]):
        yield


def replay(target: Target, folder: Path) -> None:
    """Check each seed of a target; with ``UPDATE_GOLDEN`` set, write them first."""
    source = target.seeds()
    if "UPDATE_GOLDEN" in os.environ:
        target.corpus.mkdir(exist_ok=True)
        for name, content in source.items():
            (target.corpus / name).write_bytes(content)
    committed = {path.name: path.read_bytes() for path in target.corpus.iterdir()}
    assert committed.items() >= source.items(), "set UPDATE_GOLDEN=1 to write them"
    for name, content in committed.items():
        accepted = target.check(folder, content)
        assert not name.startswith(("valid", "hostile")) or accepted == name.startswith("valid"), name


def main(target: Target) -> None:
    """Run a target for the number of seconds that the command line names."""
    seconds = float(sys.argv[1])
    # Starting and stopping for each input would take most of the time.
    tracemalloc.start()
    with tempfile.TemporaryDirectory() as folder:
        if (atheris := _atheris()) is None:
            _change_seeds(target, Path(folder), seconds)
            return
        (HERE / "corpus-found" / target.name).mkdir(parents=True, exist_ok=True)
        (HERE / "artifacts" / target.name).mkdir(parents=True, exist_ok=True)
        options = [f"-max_total_time={seconds:.0f}", f"-max_len={MAX_BYTES}", "-rss_limit_mb=1024", "-timeout=10"]
        options += [f"-artifact_prefix={HERE / 'artifacts' / target.name}/", "-print_final_stats=1"]
        folders = [str(HERE / "corpus-found" / target.name), str(target.corpus)]
        atheris.Setup([sys.argv[0], *options, *folders], lambda content: target.check(Path(folder), content))
        atheris.Fuzz()


def _atheris():  # type: ignore[no-untyped-def]
    try:
        import atheris
    except ImportError:
        return None
    return atheris


def _change_seeds(target: Target, folder: Path, seconds: float) -> None:
    number = random.SystemRandom().randrange(1 << 32)
    print(f"{target.name}: seed {number}", file=sys.stderr)
    chance = random.Random(number)
    corpus = [path.read_bytes() for path in sorted(target.corpus.iterdir())]
    runs, accepted, end = 0, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        content = mutated(chance, corpus, target.words)
        try:
            is_accepted = target.check(folder, content)
        except BaseException:
            artifacts = HERE / "artifacts" / target.name
            artifacts.mkdir(parents=True, exist_ok=True)
            kept = artifacts / f"crash-{hashlib.sha1(content).hexdigest()}"
            kept.write_bytes(content)
            print(f"{target.name}: the input is {kept}", file=sys.stderr)
            raise
        runs += 1
        accepted += is_accepted
        if is_accepted and len(corpus) < 1000:
            corpus.append(content)
    print(f"{target.name}: {runs} runs, {accepted} accepted, seed {number}", file=sys.stderr)


def mutated(chance: random.Random, corpus: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """Return a seed with a few changes."""
    content = bytearray(chance.choice(corpus)[:MAX_BYTES])
    for _ in range(chance.randint(1, 5)):
        at = chance.randint(0, len(content))
        match chance.randrange(5):
            case 0:
                content[at:at] = chance.choice(words)
            case 1:
                del content[at : at + chance.randint(1, 8)]
            case 2:
                content[at : at + 1] = bytes([chance.randrange(256)])
            case 3:
                other = chance.choice(corpus)
                begin = chance.randint(0, len(other))
                content[at:at] = other[begin : begin + chance.randint(0, 40)]
            case _:
                content[at : at + 1] = bytes([(content[at] if at < len(content) else 0) ^ (1 << chance.randrange(8))])
    return bytes(content)
