"""Checks of arguments that several interfaces take."""

from __future__ import annotations

import os


def require_mode(mode: object) -> None:
    """Raises ValueError for a mode that there is not."""
    if mode not in ("copy_on_write", "read_only"):
        raise ValueError(f'mode must be "copy_on_write" or "read_only", found {mode!r}')


def may_be_file(filename: object) -> bool:
    """Returns true if a name can be that of a file: of the types that safetensors takes, and not of a directory."""
    return isinstance(filename, (str, os.PathLike)) and not os.path.isdir(filename)


def may_be_left(filename: str | os.PathLike[str]) -> bool:
    """Returns true if safetensors takes a file of this name: only of one that is text."""
    try:
        os.fsencode(filename).decode()
    except UnicodeDecodeError:
        return False
    return True
