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
without it and the log ``tetris`` says why.
"""

from __future__ import annotations

import hashlib
import json
import os
import reprlib
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tetris._agent import agent
from tetris._log import logger
from tetris._trace import LAST, MAX_RUNS, Origins, Phase, Trace, Use
from tetris.errors import LoadError

#: An order file, names in the order of their use, or `False` for the order of the file.
Order = str | os.PathLike[str] | Sequence[str] | bool | None

FORMAT = "tetris-order"
#: Version of a list of names, and of a trace.
NAMES_VERSION, TRACE_VERSION = 1, 2
SUFFIX = ".order.json"
#: Of a directory with several model files; that of a single one has the same name.
DIRECTORY_FILE = "model.safetensors" + SUFFIX
#: Longest order file, in bytes: a name of 1 KiB for each of the 16,384 tensors that the mirror takes.
MAX_BYTES = 16 << 20


class OrderError(ValueError):
    """An order file that is none; the message says why."""


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
        found = _try(os.fspath(order), missing_ok=False)
        wanted = None if found is None else found.order()
    else:
        wanted = [name for name in order if isinstance(name, str)]
    if wanted is None:
        return None
    known = None if names is None else set(names)
    return [name for name in dict.fromkeys(wanted) if known is None or name in known] or None


def trace_for(model: str | os.PathLike[str], content_id: Callable[[], str | None] | None = None) -> Trace | None:
    """Return the first trace of a model in the places of :func:`places` that fits it; `None` without any."""
    known: str | None = None
    asked = content_id is None
    for path in places(model):
        trace = _try(path, missing_ok=True)
        if trace is None:
            continue
        if trace.models and not asked:
            asked, known = True, content_id() if content_id is not None else None
        if trace.fits(frozenset() if known is None else frozenset([known])):
            return trace
        logger.info("%s is passed over: it is a trace of other content than that of %s", path, model)
    known = known if asked or content_id is None else content_id()
    return None if known is None else _try(_of_content(known), missing_ok=True)


def content_id(path: str | os.PathLike[str]) -> str | None:
    """Return the content id of a file; `None` for a directory, and if the store does not know it."""
    try:
        return None if os.path.isdir(path) else agent().open_file(path).content_id()
    except (LoadError, TypeError, ValueError):
        return None


def places(model: str | os.PathLike[str]) -> Iterator[str]:
    """Yield where an order file can be: beside the model, then in the user's cache."""
    path = os.path.abspath(os.fspath(model))
    if os.path.isdir(path):
        directory = path
    else:
        directory = os.path.dirname(path)
        yield path + SUFFIX
    beside = os.path.join(directory, DIRECTORY_FILE)
    if beside != path + SUFFIX:
        yield beside
    yield _in_cache(path)
    if directory != path:
        yield _in_cache(directory)


def read_order(path: str | os.PathLike[str]) -> list[str]:
    """Return the names in an order file, in the order of their use.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It cannot be read.
        OrderError: It is no order file of a known version.
    """
    return read_trace(path).order()


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Return an order file as a trace. A list of names is a trace of one inference of unknown content.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It cannot be read.
        OrderError: It is no order file of a known version.
    """
    text = _read(os.fspath(path))
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OrderError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise OrderError(f'{path} is no order file: expected an object with "format": "{FORMAT}"')
    version = found.get("version")
    if type(version) is not int or version not in (NAMES_VERSION, TRACE_VERSION):
        known = f"{NAMES_VERSION} or {TRACE_VERSION}"
        raise OrderError(f"{path} has version {reprlib.repr(version)}, expected {known}; record the order again")
    if version == TRACE_VERSION:
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
    path = os.path.abspath(os.fspath(model))
    return _write(path, text, to, _in_cache(path))


def add_to_trace(
    model: str | os.PathLike[str], trace: Trace, to: str | os.PathLike[str] | None = None
) -> tuple[str, Trace]:
    """Merge a trace into the order file of a model, if the two fit. Another order file is replaced.

    Args:
        model: The model's file or directory.
        trace: The new runs.
        to: The order file; by default as of :func:`write_order`. In the user's cache it has the name of the model's
            content, if that is known: the trace is found wherever the model is.

    Returns:
        The path of the file, and the merged trace.

    Raises:
        OSError: It cannot be written.
    """
    path = os.path.abspath(os.fspath(model))
    content = min(trace.models, default=None)
    cached = _in_cache(path) if content is None else _of_content(content)
    before = _try(os.fspath(to), missing_ok=True) if to is not None else _newest([_beside(path), cached])
    # A list of names has no content: a trace is worth more.
    if before is not None and before.models == trace.models and not before.is_full():
        trace = before + trace
    return _write(path, json.dumps(_encoded(trace), indent=0) + "\n", to, cached), trace


def _newest(files: Iterable[str]) -> Trace | None:
    return next((trace for file in files if (trace := _try(file, missing_ok=True)) is not None), None)


def _beside(path: str) -> str:
    return os.path.join(path, DIRECTORY_FILE) if os.path.isdir(path) else path + SUFFIX


def _write(path: str, text: str, to: str | os.PathLike[str] | None, cached: str) -> str:
    if to is not None:
        return _replace(os.path.abspath(os.fspath(to)), text)
    try:
        return _replace(_beside(path), text)
    except OSError as error:
        logger.debug("the order of %s goes to %s: %s", path, cached, error)
        os.makedirs(os.path.dirname(cached), mode=0o700, exist_ok=True)
        return _replace(cached, text)


def _try(path: str, *, missing_ok: bool) -> Trace | None:
    try:
        return read_trace(path)
    except FileNotFoundError as error:
        if not missing_ok:
            logger.warning("the order of tensors is not known: %s", error)
    except (OSError, OrderError) as error:
        logger.warning("an order of tensors is passed over: %s", error)
    return None


def _read(path: str) -> bytes:
    # A FIFO in its place must not make the load wait.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OrderError(f"{path} is not a regular file")
        text = file.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise OrderError(f"{path} is longer than {MAX_BYTES} bytes")
    return text


def _replace(path: str, text: str) -> str:
    descriptor, staged = tempfile.mkstemp(prefix=".order-", dir=os.path.dirname(path))
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        # As readable as the model beside it.
        os.chmod(staged, 0o644)
        os.replace(staged, path)
    except BaseException:
        os.unlink(staged)
        raise
    return path


def _in_cache(path: str) -> str:
    """The place of a path in the user's cache."""
    # A snapshot's link and the file it leads to are one.
    name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32]
    return os.path.join(_cache(), name + SUFFIX)


def _of_content(content_id: str) -> str:
    """The place of a content in the user's cache."""
    return os.path.join(_cache(), content_id + SUFFIX)


def _cache() -> str:
    """``$TETRIS_ORDER_DIR``, or else ``tetris/order`` in the cache directory."""
    folder = os.environ.get("TETRIS_ORDER_DIR")
    if not folder:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(cache, "tetris", "order")
    return folder
