"""CPUs of this process, and threads per worker."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")


def available_cpus(cgroups: Path = _CGROUPS, own: Path = _OWN_CGROUP) -> float:
    """Return the number of CPUs that affinity and cgroup quotas allow this process."""
    return min([float(len(os.sched_getaffinity(0))), *_quotas(cgroups, own)])


def threads_per_worker(cpus: float, workers: int) -> int:
    """Return the number of threads per run with which all workers use at most the CPUs."""
    return max(1, int(cpus / workers))


def _quotas(cgroups: Path, own: Path) -> list[float]:
    """Return the CPU quotas of this process's cgroup (version 2) and of its ancestors."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return []
    name = next((line[3:] for line in lines if line.startswith("0::")), "/")
    folder = cgroups / name.lstrip("/")
    found = []
    for parent in [folder, *folder.parents]:
        if parent == cgroups.parent:
            break
        try:
            quota, period = (parent / "cpu.max").read_text().split()
        except (OSError, ValueError):
            continue
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            found.append(int(quota) / int(period))
    return found
