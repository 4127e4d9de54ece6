"""The kernel's view of a store: locks, which are the references to objects, and pages in memory."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

_OBJECTS = "objects-v1"
#: Constant of fcntl(2), which Python does not define.
_F_OFD_GETLK = 36
_FLOCK = "hhqqi4x"


def held(store: Path) -> list[str]:
    """Return the names of referenced objects."""
    return [path.name for path in (store / _OBJECTS).iterdir() if _is_locked(path)]


def _is_locked(path: Path) -> bool:
    with open(path, "rb") as file:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(file, _F_OFD_GETLK, asked)
    return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)


def smaps(store: Path, pid: int) -> dict[str, int]:
    """Sum a process's mappings of objects, in bytes, by the field names of proc_pid_smaps(5)."""
    sums: dict[str, int] = {}
    of_store = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        fields = line.split()
        if not fields[0].endswith(":"):
            of_store = f"{store}/{_OBJECTS}/" in line
        elif of_store and fields[-1] == "kB":
            name = fields[0].rstrip(":")
            sums[name] = sums.get(name, 0) + int(fields[1]) * 1024
    return sums
