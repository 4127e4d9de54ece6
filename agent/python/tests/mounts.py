"""File systems of tests."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def mounted(directory: Path, options: str) -> Iterator[Path]:
    """A tmpfs of the test, or a visible skip."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a tmpfs")
    command = ["mount", "-t", "tmpfs", "-o", options, "tetris-test", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        # Tensors of a failed test may still be mapped.
        subprocess.run(["umount", "--lazy", str(directory)], check=False)
