"""The parts of a session in the store, as one small record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tetris._onnx.errors import Unsupported


@dataclass(frozen=True)
class Plan:
    """The objects of a session: the graph, which ONNX Runtime opens by path, and what it refers to.

    Names of objects are made from their content, so that a plan made again is the same one.
    """

    #: File name of the graph's object.
    graph: str
    #: File names of the other objects.
    objects: Sequence[str]
    #: Bytes of the model's tensors in them, and of prepacked data.
    tensor_bytes: int
    packed_bytes: int

    def to_bytes(self) -> bytes:
        """The record, as JSON."""
        return json.dumps(asdict(self), sort_keys=True).encode()


def refusal(reason: str) -> bytes:
    """The record of a model that is not rewritten, so that nobody parses it again."""
    return json.dumps({"unsupported": reason}).encode()


def read(record: bytes) -> Plan:
    """Read a record.

    Raises:
        Unsupported: It says that the model is not rewritten.
    """
    fields = json.loads(record)
    if "unsupported" in fields:
        raise Unsupported(fields["unsupported"])
    return Plan(**fields)


@dataclass
class Held:
    """A plan whose objects stay in the store for as long as this lives."""

    plan: Plan
    #: Path of the graph.
    path: str
    #: References: :class:`tetris.Memory` of the record, the graph and the objects.
    memories: list[Any]


def attach(agent: Any, plan: Plan) -> list[Any] | None:
    """Reference every object of a plan, the graph first; ``None`` if one is gone."""
    memories = []
    for name in (plan.graph, *plan.objects):
        memory = agent.attach(name)
        if memory is None:
            return None
        memories.append(memory)
    return memories
