"""Files of a text encoder: its configuration, and where each weight is."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Maximum sizes, in bytes: of a safetensors header, as its format has it, and of a JSON file.
_HEADER_MAX, _JSON_MAX = 100_000_000, 100_000_000
_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"


class UnsupportedEncoderError(Exception):
    """No graph can be made of this folder. The message has the path, and what was found and expected."""


@dataclass(frozen=True)
class Weight:
    """A tensor within a safetensors file."""

    #: Name of the file in :attr:`EncoderFiles.data`.
    file: str
    #: Byte at which the tensor begins, from the start of the file.
    offset: int
    nbytes: int
    #: Element type, as safetensors names it.
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class EncoderFiles:
    """Configuration and weights of a folder."""

    folder: Path
    #: Folder of the files themselves, where those of `folder` are links, as in Hugging Face's cache.
    data: Path
    config: dict[str, Any]
    weights: dict[str, Weight]

    def integer(self, *names: str) -> int:
        """Return the configuration's value under the first of these names that it has.

        Raises:
            UnsupportedEncoderError: It is missing, or not a positive integer.
        """
        value = next((self.config[name] for name in names if name in self.config), None)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 31:
            raise UnsupportedEncoderError(
                f"{self.folder / 'config.json'}: {names[0]} is {value!r}; expected a positive integer"
            )
        return value


def read(folder: Path) -> EncoderFiles:
    """Read the configuration and the headers of the weights. No tensor is read.

    Raises:
        UnsupportedEncoderError: A file is missing or invalid.
    """
    config = _object(folder / "config.json")
    if (folder / _INDEX).is_file():
        shards = _object(folder / _INDEX).get("weight_map")
        if not isinstance(shards, dict) or not all(isinstance(shard, str) for shard in shards.values()):
            raise UnsupportedEncoderError(f"{folder / _INDEX}: expected `weight_map` with the file of each tensor")
        files = sorted(set(shards.values()))
    else:
        files = [_SINGLE]
    weights: dict[str, Weight] = {}
    for file in files:
        if os.path.basename(file) != file:
            raise UnsupportedEncoderError(f"{folder / _INDEX}: the file {file!r}; expected one in the same folder")
        weights |= _weights(folder / file)
    # ONNX Runtime refuses links that leave the folder.
    parents = {(folder / file).resolve().parent for file in files}
    if len(parents) != 1:
        raise UnsupportedEncoderError(
            f"{folder}: files in {len(parents)} folders; expected them, or what they link to, in one"
        )
    return EncoderFiles(folder, parents.pop(), config, weights)


def _object(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            content = json.loads(file.read(_JSON_MAX))
    except (OSError, ValueError, RecursionError) as error:
        raise UnsupportedEncoderError(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise UnsupportedEncoderError(f"{path}: expected a JSON object")
    return content


def _weights(path: Path) -> dict[str, Weight]:
    try:
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if size > _HEADER_MAX:
                raise UnsupportedEncoderError(f"{path}: a header of {size} bytes; expected at most {_HEADER_MAX}")
            header = json.loads(file.read(size))
            length = file.seek(0, os.SEEK_END)
        return {
            name: _weight(path, size + 8, length, entry) for name, entry in header.items() if name != "__metadata__"
        }
    except (OSError, ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise UnsupportedEncoderError(f"{path}: not a safetensors file: {error!r}") from error


def _weight(path: Path, data: int, length: int, entry: dict[str, Any]) -> Weight:
    begin, end = entry["data_offsets"]
    if not 0 <= begin <= end <= length - data:
        raise ValueError(f"a tensor at {begin} to {end} of {length - data} bytes")
    return Weight(path.resolve().name, data + begin, end - begin, str(entry["dtype"]), tuple(map(int, entry["shape"])))
