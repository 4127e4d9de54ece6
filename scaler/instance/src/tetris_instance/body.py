"""Reading bodies, with limits on what they may cost."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from tetris_instance.errors import RequestError
from tetris_instance.queue import RETRY_AFTER_S

#: A client that takes longer to send its request is not waited for.
_READ_S = 30.0
#: Bodies of full size that may be in memory at once.
_FULL_BODIES = 8


class ClientGone(Exception):
    """The client has closed the connection."""


class Bodies:
    """Reads bodies; together they never hold more than a multiple of the limit of one.

    Args:
        limit: Bytes of one body.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._room = limit * _FULL_BODIES

    async def read(self, request: Request) -> bytes:
        """Return the body.

        Raises:
            RequestError: It is too large, encoded, or takes too long; or there are too many.
            ClientGone: The client went away.
        """
        encoding = request.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise RequestError(f"Content-Encoding is {encoding[:40]!r}; expected none", 415)
        self._check_size(_declared_bytes(request))
        taken = 0
        chunks = []
        try:
            async with asyncio.timeout(_READ_S):
                async for chunk in request.stream():
                    taken += len(chunk)
                    self._room -= len(chunk)
                    self._check_size(taken)
                    if self._room < 0:
                        raise RequestError("too many large requests at once", 503, RETRY_AFTER_S)
                    chunks.append(chunk)
        except TimeoutError:
            raise RequestError(f"the body did not come within {_READ_S:.0f} s", 408) from None
        except ClientDisconnect:
            raise ClientGone from None
        finally:
            # What is made of it is bounded by the queue.
            self._room += taken
        return b"".join(chunks)

    def _check_size(self, size: int) -> None:
        if size > self._limit:
            raise RequestError(f"the body has {size} bytes or more; expected at most {self._limit}", 413)


def _declared_bytes(request: Request) -> int:
    declared = request.headers.get("content-length", "0")
    return int(declared) if declared.isascii() and declared.isdigit() and len(declared) < 20 else 0
