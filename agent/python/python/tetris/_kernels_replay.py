"""Loading kernels: each call of a trace runs once, on arguments whose contents are made up.

Flow:
    1. The trace is read, if those who may write it are trusted with the model (:mod:`tetris._trace_trust`).
    2. Calls are left out whose operator is not permitted, whose arguments the operator's schema does not have, and
       those that are too large (:mod:`tetris._kernels_call`).
    3. Separate processes try the others (:mod:`tetris._kernels_trial`), unless an earlier trial is known.
    4. This process makes the calls that ended well and soon.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping

import torch

from tetris import _kernels_trial, _kernels_verdicts
from tetris._kernels import kernels_of
from tetris._kernels_call import Call, TooLargeError, UnknownError
from tetris._kernels_child import ROOM
from tetris._kernels_target import on_device
from tetris._log import logger

#: Seconds after which no further call begins, here or in a trial.
MAX_S = 120.0


def load(
    path: str | os.PathLike[str], device: str | torch.device, limit_bytes: int
) -> tuple[str | None, Mapping[str, int]]:
    """Run the calls of a model's trace, and return its file and the number of calls by their outcome.

    Outcomes are the fields of :class:`tetris.warm.LoadedKernels`, and it has the rest, too.
    """
    target = torch.device(device)
    counts: Counter[str] = Counter()
    found = kernels_of(path)
    if found is None:
        logger.warning("no kernels are loaded for %s: it has no trace of them", path)
        return None, counts
    file, trace = found
    texts = trace.devices.get(target.type)
    if texts is None:
        known = ", ".join(trace.devices) or "none"
        logger.warning("%s is passed over: expected kernels of %s, found those of %s", file, target.type, known)
        return file, counts
    end = time.monotonic() + MAX_S
    calls: dict[str, Call] = {}
    for text in texts:
        try:
            calls[text] = Call.of(text, target, limit_bytes)
        except UnknownError:
            counts["unknown"] += 1
        except TooLargeError:
            counts["too_large"] += 1
    with on_device(target, ROOM * limit_bytes), torch.inference_mode():
        tried = _tried(list(calls), target, limit_bytes, end)
        for index, call in enumerate(calls.values()):
            counts[_outcome(call, tried[index : index + 1], end)] += 1
    logger.debug("calls of kernels in %s: %s", file, dict(counts))
    return file, counts


def _tried(calls: list[str], target: torch.device, limit_bytes: int, end: float) -> str:
    """Outcomes of the known trial of these calls, or of one that is made now. Calls beyond them were not tried."""
    if not calls:
        return ""
    model = "" if target.type == "cpu" else getattr(torch, target.type).get_device_name(target)
    key = _kernels_verdicts.key_of(calls, torch.__version__, target.type, model, limit_bytes)
    found = _kernels_verdicts.known(key, len(calls))
    if found is None:
        found = _kernels_trial.outcomes(calls, str(target), limit_bytes, end)
        if len(found) == len(calls):
            _kernels_verdicts.keep(key, found)
    return found


def _outcome(call: Call, tried: str, end: float) -> str:
    """Make a call that a trial allows, and return the name of the count that it belongs to."""
    if tried == "x":
        return "refused"
    if tried == "f":
        return "failed"
    if tried != "r" or time.monotonic() > end:
        return "late"
    try:
        call.run()
    except Exception as error:
        logger.debug("a call of %s raised %s: %s", call.function, type(error).__name__, error)
        return "failed"
    return "ran"
