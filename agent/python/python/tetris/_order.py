"""Order files: in which order a model's tensors are used first, so that the GPU mirror copies them in this order.

A JSON file beside the model's, ``model.safetensors.order.json``. Version 1 is a list of names, written by hand or by a
program::

    {"format": "tetris-order", "version": 1, "tensors": ["embed.weight", "layers.0.norm.weight"]}

Version 2 is a trace (:mod:`tetris._trace`), which :func:`tetris.torch.record_order` and
:func:`tetris.torch.record_initialization` write, and add further runs to::

    {"format": "tetris-order", "version": 2, "models": [CONTENT ID],
     "inference": {"runs": 2, "uses": {"embed.weight": [RANK SUM, RUNS, STREAM]}},
     "initialization": {"runs": 0, "uses": {}},
     "origins": {"runs": 3, "same": {"embed.weight": CONTENT ID}, "dynamic": ["head.weight"]}}

Names are those of the model's file. Names that it does not have are passed over, what is not named comes last. A trace
of other content than the file's is passed over. An order is advice: whatever is wrong with its file, the load goes on
without it and the log ``tetris`` has the reason.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tetris._trace import LAST, MAX_RUNS, Origins, Phase, Trace, Use
from tetris._trace_files import TraceFiles, read_document
from tetris._trace_files import content_id as content_id

#: An order file, names in the order of their use, or `False` for the order of the file.
Order = str | os.PathLike[str] | Sequence[str] | bool | None

FORMAT = "tetris-order"
#: Version of a list of names, and of a trace.
NAMES_VERSION, TRACE_VERSION = 1, 2
SUFFIX = ".order.json"


class OrderError(ValueError):
    """An order file that is none; the message has the reason."""


def order_for(
    model: str | os.PathLike[str],
    names: Iterable[str] | None = None,
    order: Order = None,
    trace: Callable[[], Trace | None] | None = None,
) -> list[str] | None:
    """Return the names of a model's tensors in the order of their use, as far as it is known; `None` if it is not.

    Args:
        model: The model's file or directory.
        names: The names of its tensors: others are left out. By default none is.
        order: Where to find the order. With `None` or `True`, in the model's trace.
        trace: Returns the model's trace, where it is needed. By default :func:`trace_for` does, for any content.

    Never fails because of an order file.
    """
    if order is False:
        return None
    if order is None or order is True:
        found = trace_for(model) if trace is None else trace()
        wanted = None if found is None else found.order()
    elif isinstance(order, (str, os.PathLike)):
        found = _FILES.attempt(os.fspath(order), model, missing_ok=False)
        wanted = None if found is None else found.order()
    else:
        wanted = [name for name in order if isinstance(name, str)]
    if wanted is None:
        return None
    known = None if names is None else set(names)
    return [name for name in dict.fromkeys(wanted) if known is None or name in known] or None


def trace_for(model: str | os.PathLike[str], content_id: Callable[[], str | None] | None = None) -> Trace | None:
    """Return the first trace of a model beside it or in the user's cache that fits it; `None` without any."""
    return _FILES.find(model, content_id)


def read_order(path: str | os.PathLike[str]) -> list[str]:
    """Return the names in an order file, in the order of their use.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It cannot be read.
        OrderError: It is no order file of a known version.
    """
    return read_trace(path).order()


def read_trace(path: str | os.PathLike[str], *, model: str | os.PathLike[str] | None = None) -> Trace:
    """Return an order file as a trace. A list of names is a trace of one inference of unknown content.

    Args:
        path: The file.
        model: The model's file or directory, by whose owner the file must be; `None` for a file that the caller trusts.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It cannot be read.
        OrderError: It is no order file of a known version, or not to be trusted.
    """
    try:
        found = read_document(path, FORMAT, (NAMES_VERSION, TRACE_VERSION), model=model)
    except ValueError as error:
        raise OrderError(str(error)) from None
    if found["version"] == TRACE_VERSION:
        return _decoded(path, found)
    names = found.get("tensors")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise OrderError(f'{path} has no list of names under "tensors"')
    # Longer lists than a rank can tell apart are longer than any model.
    return Trace(inference=Phase.of(list(dict.fromkeys(names))[:LAST]))


def _decoded(path: str | os.PathLike[str], found: Mapping[str, Any]) -> Trace:
    def wrong(field: str, expected: str) -> OrderError:
        return OrderError(f'{path} has no {expected} under "{field}"; record the order again')

    def count(value: Any, most: int) -> bool:
        return type(value) is int and 0 <= value <= most

    def names(value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(name, str) for name in value)

    def phase(field: str) -> Phase:
        value = found.get(field)
        if not isinstance(value, dict) or not count(value.get("runs"), MAX_RUNS):
            raise wrong(field, "number of runs")
        runs, uses = value["runs"], value.get("uses")
        if not isinstance(uses, dict):
            raise wrong(field, "uses by name")
        for use in uses.values():
            fine = isinstance(use, list) and len(use) == 3 and count(use[1], runs) and use[1] > 0
            if not fine or not count(use[0], use[1] * LAST) or not count(use[2], MAX_RUNS):
                raise wrong(field, "rank sum, runs and stream of each tensor")
        return Phase(runs, {name: Use(*use) for name, use in uses.items()})

    models, origins = found.get("models"), found.get("origins")
    if not names(models):
        raise wrong("models", "list of content ids")
    if not isinstance(origins, dict) or not count(origins.get("runs"), MAX_RUNS):
        raise wrong("origins", "number of runs")
    same, dynamic = origins.get("same"), origins.get("dynamic")
    if not isinstance(same, dict) or not names(list(same.values())) or not names(dynamic):
        raise wrong("origins", "content ids by name and list of names")
    return Trace(
        frozenset(models or ()),
        phase("inference"),
        phase("initialization"),
        Origins(origins["runs"], same, frozenset(dynamic or ()) - same.keys()),
    )


def _encoded(trace: Trace) -> dict[str, Any]:
    def phase(of: Phase) -> dict[str, Any]:
        uses = {name: [of.uses[name].rank_sum, of.uses[name].runs, of.uses[name].stream] for name in of.order()}
        return {"runs": of.runs, "uses": uses}

    origins = trace.origins
    return {
        "format": FORMAT,
        "version": TRACE_VERSION,
        "models": sorted(trace.models),
        "inference": phase(trace.inference),
        "initialization": phase(trace.initialization),
        "origins": {"runs": origins.runs, "same": dict(origins.same), "dynamic": sorted(origins.dynamic)},
    }


def write_order(model: str | os.PathLike[str], names: Sequence[str], to: str | os.PathLike[str] | None = None) -> str:
    """Write an order file, at once or not at all.

    Args:
        model: The model's file or directory.
        names: Its tensors in the order of their use.
        to: Where to write. By default beside the model; in the user's cache if the model's directory cannot be
            written to.

    Returns:
        The path of the file.

    Raises:
        OSError: It cannot be written.
    """
    text = json.dumps({"format": FORMAT, "version": NAMES_VERSION, "tensors": list(names)}, indent=0) + "\n"
    return _FILES.write(model, text, to)


def add_to_trace(
    model: str | os.PathLike[str], trace: Trace, to: str | os.PathLike[str] | None = None
) -> tuple[str, Trace]:
    """Merge a trace into the order file of a model, as of :meth:`TraceFiles.add`."""
    return _FILES.add(model, trace, to)


_FILES = TraceFiles(
    SUFFIX, "an order of tensors", read_trace, lambda trace: json.dumps(_encoded(trace), indent=0) + "\n"
)
