"""Commands of pages with Python, run as they stand by the tool of the book (tests/book)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [
    "README.md",
    "agent/python/README.md",
    "docs/one-machine.md",
    "docs/tutorials/gpu.md",
    "docs/tutorials/transformers.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_run(page: str) -> None:
    """A page says what torch users type, and it does what the page says."""
    command = [sys.executable, "tests/book", "run", page, "--with", "torch"]
    if "TETRIS_NODE" in os.environ:
        command += ["--programs", str(Path(os.environ["TETRIS_NODE"]).parent)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    if f"{page}: " not in ended.stdout:
        pytest.skip(ended.stderr.strip())


def test_every_page_with_python_is_here() -> None:
    """No page has commands that need torch, and is run by no test."""
    listed = subprocess.run([sys.executable, "tests/book", "run", "--list"], cwd=ROOT, capture_output=True, text=True)
    heads = [line for line in listed.stdout.splitlines() if line[:1] not in ("", " ")]
    assert {head.split(":")[0] for head in heads if "torch" in head.split()} == set(PAGES)
