"""Traces of the operators that a model's inference calls, so that a process loads their kernels ahead.

A JSON file beside the model's, ``model.safetensors.kernels.json``, which :func:`tetris.torch.record_kernels` writes and
adds further runs to, and :func:`tetris.warm.load_kernels` reads::

    {"format": "tetris-kernels", "version": 1, "models": [CONTENT ID],
     "devices": {"cuda": [["aten.mm.default", [{"tensor": ["bfloat16", [16, 64], null, "cuda"]}, ...], {}]]}}

A call is an operator's name, its arguments, and its named arguments. Each of them is a number, a string, a truth value,
null, a list of these, or an object of one field:

    ``tensor``                              element type, sizes, strides (null: contiguous), and type of the device
    ``dtype``, ``layout``, ``memory_format``    the name in torch, one of :data:`NAMES`
    ``device``                              the type of a device
    ``float``                               ``"inf"``, ``"-inf"`` or ``"nan"``

Contents of tensors are not recorded. Pure: no torch.
"""

from __future__ import annotations

import json
import math
import os
import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tetris._trace_files import TraceFiles, content_id, read_document

FORMAT, VERSION = "tetris-kernels", 1
SUFFIX = ".kernels.json"
#: Most calls of a trace, and most characters of one: a file is below the 16 MiB that one may have.
MAX_CALLS, MAX_CALL_CHARACTERS = 4096, 3584
#: Most models of a trace, and most types of devices.
MAX_MODELS, MAX_DEVICES = 4096, 8
#: Most characters of a name.
_MAX_NAME = 128
#: Most levels of lists within lists among the arguments of a call.
_MAX_DEPTH = 4
#: Most dimensions of a tensor.
_MAX_DIMENSIONS = 64

_OPERATOR = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){2}", re.ASCII)
_NAME = re.compile(r"\w+", re.ASCII)
_DTYPES = """
bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128
float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu
"""
#: Values of each kind of torch's enumerations. A number never stands for one: operators take some unchecked.
NAMES: Mapping[str, frozenset[str]] = {
    "dtype": frozenset(_DTYPES.split()),
    "layout": frozenset(["strided"]),
    "memory_format": frozenset(["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"]),
}
FLOATS = ("inf", "-inf", "nan")


@dataclass(frozen=True)
class KernelTrace:
    """Different calls of all recorded inferences of one model, by the type of the device that they ran on."""

    #: Content ids of the model's files; empty if the store does not know them.
    models: frozenset[str] = frozenset()
    #: For each type of device the calls as JSON without spaces, in the order of their first appearance.
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __add__(self, other: KernelTrace) -> KernelTrace:
        devices = dict(self.devices)
        for device, calls in other.devices.items():
            devices[device] = tuple(dict.fromkeys([*devices.get(device, ()), *calls]))
        return KernelTrace(self.models | other.models, _bounded(devices))

    def is_full(self) -> bool:
        """Return true if no further call is counted."""
        return sum(map(len, self.devices.values())) >= MAX_CALLS


def _bounded(devices: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    left, kept = MAX_CALLS, {}
    for device, calls in list(devices.items())[:MAX_DEVICES]:
        if calls[:left]:
            kept[device] = calls[:left]
            left -= len(kept[device])
    return kept


def encoded_call(operator: str, arguments: Iterable[Any], named: Mapping[str, Any]) -> str:
    """Return a call, whose values are encoded, as a trace has it."""
    return json.dumps([operator, list(arguments), dict(named)], separators=(",", ":"), allow_nan=False)


def read_kernels(path: str | os.PathLike[str], *, model: str | os.PathLike[str] | None = None) -> KernelTrace:
    """Return the trace in a kernels file.

    Args:
        path: The file.
        model: The model's file or directory, by whose owner the file must be; `None` for a file that the caller trusts.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It cannot be read.
        ValueError: It is no kernels file of a known version, or not to be trusted.
    """
    found = read_document(path, FORMAT, (VERSION,), model=model)
    models, devices = found.get("models"), found.get("devices")
    if not isinstance(models, list) or len(models) > MAX_MODELS or not all(_is_name(model) for model in models):
        raise ValueError(f'{path} has no list of content ids under "models"; record it again')
    if not isinstance(devices, dict) or len(devices) > MAX_DEVICES or not all(_is_name(device) for device in devices):
        raise ValueError(f'{path} has no calls by device under "devices"; record it again')
    decoded: dict[str, tuple[str, ...]] = {}
    left = MAX_CALLS
    for device, calls in devices.items():
        if not isinstance(calls, list) or len(calls) > left:
            raise ValueError(f'{path} has no list of at most {MAX_CALLS} calls under "devices"; record it again')
        left -= len(calls)
        for call in calls:
            if not _is_call(call):
                raise ValueError(f"{path} has a call that is none: {reprlib.repr(call)}; record it again")
        decoded[device] = tuple(dict.fromkeys(encoded_call(*call) for call in calls))
    return KernelTrace(frozenset(models), decoded)


def _is_call(call: Any) -> bool:
    if not isinstance(call, list) or len(call) != 3:
        return False
    operator, arguments, named = call
    return (
        _is_name(operator, _OPERATOR)
        and isinstance(arguments, list)
        and isinstance(named, dict)
        and all(_is_name(name) for name in named)
        and all(_is_value(value, _MAX_DEPTH) for value in (*arguments, *named.values()))
        and len(encoded_call(*call)) <= MAX_CALL_CHARACTERS
    )


def _is_name(value: Any, form: re.Pattern[str] = _NAME) -> bool:
    return isinstance(value, str) and len(value) <= _MAX_NAME and form.fullmatch(value) is not None


def _is_value(value: Any, depth: int) -> bool:
    if isinstance(value, list):
        return depth > 0 and all(_is_value(one, depth - 1) for one in value)
    if isinstance(value, dict):
        return len(value) == 1 and _is_object(*next(iter(value.items())))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (bool, str)) or _is_integer(value, -(1 << 63))


def _is_object(kind: str, value: Any) -> bool:
    if kind in NAMES or kind == "device":
        return _is_name(value)
    if kind == "float":
        return value in FLOATS
    if kind != "tensor" or not isinstance(value, list) or len(value) != 4:
        return False
    dtype, sizes, strides, device = value
    return (
        _is_object("dtype", dtype)
        and _is_object("device", device)
        and _are_lengths(sizes)
        and (strides is None or (_are_lengths(strides) and len(strides) == len(sizes)))
    )


def _are_lengths(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= _MAX_DIMENSIONS and all(_is_integer(one, 0) for one in value)


def _is_integer(value: Any, least: int) -> bool:
    return type(value) is int and least <= value < 1 << 63


def _encoded(trace: KernelTrace) -> str:
    """Text of a kernels file, a call on each line."""
    head = json.dumps({"format": FORMAT, "version": VERSION, "models": sorted(trace.models)})
    devices = [f"{json.dumps(device)}: [\n" + ",\n".join(calls) + "]" for device, calls in trace.devices.items()]
    return f'{head[:-1]}, "devices": {{{", ".join(devices)}}}}}\n'


_FILES = TraceFiles(SUFFIX, "a trace of kernels", read_kernels, _encoded)


def add_to_kernels(
    model: str | os.PathLike[str], trace: KernelTrace, to: str | os.PathLike[str] | None = None
) -> tuple[str, KernelTrace]:
    """Merge a trace into the kernels file of a model, as of :meth:`TraceFiles.add`."""
    return _FILES.add(model, trace, to)


def kernels_of(path: str | os.PathLike[str]) -> tuple[str, KernelTrace] | None:
    """Return a trace and its file; `None` without any that fits, and the log has the reason.

    Args:
        path: A model's file or directory, or a kernels file.
    """
    name = os.fspath(path)
    if name.endswith(SUFFIX):
        trace = _FILES.attempt(name, None, missing_ok=False)
        return None if trace is None else (name, trace)
    return _FILES.find_file(name, lambda: content_id(name))
