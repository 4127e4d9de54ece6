"""Output of ONNX Runtime for a model: the optimized graph, and the prepacked weights."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import onnxruntime

from tetris._onnx import tensors
from tetris._onnx.errors import NoRoom, Unsupported
from tetris._onnx.options import EXTERNAL_FOLDER
from tetris._onnx.rewrite import INLINE_MAX_BYTES, Packed

if TYPE_CHECKING:
    from onnx import ModelProto

_GRAPH = "optimized.onnx"
_DATA = "optimized.bin"


@contextlib.contextmanager
def optimized(
    source: str | bytes, folder: str | None, options: onnxruntime.SessionOptions, disabled_optimizers: Any = None
) -> Iterator[tuple[ModelProto, str]]:
    """The model as ONNX Runtime runs it on the processor, with its prepacked weights.

    ONNX Runtime writes them to a temporary directory: about twice the model's size for the time of the block.

    Args:
        source: The model's path, or the model.
        folder: The directory that its external locations are relative to, where that is not the model's own.
        options: Shape the graph; they are changed, so they must not be the caller's.
        disabled_optimizers: Names of optimizers to leave out, as for an ``InferenceSession``.

    Yields:
        The graph, without external data, and the directory that its locations are relative to.

    Raises:
        Unsupported: ONNX Runtime cannot load the model with these options, or cannot save it.
        NoRoom: There is too little room for temporary files.
    """
    import onnx

    with tempfile.TemporaryDirectory(prefix="tetris-onnx-") as directory:
        options.optimized_model_filepath = os.path.join(directory, _GRAPH)
        options.log_severity_level = 3  # the note that the graph is for this processor: the record's key has it
        options.enable_profiling = False
        if folder is not None:
            options.add_session_config_entry(EXTERNAL_FOLDER, os.path.abspath(folder))
        for key, value in {
            "session.optimized_model_external_initializers_file_name": _DATA,
            "session.optimized_model_external_initializers_min_size_in_bytes": str(INLINE_MAX_BYTES),
            "session.save_external_prepacked_constant_initializers": "1",
        }.items():
            options.add_session_config_entry(key, value)
        more = {} if disabled_optimizers is None else {"disabled_optimizers": disabled_optimizers}
        _check_room(source, directory)
        try:
            onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"], enable_fallback=0, **more)
        except Exception as error:  # ONNX Runtime's have no common base
            raise Unsupported(f"it cannot be optimized and saved: {error}") from error
        model = onnx.ModelProto()
        with open(os.path.join(directory, _GRAPH), "rb") as file:
            model.ParseFromString(file.read())
        yield model, directory


def _check_room(source: str | bytes, directory: str) -> None:
    """Tell a full disk, which may be empty again tomorrow, from a model that ONNX Runtime cannot save."""
    size = len(source) if isinstance(source, bytes) else os.stat(source).st_size
    free = shutil.disk_usage(directory).free
    if free < 3 * size:
        raise NoRoom(f"{directory} has {free} bytes free, and prepacking takes up to {3 * size} (TMPDIR)")


def packed_weights(model: ModelProto, folder: str) -> dict[str, list[Packed]]:
    """The prepacked data that ONNX Runtime wrote beside the initializers of a model.

    Returns:
        For each initializer that has any, by name, one entry for each kernel that packs it. Buffers are read when
        they are asked for, from `folder`.
    """
    found: dict[str, list[Packed]] = {}
    for name, tensor in tensors.movable(model):
        if not name or not tensors.is_external(tensor):
            continue
        entries = tensors.external_entries(tensor)
        path = os.path.join(folder, entries["location"])
        for key, value in sorted(entries.items()):
            if key.startswith("prepacked_") and (packed := _parse(path, value)) is not None:
                found.setdefault(name, []).append(packed)
    return found


def _parse(path: str, value: str) -> Packed | None:
    """An entry: the key, then offset, length and checksum of each buffer. ``None`` if it is anything else."""
    key, *places = value.split("|")
    buffers = []
    for place in places:
        fields = place.split(";")
        # A buffer of no bytes cannot be mapped; the kernel then packs for itself.
        if len(fields) != 3 or not fields[0].isdigit() or not fields[1].isdigit() or fields[1] == "0":
            return None
        read = partial(tensors.read_range, path, int(fields[0]), int(fields[1]), "prepacked data")
        buffers.append((read, fields[2]))
    return Packed(key, buffers) if buffers else None
