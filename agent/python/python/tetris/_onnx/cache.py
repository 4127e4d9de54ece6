"""The plan of a model: found, or made once per node."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tetris import _native
from tetris._onnx import plan as plans
from tetris._onnx.errors import Unavailable, Unsupported
from tetris._onnx.plan import Held, Plan

if TYPE_CHECKING:
    from onnx import ModelProto

    from tetris._onnx.rewrite import Rewritten

#: Version of the layouts and of the rewritten graphs. A change of either needs a new one.
VERSION = 2

_EXTERNAL = "onnx/external"


@dataclass(frozen=True)
class Source:
    """A model: a path, or its bytes, and the directory that its external locations are relative to."""

    model: str | bytes
    folder: str

    @property
    def other_folder(self) -> str | None:
        """The folder, where ONNX Runtime would not look by itself."""
        own = isinstance(self.model, str) and self.folder == (os.path.dirname(self.model) or ".")
        return None if own else self.folder

    def read(self) -> bytes:
        """The model's bytes, without external data."""
        if isinstance(self.model, bytes):
            return self.model
        try:
            with open(self.model, "rb") as file:
                return file.read()
        except OSError as error:
            raise Unavailable(str(error)) from error

    def parse(self) -> ModelProto:
        """The model as a message, without external data.

        Raises:
            Unavailable: It is not a model in ONNX's format, or the package ``onnx`` is not installed.
        """
        try:
            import onnx
        except ImportError as error:
            raise Unavailable(
                f"sharing a model for the first time needs the package onnx ({error}): "
                "pip install 'tetris-store[onnxruntime]'"
            ) from error
        model = onnx.ModelProto()
        try:
            model.ParseFromString(self.read())
        except Exception as error:  # protobuf's own, which differs by its implementation
            raise Unavailable(f"not a model in ONNX format: {error}") from error
        return model

    def inside(self, location: str) -> bool:
        """Returns true if ONNX Runtime would take an external file from this location."""
        target = os.path.realpath(os.path.join(self.folder, location))
        roots = [os.path.realpath(self.folder)]
        if isinstance(self.model, str):
            # A model that is a link, as in the Hugging Face cache, may have its files beside the link's target.
            roots.append(os.path.dirname(os.path.realpath(self.model)))
        return any(os.path.commonpath([root, target]) == root for root in roots)


def hold(agent: Any, source: Source, transform: str, make: Callable[[ModelProto, Callable], Rewritten]) -> Held:
    """Find the plan of a model and reference its objects; make what is missing.

    Args:
        agent: A :class:`tetris.Agent` with a store.
        source: The model.
        transform: Names what `make` does, with everything that its result depends on besides the model.
        make: Rewrites the parsed model with a function that publishes bytes.

    Raises:
        Unsupported: The model is not rewritten.
        Unavailable: A file is missing, the store cannot take it, or the model changed meanwhile.
    """
    model_id = _model_id(agent, source)
    external = _external_files(agent, source, model_id)
    sources = _sources(agent, source, model_id, external)

    def build() -> Any:
        try:
            rewritten = make(source.parse(), _publisher(agent))
            graph = _publisher(agent)(rewritten.graph)
        except Unsupported as error:
            return plans.refusal(str(error))
        finally:
            _check_unchanged(agent, source, external, sources)
        _path_of(graph)
        return plans.parts(graph, rewritten.memories, Plan(rewritten.tensor_bytes, rewritten.packed_bytes))

    # What it depends on may hold any characters; the key is read by people.
    layout = agent.layout("onnxruntime", VERSION, sources, {"rewrite": _printable(transform)}, build)
    return plans.held(layout, _path_of)


def _printable(transform: str) -> str:
    """The transform, or a digest of one that a layout's key cannot have."""
    if len(transform) < 3500 and transform.isprintable() and "; " not in transform:
        return transform
    return hashlib.sha256(transform.encode()).hexdigest()


def _publisher(agent: Any) -> Callable[[bytes], Any]:
    def publish(data: bytes) -> Any:
        try:
            return agent.publish(data)
        except Exception as error:  # tetris.ShareError and what is below it
            raise Unavailable(f"the store could not take an object of {len(data)} bytes: {error}") from error

    return publish


def _path_of(memory: Any) -> str:
    if memory.path is None:
        raise Unavailable("the store could not take the graph")
    return os.fspath(memory.path)


def _model_id(agent: Any, source: Source) -> str:
    if isinstance(source.model, bytes):
        return _native.content_id(source.model)
    return _file_id(agent, source.model)


def _file_id(agent: Any, path: str) -> str:
    try:
        return agent.file_id(path)
    except Exception as error:  # tetris.LoadError and what is below it
        raise Unavailable(f"{path}: {error}") from error


def _external_files(agent: Any, source: Source, model_id: str) -> list[str]:
    """The locations of a model's external files; known after the model was parsed once."""

    def produce() -> bytes:
        model = source.parse()
        from tetris._onnx import tensors

        try:
            files = tensors.external_files(model)
        except Unsupported as error:
            return json.dumps({"unsupported": str(error)}).encode()
        if _model_id(agent, source) != model_id:
            raise Unavailable("the model changed while it was read")
        return json.dumps({"files": files}).encode()

    fields = json.loads(bytes(memoryview(agent.derive(model_id, _EXTERNAL, VERSION, produce))))
    if "unsupported" in fields:
        raise Unsupported(fields["unsupported"])
    return fields["files"]


def _sources(agent: Any, source: Source, model_id: str, external: list[str]) -> dict[str, str]:
    """The identities of a model and its external files, by location; the model's is empty."""
    sources = {"": model_id}
    for location in external:
        if not source.inside(location):
            raise Unavailable(f"external data outside of the model's directory: {location!r}")
        sources[location] = _file_id(agent, os.path.join(source.folder, location))
    return sources


def _check_unchanged(agent: Any, source: Source, external: list[str], sources: dict[str, str]) -> None:
    # What was read is what was identified, because an identity covers the file's times of change.
    if _sources(agent, source, _model_id(agent, source), external) != sources:
        raise Unavailable("the model changed while it was read")
