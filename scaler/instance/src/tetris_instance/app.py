"""HTTP application: the paths of the Open Inference Protocol v2, and the metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tetris_instance import __version__, binary_data, request, response
from tetris_instance.body import Bodies, ClientGone
from tetris_instance.errors import RequestError, shown
from tetris_instance.inference import infer
from tetris_instance.metrics import Metrics
from tetris_instance.state import Loaded, State
from tetris_instance.tensors import Tensors

#: Status of requests with a closed connection, for the metrics only.
CLIENT_GONE = 499


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
        handlers = {HTTPException: _http_error, RequestError: _request_error, Exception: _our_error}
        return Starlette(routes=routes, exception_handlers=handlers)

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
        header_bytes = _header_bytes(http)
        body = await self._bodies.read(http)
        asked = request.parse(body, header_bytes, engine.signature, takes_text=engine.text is not None)
        del body
        outputs = await _unless_gone(http, self._compute(loaded, asked.inputs))
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


async def _unless_gone(http: Request, result: Awaitable[Tensors]) -> Tensors:
    """Return the result, or stop waiting when the client disconnects.

    Raises:
        ClientGone: The client disconnected.
    """
    wanted = asyncio.ensure_future(result)
    gone = asyncio.ensure_future(_disconnect(http.receive))
    try:
        await asyncio.wait({wanted, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            raise ClientGone
        return wanted.result()
    finally:
        for task in (wanted, gone):
            task.cancel()
        await asyncio.wait({wanted, gone})
        if not wanted.cancelled():
            # Retrieve the exception, or asyncio would log it as never retrieved.
            wanted.exception()


async def _disconnect(receive: Callable[[], Awaitable[object]]) -> None:
    """Return once the connection is closed; no other message can follow the body."""
    while True:
        message = await receive()
        if isinstance(message, dict) and message.get("type") == "http.disconnect":
            return


def _header_bytes(http: Request) -> int | None:
    value = http.headers.get(binary_data.HEADER)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 20):
        raise RequestError(f"{binary_data.HEADER} is {shown(value)}; expected a number of bytes")
    return int(value)


async def _request_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    headers = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
    return JSONResponse({"error": str(error)}, error.status, headers)


async def _http_error(http: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{http.method} {shown(http.url.path)}: {error.detail}"
    return JSONResponse({"error": message}, error.status_code, error.headers)


async def _our_error(_: Request, error: Exception) -> Response:
    # The server logs the exception itself.
    return JSONResponse({"error": f"internal error: {type(error).__name__}"}, 500)
