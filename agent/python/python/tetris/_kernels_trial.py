"""Trials of the calls of a trace of kernels, in separate processes.

A call of an operator may end a process by a signal, or compute for minutes, and neither can be stopped from within. So
a process loads only kernels of calls that another has made: they ended, soon, within the limit of memory.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Self

from tetris._kernels_child import BEGUN, FAILED, RAN, READY, ROOM
from tetris._log import logger

#: The interpreter of the processes; a program that embeds Python has none, and loads no kernels.
_INTERPRETER = sys.executable or ""
#: Longest time of one call, and of a process until its first, in seconds.
CALL_S, START_S = 10.0, 60.0
#: Most processes that calls end until the rest of the trace is not tried.
MAX_ENDED = 3
#: Memory beyond that of the calls that a process may take after its start, as for workspaces of libraries.
_MORE_BYTES = 1 << 30
#: Time between two looks at the memory of a process, in seconds.
_LOOK_S = 0.05


def outcomes(calls: Sequence[str], device: str, limit_bytes: int, end: float) -> str:
    """Return the outcome of each call: ``r`` if it ran, ``f`` if it raised an error, ``x`` if it ended a process, took
    too long or too much memory, or came after :data:`MAX_ENDED` of these. Calls are missing that were not tried until
    the time `end`, or because no process started.
    """
    found = ""
    ended = 0
    while len(found) < len(calls) and time.monotonic() < end:
        try:
            process = _Process(calls[len(found) :], device, limit_bytes)
        except OSError as error:
            logger.warning("kernels are not loaded: no process could try their calls: %s", error)
            break
        with process:
            while (outcome := process.next(end)) is not None:
                found += outcome
        if len(found) == len(calls) or time.monotonic() >= end:
            break
        if not process.started:
            logger.warning("kernels are not loaded: no process could try their calls: %s", process.reason)
            break
        logger.warning("a call of kernels is left out: %s: %.200s", process.reason, calls[len(found)])
        found += "x"
        ended += 1
        if ended == MAX_ENDED:
            logger.warning("%d calls of kernels are left out after it", len(calls) - len(found))
            found += "x" * (len(calls) - len(found))
    return found


class _Process:
    """A process that tries calls one after the other."""

    def __init__(self, calls: Sequence[str], device: str, limit_bytes: int) -> None:
        #: True once it has its device, and while a call runs.
        self.started, self.begun = False, False
        #: The reason for its end.
        self.reason = ""
        self._most_bytes = ROOM * limit_bytes + _MORE_BYTES
        self._first_bytes = 0
        work = json.dumps({"device": device, "limit_bytes": limit_bytes, "calls": list(calls)}).encode()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        # Not a pipe: writing to a process that does not read would wait.
        with open(os.memfd_create("tetris-kernels", os.MFD_CLOEXEC), "w+b") as file:
            file.write(work)
            file.seek(0)
            self._process = subprocess.Popen(
                # Modules come from where this process has them, and not from the current folder.
                [_INTERPRETER, "-P", "-m", "tetris._kernels_child"],
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        assert self._process.stdout is not None, "it is a pipe"
        self._answers = self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._answers.close()

    def next(self, end: float) -> str | None:
        """Return the outcome of the next call; `None` if the process ends, or takes too long or too much memory."""
        until = time.monotonic() + (CALL_S if self.started else START_S)
        while True:
            byte = self._byte(min(until, end))
            if byte == READY and not self.started:
                self.started, self._first_bytes = True, self._resident()
                until = time.monotonic() + CALL_S
            elif byte == BEGUN and self.started and not self.begun:
                self.begun = True
                until = time.monotonic() + CALL_S
            elif byte in (RAN, FAILED) and self.begun:
                self.begun = False
                return byte.decode()
            else:
                return None

    def _byte(self, until: float) -> bytes:
        """The next byte of its answer; nothing at its end, after the time, or with too much memory."""
        file = self._answers
        while not select.select([file], [], [], _LOOK_S)[0]:
            if time.monotonic() >= until:
                self.reason = "it took too long"
                return b""
            if self.started and self._resident() - self._first_bytes > self._most_bytes:
                self.reason = "it took too much memory"
                return b""
        byte = os.read(file.fileno(), 1)
        if not byte:
            self.reason = f"the process that tried it ended with status {self._process.wait()}"
        return byte

    def _resident(self) -> int:
        try:
            with open(f"/proc/{self._process.pid}/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0
