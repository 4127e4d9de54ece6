"""Mappings, locks and memory by the kernel; and programs in separate processes."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

#: A program that hangs is a failure, not a wait for ever. Nothing is to be concluded from less.
HANGS_S = 240

OBJECTS = "objects-v1"
#: fcntl(2); Python has no name for it.
_F_OFD_GETLK = 36
_FLOCK = "hhqqi4x"


class Mapping(NamedTuple):
    """A line of /proc/PID/maps."""

    begin: int
    end: int
    access: str
    path: str


def mappings(store: Path, pid: int | str = "self") -> list[Mapping]:
    """The mappings of a store's objects."""
    folder = f"{store}/{OBJECTS}/"
    found = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith(folder):
            begin, end = (int(number, 16) for number in fields[0].split("-"))
            found.append(Mapping(begin, end, fields[1], fields[5]))
    return found


def is_mapped(store: Path, address: int, nbytes: int) -> bool:
    """Returns true if memory is within a mapping of one of the store's objects."""
    return any(mapping.begin <= address and address + nbytes <= mapping.end for mapping in mappings(store))


def objects(store: Path) -> list[Path]:
    """The objects of a store."""
    return sorted((store / OBJECTS).iterdir())


def contents(store: Path) -> dict[str, bytes]:
    """The bytes of every object of a store."""
    return {path.name: path.read_bytes() for path in objects(store)}


def held(store: Path) -> list[Path]:
    """The objects with references."""
    return [path for path in objects(store) if _is_locked(path)]


def _is_locked(path: Path) -> bool:
    with open(path, "rb") as file:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(file, _F_OFD_GETLK, asked)
    return struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK


def smaps(store: Path, pid: int | str = "self") -> dict[str, int]:
    """Sums over the mappings of a store's objects, in bytes, by the names of proc_pid_smaps(5)."""
    folder = f"{store}/{OBJECTS}/"
    sums: dict[str, int] = {}
    of_store = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        fields = line.split()
        if "-" in fields[0] and not fields[0].endswith(":"):
            of_store = folder in line
        elif of_store and fields[-1] == "kB":
            sums[fields[0].rstrip(":")] = sums.get(fields[0].rstrip(":"), 0) + int(fields[1]) * 1024
    return sums


def python(program: str, *arguments: object, env: dict[str, str] | None = None, flags: tuple[str, ...] = ()) -> Any:
    """Run a program in a separate interpreter; returns what its last line is in JSON."""
    done = run(program, *arguments, env=env, flags=flags)
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])


def run(
    program: str, *arguments: object, env: dict[str, str] | None = None, flags: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a program in a separate interpreter, in whatever way it ends."""
    command = [sys.executable, *flags, "-c", textwrap.dedent(program), *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_S,
        env={**os.environ, **(env or {})},
        cwd=Path(__file__).parent,
    )


class Helper:
    """A program in a separate interpreter, which prints lines and waits for some."""

    def __init__(
        self, program: str, *arguments: object, env: dict[str, str] | None = None, within: Sequence[object] = ()
    ) -> None:
        #: `within` is a command that executes the one that follows it.
        self.process = subprocess.Popen(
            [*map(str, within), sys.executable, "-u", "-c", textwrap.dedent(program), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
            cwd=Path(__file__).parent,
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def line(self, hangs_s: float = HANGS_S) -> Any:
        """Its next line, in JSON. An empty one if it has ended."""
        assert self.process.stdout is not None
        hangs = threading.Timer(hangs_s, self.process.kill)
        hangs.start()
        text = self.process.stdout.readline()
        hangs.cancel()
        assert text, f"it ended with status {self.process.wait()}"
        return json.loads(text)

    def lines(self, count: int) -> Iterator[Any]:
        """Its next lines."""
        return (self.line() for _ in range(count))

    def go_on(self) -> None:
        """Send it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
