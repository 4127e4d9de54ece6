"""HTTP application of an executor: the protocol, its model repository extension, and the GPU's page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tetris_instance import __version__, request, response
from tetris_instance.body import Bodies, ClientGone
from tetris_instance.errors import RequestError, shown
from tetris_instance.exchange import CLIENT_GONE, HANDLERS, header_bytes, unless_gone
from tetris_instance.executor.device import Device
from tetris_instance.executor.model import ServedModel
from tetris_instance.executor.runner import Runner
from tetris_instance.metrics import Metrics
from tetris_instance.queue import RETRY_AFTER_S, stopping

_STATES = {"resident": "READY", "loading": "LOADING", "absent": "UNAVAILABLE"}


class ExecutorApp:
    """Answers requests for the models of an executor.

    Args:
        device: The executor's device.
        metrics: Metrics that count requests.
        body_bytes: Maximum size of a body, in bytes.
    """

    def __init__(self, device: Device, metrics: Metrics, body_bytes: int) -> None:
        self._device = device
        self._metrics = metrics
        self._bodies = Bodies(body_bytes)
        self._models: Mapping[str, ServedModel] | None = None
        self._runner: Runner | None = None
        self._stopping = False
        metrics.watch_ready(lambda: self.ready)

    @property
    def ready(self) -> bool:
        """True if the executor answers requests."""
        return self._models is not None and not self._stopping

    def set_ready(self, models: Mapping[str, ServedModel], runner: Runner) -> None:
        """Set the models. From now on requests are answered."""
        self._runner = runner
        self._models = models

    def stop(self) -> None:
        """End readiness. Takes no lock, so that signal handlers may call it."""
        self._stopping = True

    def asgi(self) -> Starlette:
        """Return the ASGI application."""
        model, repository = "/v2/models/{name}", "/v2/repository"
        routes = [
            Route("/v2", self._server),
            Route("/v2/health/live", self._live),
            Route("/v2/health/ready", self._ready),
            Route("/v2/gpu", self._gpu),
            Route(f"{repository}/index", self._index, methods=["POST"]),
            Route(f"{repository}/models/{{name}}/load", self._load, methods=["POST"]),
            Route(f"{repository}/models/{{name}}/unload", self._unload, methods=["POST"]),
            Route(model, self._model),
            Route(f"{model}/ready", self._model_ready),
            Route(f"{model}/infer", self._infer, methods=["POST"]),
            Route("/metrics", self._metrics_text),
        ]
        return Starlette(routes=routes, exception_handlers=HANDLERS)

    async def _server(self, _: Request) -> Response:
        extensions = ["binary_tensor_data", "model_repository", "tetris_gpu"]
        return JSONResponse({"name": "tetris-instance", "version": __version__, "extensions": extensions})

    async def _live(self, _: Request) -> Response:
        return JSONResponse({"live": True})

    async def _ready(self, _: Request) -> Response:
        return JSONResponse({"ready": self.ready}, 200 if self.ready else 503)

    async def _gpu(self, http: Request) -> Response:
        models, runner = self._require()
        with_parts = http.query_params.get("parts") != "false"
        try:
            device = await asyncio.to_thread(self._device.describe)
        except Exception as error:
            raise RequestError(f"no GPU mirror: {type(error).__name__}: {error}", 503, RETRY_AFTER_S) from error
        return JSONResponse(
            {
                **device,
                "concurrency": runner.concurrency,
                "running": runner.running,
                "queued": runner.queued,
                "models": [model.document(with_parts) for model in models.values()],
            }
        )

    async def _index(self, _: Request) -> Response:
        models, _runner = self._require()
        listed = ((name, model.state()) for name, model in models.items())
        return JSONResponse(
            [
                {"name": name, "state": _STATES[state], "reason": "" if state != "absent" else "not on the device"}
                for name, state in listed
            ]
        )

    async def _load(self, http: Request) -> Response:
        await asyncio.to_thread(self._find(http).load)
        return Response(status_code=202)

    async def _unload(self, http: Request) -> Response:
        await asyncio.to_thread(self._find(http).unload)
        return Response(status_code=200)

    async def _model_ready(self, http: Request) -> Response:
        model = self._find(http)
        ready = self.ready
        return JSONResponse({"name": model.name, "ready": ready}, 200 if ready else 503)

    async def _model(self, http: Request) -> Response:
        model = self._find(http)
        signature = model.engine.signature
        return JSONResponse(
            {
                "name": model.name,
                "versions": ["1"],
                "platform": model.engine.platform,
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
                self._metrics.latency.observe(time.perf_counter() - begin)

    async def _answer(self, http: Request) -> Response:
        model = self._find(http)
        _, runner = self._require()
        engine = model.engine
        encoded_bytes = header_bytes(http)
        body = await self._bodies.read(http)
        asked = request.parse(body, encoded_bytes, engine.signature, takes_text=engine.text is not None)
        del body
        outputs = await unless_gone(http, runner.infer(model, asked.inputs))
        content, headers = response.encode(model.name, "1", asked, outputs)
        return Response(content, headers=headers)

    def _find(self, http: Request) -> ServedModel:
        models, _ = self._require()
        name = http.path_params["name"]
        if name not in models:
            raise RequestError(f"the model is {shown(name)}; this executor serves {', '.join(sorted(models))}", 404)
        return models[name]

    def _require(self) -> tuple[Mapping[str, ServedModel], Runner]:
        if self._models is None or self._runner is None:
            if self._stopping:
                raise stopping()
            raise RequestError("the models are being prepared", 503, RETRY_AFTER_S)
        return self._models, self._runner
