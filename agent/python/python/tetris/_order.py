"""Order files: in which order a model's tensors are used first, so that the GPU mirror copies them in this order.

A JSON file beside the model's, ``model.safetensors.order.json``, which :func:`tetris.torch.record_order` writes::

    {"format": "tetris-order", "version": 1, "tensors": ["embed.weight", "layers.0.norm.weight"]}

Names are those of the model's file. Names that it does not have are passed over, what is not named comes last. An
order is
advice: whatever is wrong with its file, the load goes on without it and the log ``tetris`` says why.
"""

from __future__ import annotations

import hashlib
import json
import os
import reprlib
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence

from tetris._log import logger

#: An order file, names in the order of their use, or `False` for the order of the file.
Order = str | os.PathLike[str] | Sequence[str] | bool | None

FORMAT = "tetris-order"
VERSION = 1
SUFFIX = ".order.json"
#: Of a directory with several model files; that of a single one has the same name.
DIRECTORY_FILE = "model.safetensors" + SUFFIX
#: Longest order file, in bytes: a name of 1 KiB for each of the 16,384 tensors that the mirror takes.
MAX_BYTES = 16 << 20


class OrderError(ValueError):
    """An order file that is none; the message says why."""


def order_for(
    model: str | os.PathLike[str], names: Iterable[str] | Callable[[], Iterable[str]], order: Order = None
) -> list[str] | None:
    """Return the names of a model's tensors in the order of their use, as far as it is known; `None` if it is not.

    Args:
        model: The model's file or directory.
        names: The names of its tensors, or a function that returns them if they are needed.
        order: Where to find the order. With `None` or `True`, in the places of :func:`places`.

    Never fails because of an order file.
    """
    if order is False:
        return None
    if order is None or order is True:
        wanted = next((found for path in places(model) if (found := _try(path, missing_ok=True)) is not None), None)
    elif isinstance(order, (str, os.PathLike)):
        wanted = _try(os.fspath(order), missing_ok=False)
    else:
        wanted = [name for name in order if isinstance(name, str)]
    if wanted is None:
        return None
    known = set(names() if callable(names) else names)
    return [name for name in dict.fromkeys(wanted) if name in known] or None


def places(model: str | os.PathLike[str]) -> Iterator[str]:
    """Yield where an order file can be: beside the model, then in the user's cache."""
    path = os.path.abspath(os.fspath(model))
    if os.path.isdir(path):
        directory = path
    else:
        directory = os.path.dirname(path)
        yield path + SUFFIX
    beside = os.path.join(directory, DIRECTORY_FILE)
    if beside != path + SUFFIX:
        yield beside
    yield _in_cache(path)
    if directory != path:
        yield _in_cache(directory)


def read_order(path: str | os.PathLike[str]) -> list[str]:
    """Return the names in an order file.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: It cannot be read.
        OrderError: It is no order file of a known version.
    """
    text = _read(os.fspath(path))
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OrderError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise OrderError(f'{path} is no order file: expected an object with "format": "{FORMAT}"')
    version = found.get("version")
    if type(version) is not int or version != VERSION:
        raise OrderError(f"{path} has version {reprlib.repr(version)}, expected {VERSION}; record the order again")
    names = found.get("tensors")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise OrderError(f'{path} has no list of names under "tensors"')
    return names


def write_order(model: str | os.PathLike[str], names: Sequence[str], to: str | os.PathLike[str] | None = None) -> str:
    """Write an order file, at once or not at all.

    Args:
        model: The model's file or directory.
        names: Its tensors in the order of their use.
        to: Where to write. By default beside the model; in the user's cache if the model's directory cannot be
            written to.

    Returns:
        The path of the file.

    Raises:
        OSError: It cannot be written.
    """
    text = json.dumps({"format": FORMAT, "version": VERSION, "tensors": list(names)}, indent=0) + "\n"
    if to is not None:
        return _replace(os.path.abspath(os.fspath(to)), text)
    path = os.path.abspath(os.fspath(model))
    try:
        return _replace(os.path.join(path, DIRECTORY_FILE) if os.path.isdir(path) else path + SUFFIX, text)
    except OSError as error:
        cached = _in_cache(path)
        logger.debug("the order of %s goes to %s: %s", path, cached, error)
        os.makedirs(os.path.dirname(cached), mode=0o700, exist_ok=True)
        return _replace(cached, text)


def _try(path: str, *, missing_ok: bool) -> list[str] | None:
    try:
        return read_order(path)
    except FileNotFoundError as error:
        if not missing_ok:
            logger.warning("the order of tensors is not known: %s", error)
    except (OSError, OrderError) as error:
        logger.warning("an order of tensors is passed over: %s", error)
    return None


def _read(path: str) -> bytes:
    # A FIFO in its place must not make the load wait.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OrderError(f"{path} is not a regular file")
        text = file.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise OrderError(f"{path} is longer than {MAX_BYTES} bytes")
    return text


def _replace(path: str, text: str) -> str:
    descriptor, staged = tempfile.mkstemp(prefix=".order-", dir=os.path.dirname(path))
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        # As readable as the model beside it.
        os.chmod(staged, 0o644)
        os.replace(staged, path)
    except BaseException:
        os.unlink(staged)
        raise
    return path


def _in_cache(path: str) -> str:
    """The place in the user's cache: ``$TETRIS_ORDER_DIR``, or else ``tetris/order`` in the cache directory."""
    folder = os.environ.get("TETRIS_ORDER_DIR")
    if not folder:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(cache, "tetris", "order")
    # A snapshot's link and the file it leads to are one.
    name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32]
    return os.path.join(folder, name + SUFFIX)
