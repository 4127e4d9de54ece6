"""Modules whose parameters are in the mirror's memory, and that may run before all of it has arrived."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import torch

from tetris import _native
from tetris._device.mirror import count_copied
from tetris._device.names import torch_device
from tetris._device.slots import Slots
from tetris._device.stream_wait import StreamWaits
from tetris._device.tensor import WAIT_S, Private, is_mirrored, is_private, make_private, require_private
from tetris._first_use import FirstUse
from tetris.errors import GpuUnavailableError

#: What is still to come, by module.
_arriving: weakref.WeakKeyDictionary[torch.nn.Module, Arriving] = weakref.WeakKeyDictionary()


def wait(module: torch.nn.Module, timeout: float | None = None) -> None:
    """Wait until all weights of a module that was loaded with ``overlap=True`` have arrived.

    Needed before ``torch.compile`` with ``fullgraph=True``, the capture of a CUDA graph and ``copy.deepcopy`` of the
    module, and before code that takes bytes past torch's functions outside calls of the module that owns them.

    Args:
        module: The module.
        timeout: Longest wait, in seconds; 600 by default.

    Raises:
        TimeoutError: They have not all arrived in time.
    """
    arriving = _arriving.get(module)
    if arriving is not None:
        arriving.wait_for_all(WAIT_S if timeout is None else timeout)


class Arriving:
    """A module's weights of which some are on their way. Each is waited for when it is first used."""

    def __init__(
        self, module: torch.nn.Module, slots: Slots, model: _native.DeviceModel, filename: Any, names: Collection[str]
    ) -> None:
        self._module = weakref.ref(module)
        self._model = model
        self._filename = filename
        self._lock = threading.Lock()
        # Tied tensors have several names, of which the file has one.
        self._tensors = {name: tensor for name, tensor in slots.items() if name in names and name in model}
        arriving = set(model.arriving())
        watched = [(tensor, name) for name, tensor in self._tensors.items() if name in arriving]
        self._streams = StreamWaits.of(model)
        self._first_use = FirstUse(
            module, watched, self._wait_for, self.wait_for_all, self._check, self._wait_on_host, slots.parts
        )
        _arriving[module] = self

    def wait_for_all(self, timeout: float = WAIT_S) -> None:
        """Wait for what has not been used yet."""
        try:
            self._model.wait(timeout=timeout)
        except GpuUnavailableError as error:
            self._copy(error)
        self._stop()

    def _wait_for(self, names: list[str]) -> bool:
        """Let the current stream wait for tensors, or else the host; return whether they may not be there yet."""
        try:
            if self._streams is not None and self._streams.wait_for(names):
                return True
        except GpuUnavailableError as error:
            self._copy(error)
            self._stop()
            return False
        self._wait_on_host(names)
        return False

    def _wait_on_host(self, names: list[str]) -> None:
        """Wait for tensors."""
        try:
            for name in names:
                self._model.wait(name, timeout=WAIT_S)
            complete = self._model.is_ready()
        except (GpuUnavailableError, TimeoutError) as error:
            self._copy(error)
            complete = True
        if complete:
            self._stop()

    def _check(self) -> None:
        """Make sure that what streams have waited for in a call has arrived, before its result is used."""
        if self._streams is None:
            return
        try:
            arrived = self._streams.check(WAIT_S)
            complete = self._model.is_ready()
        except (GpuUnavailableError, TimeoutError) as error:
            self._copy(error)
            self._stop()
            # Its kernels have read undefined bytes.
            raise GpuUnavailableError(
                f"weights of {self._filename} did not arrive while the module ran: {error}; they are copied now, "
                "call the module again"
            ) from error
        self._first_use.settle(arrived)
        if complete:
            self._stop()

    def _stop(self) -> None:
        self._first_use.stop()
        module = self._module()
        if module is not None:
            _arriving.pop(module, None)

    def _copy(self, reason: Exception) -> None:
        """Load what the mirror does not give without it."""
        from tetris.torch import load_file

        with self._lock:
            tensors, self._tensors = self._tensors, {}
            if not tensors:
                return
            count_copied(self._filename, self._model.device, reason)
            device = torch_device(self._model.device)
            loaded = load_file(self._filename, device=device, private=True)
            # That is no use of them.
            with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
                for name, tensor in tensors.items():
                    tensor.data = loaded[name]


class Placed(NamedTuple):
    """Outcome of placing tensors in a module."""

    #: Names of the module's state that were not given.
    missing: list[str]
    #: Names that were given, and that the module does not have.
    unexpected: list[str]
    #: Names under which the module has the given memory itself.
    as_given: set[str]
    #: The module's after it: its code may have changed what there is.
    slots: Slots


def place(
    module: torch.nn.Module, tensors: Mapping[str, torch.Tensor], move_to: Any = None, slots: Slots | None = None
) -> Placed:
    """Let a module use tensors as its own, without a copy.

    Parameters stay the same objects, those on the meta device excepted, and ties stay ties. A tensor of another
    element type than the module's is cast, which is a copy.

    Args:
        module: The module, which is changed in place.
        tensors: Its state, by name.
        move_to: Where the rest of the module goes, if it is to go anywhere.
        slots: The module's, if they are known.

    Raises:
        RuntimeError: A shape differs.
    """
    if slots is None:
        slots = Slots(module)
    before = dict(slots.items())
    by_object = slots.by_object()
    plain = _plain_names(module, slots, before, tensors)
    if plain is not None:
        after, (missing, unexpected) = tensors, plain
    else:
        missing, unexpected = _load_by_torch(module, slots, before, tensors)
        slots = Slots(module)
        after = dict(slots.items())
    loaded: set[str] = set()
    as_given: set[str] = set()
    with torch.no_grad():
        for names in by_object.values():
            new = next((name for name in names if name in after and after[name] is not before[name]), None)
            if new is None:
                continue
            loaded.update(names)
            old, given = before[names[0]], after[new]
            tensor = _merged(old, given)
            for name in names:
                if name in slots:
                    slots[name] = tensor
            if given.dtype == old.dtype and (plain is not None or _same_memory(given, tensors.get(new))):
                as_given.update(names)
        if move_to is not None:
            _move(slots, move_to)
    return Placed([name for name in missing if name not in loaded], unexpected, as_given, slots)


def _load_by_torch(
    module: torch.nn.Module,
    slots: Slots,
    before: Mapping[str, torch.Tensor],
    tensors: Mapping[str, torch.Tensor],
) -> tuple[list[str], list[str]]:
    """Have torch load the state, and return the missing and the unexpected names."""
    try:
        missing, unexpected = module.load_state_dict(tensors, strict=False, assign=True)
        return list(missing), list(unexpected)
    except BaseException:
        for name, tensor in before.items():
            slots[name] = tensor
        raise


def _plain_names(
    module: torch.nn.Module,
    slots: Slots,
    before: Mapping[str, torch.Tensor],
    tensors: Mapping[str, torch.Tensor],
) -> tuple[list[str], list[str]] | None:
    """Return the missing and the unexpected names; `None` if loading is more than an assignment, or fails.

    torch looks at each name in each part of the module, which takes long for a model that is already on the device.
    """
    plain = torch.nn.Module
    if type(module).load_state_dict is not plain.load_state_dict:
        return None
    transient = set()
    for path, part in slots.parts.items():
        kind = type(part)
        if (
            kind._load_from_state_dict is not plain._load_from_state_dict
            or kind.set_extra_state is not plain.set_extra_state
            or part._load_state_dict_pre_hooks
            or part._load_state_dict_post_hooks
        ):
            return None
        for name in part._non_persistent_buffers_set:
            transient.add(f"{path}.{name}" if path else name)
    missing = []
    for name, tensor in before.items():
        given = tensors.get(name)
        if name in transient:
            continue
        if given is None:
            missing.append(name)
        elif given.shape != tensor.shape:
            return None
    return missing, [name for name in tensors if name not in before or name in transient]


def _merged(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Return the old object with the new memory, or the new one where torch cannot do that."""
    is_parameter = isinstance(old, torch.nn.Parameter)
    if old.is_meta and new.dtype == old.dtype and isinstance(new, torch.nn.Parameter) == is_parameter:
        # torch has made a parameter of it.
        return new
    data = new.data if new.requires_grad else new
    if new.dtype != old.dtype:
        data = data.to(old.dtype)
    if old.is_meta:
        return _like(old, data)
    old.data = data
    return old


def _same_memory(one: torch.Tensor, other: torch.Tensor | None) -> bool:
    return (
        other is not None
        and one.data_ptr() == other.data_ptr()
        and one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    )


def _like(old: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    return torch.nn.Parameter(data, requires_grad=old.requires_grad) if isinstance(old, torch.nn.Parameter) else data


def _move(slots: Slots, device: Any) -> None:
    """Move what is not there yet, as ``module.to(device)`` does. What has no values, on the meta device, stays."""
    target = torch.device(device)
    for _, tensor in slots.items():
        if not tensor.is_meta and tensor.device != target:
            tensor.data = tensor.data.to(target)


def release(weights: torch.nn.Module | dict[str, torch.Tensor]) -> int:
    """Give back the mirror's memory that a module or a state dict uses.

    A module's parameters and buffers that are in the mirror go to the meta device: the module stays as it is
    otherwise, and :func:`load_model` fills it again. From a state dict such tensors are removed. Other tensors, also
    views, go on to hold what they are over, and an optimizer the parameters that it was made with.

    The mirror may keep the model until it needs the room: loading it again takes no copy then.

    Returns:
        The bytes that were let go of.
    """
    from tetris import gpu

    if isinstance(weights, torch.nn.Module):
        wait(weights)
        released = _release_module(weights)
    else:
        held = {name: tensor for name, tensor in weights.items() if is_mirrored(tensor)}
        released = sum({tensor.untyped_storage().data_ptr(): tensor.nbytes for tensor in held.values()}.values())
        for name in held:
            del weights[name]
        held.clear()
    gpu.release()
    return released


def _release_module(module: torch.nn.Module) -> int:
    empty: dict[int, torch.Tensor] = {}
    released = 0
    slots = Slots(module)
    for name, tensor in list(slots.items()):
        if id(tensor) not in empty:
            if not is_mirrored(tensor):
                continue
            released += tensor.nbytes
            data = torch.empty_like(tensor.data.as_subclass(torch.Tensor), device="meta")
            empty[id(tensor)] = _like(tensor, data)
        slots[name] = empty[id(tensor)]
    return released


def private_(module: torch.nn.Module, names: Private = True) -> int:
    """Give a module separate copies of parameters and buffers that are in the mirror's memory.

    For what is to be written to: weights that are trained, or that adapters are merged into. Parameters stay the same
    objects, and ties stay ties.

    Args:
        module: The module, which is changed in place.
        names: Which ones: all, those of these names, or those for which a function of the name returns true.

    Returns:
        The bytes that were copied.
    """
    require_private(names)
    wait(module)
    copied = 0
    for name, tensor in list(Slots(module).items()):
        if is_private(name, names):
            copied += make_private(tensor)
    return copied
