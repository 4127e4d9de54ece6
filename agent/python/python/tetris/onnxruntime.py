"""ONNX Runtime with initializers from the tensor store.

    from tetris.onnxruntime import InferenceSession

    session = InferenceSession("model.onnx")
    outputs = session.run(None, inputs)

The first session of a model on a node splits it into objects of the store; every other one opens a small graph that
refers to these objects, which ONNX Runtime maps. See ``docs/onnxruntime.md`` for what prepacking costs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

try:
    import onnxruntime
except ImportError as error:
    raise ImportError(
        f"tetris.onnxruntime needs ONNX Runtime ({error}): pip install 'tetris-store[onnxruntime]'"
    ) from error

from tetris._log import logger
from tetris._onnx import memory
from tetris._onnx.errors import NoStore, Unavailable, Unsupported
from tetris._onnx.options import SessionOptions
from tetris._onnx.request import Request, Weights

if TYPE_CHECKING:
    from tetris import Agent
    from tetris._onnx.plan import Held

__all__ = ["InferenceSession", "SessionOptions", "Sharing", "Weights"]


@dataclass(frozen=True)
class Sharing:
    """Shared parts of a session."""

    #: The form in force; ``None`` for plain ONNX Runtime.
    weights: Weights | None
    #: File names of the objects that the session refers to, that of the graph first.
    objects: tuple[str, ...] = ()
    #: Bytes of tensors in them, and of prepacked data.
    tensor_bytes: int = 0
    packed_bytes: int = 0
    #: Why it is not what was asked for; ``None`` if it is.
    reason: str | None = None


class InferenceSession(onnxruntime.InferenceSession):
    """:class:`onnxruntime.InferenceSession` whose initializers are mapped from the tensor store.

    Args:
        path_or_bytes: Path of a model in ONNX format, or the model.
        sess_options: As for ONNX Runtime. Never changed.
        providers: As for ONNX Runtime.
        provider_options: As for ONNX Runtime.
        weights: What is shared; see :data:`Weights`.
        agent: The agent to load through; the process's own if ``None``.
        **kwargs: As for ONNX Runtime.

    Whatever cannot be shared is left to plain ONNX Runtime, with one warning to the logger ``tetris``;
    :attr:`sharing` names it.

    Raises:
        ValueError: `weights` is none of the four.
        Exception: What ONNX Runtime raises for the same arguments.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike,
        sess_options: onnxruntime.SessionOptions | None = None,
        providers: Sequence[str | tuple[str, dict[Any, Any]]] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        *,
        weights: Weights = "prepacked",
        agent: Agent | None = None,
        **kwargs: Any,
    ) -> None:
        if weights not in get_args(Weights):
            raise ValueError(f"weights is {weights!r}; expected one of {', '.join(get_args(Weights))}")
        #: Keeps the objects in the store.
        self._tetris: Held | None = None
        failure = None
        try:
            request = Request(path_or_bytes, sess_options, providers, weights, kwargs.get("disabled_optimizers"))
            request.lower()
            held = request.hold(_agent(agent))
            # Its own fallback would print, and would hide what our graph has to do with it.
            super().__init__(
                held.path, request.session_options(), providers, provider_options, **{**kwargs, "enable_fallback": 0}
            )
        except Exception as error:
            failure = error
        if failure is not None:
            # Where plain ONNX Runtime fails as well, the error is its own, and there is nothing to warn of.
            super().__init__(path_or_bytes, sess_options, providers, provider_options, **kwargs)
            self.sharing = Sharing(None, reason=_reason(failure))
            # Of a store that is missing, the process's own agent has logged it already.
            level = logging.INFO if isinstance(failure, NoStore) and agent is None else logging.WARNING
            told = "%s: plain ONNX Runtime, nothing is shared: %s"
            logger.log(level, told, _name(path_or_bytes), self.sharing.reason)
            return
        self._tetris = held
        self._enable_fallback = int(kwargs.get("enable_fallback", 1)) == 1
        plan = held.plan
        self.sharing = Sharing(request.weights, held.objects, plan.tensor_bytes, plan.packed_bytes, request.lowered)
        if request.surprising:
            logger.warning("%s: weights=%r: %s", _name(path_or_bytes), request.weights, request.lowered)
        memory.trim()


def _agent(agent: Agent | None) -> Agent:
    if agent is not None:
        return agent
    import tetris

    return tetris.agent()


def _name(model: Any) -> str:
    return f"a model of {len(model)} bytes" if isinstance(model, bytes) else str(model)


def _reason(failure: Exception) -> str:
    if isinstance(failure, Unsupported | Unavailable):
        return str(failure)
    return f"{type(failure).__name__}: {failure}"
