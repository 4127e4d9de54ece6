"""Outcomes of trials of kernels in the user's cache: a trace is tried once on a kind of device, not by each process."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence

from tetris._kernels import MAX_CALLS
from tetris._log import logger
from tetris._trace_files import cache_folder, read_document, replace

_FORMAT, _VERSION = "tetris-kernels-trial", 1
_SUFFIX = ".kernels-trial.json"
#: Most files of outcomes; the oldest make room.
_MAX_FILES = 256


def key_of(calls: Sequence[str], *conditions: object) -> str:
    """Return the name of a trial: of these calls, under conditions such as the version of torch and the device."""
    text = json.dumps([list(map(str, conditions)), list(calls)])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def known(key: str, count: int) -> str | None:
    """Return the outcomes of a trial of `count` calls; `None` if there was none, or none that can be trusted."""
    path = os.path.join(cache_folder(), key + _SUFFIX)
    try:
        # Its own owner or root: it is about no model.
        found = read_document(path, _FORMAT, (_VERSION,), model=path).get("outcomes")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        logger.info("a trial of kernels is made again: %s", error)
        return None
    valid = isinstance(found, str) and len(found) == count <= MAX_CALLS and set(found) <= set("rfx")
    return found if valid else None


def keep(key: str, outcomes: str) -> None:
    """Keep the outcomes of a trial, if the cache can be written to."""
    folder = cache_folder()
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        replace(
            os.path.join(folder, key + _SUFFIX),
            json.dumps({"format": _FORMAT, "version": _VERSION, "outcomes": outcomes}) + "\n",
        )
        kept = [entry for entry in os.scandir(folder) if entry.name.endswith(_SUFFIX)]
    except OSError as error:
        logger.debug("the outcomes of a trial of kernels are not kept: %s", error)
        return
    if len(kept) > _MAX_FILES:
        # Others may remove them, too.
        with contextlib.suppress(OSError):
            for entry in sorted(kept, key=lambda entry: entry.stat().st_mtime_ns)[:-_MAX_FILES]:
                os.unlink(entry.path)
