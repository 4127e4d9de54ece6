"""The volume by which a node gives the package to pods."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import tetris

SOURCES = Path(__file__).parents[1] / "injection"


def fill_volume(volume: Path) -> None:
    """Make a folder with the package of this interpreter in it, as deploy/images/python-package does."""
    volume.mkdir()
    for source in SOURCES.glob("*.py"):
        shutil.copy(source, volume)
    libc = tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")))
    platform = f"manylinux_{libc[0]}_{libc[1]}_{os.uname().machine}"
    package = volume / f"tetris_store-{tetris.__version__}-cp311-abi3-{platform}"
    shutil.copytree(Path(tetris.__file__).parent, package / "tetris", ignore=shutil.ignore_patterns("bench"))
