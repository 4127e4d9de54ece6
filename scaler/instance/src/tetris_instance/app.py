"""HTTP application: the paths of the Open Inference Protocol v2, and the metrics."""

from __future__ import annotations

import time

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tetris_instance import __version__, request, response
from tetris_instance.body import Bodies, ClientGone
from tetris_instance.errors import RequestError, shown
from tetris_instance.exchange import CLIENT_GONE, HANDLERS, header_bytes, unless_gone
from tetris_instance.inference import infer
from tetris_instance.metrics import Metrics
from tetris_instance.state import Loaded, State
from tetris_instance.tensors import Tensors


class App:
    """Answers requests for one model.

    Args:
        name: Name of the model.
        version: Its only version.
        state: State of the server.
        metrics: Metrics that count requests.
        body_bytes: Maximum size of a body, in bytes.
    """

    def __init__(self, name: str, version: str, state: State, metrics: Metrics, body_bytes: int) -> None:
        self._name = name
        self._version = version
        self._state = state
        self._metrics = metrics
        self._bodies = Bodies(body_bytes)

    def asgi(self) -> Starlette:
        """Return the ASGI application."""
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
        return Starlette(routes=routes, exception_handlers=HANDLERS)

    async def _server(self, _: Request) -> Response:
        return JSONResponse({"name": "tetris-instance", "version": __version__, "extensions": ["binary_tensor_data"]})

    async def _live(self, _: Request) -> Response:
        return JSONResponse({"live": True})

    async def _ready(self, _: Request) -> Response:
        ready = self._state.ready
        return JSONResponse({"ready": ready}, 200 if ready else 503)

    async def _model_ready(self, http: Request) -> Response:
        self._check_model(http)
        ready = self._state.ready
        return JSONResponse({"name": self._name, "ready": ready}, 200 if ready else 503)

    async def _model(self, http: Request) -> Response:
        self._check_model(http)
        engine = self._state.require_loaded().engine
        return JSONResponse(
            {
                "name": self._name,
                "versions": [self._version],
                "platform": engine.platform,
                "inputs": [spec.document() for spec in engine.signature.inputs],
                "outputs": [spec.document() for spec in engine.signature.outputs],
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
        self._check_model(http)
        loaded = self._state.require_loaded()
        engine = loaded.engine
        encoded_bytes = header_bytes(http)
        body = await self._bodies.read(http)
        asked = request.parse(body, encoded_bytes, engine.signature, takes_text=engine.text is not None)
        del body
        outputs = await unless_gone(http, self._compute(loaded, asked.inputs))
        content, headers = response.encode(self._name, self._version, asked, outputs)
        return Response(content, headers=headers)

    async def _compute(self, loaded: Loaded, inputs: Tensors) -> Tensors:
        return await infer(loaded.engine, loaded.queue, inputs)

    def _check_model(self, http: Request) -> None:
        name, version = http.path_params["name"], http.path_params.get("version", self._version)
        if name != self._name:
            raise RequestError(f"the model is {shown(name)}; this instance serves `{self._name}`", 404)
        if version != self._version:
            raise RequestError(f"the version is {shown(version)}; this instance serves `{self._version}`", 404)
