"""Linear layers over weights that oneDNN has packed, in memory that processes share.

vLLM packs the weights of a CPU's linear layers into memory of its extension, where they cannot be shared. Here
torch's oneDNN packs them, and what it has packed are bytes: another process attaches them where they lie.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import struct
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

#: Layout of c10 for tensors of oneDNN, as `aoti_torch_create_tensor_from_blob_v2` takes it.
_MKLDNN = 3
#: oneDNN chooses the form for about so many rows. Forms differ little, and any form takes any number of rows.
_ROWS = 16
_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}

# Looked up once: a layer's function is called for each token.
_linear = torch.ops.mkldnn._linear_pointwise.default

_library = torch.library.Library("tetris", "DEF")
_library.define("packed_linear(Tensor x, Tensor handle, Tensor? bias, int columns) -> Tensor")
#: By the number that a handle holds. Compiled code keeps handles, and these keep no layer alive.
_weights: dict[int, torch.Tensor] = {}
_numbers = itertools.count()


class PackedLinear:
    """The function of a linear layer whose weight, of shape [columns, k], is packed."""

    def __init__(self, weight: torch.Tensor, memory: torch.Tensor | None = None) -> None:
        self.columns = int(weight.shape[0])
        #: Keeps the bytes of an attached weight.
        self._memory = memory
        self._weight = weight
        number = next(_numbers)
        # A tensor, which compiled code takes as an input: a number would be a constant in what it caches.
        self._handle = torch.tensor(number, dtype=torch.int64)
        _weights[number] = weight
        weakref.finalize(self, _weights.pop, number)

    def __call__(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """Return `x` times the packed weight, transposed, and `bias`; `weight` is not used."""
        if torch.compiler.is_compiling():
            return torch.ops.tetris.packed_linear(x, self._handle, bias, self.columns)
        return _linear(x, self._weight, bias, "none", [], "")

    @classmethod
    def of(cls, weight: torch.Tensor) -> PackedLinear | None:
        """Pack a weight; return `None` if oneDNN does not take it."""
        if weight.ndim != 2 or _name(weight.dtype) is None or not torch.backends.mkldnn.is_available():
            return None
        try:
            return cls(torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _ROWS))
        except RuntimeError:
            return None

    def description(self) -> dict[str, Any]:
        """Return what attaches the bytes again, as JSON has it."""
        form = torch.ops.mkldnn._get_mkldnn_serialized_md(self._weight)
        return {
            "dtype": _name(self._weight.dtype),
            "shape": list(self._weight.shape),
            "form": bytes(form.numpy()).hex(),
        }

    def content(self) -> torch.Tensor:
        """Return the packed bytes. They last as long as this object."""
        address, nbytes = torch.ops.mkldnn.data_ptr(self._weight), torch.ops.mkldnn._nbytes(self._weight)
        return torch.frombuffer((ctypes.c_char * nbytes).from_address(address), dtype=torch.uint8)

    @classmethod
    def attached(cls, content: torch.Tensor, description: dict[str, Any]) -> PackedLinear:
        """Return the function over packed bytes in `content`.

        Raises:
            ValueError: The bytes do not match the description.
        """
        dtype, shape = _DTYPES[description["dtype"]], [int(size) for size in description["shape"]]
        if len(shape) != 2:
            raise ValueError(f"a packed weight must have two dimensions, found {len(shape)}")
        form = bytes.fromhex(description["form"])
        if not _is_form_of(form, shape, dtype):
            raise ValueError(f"a packed weight of shape {shape} has a form that is not of such a weight here")
        weight = _attach(content.data_ptr(), shape, dtype, form)
        needed = torch.ops.mkldnn._nbytes(weight)
        if needed > content.numel():
            raise ValueError(f"a packed weight of shape {shape} has {needed} bytes, found {content.numel()}")
        return cls(weight, content)


def _packed_linear(x: torch.Tensor, handle: torch.Tensor, bias: torch.Tensor | None, columns: int) -> torch.Tensor:
    return _linear(x, _weights[int(handle)], bias, "none", [], "")


def _shape_only(x: torch.Tensor, handle: torch.Tensor, bias: torch.Tensor | None, columns: int) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], columns))


_library.impl("packed_linear", _packed_linear, "CPU")
torch.library.register_fake("tetris::packed_linear", _shape_only, lib=_library)


#: What a form begins with: its kind, the number of dimensions, their sizes, and the element type.
_FORM = struct.Struct("<2i12qi")


@functools.cache
def _form_of_another(dtype: torch.dtype) -> bytes:
    """Return the form of a small weight, which shows the forms of this oneDNN."""
    packed = torch.ops.mkldnn._reorder_linear_weight(torch.zeros(64, 64, dtype=dtype), _ROWS)
    return bytes(torch.ops.mkldnn._get_mkldnn_serialized_md(packed).numpy())


def _is_form_of(form: bytes, shape: list[int], dtype: torch.dtype) -> bool:
    """Return whether a form, which another process has written, is one of such a weight. oneDNN does not look."""
    known = _form_of_another(dtype)
    if len(form) != len(known):
        return False
    kind, dimensions, *sizes, element = _FORM.unpack_from(form)
    known_kind, *_, known_element = _FORM.unpack_from(known)
    return (kind, dimensions, element, sizes[:2]) == (known_kind, 2, known_element, shape)


def _name(dtype: torch.dtype) -> str | None:
    return next((name for name, known in _DTYPES.items() if known is dtype), None)


@functools.cache
def _functions() -> ctypes.CDLL:
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    library.aoti_torch_create_tensor_from_blob_v2.restype = ctypes.c_int
    library.aoti_torch_device_type_cpu.restype = ctypes.c_int32
    for name in _DTYPES:
        getattr(library, f"aoti_torch_dtype_{name}").restype = ctypes.c_int32
    return library


_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def _attach(address: int, shape: list[int], dtype: torch.dtype, form: bytes) -> torch.Tensor:
    """Return a tensor of oneDNN at an address. It owns no memory.

    Raises:
        ValueError: oneDNN knows no such form.
    """
    library = _functions()
    sizes, strides = (ctypes.c_int64 * 2)(*shape), (ctypes.c_int64 * 2)(shape[1], 1)
    handle = ctypes.c_void_p()
    error = library.aoti_torch_create_tensor_from_blob_v2(
        ctypes.c_void_p(address),
        ctypes.c_int64(2),
        sizes,
        strides,
        ctypes.c_int64(0),
        ctypes.c_int32(getattr(library, f"aoti_torch_dtype_{_name(dtype)}")()),
        ctypes.c_int32(library.aoti_torch_device_type_cpu()),
        ctypes.c_int32(0),
        ctypes.byref(handle),
        ctypes.c_int32(_MKLDNN),
        (ctypes.c_uint8 * len(form)).from_buffer_copy(form),
        ctypes.c_int64(len(form)),
    )
    if error or handle.value is None:
        raise ValueError(f"oneDNN does not know the form of a packed weight of shape {shape}")
    return torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr(_capsule(handle.value, None, None))


#: Takes a layer, and whether its weight may go.
Dispatch = Callable[[torch.nn.Module, bool], None]


@contextmanager
def packing() -> Iterator[None]:
    """Have vLLM pack the weights of linear layers here, where it would call its own oneDNN."""
    from vllm.model_executor.layers import utils

    stock: Dispatch = utils.dispatch_cpu_unquantized_gemm

    def dispatch(layer: torch.nn.Module, remove_weight: bool) -> None:
        weight: Any = layer.weight
        packed = PackedLinear.of(weight) if _is_for_onednn(weight) else None
        if packed is None:
            stock(layer, remove_weight)
            return
        layer.__dict__["cpu_linear"] = packed
        if remove_weight:
            empty = torch.empty(0, dtype=weight.dtype, device=weight.device)
            layer.weight = torch.nn.Parameter(empty, requires_grad=False)

    utils.dispatch_cpu_unquantized_gemm = dispatch
    try:
        yield
    finally:
        utils.dispatch_cpu_unquantized_gemm = stock


def _is_for_onednn(weight: torch.Tensor) -> bool:
    """Return whether vLLM would take oneDNN for a weight, and not a kernel for small ones or for a processor."""
    from vllm import _custom_ops
    from vllm.model_executor.layers.utils import check_cpu_sgl_kernel
    from vllm.platforms import CpuArchEnum, current_platform

    return (
        not weight.is_meta
        and weight.ndim == 2
        and _custom_ops._supports_onednn
        and current_platform.get_cpu_architecture() == CpuArchEnum.X86
        and not current_platform.is_zen_cpu()
        and not check_cpu_sgl_kernel(*weight.shape, weight.dtype)
    )
