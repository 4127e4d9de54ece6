"""From a file to tensors: one function per method, everything imported before it is timed."""

import importlib
import json
import os
import struct
from collections.abc import Callable
from typing import Any

import torch

Tensors = dict[str, torch.Tensor]

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


class Loader:
    """Loads by one method. What a load needs to stay valid lives as long as the loader."""

    def __init__(self, method: str) -> None:
        from .methods import BY_NAME

        self.kept: list[Any] = []
        self.module = importlib.import_module(BY_NAME[method].module)
        by_method: dict[str, Callable[..., Tensors]] = {
            "clone": self._clone,
            "pread": lambda file, **_: self.module.load_file(file, backend="pread"),
            "safetensors": lambda file, **_: self.module.load_file(file),
            "safetensors-own-file": lambda file, **_: self.module.load_file(file),
            "torch-mmap": lambda file, **_: torch.load(file, mmap=True, weights_only=True),
            "shared-memory": self._receive,
            "runai-streamer": self._stream,
            "vineyard": self._blob,
            "tetris": lambda file, **_: self.module.load_file(file),
            "tetris-read-only": lambda file, **_: self.module.load_file(file, mode="read_only"),
            "tetris-own-file": lambda file, **_: self.module.load_file(file),
        }
        self._load = by_method[method]

    def load(self, file: str, **where: Any) -> Tensors:
        """Returns when every tensor can be read."""
        return self._load(file, **where)

    def _clone(self, file: str, **_: Any) -> Tensors:
        return {name: tensor.clone() for name, tensor in self.module.load_file(file).items()}

    def _stream(self, file: str, **_: Any) -> Tensors:
        with self.module.SafetensorsStreamer() as streamer:
            # By default the tensors are the caller's, so they need no clone.
            streamer.stream_file(file)
            return dict(streamer.get_tensors())

    def _receive(self, _file: str, socket: str, key: str, **_: Any) -> Tensors:
        import multiprocessing
        from multiprocessing.connection import Client

        multiprocessing.current_process().authkey = bytes.fromhex(key)
        with Client(socket, authkey=bytes.fromhex(key)) as connection:
            return connection.recv()

    def _blob(self, _file: str, socket: str, object_id: int, **_: Any) -> Tensors:
        client = self.module.connect(socket)
        blob = client.get_blob(self.module.ObjectID(object_id))
        self.kept += [client, blob]
        return _view(memoryview(blob).cast("B"))


def _view(content: memoryview) -> Tensors:
    """Tensors over the bytes of a safetensors file that is in memory."""
    (length,) = struct.unpack_from("<Q", content)
    begin = 8 + length
    tensors = {}
    for name, entry in json.loads(bytes(content[8:begin])).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            raw = torch.frombuffer(content, dtype=torch.uint8, offset=begin + first, count=last - first)
            tensors[name] = raw.view(_DTYPES[entry["dtype"]]).view(entry["shape"])
    return tensors


def installed(method: str) -> str:
    """The reason a method cannot be used here; empty if it can."""
    from .methods import BY_NAME

    try:
        importlib.import_module(BY_NAME[method].module)
    except Exception as error:  # An extension for another Python fails in whatever way it likes.
        return f"not installed: {type(error).__name__}: {error}"
    if method == "vineyard" and not os.access(vineyard_server(), os.X_OK):
        return "not installed: the package has no vineyardd"
    return ""


def vineyard_server() -> str:
    """Path of the server that the vineyard package brings."""
    bdist = importlib.import_module("vineyard.bdist")
    return os.path.join(next(iter(bdist.__path__)), "vineyardd")
