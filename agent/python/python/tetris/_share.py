"""Publishing what is in memory already, whatever made it, and taking the shared memory instead."""

from __future__ import annotations

import logging
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields

import torch

from tetris import _native
from tetris._agent import MIN_BYTES, agent
from tetris._content import content_of, same_bytes
from tetris._log import logger
from tetris.errors import ShareError

#: True after this process has logged that it shares weights.
_logged = False


@dataclass(repr=False)
class ShareReport:
    """Result of sharing, in bytes of tensors."""

    #: Taken from the store, where the same bytes were already.
    bytes_found: int = 0
    #: Published by this call.
    bytes_published: int = 0
    #: Mapped from the store before.
    bytes_already: int = 0
    #: Too small, on another device, of a layout that cannot be mapped, or refused by the store.
    bytes_private: int = 0
    #: Why the store refused, if it did.
    private_reason: str | None = None
    #: The names that stay private.
    private_names: list[str] = field(default_factory=list)

    @property
    def bytes_shared(self) -> int:
        """All bytes that are shared now."""
        return self.bytes_found + self.bytes_published + self.bytes_already

    def __repr__(self) -> str:
        """Return all fields, with the first of many names."""
        names = reprlib.Repr()
        names.maxlist, names.maxstring = 3, 80
        values = {field.name: repr(getattr(self, field.name)) for field in fields(self)}
        values["private_names"] = names.repr(self.private_names)
        if len(self.private_names) > names.maxlist:
            values["private_names"] += f" ({len(self.private_names)} names)"
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in values.items())})"


def share_module_(module: torch.nn.Module, *, min_bytes: int = MIN_BYTES) -> ShareReport:
    """Put a module's parameters and buffers into the store, and let the module use the shared memory.

    For weights that did not come through the store as they are: loaded from ``.bin`` or another format, cast,
    quantized, merged. The first process publishes them; the others find the same bytes there and drop their own
    copy. Parameters stay the same objects, ties and views stay ties and views, and values do not change. Of tensors
    that wrap others, such as torchao's quantized ones, those are shared.

    Every process hashes its weights once, at some GB/s; :func:`tetris.derived` saves that too.

    Args:
        module: The module, which is changed in place. No thread may write to its tensors meanwhile.
        min_bytes: Tensors below this many bytes stay private.

    Returns:
        How much is shared now. Nothing is raised because of the store: what it cannot take stays private.
    """
    named = [part for pair in (*module.named_parameters(), *module.named_buffers()) for part in _parts(*pair)]
    report = ShareReport()
    for tensor, shared in _shared(named, min_bytes, report):
        tensor.data = shared
    _log(type(module).__name__, report)
    return report


def _parts(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Return a tensor by its name; for a wrapper of other tensors, such as torchao's quantized ones, these."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        yield name, tensor
        return
    inner, _ = flatten()
    for attribute in inner:
        part = getattr(tensor, attribute)
        if isinstance(part, torch.Tensor):
            yield from _parts(f"{name}.{attribute}", part)


def share_state_dict(
    state_dict: Mapping[str, torch.Tensor], *, min_bytes: int = MIN_BYTES
) -> tuple[dict[str, torch.Tensor], ShareReport]:
    """Put the tensors of a state dict into the store; see :func:`share_module_`.

    Args:
        state_dict: Tensors by name; it is left as it is.
        min_bytes: Tensors below this many bytes stay private.

    Returns:
        The same names with tensors over shared memory, those that cannot be shared as they are; and how much is
        shared.
    """
    report = ShareReport()
    replaced = {id(tensor): shared for tensor, shared in _shared(state_dict.items(), min_bytes, report)}
    _log("a state dict", report)
    return {name: replaced.get(id(tensor), tensor) for name, tensor in state_dict.items()}, report


def _log(what: str, report: ShareReport) -> None:
    """Log that weights are shared: the first of this process at level INFO, others at DEBUG."""
    global _logged
    if report.bytes_shared > 0:
        level = logging.DEBUG if _logged else logging.INFO
        _logged = True
        logger.log(level, "weights of %s are shared through the store %s: %s", what, agent().store, report)


def share_loaded(module: torch.nn.Module, loaded: Mapping[str, torch.Tensor]) -> None:
    """Let a module's tensors use the memory of loaded ones of the same names, where the bytes are the same.

    Only tensors that are the sole users of their memory: what others see of it must go on to be what they see.
    """
    tensors = dict([*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)])
    for name, source in loaded.items():
        tensor = tensors.get(name)
        if tensor is not None and _can_share(tensor) and _is_sole_user(tensor) and _same(tensor, source):
            tensor.data = source


def _is_sole_user(tensor: torch.Tensor) -> bool:
    """Returns true if no other tensor or process uses the tensor's memory; `False` if torch does not say."""
    storage = tensor.untyped_storage()
    count = getattr(torch._C, "_storage_Use_Count", None)
    if count is None or tensor.is_shared() or storage.nbytes() != tensor.nbytes:
        return False
    # The tensor, and `storage`.
    return count(storage._cdata) <= 2


def _same(tensor: torch.Tensor, source: torch.Tensor) -> bool:
    """Returns true if both are contiguous with the same bytes."""
    return (
        tensor.dtype == source.dtype
        and tensor.shape == source.shape
        and tensor.is_contiguous()
        and same_bytes(tensor.data_ptr(), source.data_ptr(), source.nbytes)
    )


def _shared(
    named: Iterable[tuple[str, torch.Tensor]], min_bytes: int, report: ShareReport
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Publish tensors; return each with the one that is to take its place."""
    by_storage: dict[int, list[tuple[str, torch.Tensor]]] = {}
    seen: set[int] = set()
    for name, tensor in named:
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        if _can_share(tensor):
            by_storage.setdefault(tensor.untyped_storage().data_ptr(), []).append((name, tensor))
        else:
            _stays(report, [(name, tensor)])
    replaced = []
    for group in by_storage.values():
        replaced += _share_storage(group, min_bytes, report)
    return replaced


def _can_share(tensor: torch.Tensor) -> bool:
    return (
        tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and type(tensor.data) is torch.Tensor
        and not torch.nn.parameter.is_lazy(tensor)
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
        and tensor.nbytes > 0
    )


def _share_storage(
    group: list[tuple[str, torch.Tensor]], min_bytes: int, report: ShareReport
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Share the tensors over one storage."""
    first = group[0][1]
    alike = all(
        tensor.data_ptr() == first.data_ptr() and tensor.nbytes == first.nbytes and tensor.is_contiguous()
        for _, tensor in group
    )
    if alike:
        # The tensor's bytes, which may be a part of a larger storage, are what a file of it would hold.
        address, nbytes = first.data_ptr(), first.nbytes
    else:
        storage = first.untyped_storage()
        address, nbytes = storage.data_ptr(), storage.nbytes()
    counted = nbytes if alike else sum(tensor.nbytes for _, tensor in group)
    if nbytes < min_bytes:
        _stays(report, group)
        return []
    if _native.is_unmodified(address, nbytes):
        report.bytes_already += counted
        return []
    try:
        memory = agent().publish(content_of(address, nbytes), mode="copy_on_write")
    except ShareError as error:
        if report.private_reason is None:
            report.private_reason = str(error)
            names = ", ".join(name for name, _ in group)
            logger.warning("weights stay private, %s first: %s", names, error)
        _stays(report, group)
        return []
    if memory.origin == "new":
        report.bytes_published += counted
    else:
        report.bytes_found += counted
    base = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
    return [(tensor, _view(tensor, base, address)) for _, tensor in group]


def _view(tensor: torch.Tensor, storage: torch.UntypedStorage, address: int) -> torch.Tensor:
    """Return what `tensor` is to memory at `address`, for the same bytes in `storage`."""
    offset = (tensor.data_ptr() - address) // tensor.element_size()
    view = torch.empty(0, dtype=tensor.dtype)
    return view.set_(storage, offset, tensor.size(), tensor.stride())


def _nbytes(tensor: torch.Tensor) -> int:
    """The bytes of a tensor's elements; 0 where there is no saying, such as of one that is not initialized yet."""
    try:
        return tensor.numel() * tensor.element_size()
    except (RuntimeError, ValueError):
        return 0


def _stays(report: ShareReport, group: list[tuple[str, torch.Tensor]]) -> None:
    report.bytes_private += sum(_nbytes(tensor) for _, tensor in group)
    report.private_names += [name for name, _ in group]
