"""HTTP application of an executor: the protocol, its model repository extension, and the GPU's page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tetris_instance.errors import RequestError, shown
from tetris_instance.exchange import HANDLERS
from tetris_instance.executor.device import Device
from tetris_instance.executor.model import ServedModel
from tetris_instance.executor.runner import Runner
from tetris_instance.executor.token import Token
from tetris_instance.metrics import Metrics
from tetris_instance.protocol import ProtocolApp, Target, check_version
from tetris_instance.queue import RETRY_AFTER_S, stopping

#: Version of every model.
_VERSION = "1"
_STATES = {"resident": "READY", "loading": "LOADING", "absent": "UNAVAILABLE"}


class Authorized:
    """Refuses requests without a token, whatever they ask for.

    Args:
        app: The application behind it.
        token: The token.
    """

    def __init__(self, app: ASGIApp, token: Token) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and not self._token.allows(Request(scope).headers.get("authorization")):
            refusal = {"error": "orders expect the header Authorization with the bearer token of this executor"}
            app = JSONResponse(refusal, 403)
        await app(scope, receive, send)


class ExecutorApp(ProtocolApp):
    """Answers requests for the models of an executor.

    Args:
        device: The executor's device.
        metrics: Metrics that count requests.
        body_bytes: Maximum size of a body, in bytes.
        token: Token of orders, which have a separate port; `None` if they come where requests do.
    """

    def __init__(self, device: Device, metrics: Metrics, body_bytes: int, token: Token | None = None) -> None:
        super().__init__(metrics, body_bytes, "model_repository", "tetris_gpu")
        self._token = token
        self._device = device
        self._models: Mapping[str, ServedModel] | None = None
        self._runner: Runner | None = None
        self._stopping = False
        metrics.watch_ready(lambda: self.ready)

    @property
    def ready(self) -> bool:
        return self._models is not None and not self._stopping

    def set_ready(self, models: Mapping[str, ServedModel], runner: Runner) -> None:
        """Set the models. From now on requests are answered."""
        self._runner = runner
        self._models = models

    def stop(self) -> None:
        """End readiness. Takes no lock, so that signal handlers may call it."""
        self._stopping = True

    def routes(self) -> list[Route]:
        """Return the paths for requests, with those for orders if these have no separate port."""
        return [*super().routes(), *(self._order_routes() if self._token is None else [])]

    def orders(self) -> ASGIApp | None:
        """Return the application for orders; `None` if they have no separate port."""
        if self._token is None:
            return None
        return Starlette(
            routes=self._order_routes(),
            exception_handlers=HANDLERS,
            middleware=[Middleware(Authorized, token=self._token)],
        )

    def _order_routes(self) -> list[Route]:
        repository = "/v2/repository"
        return [
            Route("/v2/gpu", self._gpu),
            Route(f"{repository}/index", self._index, methods=["POST"]),
            Route(f"{repository}/models/{{name}}/load", self._load, methods=["POST"]),
            Route(f"{repository}/models/{{name}}/unload", self._unload, methods=["POST"]),
        ]

    def find(self, http: Request) -> str:
        return self._find(http).name

    def target(self, http: Request) -> Target:
        model = self._find(http)
        _, runner = self._require()
        return Target(model.name, _VERSION, model.engine, partial(runner.infer, model))

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

    def _find(self, http: Request) -> ServedModel:
        models, _ = self._require()
        name = http.path_params["name"]
        if name not in models:
            raise RequestError(f"the model is {shown(name)}; this executor serves {', '.join(sorted(models))}", 404)
        check_version(http, _VERSION)
        return models[name]

    def _require(self) -> tuple[Mapping[str, ServedModel], Runner]:
        if self._models is None or self._runner is None:
            if self._stopping:
                raise stopping()
            raise RequestError("the models are being prepared", 503, RETRY_AFTER_S)
        return self._models, self._runner
