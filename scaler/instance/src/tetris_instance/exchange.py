"""Parts of HTTP exchanges that all applications share: clients that leave, and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tetris_instance import binary_data
from tetris_instance.body import ClientGone
from tetris_instance.errors import RequestError, shown

#: Status of requests with a closed connection, for the metrics only.
CLIENT_GONE = 499
_T = TypeVar("_T")


async def unless_gone(http: Request, result: Awaitable[_T]) -> _T:
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


def header_bytes(http: Request) -> int | None:
    value = http.headers.get(binary_data.HEADER)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 20):
        raise RequestError(f"{binary_data.HEADER} is {shown(value)}; expected a number of bytes")
    return int(value)


async def request_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    headers = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
    return JSONResponse({"error": str(error)}, error.status, headers)


async def http_error(http: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{http.method} {shown(http.url.path)}: {error.detail}"
    return JSONResponse({"error": message}, error.status_code, error.headers)


async def our_error(_: Request, error: Exception) -> Response:
    # The server logs the exception itself.
    return JSONResponse({"error": f"internal error: {type(error).__name__}"}, 500)


HANDLERS = {HTTPException: http_error, RequestError: request_error, Exception: our_error}
