"""Files of traces: beside the model, or in the user's cache, read from hostile bytes and written at once.

A trace is advice. Whatever is wrong with its file, it is skipped, and the log ``tetris`` has the reason. So is a file
that others than the model's owner may have written (:mod:`tetris._trace_trust`).
"""

from __future__ import annotations

import hashlib
import json
import os
import reprlib
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, Self, TypeVar

from tetris._agent import agent
from tetris._log import logger
from tetris._trace_trust import check_writers
from tetris.errors import LoadError

#: Longest file, in bytes: a name of 1 KiB for each of the 16,384 tensors that the mirror takes.
MAX_BYTES = 16 << 20
#: Most values, fields and lists of a document, counted before it is parsed: each is an object of Python's then, of some
#: hundred bytes. A trace of 16,384 tensors has a third of this.
MAX_VALUES = 1 << 19
#: Name of the model file that a directory's own trace has the name of.
_DIRECTORY_MODEL = "model.safetensors"


class Mergeable(Protocol):
    """The merged runs of one model."""

    @property
    def models(self) -> frozenset[str]:
        """Content ids of the model's files; empty if the store does not know them."""

    def __add__(self, other: Self, /) -> Self: ...

    def is_full(self) -> bool:
        """Return true if no further run is counted."""


T = TypeVar("T", bound=Mergeable)
R = TypeVar("R", covariant=True)


class Reader(Protocol[R]):
    """Reads the trace in a file about a model."""

    def __call__(self, path: str, *, model: str | os.PathLike[str] | None) -> R: ...


class TraceFiles(Generic[T]):
    """Files of one kind of traces.

    Args:
        suffix: End of the files' names.
        what: The kind, as messages have it.
        read: Returns the trace in a file. Raises OSError, or ValueError if it is no such file, or not to be trusted
            as one about the model that it gets.
        encode: Returns the text of a trace's file.
    """

    def __init__(self, suffix: str, what: str, read: Reader[T], encode: Callable[[T], str]) -> None:
        self.suffix = suffix
        #: Of a directory with several model files; that of a single one has the same name.
        self.directory_file = _DIRECTORY_MODEL + suffix
        self._what = what
        self._read = read
        self._encode = encode

    def places(self, model: str | os.PathLike[str]) -> Iterator[str]:
        """Yield where the file of a model can be: beside the model, then in the user's cache."""
        path = os.path.abspath(os.fspath(model))
        if os.path.isdir(path):
            directory = path
        else:
            directory = os.path.dirname(path)
            yield path + self.suffix
        beside = os.path.join(directory, self.directory_file)
        if beside != path + self.suffix:
            yield beside
        yield self._in_cache(path)
        if directory != path:
            yield self._in_cache(directory)

    def find(self, model: str | os.PathLike[str], content_id: Callable[[], str | None] | None = None) -> T | None:
        """Return the first trace of a model in the places of :meth:`places` that fits it; `None` without any."""
        found = self.find_file(model, content_id)
        return None if found is None else found[1]

    def find_file(
        self, model: str | os.PathLike[str], content_id: Callable[[], str | None] | None = None
    ) -> tuple[str, T] | None:
        """Return the file of :meth:`find`, and the trace in it.

        Args:
            model: The model's file or directory.
            content_id: Returns the content id of the model's file, if the store knows it. A trace of another is
                passed over.
        """
        known: str | None = None
        asked = content_id is None
        for path in self.places(model):
            trace = self.attempt(path, model, missing_ok=True)
            if trace is None:
                continue
            if trace.models and not asked:
                asked, known = True, content_id() if content_id is not None else None
            if not trace.models or known is None or known in trace.models:
                return path, trace
            logger.info("%s is passed over: it is a trace of other content than that of %s", path, model)
        known = known if asked or content_id is None else content_id()
        if known is None:
            return None
        path = self._of_content(known)
        trace = self.attempt(path, model, missing_ok=True)
        return None if trace is None else (path, trace)

    def attempt(self, path: str, model: str | os.PathLike[str] | None, *, missing_ok: bool) -> T | None:
        """Return the trace in a file about a model; `None` of a file that is missing, none, or not to be trusted, and
        the log has the reason.
        """
        try:
            return self._read(path, model=path if model is None else model)
        except FileNotFoundError as error:
            if not missing_ok:
                logger.warning("%s is not known: %s", self._what, error)
        except (OSError, ValueError) as error:
            logger.warning("%s is passed over: %s", self._what, error)
        return None

    def add(self, model: str | os.PathLike[str], trace: T, to: str | os.PathLike[str] | None = None) -> tuple[str, T]:
        """Merge a trace into the file of a model, if the two fit. Another file is replaced.

        Args:
            model: The model's file or directory.
            trace: The new runs.
            to: The file; by default beside the model, or in the user's cache if that cannot be written to. There it
                has the name of the model's content, if that is known: the trace is found wherever the model is.

        Returns:
            The path of the file, and the merged trace.

        Raises:
            OSError: It cannot be written.
        """
        path = os.path.abspath(os.fspath(model))
        content = min(trace.models, default=None)
        cached = self._in_cache(path) if content is None else self._of_content(content)
        files = [self._beside(path), cached] if to is None else [os.fspath(to)]
        before = self._first(files, path)
        # A file of unknown content has none: a trace of a known one is worth more.
        if before is not None and before.models == trace.models:
            trace = before if before.is_full() else before + trace
        return self._write(path, self._encode(trace), to, cached), trace

    def write(self, model: str | os.PathLike[str], text: str, to: str | os.PathLike[str] | None = None) -> str:
        """Write the file of a model, at once or not at all, and return its path.

        Args:
            model: The model's file or directory.
            text: The content of the file.
            to: As of :meth:`add`.

        Raises:
            OSError: It cannot be written.
        """
        path = os.path.abspath(os.fspath(model))
        return self._write(path, text, to, self._in_cache(path))

    def _first(self, files: Iterable[str], model: str) -> T | None:
        traces = (self.attempt(file, model, missing_ok=True) for file in files)
        return next((trace for trace in traces if trace is not None), None)

    def _write(self, path: str, text: str, to: str | os.PathLike[str] | None, cached: str) -> str:
        if to is not None:
            return replace(os.path.abspath(os.fspath(to)), text)
        try:
            return replace(self._beside(path), text)
        except OSError as error:
            logger.debug("%s of %s goes to %s: %s", self._what, path, cached, error)
            os.makedirs(os.path.dirname(cached), mode=0o700, exist_ok=True)
            return replace(cached, text)

    def _beside(self, path: str) -> str:
        return os.path.join(path, self.directory_file) if os.path.isdir(path) else path + self.suffix

    def _in_cache(self, path: str) -> str:
        """The place of a path in the user's cache."""
        # A snapshot's link and the file it leads to are one.
        name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32]
        return os.path.join(cache_folder(), name + self.suffix)

    def _of_content(self, content_id: str) -> str:
        """The place of a content in the user's cache."""
        return os.path.join(cache_folder(), content_id + self.suffix)


def content_id(path: str | os.PathLike[str]) -> str | None:
    """Return the content id of a file; `None` for a directory, and if the store does not know it."""
    try:
        return None if os.path.isdir(path) else agent().open_file(path).content_id()
    except (LoadError, TypeError, ValueError):
        return None


def content_ids(path: str | os.PathLike[str]) -> frozenset[str]:
    """Return the content ids of a model's files, as far as the store knows them."""
    files = [os.fspath(path)]
    if os.path.isdir(path):
        files = [entry.path for entry in os.scandir(path) if entry.name.endswith(".safetensors")]
    found = set()
    for file in files:
        try:
            found.add(agent().open_file(file).content_id())
        except (LoadError, TypeError, ValueError) as error:
            logger.debug("the content of %s is not known: %s", file, error)
    return frozenset(id for id in found if id is not None)


def read_bytes(path: str | os.PathLike[str], *, model: str | os.PathLike[str] | None = None) -> bytes:
    """Return the bytes of a file from hostile hands.

    Args:
        path: The file.
        model: The model's file or directory that it is about: only a file that may be trusted as such is read.
            `None` for a file that the caller trusts.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not a regular file, longer than :data:`MAX_BYTES`, or not to be trusted.
    """
    # A FIFO in its place must not make the load wait.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path} is not a regular file")
        if model is not None:
            check_writers(path, status, None if model == path else model)
        # Python takes memory for as many bytes as it is asked to read.
        text = file.read(min(status.st_size, MAX_BYTES) + 1)
    if len(text) > MAX_BYTES:
        raise ValueError(f"{path} is longer than {MAX_BYTES} bytes")
    return text


def read_document(
    path: str | os.PathLike[str],
    form: str,
    versions: tuple[int, ...],
    *,
    model: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Return the JSON object in a file from hostile hands.

    Args:
        path: The file.
        form: The expected value of the object's field ``format``.
        versions: The expected values of its field ``version``.
        model: As of :func:`read_bytes`.

    Raises:
        OSError: It cannot be read.
        ValueError: It is none of this format in one of these versions.
    """
    text = read_bytes(path, model=model)
    values = sum(map(text.count, (b",", b":", b"[", b"{")))
    if values > MAX_VALUES:
        raise ValueError(f"{path} has {values} values and lists, expected at most {MAX_VALUES}; record it again")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != form:
        raise ValueError(f'{path} is no such file: expected an object with "format": "{form}"')
    version = found.get("version")
    if type(version) is not int or version not in versions:
        known = " or ".join(str(version) for version in versions)
        raise ValueError(f"{path} has version {reprlib.repr(version)}, expected {known}; record it again")
    return found


def replace(path: str, text: str) -> str:
    """Write a file, at once or not at all, and return its path.

    Raises:
        OSError: It cannot be written.
    """
    descriptor, staged = tempfile.mkstemp(prefix=".trace-", dir=os.path.dirname(path))
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


def cache_folder() -> str:
    """Return ``$TETRIS_ORDER_DIR``, or else ``tetris/order`` in the cache directory."""
    folder = os.environ.get("TETRIS_ORDER_DIR")
    if not folder:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(cache, "tetris", "order")
    return folder
