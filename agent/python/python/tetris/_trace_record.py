"""Recording traces: the tensors that a module uses first, and the contents that its initialization gives them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tetris import _native
from tetris._agent import agent
from tetris._content import id_of
from tetris._first_use import METADATA, FirstUse
from tetris._log import logger
from tetris._order import add_to_trace
from tetris._torch_tensor import _flat
from tetris._trace import Origins, Phase, Trace
from tetris._trace_files import content_ids
from tetris.errors import LoadError

#: Functions that return the same memory, and read none of it.
_ALIASES = frozenset(
    {
        torch.Tensor.as_subclass,
        torch.Tensor.data.__get__,  # type: ignore[attr-defined]
        torch.Tensor.data_ptr,
        torch.Tensor.detach,
        torch.Tensor.set_,
        torch.Tensor.untyped_storage,
        torch.Tensor.view,
        torch.Tensor._make_subclass,
    }
)


@dataclass
class Recording:
    """A finished recording."""

    #: The tensors that were used, in the order of their first use, by their names in the module.
    names: list[str] = field(default_factory=list)
    #: Numbers of the streams of CUDA that used them first, from 0 in the order of their appearance. Empty on the CPU.
    streams: dict[str, int] = field(default_factory=dict)
    #: The order file; `None` until it is written.
    path: str | None = None


@dataclass
class Initialization:
    """An initialization that is being recorded, or has been."""

    #: The module that it made, which the caller sets.
    module: torch.nn.Module | None = None
    #: Tensors of the file whose bytes it read, in order, by their names in the file.
    reads: list[str] = field(default_factory=list)
    #: Tensors that were not the same in all recorded initializations. They need two of them.
    dynamic: frozenset[str] = frozenset()
    #: The order file; `None` until it is written.
    path: str | None = None


@contextlib.contextmanager
def record_order(
    module: torch.nn.Module, path: str | os.PathLike[str], *, to: str | os.PathLike[str] | None = None
) -> Iterator[Recording]:
    """Record in which order a module uses its tensors first, and add it to the model's order file.

    ::

        with tetris.torch.record_order(model, "model.safetensors"):
            model(**example)

    Later loads of the file to a device have its tensors copied in this order, so that a module which is loaded with
    ``overlap=True`` computes while the rest still comes. Loading a model on the CPU is enough to record. Recordings of
    the same content are merged; one of another content takes the place of the file.

    Args:
        module: The module. Nothing of it is changed.
        path: The model's file or directory.
        to: The order file; by default beside the model, or in the user's cache if that cannot be written to.

    Raises:
        OSError: The order file cannot be written.
        RuntimeError: The module is compiled.
    """
    recording = Recording()
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    stream = _stream_number(tensor for _, tensor in named)

    def refuse() -> None:
        raise RuntimeError("compiled code does not say what it uses: record the order of a module that is not compiled")

    def used(names: list[str]) -> None:
        recording.names.extend(names)
        if stream is not None:
            recording.streams.update(dict.fromkeys(names, stream()))

    watch = FirstUse(module, [(tensor, name) for name, tensor in named], used, refuse)
    try:
        yield recording
    finally:
        watch.stop()
    file = _FileNames(_names_in(path))
    in_file = {name: file.of(name) for name in recording.names}
    names = [found for found in in_file.values() if found is not None]
    streams = {found: recording.streams.get(name, 0) for name, found in in_file.items() if found is not None}
    if names:
        trace = Trace(content_ids(path), inference=Phase.of(names, streams))
        recording.path, _ = add_to_trace(path, trace, to)
    else:
        logger.warning("no order is written for %s: no tensor of it was used", path)


@contextlib.contextmanager
def record_initialization(
    path: str | os.PathLike[str], *, to: str | os.PathLike[str] | None = None
) -> Iterator[Initialization]:
    """Record one initialization of a module, and add it to the model's order file.

    ::

        with tetris.torch.record_initialization("model.safetensors") as recorded:
            recorded.module = build(request)

    Tensors that differ between recorded initializations, such as adapters and weights that they were merged into, are
    dynamic: loads of the file to a device give each process a private copy of them. Contents are compared, not
    names: it reads all tensors of the module that were not loaded through this package.

    Args:
        path: The file of the model's base.
        to: The order file, as of :func:`record_order`.

    Raises:
        OSError: The order file cannot be written.
        ValueError: The block has set no module.
    """
    recorded = Initialization()
    ids: dict[str, list[str]] = {}
    for name, id in _ids_in(path).items():
        ids.setdefault(id, []).append(name)
    with _Reads(ids, recorded.reads) if ids else contextlib.nullcontext():
        yield recorded
    if recorded.module is None:
        raise ValueError("the block must set the module that it has made: recorded.module = ...")
    file = _FileNames(_names_in(path))
    contents: dict[str, str] = {}
    for name, tensor in [
        *recorded.module.named_parameters(remove_duplicate=False),
        *recorded.module.named_buffers(remove_duplicate=False),
    ]:
        id_here = _content_id(tensor)
        if id_here is not None:
            contents[file.of(name) or name] = id_here
    trace = Trace(content_ids(path), initialization=Phase.of(recorded.reads), origins=Origins.of(contents))
    recorded.path, merged = add_to_trace(path, trace, to)
    recorded.dynamic = merged.origins.dynamic


class _Reads(TorchFunctionMode):
    """Sees which tensors of a file the functions of torch take."""

    def __init__(self, names: dict[str, list[str]], found: list[str]) -> None:
        super().__init__()
        self._names = names
        self._found = found
        self._left = set(names)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._left and func not in METADATA and func not in _ALIASES:
            for tensor in _flat((args, kwargs)):
                self._see(tensor)
        return func(*args, **kwargs)

    def _see(self, tensor: Any) -> None:
        if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided or tensor.device.type != "cpu":
            return
        id = _native.unmodified_id(tensor.data_ptr(), tensor.nbytes)
        if id in self._left:
            self._left.discard(id)
            self._found.extend(self._names[id])


def _content_id(tensor: torch.Tensor) -> str | None:
    """The id of a tensor's bytes; `None` of a tensor that has none."""
    if tensor.is_meta or tensor.layout is not torch.strided:
        return None
    with torch.no_grad():
        host = tensor.detach().cpu().contiguous()
    return id_of(host.data_ptr(), host.nbytes)


def _stream_number(tensors: Iterable[torch.Tensor]) -> Any:
    """A function that returns the number of the current stream; `None` if no tensor is on a device of CUDA."""
    devices = {tensor.device for tensor in tensors if tensor.device.type == "cuda"}
    if len(devices) != 1:
        return None
    device = devices.pop()
    seen: dict[int, int] = {}

    def number() -> int:
        return seen.setdefault(torch.cuda.current_stream(device).cuda_stream, len(seen))

    return number


def _ids_in(path: str | os.PathLike[str]) -> dict[str, str]:
    """The content ids of a file's tensors by name; empty without a store."""
    try:
        model = agent().open_file(path).load()
    except (LoadError, TypeError, ValueError) as error:
        logger.debug("tensors of %s are not told apart: %s", path, error)
        return {}
    return {name: tensor.id for name, tensor in model.items() if tensor.id is not None}


def _names_in(path: str | os.PathLike[str]) -> Collection[str] | None:
    """The names of a model's tensors; `None` if they are not to be had."""
    if os.path.isdir(path):
        return None
    try:
        return agent().open_file(path).tensors()
    except (LoadError, TypeError, ValueError) as error:
        logger.debug("names of the module are taken for those of %s: %s", path, error)
        return None


class _FileNames:
    """Names of a module's tensors in a file.

    Of tied tensors the file has one name. A file may be that of a part of the module, or of more than it, so that its
    names have fewer or more parts in front.
    """

    def __init__(self, known: Collection[str] | None) -> None:
        self._known = known
        self._by_end: dict[str, list[str]] = {}
        for name in known or ():
            for end in _ends(name):
                self._by_end.setdefault(end, []).append(name)

    def of(self, name: str) -> str | None:
        """Return the name in the file of a tensor of the module; `None` if it has none."""
        if self._known is None or name in self._known:
            return name
        longer = self._by_end.get(name, [])
        if len(longer) == 1:
            return longer[0]
        return next((end for end in _ends(name) if end in self._known), None)


def _ends(name: str) -> Iterator[str]:
    """Yield a name without its first part, without its first two, and so on; not the last part alone."""
    parts = name.split(".")
    for count in range(1, len(parts) - 1):
        yield ".".join(parts[count:])
