"""Recording in which order a module uses its tensors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import torch

from tetris._agent import agent
from tetris._first_use import FirstUse
from tetris._log import logger
from tetris._order import write_order
from tetris.errors import LoadError


@dataclass
class Recording:
    """A finished recording."""

    #: The tensors that were used, in the order of their first use, by their names in the module.
    names: list[str] = field(default_factory=list)
    #: The order file; `None` until it is written.
    path: str | None = None


@contextlib.contextmanager
def record_order(
    module: torch.nn.Module, path: str | os.PathLike[str], *, to: str | os.PathLike[str] | None = None
) -> Iterator[Recording]:
    """Record in which order a module uses its tensors first, and write it to an order file.

    ::

        with tetris.torch.record_order(model, "model.safetensors"):
            model(**example)

    Later loads of the file to a device have its tensors copied in this order, so that a module which is loaded with
    ``overlap=True`` computes while the rest still comes. Loading a model on the CPU is enough to record.

    Args:
        module: The module. Nothing of it is changed.
        path: The model's file or directory.
        to: The order file; by default beside the model, or in the user's cache if that cannot be written to.

    Raises:
        OSError: The order file cannot be written.
        RuntimeError: The module is compiled.
    """
    recording = Recording()

    def refuse() -> None:
        raise RuntimeError("compiled code does not say what it uses: record the order of a module that is not compiled")

    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    watch = FirstUse(module, [(tensor, name) for name, tensor in named], recording.names.extend, refuse)
    try:
        yield recording
    finally:
        watch.stop()
    known = _names_in(path)
    names = recording.names if known is None else _names_of_file(recording.names, known)
    if names:
        recording.path = write_order(path, names, to)
    else:
        logger.warning("no order is written for %s: no tensor of it was used", path)


def _names_in(path: str | os.PathLike[str]) -> Collection[str] | None:
    """The names of a model's tensors; `None` if they are not to be had."""
    if os.path.isdir(path):
        return None
    try:
        return agent().open_file(path).tensors()
    except (LoadError, TypeError, ValueError) as error:
        logger.debug("names of the module are taken for those of %s: %s", path, error)
        return None


def _names_of_file(names: list[str], known: Collection[str]) -> list[str]:
    """Return what a module's tensors are called in a file.

    Of tied tensors the file has one name. A file may be that of a part of the module, or of more than it, so that its
    names have fewer or more parts in front.
    """
    by_end: dict[str, list[str]] = {}
    for name in known:
        for end in _ends(name):
            by_end.setdefault(end, []).append(name)
    found: dict[str, None] = {}
    for name in names:
        if name in known:
            found[name] = None
            continue
        longer = by_end.get(name, [])
        shorter = [end for end in _ends(name) if end in known]
        match = longer if len(longer) == 1 else shorter[:1]
        found.update(dict.fromkeys(match))
    return list(found)


def _ends(name: str) -> Iterator[str]:
    """Yield a name without its first part, without its first two, and so on; not the last part alone."""
    parts = name.split(".")
    for count in range(1, len(parts) - 1):
        yield ".".join(parts[count:])
