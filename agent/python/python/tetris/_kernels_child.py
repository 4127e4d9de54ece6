"""A process that tries the calls of a trace of kernels for another, which does not make those that end this one.

It reads a JSON object from standard input, ``{"device": TEXT, "limit_bytes": NUMBER, "calls": [CALL]}``, and writes
bytes to standard output: :data:`READY` once, then for each call :data:`BEGUN` and the letter of its outcome.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys

READY, BEGUN = b"+", b"-"
#: Outcomes of a call: it ran, or raised an error.
RAN, FAILED = b"r", b"f"
#: Memory of a call, as a multiple of the limit of its arguments: those, results, and memory that operators work with.
ROOM = 4
#: Address space of a thread that an operator may start: its stack and its arena of malloc(3).
_THREAD_BYTES = 192 << 20
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Try the calls."""
    _end_with_parent()
    work = json.load(sys.stdin.buffer)
    # Whatever libraries print is none of this protocol.
    answers = os.dup(1)
    os.dup2(2, 1)
    # No core dumps, and no files: PyTorch writes none for the permitted operators.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    # The kernel ends this process before its parent.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")

    import torch

    from tetris._kernels_call import Call
    from tetris._kernels_target import on_device, synchronize

    target, limit_bytes = torch.device(work["device"]), work["limit_bytes"]
    with on_device(target, ROOM * limit_bytes), torch.inference_mode():
        if target.type == "cpu":
            _limit_address_space(ROOM * limit_bytes + torch.get_num_threads() * _THREAD_BYTES)
        os.write(answers, READY)
        for text in work["calls"]:
            os.write(answers, BEGUN)
            try:
                Call.of(text, target, limit_bytes).run()
                outcome = RAN
            except Exception:
                outcome = FAILED
            # A device's error ends this process: no call after it would run.
            synchronize(target)
            os.write(answers, outcome)
    # Destructors of libraries may hang after calls like these.
    os._exit(0)


def _end_with_parent() -> None:
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent == 1 or os.getppid() != parent:
        # It has ended before, and none reads the answers: unless it is the first of a container.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def _limit_address_space(room: int) -> None:
    """Limit the address space to `room` bytes more than now: sizes of results are known only to operators."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    others = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([used + room, *others]), hard))


if __name__ == "__main__":
    main()
