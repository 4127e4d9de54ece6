"""Memory of processes and of the machine, from `/proc`; all in bytes."""

import mmap
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

PAGE = 4096


@dataclass(frozen=True)
class ProcessMemory:
    """Memory of a process or a group of them.

    The proportional set size (PSS) counts each page once, divided among all who map it, so that the sum over a group
    is the physical memory that the group maps.
    """

    pss: int = 0
    """Proportional set size."""
    pss_anon: int = 0
    """Its part in anonymous memory: heap, stacks, copies."""
    pss_file: int = 0
    """Its part in file pages: interpreter, libraries, mapped model files."""
    pss_shmem: int = 0
    """Its part in shared memory: tensor store, torch.multiprocessing, vineyard."""
    page_tables: int = 0
    """Page tables, which PSS leaves out."""
    large_pages: int = 0
    """Mapped by 2 MiB pages; unlike PSS, a page counts for each process that maps it."""

    def __add__(self, other: "ProcessMemory") -> "ProcessMemory":
        return ProcessMemory(*(a + b for a, b in zip(self._values(), other._values(), strict=True)))

    def _values(self) -> tuple[int, ...]:
        return (self.pss, self.pss_anon, self.pss_file, self.pss_shmem, self.page_tables, self.large_pages)

    @property
    def held(self) -> int:
        """PSS and page tables."""
        return self.pss + self.page_tables

    @classmethod
    def of(cls, pid: int) -> Self:
        """Reads the figures of a live process."""
        rollup = _fields(Path(f"/proc/{pid}/smaps_rollup"))
        status = _fields(Path(f"/proc/{pid}/status"))
        large = ("AnonHugePages", "ShmemPmdMapped", "FilePmdMapped")
        return cls(
            rollup["Pss"],
            rollup.get("Pss_Anon", 0),
            rollup.get("Pss_File", 0),
            rollup.get("Pss_Shmem", 0),
            status.get("VmPTE", 0),
            sum(rollup.get(name, 0) for name in large),
        )

    @classmethod
    def of_all(cls, pids: Iterable[int]) -> "ProcessMemory":
        """The sum over a group."""
        return sum((cls.of(pid) for pid in pids), ProcessMemory())


def mapped_pages(pid: int, directory: Path) -> int:
    """Proportional set size of the files below a directory in a process, without pages that it has written to."""
    size, of_directory = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split(maxsplit=5)
        if not words[0].endswith(":"):
            of_directory = len(words) == 6 and words[5].startswith(f"{directory}/")
        elif of_directory and words[0] in ("Pss:", "Anonymous:"):
            size += int(words[1]) * (1024 if words[0] == "Pss:" else -1024)
    return max(0, size)


def unmapped(pids: Iterable[int], directory: Path) -> int:
    """Allocated blocks of the files below a directory that none of the processes maps."""
    mapped = set()
    for pid in pids:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split(maxsplit=5)
            if len(words) == 6:
                mapped.add(words[5])
    files = (path for path in directory.rglob("*") if os.fspath(path) not in mapped)
    return sum(path.lstat().st_blocks * 512 for path in files)


def available() -> int:
    """Memory that the kernel expects to hand out without swapping."""
    return _fields(Path("/proc/meminfo"))["MemAvailable"]


def total() -> int:
    """Memory of the machine."""
    return _fields(Path("/proc/meminfo"))["MemTotal"]


def tree_bytes(directory: Path) -> int:
    """Allocated blocks of all files in a directory tree."""
    found = 0
    for parent, _, names in os.walk(directory):
        found += sum(os.lstat(os.path.join(parent, name)).st_blocks * 512 for name in names)
    return found


def back(size: int) -> None:
    """Touches this much fresh memory and gives it back.

    A virtual machine pays for memory that it has not used for a while: its host must back it, which takes several
    times as long as the guest's own page fault. A start that happens to get such memory would be blamed for it.
    """
    with mmap.mmap(-1, max(size, PAGE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory[::PAGE] = b"\1" * len(range(0, len(memory), PAGE))


def _fields(path: Path) -> dict[str, int]:
    """The `Name:   123 kB` lines of a file."""
    values = {}
    for line in path.read_text().splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[1] == "kB":
            values[name] = int(words[0]) * 1024
    return values
