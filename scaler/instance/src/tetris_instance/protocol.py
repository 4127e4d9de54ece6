"""HTTP application of the Open Inference Protocol v2: what servers of one model and executors share."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tetris_instance import __version__, request, response
from tetris_instance.body import Bodies, ClientGone
from tetris_instance.engines import Engine
from tetris_instance.errors import RequestError, shown
from tetris_instance.exchange import CLIENT_GONE, HANDLERS, header_bytes, unless_gone
from tetris_instance.memory import Budget, memory_limit
from tetris_instance.metrics import Metrics
from tetris_instance.tensors import Tensors, nbytes

#: Shares of the memory's limit that bodies in memory, and tensors of requests that wait or run, may have.
_BODIES_SHARE, _TENSORS_SHARE = 1 / 8, 1 / 4


@dataclass(frozen=True)
class Target:
    """The model of a request."""

    name: str
    version: str
    engine: Engine
    #: Returns the outputs for the inputs of one request.
    infer: Callable[[Tensors], Awaitable[Tensors]]


class ProtocolApp(ABC):
    """Answers requests of the protocol, and for metrics.

    Args:
        metrics: Metrics that count requests.
        body_bytes: Maximum size of a body, in bytes.
        extensions: Extensions of the protocol, in addition to binary data.
    """

    def __init__(self, metrics: Metrics, body_bytes: int, *extensions: str) -> None:
        self._metrics = metrics
        limit = memory_limit()
        self._bodies = Bodies(body_bytes, int(limit * _BODIES_SHARE))
        self._tensors = Budget(max(body_bytes, int(limit * _TENSORS_SHARE)), "the tensors")
        self._extensions = ["binary_tensor_data", *extensions]

    @property
    @abstractmethod
    def ready(self) -> bool:
        """True if the server answers requests."""

    @abstractmethod
    def find(self, http: Request) -> str:
        """Return the name of a request's model.

        Raises:
            RequestError: The server does not serve it.
        """

    @abstractmethod
    def target(self, http: Request) -> Target:
        """Return the model of a request.

        Raises:
            RequestError: The server does not serve it, or not yet.
        """

    def routes(self) -> list[Route]:
        """Return the paths of the server."""
        model, version = "/v2/models/{name}", "/versions/{version}"
        routes = [
            Route("/v2", self._server),
            Route("/v2/health/live", self._live),
            Route("/v2/health/ready", self._ready),
            Route("/metrics", self._metrics_text),
        ]
        for prefix in (model, model + version):
            routes += [
                Route(prefix, self._model),
                Route(f"{prefix}/ready", self._model_ready),
                Route(f"{prefix}/infer", self._infer, methods=["POST"]),
            ]
        return routes

    def asgi(self) -> Starlette:
        """Return the ASGI application."""
        return Starlette(routes=self.routes(), exception_handlers=HANDLERS)

    async def _server(self, _: Request) -> Response:
        return JSONResponse({"name": "tetris-instance", "version": __version__, "extensions": self._extensions})

    async def _live(self, _: Request) -> Response:
        return JSONResponse({"live": True})

    async def _ready(self, _: Request) -> Response:
        return JSONResponse({"ready": self.ready}, 200 if self.ready else 503)

    async def _model_ready(self, http: Request) -> Response:
        return JSONResponse({"name": self.find(http), "ready": self.ready}, 200 if self.ready else 503)

    async def _model(self, http: Request) -> Response:
        target = self.target(http)
        signature = target.engine.signature
        return JSONResponse(
            {
                "name": target.name,
                "versions": [target.version],
                "platform": target.engine.platform,
                "inputs": [spec.document() for spec in signature.inputs],
                "outputs": [spec.document() for spec in signature.outputs],
            }
        )

    async def _metrics_text(self, _: Request) -> Response:
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _infer(self, http: Request) -> Response:
        begin = time.perf_counter()
        code = 500
        self._metrics.in_flight.inc()
        try:
            answer = await self._answer(http)
            code = answer.status_code
            return answer
        except RequestError as error:
            code = error.status
            raise
        except ClientGone:
            code = CLIENT_GONE
            return Response(status_code=CLIENT_GONE)
        finally:
            self._metrics.in_flight.dec()
            self._metrics.requests.labels(str(code)).inc()
            if code == 200:
                # Refusals are quick, and would distort the latency of the model.
                self._metrics.latency.observe(time.perf_counter() - begin)

    async def _answer(self, http: Request) -> Response:
        target = self.target(http)
        engine = target.engine
        encoded_bytes = header_bytes(http)
        body = await self._bodies.read(http)
        asked = request.parse(body, encoded_bytes, engine.signature, takes_text=engine.text is not None)
        del body
        # The queue bounds rows, which may be long.
        with self._tensors.hold(sum(map(nbytes, asked.inputs.values()))):
            outputs = await unless_gone(http, target.infer(asked.inputs))
        content, headers = response.encode(target.name, target.version, asked, outputs)
        return Response(content, headers=headers)


def check_version(http: Request, version: str) -> None:
    """Check the version in a request's path, if it has one.

    Raises:
        RequestError: It is another one.
    """
    asked = http.path_params.get("version", version)
    if asked != version:
        raise RequestError(f"the version is {shown(asked)}; this instance serves `{version}`", 404)
