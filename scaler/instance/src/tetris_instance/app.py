"""HTTP application of a server of one model."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request

from tetris_instance.errors import RequestError, shown
from tetris_instance.inference import infer
from tetris_instance.metrics import Metrics
from tetris_instance.protocol import ProtocolApp, Target, check_version
from tetris_instance.state import State


class App(ProtocolApp):
    """Answers requests for one model.

    Args:
        name: Name of the model.
        version: Its only version.
        state: State of the server.
        metrics: Metrics that count requests.
        body_bytes: Maximum size of a body, in bytes.
    """

    def __init__(self, name: str, version: str, state: State, metrics: Metrics, body_bytes: int) -> None:
        super().__init__(metrics, body_bytes)
        self._name = name
        self._version = version
        self._state = state

    @property
    def ready(self) -> bool:
        return self._state.ready

    def find(self, http: Request) -> str:
        name = http.path_params["name"]
        if name != self._name:
            raise RequestError(f"the model is {shown(name)}; this instance serves `{self._name}`", 404)
        check_version(http, self._version)
        return self._name

    def target(self, http: Request) -> Target:
        name = self.find(http)
        loaded = self._state.require_loaded()
        return Target(name, self._version, loaded.engine, partial(infer, loaded.engine, loaded.queue))
