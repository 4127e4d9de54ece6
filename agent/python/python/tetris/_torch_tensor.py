"""Native tensors as ``torch.Tensor``."""

from __future__ import annotations

from typing import Any

import torch

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


def as_torch(tensor: _native.Tensor, mode: Mode) -> torch.Tensor | None:
    """Return a tensor over the same memory, which keeps it; ``None`` if torch has no such element type or shape.

    The memory must be mapped copy-on-write, whatever the mode: torch has no tensors that cannot be written to, and
    a write that gets past :class:`ReadOnlyTensor` must hurt nobody.
    """
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None:
        return None
    shape = tensor.shape
    if tensor.dtype == "F4":
        # Two elements are one of torch's.
        if not shape or shape[-1] % 2:
            return None
        shape = (*shape[:-1], shape[-1] // 2)
    if tensor.nbytes == 0:
        found = torch.empty(shape, dtype=dtype)
    else:
        found = torch.frombuffer(tensor, dtype=dtype).view(shape)
    return ReadOnlyTensor.of(found) if mode == "read_only" else found


#: Operators that write to arguments without declaring it, and those arguments.
_BATCH_NORMS = frozenset(
    f"aten::{name}"
    for name in ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "batch_norm_update_stats", "batch_norm")
)
_UNDECLARED = frozenset(("running_mean", "running_var"))


class ReadOnlyTensor(torch.Tensor):
    """A tensor that refuses to be written to.

    Every operator that torch declares to write to an argument, in place or through ``out=``, raises
    :class:`tetris.errors.ReadOnlyTensorError` for it; views are read-only as well, and every other result is a plain
    tensor. What does not go through torch's operators, such as a pointer handed to C, is not seen: it writes to pages
    of this process's own. So the store and other processes are safe in any case, and nothing crashes.

    Pickling and ``torch.save`` make a plain tensor of it.
    """

    @staticmethod
    def of(tensor: torch.Tensor) -> ReadOnlyTensor:
        """Return a read-only tensor over the same memory."""
        return torch.Tensor._make_subclass(ReadOnlyTensor, tensor.detach(), tensor.requires_grad)

    # Everything is decided below autograd, where each operator says what it writes to.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: Any,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        schema = func._schema
        undeclared = _UNDECLARED if schema.name in _BATCH_NORMS and _trains(schema, args, kwargs) else ()
        for position, argument in enumerate(schema.arguments):
            if argument.name in undeclared or (argument.alias_info is not None and argument.alias_info.is_write):
                value = args[position] if position < len(args) else kwargs.get(argument.name)
                written = value if isinstance(value, (list, tuple)) else (value,)
                if any(isinstance(one, ReadOnlyTensor) for one in written):
                    raise ReadOnlyTensorError(
                        f"{schema.name} writes to a tensor that was loaded read-only; load it with "
                        'mode="copy_on_write", or clone() it'
                    )
        with torch._C._DisableTorchDispatch():
            result = func(*args, **kwargs)
        if any(returned.alias_info is not None for returned in schema.returns):
            return _read_only(result)
        return _plain(result)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.plain().__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        return self.plain().__deepcopy__(memo)

    def plain(self) -> torch.Tensor:
        """Return a plain tensor over the same memory, for code that cannot do with a subclass.

        A write to it copies pages for this process alone.
        """
        with torch._C._DisableTorchDispatch():
            return torch.Tensor._make_subclass(torch.Tensor, self.detach(), self.requires_grad)

    def tolist(self) -> Any:
        """Return the values as nested lists."""
        return self.plain().tolist()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"ReadOnlyTensor({self.plain()!r})"

    def __format__(self, format_spec: str) -> str:
        return self.plain().__format__(format_spec) if format_spec else str(self)

    def numpy(self, *, force: bool = False) -> Any:
        """Return a read-only array over the same memory."""
        array = self.plain().numpy(force=force)
        array.flags.writeable = False
        return array


def _trains(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a batch normalisation updates its running statistics."""
    names = [argument.name for argument in schema.arguments]
    position = next((names.index(name) for name in ("training", "train") if name in names), None)
    if position is None:
        return True
    return bool(args[position] if position < len(args) else kwargs.get(names[position], True))


def _read_only(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value if isinstance(value, ReadOnlyTensor) else ReadOnlyTensor.of(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_read_only(one) for one in value)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, ReadOnlyTensor):
        return value.plain()
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(one) for one in value)
    return value
