"""The diagnosis of the native half, with the interpreter's own part."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from tetris._doctor.interpreter import section


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """Result of :func:`tetris.doctor`; printed, or shown by a notebook, it is the text."""

    #: The worst status of all checks: ``"ok"``, ``"note"``, ``"warning"`` or ``"failure"``.
    status: str
    #: Sections, each with a name, a subject and checks. A check has a name, a status, the state that was found, the
    #: expected one, a remedy, and facts: figures in bytes.
    sections: list[dict[str, Any]]
    #: The same for people.
    text: str
    #: Exit code for scripts: 0 for ``"ok"`` and ``"note"``, 6 for ``"warning"``, 7 for ``"failure"``.
    exit_code: int
    #: The whole as one line of JSON.
    json: str

    def __repr__(self) -> str:
        return self.text


def doctor(
    *models: str | os.PathLike[str], store: str | os.PathLike[str] | None = None, pid: int | None = None
) -> Diagnosis:
    """Look at the store, this machine and this interpreter, and say for all that is not well what to do.

    It loads nothing and changes nothing. ``python -m tetris`` and ``tetris doctor`` print the same.

    Args:
        models: Models to look at as well: whether the store knows them, and the part that would be private.
        store: The store's directory; by default the one that a load would use.
        pid: A process to look at as well: its shared and its private memory. ``os.getpid()`` is this one.

    Raises:
        ImportError: The native half of the package cannot be loaded.
    """
    from tetris._native import diagnose

    document, text, exit_code = diagnose(
        [os.fspath(model) for model in models],
        store=None if store is None else os.fspath(store),
        pid=pid,
        section=json.dumps(section()),
    )
    found = json.loads(document)
    return Diagnosis(found["status"], found["sections"], text, exit_code, document)
