"""Native tensors as ``torch.Tensor``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from tetris import _native
from tetris._agent import Mode
from tetris.errors import ReadOnlyTensorError

#: Element types by their names in safetensors; those that this version of torch has.
DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, attribute)
    for name, attribute in {
        "BOOL": "bool",
        "U8": "uint8",
        "I8": "int8",
        "U16": "uint16",
        "I16": "int16",
        "U32": "uint32",
        "I32": "int32",
        "U64": "uint64",
        "I64": "int64",
        "F16": "float16",
        "BF16": "bfloat16",
        "F32": "float32",
        "F64": "float64",
        "C64": "complex64",
        "F8_E4M3": "float8_e4m3fn",
        "F8_E4M3FNUZ": "float8_e4m3fnuz",
        "F8_E5M2": "float8_e5m2",
        "F8_E5M2FNUZ": "float8_e5m2fnuz",
        "F8_E8M0": "float8_e8m0fnu",
        "F4": "float4_e2m1fn_x2",
    }.items()
    if hasattr(torch, attribute)
}

#: Element types that every version of torch takes over by DLPack.
BY_DLPACK = frozenset(("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8"))


def as_torch(tensor: _native.Tensor, mode: Mode) -> torch.Tensor | None:
    """Return a tensor over the same memory, which keeps it; ``None`` if torch has no such element type or shape.

    The memory must be mapped copy-on-write, whatever the mode: torch has no tensors that cannot be written to, and
    a write that gets past :class:`ReadOnlyTensor` must hurt no other process.
    """
    name, nbytes = tensor.dtype, tensor.nbytes
    if nbytes and name in BY_DLPACK:
        # One call, with the shape; frombuffer and view take three times as long.
        found = from_dlpack(tensor.__dlpack__())
        return ReadOnlyTensor.of(found) if mode == "read_only" else found
    dtype = DTYPES.get(name)
    if dtype is None:
        return None
    shape = tensor.shape
    if name == "F4":
        # Two elements are one of torch's.
        if not shape or shape[-1] % 2:
            return None
        shape = (*shape[:-1], shape[-1] // 2)
    if nbytes == 0:
        found = torch.empty(shape, dtype=dtype)
    else:
        found = torch.frombuffer(tensor, dtype=dtype)
        if len(shape) != 1:
            found = found.view(shape)
    return ReadOnlyTensor.of(found) if mode == "read_only" else found


class ReadOnlyTensor(torch.Tensor):
    """A tensor that refuses to be written to.

    Functions and methods of torch that write to it, in place or through ``out=``, raise
    :class:`tetris.errors.ReadOnlyTensorError`. Views are read-only as well; every other result is a plain tensor.
    What torch does not count as a write, such as one through a pointer handed to C, is not seen: it goes to pages of
    this process's own. So the store and other processes are safe in any case, and nothing crashes.

    Pickling and ``torch.save`` make a plain tensor of it.
    """

    @staticmethod
    def of(tensor: torch.Tensor) -> ReadOnlyTensor:
        """Return a read-only tensor over the same memory."""
        return torch.Tensor._make_subclass(ReadOnlyTensor, tensor, tensor.requires_grad)

    # Not __torch_dispatch__, which would know exactly what operators write to: its first use imports half of torch,
    # 40 MB in every process.
    @classmethod
    def __torch_function__(
        cls,
        func: Any,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        for written in _written(func, args, kwargs):
            if isinstance(written, ReadOnlyTensor):
                raise ReadOnlyTensorError(
                    f"{_name(func)} writes to a tensor that was loaded read-only; load it with "
                    'mode="copy_on_write", or clone() it'
                )
        with torch._C.DisableTorchFunctionSubclass():
            ours = [value for value in _flat((args, kwargs)) if isinstance(value, ReadOnlyTensor)]
            before = [_version(tensor) for tensor in ours]
            result = func(*args, **kwargs)
            if isinstance(result, torch.Tensor | list | tuple):
                result = _protect(result, {tensor.untyped_storage().data_ptr() for tensor in ours})
            # Composite functions can write where their name does not say so.
            if any(_version(tensor) != version for tensor, version in zip(ours, before, strict=True)):
                raise ReadOnlyTensorError(
                    f"{_name(func)} has written to a tensor that was loaded read-only; its values are changed in this "
                    'process alone. Load it with mode="copy_on_write", or clone() it'
                )
        return result

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.plain().__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        return self.plain().__deepcopy__(memo)

    def __format__(self, spec: str) -> str:
        return self.plain().__format__(spec)

    def plain(self) -> torch.Tensor:
        """Return a plain tensor over the same memory, for code that cannot do with a subclass.

        A write to it copies pages for this process alone.
        """
        with torch._C.DisableTorchFunctionSubclass():
            return torch.Tensor._make_subclass(torch.Tensor, self, self.requires_grad)

    def numpy(self, *, force: bool = False) -> Any:
        """Return a read-only array over the same memory."""
        array = self.plain().numpy(force=force)
        array.flags.writeable = False
        return array


#: End like functions that write, and change what a tensor object is, not what is in its memory.
_METADATA_ONLY = frozenset(
    (
        "as_strided_",
        "detach_",
        "rename_",
        "requires_grad_",
        "set_",
        "share_memory_",
        "squeeze_",
        "swapaxes_",
        "swapdims_",
        "t_",
        "transpose_",
        "unsqueeze_",
    )
)

#: Arguments that are written to, by the names of functions and of their arguments, with their positions.
_STATISTICS = {
    "batch_norm": (("running_mean", 1), ("running_var", 2)),
    "instance_norm": (("running_mean", 1), ("running_var", 2)),
}


def _name(func: Any) -> str:
    return getattr(func, "__name__", str(func))


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """Yield what a call writes to, as far as the function's name and arguments tell."""
    name = _name(func)
    yield from _flat(kwargs.get("out"))
    in_place = name == "__setitem__" or (name.startswith("__i") and name.endswith("__") and name[3:-2] in _OPERATORS)
    in_place = in_place or (name.endswith("_") and not name.endswith("__") and name not in _METADATA_ONLY)
    if in_place or kwargs.get("inplace") is True:
        # In a list for `_foreach` functions.
        yield from _flat(args[0] if args else kwargs.get("tensor", kwargs.get("input")))
    if kwargs.get("max_norm") is not None or (
        name in ("embedding", "embedding_bag") and _argument(args, 3) is not None
    ):
        yield from _flat(kwargs.get("weight", _argument(args, 1)))
    if kwargs.get("training", kwargs.get("use_input_stats")):
        for argument, position in _STATISTICS.get(name, ()):
            yield kwargs.get(argument, _argument(args, position))
    if func in _NATIVE_NORMS and _argument(args, 5):
        # Input, weight, bias, the statistics, and whether they are to be kept.
        yield from args[3:5]


#: What the functions of `torch.nn.functional` call; torch counts no write to the statistics.
_NATIVE_NORMS = (torch.batch_norm, torch.instance_norm, torch.native_batch_norm)

#: Of `__iadd__` and so on.
_OPERATORS = frozenset(
    ("add", "and", "div", "floordiv", "lshift", "mod", "mul", "or", "pow", "rshift", "sub", "truediv", "xor", "matmul")
)


def _argument(args: tuple[Any, ...], position: int) -> Any:
    return args[position] if position < len(args) else None


def _flat(value: Any) -> Iterator[Any]:
    """Yield what is in nested arguments."""
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _flat(one)
    elif isinstance(value, dict):
        yield from _flat(list(value.values()))
    else:
        yield value


def _version(tensor: torch.Tensor) -> int:
    """Return how often a tensor or its views have been written to. Inference tensors do not count."""
    return 0 if tensor.is_inference() else tensor._version


def _protect(value: Any, storages: set[int]) -> Any:
    """Return results of which those over one of the storages are read-only."""
    if isinstance(value, ReadOnlyTensor):
        return value
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided and value.untyped_storage().data_ptr() in storages and value.nbytes > 0:
            return ReadOnlyTensor.of(value)
        return value
    if type(value) in (list, tuple):
        return type(value)(_protect(one, storages) for one in value)
    return value
