"""The first use of a module's tensors."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

#: Properties and methods that ask for no bytes.
_PROPERTIES = (
    "_version device dtype grad grad_fn is_cuda is_leaf is_meta is_quantized is_sparse itemsize layout nbytes ndim "
    "requires_grad shape"
)
_METHODS = (
    "__len__ dim element_size get_device is_complex is_contiguous is_floating_point is_signed ndimension nelement "
    "numel requires_grad_ size storage_offset stride"
)
#: Functions of torch that ask for no bytes.
METADATA = frozenset(
    [getattr(torch.Tensor, name).__get__ for name in _PROPERTIES.split() if hasattr(torch.Tensor, name)]
    + [getattr(torch.Tensor, name) for name in _METHODS.split() if hasattr(torch.Tensor, name)]
)


class FirstUse:
    """Calls a function with the names of tensors before they are used for the first time.

    A use is that the module which owns a tensor is called; or, while the module or one of its parts runs, that a
    function of torch takes it, as those do that use the weights of another module. Questions for the shape and the
    like are none.

    Whatever a module does with its weights without being called is not seen, nor what compiled code does: when
    torch.compile comes upon the module, another function is called, once.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        watched: Iterable[tuple[torch.Tensor, str]],
        on_use: Callable[[list[str]], object],
        on_compilation: Callable[[], object],
        on_end: Callable[[], object] | None = None,
        parts: Iterable[torch.nn.Module] | None = None,
    ) -> None:
        """Watch tensors.

        Args:
            module: The module.
            watched: Its tensors with their names.
            on_use: Called with the names of a tensor. If it returns `True`, the next use is a first one too.
            on_compilation: Called when torch.compile comes upon the module.
            on_end: Called when the outermost call has ended without an error, before its result is returned.
            parts: The module's parts and itself, if they are known.
        """
        self._on_use = on_use
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
        # A module that nobody uses any more needs no watch.
        self._end = weakref.finalize(module, self.stop)
        self._end.atexit = False
        for part in dict.fromkeys(module.modules() if parts is None else parts):
            self._handles.append(part.register_forward_pre_hook(self._before, prepend=True))

    def stop(self) -> None:
        """Watch no longer."""
        self._unused.clear()
        self._remove_hooks()

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
        self._on_use, self._on_compilation, self._on_end = _nothing, _nothing, None
        self._end.detach()

    @property
    def is_over(self) -> bool:
        """True if all tensors have been used."""
        return not self._unused

    def used(self, values: Iterable[Any]) -> None:
        """Say that tensors, or those in lists, tuples and dictionaries, are used."""
        unused = self._unused
        for value in values:
            if id(value) in unused:
                self._use(value)
            elif isinstance(value, (list, tuple)):
                self.used(value)
            elif isinstance(value, dict):
                self.used(value.values())

    def _use(self, tensor: Any) -> None:
        running = self._running
        found = self._unused.get(id(tensor))
        if running.in_call or found is None:
            return
        running.in_call = True
        try:
            # Before it counts as used: other threads are to come here too until this has returned.
            again = self._on_use(found[1])
        finally:
            running.in_call = False
        if again is not True:
            self._unused.pop(id(tensor), None)

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
            running.mode = _Watch(self)
            running.mode.__enter__()
        if running.outermost is module:
            running.depth += 1
        # Last: from here on `_after` is called, whatever happens.
        if self._unused:
            self.used(module._parameters.values())
            self.used(module._buffers.values())

    def settle(self, names: Collection[str]) -> None:
        """Say that these have been used, and need not be watched any more."""
        for key, (_, own) in list(self._unused.items()):
            if not set(own).isdisjoint(names):
                self._unused.pop(key, None)

    def _after(self, module: torch.nn.Module, _: Any, __: Any) -> None:
        running = self._running
        if running.outermost is not module:
            return
        running.depth -= 1
        if running.depth == 0:
            mode, running.mode, running.outermost = running.mode, None, None
            if mode is not None:
                mode.__exit__(None, None, None)
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
    mode: _Watch | None = None
    depth = 0
    #: Whether it is `on_use` that uses tensors.
    in_call = False


class _Watch(TorchFunctionMode):
    """Sees the arguments of torch's functions."""

    def __init__(self, first_use: FirstUse) -> None:
        super().__init__()
        self._first_use = first_use

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        first_use = self._first_use
        if first_use._unused and func not in METADATA:
            first_use.used(args)
            if kwargs:
                first_use.used(kwargs.values())
        return func(*args, **kwargs) if kwargs else func(*args)
