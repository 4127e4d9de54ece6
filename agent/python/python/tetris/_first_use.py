"""The first use of a module's tensors."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import torch

#: Properties and methods that ask for no bytes.
_PROPERTIES = (
    "_backward_hooks _base _version device dtype grad grad_fn is_cuda is_leaf is_meta is_mkldnn is_mps is_nested "
    "is_quantized is_sparse is_sparse_csr is_xpu itemsize layout names nbytes ndim output_nr requires_grad "
    "retains_grad shape"
)
_METHODS = (
    "__hash__ __len__ dim element_size get_device is_complex is_contiguous is_floating_point is_signed ndimension "
    "nelement numel requires_grad_ size storage_offset stride"
)
#: Functions of torch that ask for no bytes.
METADATA = frozenset(
    [getattr(torch.Tensor, name).__get__ for name in _PROPERTIES.split() if hasattr(torch.Tensor, name)]
    + [getattr(torch.Tensor, name) for name in _METHODS.split() if hasattr(torch.Tensor, name)]
)


class FirstUse:
    """Calls a function with the names of tensors before they are used for the first time.

    A use is that a function of torch takes a tensor, or that the module which owns it is called, for code of others
    that takes the bytes past torch's functions. Questions for the shape and the like are none.

    Until they are used, tensors have another class, by which torch's functions come here: what is not watched costs
    nothing. What compiled code does is not seen: when torch.compile comes upon the module, another function is called,
    once.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        watched: Iterable[tuple[torch.Tensor, str]],
        on_use: Callable[[list[str]], object],
        on_compilation: Callable[[], object],
        on_end: Callable[[], object] | None = None,
        on_outside: Callable[[list[str]], object] | None = None,
        parts: Mapping[str, torch.nn.Module] | None = None,
    ) -> None:
        """Watch tensors.

        Args:
            module: The module.
            watched: Its tensors with their names.
            on_use: Called with the names of a tensor that is used while the module, or a part of it that has watched
                tensors, runs. If it returns `True`, the next use is a first one too.
            on_compilation: Called when torch.compile comes upon the module.
            on_end: Called when the outermost call has ended without an error, before its result is returned.
            on_outside: Called in the place of `on_use` of uses outside such calls, and of those by the host. By default
                `on_use` is.
            parts: The module's parts and itself by their paths, if they are known.
        """
        self._on_use = on_use
        self._on_outside = on_use if on_outside is None else on_outside
        self._on_end = on_end
        self._on_compilation = on_compilation
        #: By the identity of tensors, which are kept so that it stays theirs.
        self._unused: dict[int, tuple[torch.Tensor, list[str]]] = {}
        for tensor, name in watched:
            self._unused.setdefault(id(tensor), (tensor, []))[1].append(name)
        self._running = _Running()
        self._lock = threading.Lock()
        #: Outermost calls that are under way, in all threads.
        self._calls = 0
        self._handles: list[Any] = []
        #: Modules that were outermost, with the hook of their end: few, so that others need none.
        self._ends: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        # A module that is no longer used needs no watch.
        self._end = weakref.finalize(module, self.stop)
        self._end.atexit = False
        for part in self._on_the_way(dict(module.named_modules(remove_duplicate=False)) if parts is None else parts):
            self._handles.append(part.register_forward_pre_hook(self._before, prepend=True))
        for tensor, _ in self._unused.values():
            _watch(tensor, self)

    def _on_the_way(self, parts: Mapping[str, torch.nn.Module]) -> Iterable[torch.nn.Module]:
        """Return the parts that own watched tensors, and those that these are parts of."""
        unused, paths = self._unused, {""}
        for path, part in parts.items():
            if any(id(tensor) in unused for owned in (part._parameters, part._buffers) for tensor in owned.values()):
                while path not in paths:
                    paths.add(path)
                    path = path.rpartition(".")[0]
        return dict.fromkeys(part for path, part in parts.items() if path in paths)

    def stop(self) -> None:
        """Watch no longer."""
        while self._unused:
            self._forget(next(iter(self._unused)))
        self._remove_hooks()

    def _forget(self, key: int) -> None:
        """Watch a tensor no longer."""
        # Several threads may come here at once.
        found = self._unused.pop(key, None)
        if found is not None:
            _unwatch(found[0], self)

    def _remove_hooks(self) -> None:
        with self._lock:
            # Calls that are under way end with a hook.
            if self._calls > 0:
                return
            handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
        # They lead to the object that watches, and from there back to here. It goes now, with the memory that it
        # holds, and not when Python looks for such circles.
        self._on_use, self._on_outside, self._on_compilation, self._on_end = _nothing, _nothing, _nothing, None
        self._end.detach()

    @property
    def is_over(self) -> bool:
        """True if all tensors have been used."""
        return not self._unused

    def use(self, tensor: torch.Tensor, *, by_host: bool = False) -> None:
        """Say that a tensor is used: by the host, or by whatever runs what is called next."""
        running = self._running
        found = self._unused.get(id(tensor))
        if running.in_call or found is None:
            return
        on_use = self._on_outside if by_host or running.outermost is None else self._on_use
        running.in_call = True
        try:
            # Before it counts as used: other threads are to come here too until this has returned.
            again = on_use(found[1])
        finally:
            running.in_call = False
        if again is not True:
            self._forget(id(tensor))

    def _before(self, module: torch.nn.Module, _: Any) -> None:
        if torch.compiler.is_compiling():
            # What happens here is not for a graph: in the program's own terms, from here on.
            torch._dynamo.graph_break()
            self._on_compilation()
            return
        running = self._running
        if running.outermost is None:
            with self._lock:
                self._calls += 1
                if module not in self._ends:
                    self._ends.add(module)
                    self._handles.append(module.register_forward_hook(self._after, always_call=True))
            running.outermost = module
        if running.outermost is module:
            running.depth += 1
        # Last: from here on `_after` is called, whatever happens.
        unused = self._unused
        if unused:
            for owned in (module._parameters, module._buffers):
                for tensor in owned.values():
                    if id(tensor) in unused:
                        self.use(tensor)  # type: ignore[arg-type]  # no tensor is None

    def settle(self, names: Collection[str]) -> None:
        """Say that these have been used, and need not be watched any more."""
        for key, (_, own) in list(self._unused.items()):
            if not set(own).isdisjoint(names):
                self._forget(key)

    def _after(self, module: torch.nn.Module, _: Any, __: Any) -> None:
        running = self._running
        if running.outermost is not module:
            return
        running.depth -= 1
        if running.depth == 0:
            running.outermost = None
            with self._lock:
                self._calls -= 1
            try:
                if self._on_end is not None:
                    self._on_end()
            finally:
                # After an error torch goes through the hooks while it calls them: the next call removes them.
                if self.is_over and sys.exc_info()[1] is None:
                    self._remove_hooks()


def _nothing(*_: object) -> None:
    """Takes the place of a callback after the end."""


class _Running(threading.local):
    """The call that this thread is in."""

    outermost: torch.nn.Module | None = None
    depth = 0
    #: Whether it is `on_use` that uses tensors.
    in_call = False


class _Watched:
    """A tensor that is watched: torch's functions come here before they take it."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func not in METADATA:
            _see(args)
            if kwargs:
                _see(kwargs.values())
        # As torch does with tensors of subclasses. Some may be watched further: see `on_use`.
        others = _overriding(types)
        for other in others:
            result = other.__torch_function__(func, others, args, kwargs or {})
            if result is not NotImplemented:
                return result
        if others:
            return NotImplemented
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs) if kwargs else func(*args)

    # torch makes copies of the class that it finds.

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _unwatched(self).__deepcopy__(memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _unwatched(self).__reduce_ex__(protocol)


#: Watches of tensors by their identity. A watch keeps its tensors.
_watches: dict[int, tuple[FirstUse, ...]] = {}
#: Classes of watched tensors by the class that they have otherwise, and the other way round.
_classes: dict[type, type] = {}
_kinds: dict[type, type] = {}
#: Guards the three, and the classes of tensors.
_watching = threading.Lock()


def _after_fork() -> None:
    """Whichever thread of the parent held the lock is not in the child."""
    global _watching
    _watching = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def _watch(tensor: torch.Tensor, watch: FirstUse) -> None:
    """Let a tensor be watched. One whose class cannot change is seen when its owner is called."""
    with _watching:
        before = _watches.get(id(tensor), ())
        if not before:
            kind = type(tensor)
            try:
                if kind not in _classes:
                    made = type(f"Watched{kind.__name__}", (_Watched, kind), {})
                    _classes[kind], _kinds[made] = made, kind
                tensor.__class__ = _classes[kind]
            except TypeError:
                return
        _watches[id(tensor)] = (*before, watch)


def _unwatch(tensor: torch.Tensor, watch: FirstUse) -> None:
    """Let a tensor be watched no longer by this watch."""
    with _watching:
        left = tuple(one for one in _watches.get(id(tensor), ()) if one is not watch)
        if left:
            _watches[id(tensor)] = left
        elif _watches.pop(id(tensor), None):
            tensor.__class__ = _kinds[type(tensor)]


def _unwatched(tensor: Any) -> Any:
    """Return a tensor that is used by the host, and that is no longer watched."""
    for watch in _watches.get(id(tensor), ()):
        watch.use(tensor, by_host=True)
    return tensor


def _see(values: Iterable[Any]) -> None:
    """Say of tensors, and of those in lists, tuples and dictionaries, that they are used."""
    for value in values:
        if isinstance(value, _Watched):
            for watch in _watches.get(id(value), ()):
                watch.use(value)  # type: ignore[arg-type]  # a tensor, too
        elif isinstance(value, (list, tuple)):
            _see(value)
        elif isinstance(value, dict):
            _see(value.values())


def _overriding(types: Iterable[type]) -> tuple[Any, ...]:
    """Return the classes among these, those of watched tensors taken for their own, that override torch's functions."""
    kinds: Iterable[Any] = dict.fromkeys(_kinds.get(kind, kind) for kind in types)
    inherited = (torch.Tensor.__torch_function__, torch._C._disabled_torch_function_impl)
    return tuple(kind for kind in kinds if kind.__torch_function__ not in inherited)
