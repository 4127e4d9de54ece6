"""The parts of a session in the store, as a layout."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from tetris._onnx.errors import Unsupported

_GRAPH = "graph"
_PLAN = "plan"
_REASON = "unsupported"


@dataclass(frozen=True)
class Plan:
    """The lengths of what a session has in the store."""

    #: Bytes of the model's tensors, and of prepacked data.
    tensor_bytes: int
    packed_bytes: int


@dataclass
class Held:
    """A plan whose objects stay in the store for as long as this lives."""

    plan: Plan
    #: Path of the graph, which names the other objects by their paths.
    path: str
    #: References: the layout, with the graph and the objects that it names.
    layout: Any

    @property
    def objects(self) -> tuple[str, ...]:
        """File names of the objects, the graph's first."""
        return tuple(memory.object for _, _, _, _, memory, _, _ in self.layout.tensors)


def parts(graph: Any, memories: Iterable[Any], plan: Plan) -> Any:
    """Return the layout of a session: the graph's bytes, and those of the objects that it names."""
    by_object = {memory.object: memory for memory in memories}
    named = [(_GRAPH, graph), *((f"object {number}", memory) for number, memory in enumerate(by_object.values()))]
    tensors = [(name, "U8", [len(memory)], [1], memory, 0, None) for name, memory in named if len(memory)]
    return tensors, {_PLAN: json.dumps(asdict(plan)).encode()}


def refusal(reason: str) -> Any:
    """Return the layout of a model that is not rewritten, so that it is not parsed again."""
    return [], {_REASON: reason.encode()}


def held(layout: Any, path_of: Callable[[Any], str]) -> Held:
    """Read a layout.

    Raises:
        Unsupported: The layout is that of a model that is not rewritten.
    """
    attributes = layout.attributes
    if _REASON in attributes:
        raise Unsupported(attributes[_REASON].decode())
    [graph] = [memory for name, _, _, _, memory, _, _ in layout.tensors if name == _GRAPH]
    return Held(Plan(**json.loads(attributes[_PLAN])), path_of(graph), layout)
