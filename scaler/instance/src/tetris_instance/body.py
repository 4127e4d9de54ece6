"""Reader of request bodies, with limits on size, number and time."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from tetris_instance.errors import RequestError
from tetris_instance.queue import RETRY_AFTER_S

#: Timeout for a client to send its request.
_READ_S = 30.0
#: Time in which a client must send some more of its body, and how much: :data:`_LEAST_BYTES`, or the rest.
_PROGRESS_S, _LEAST_BYTES = 5.0, 64 << 10
#: Number of bodies of maximum size that may be in memory at once.
_FULL_BODIES = 8


class ClientGone(Exception):
    """The client has closed the connection."""


class Bodies:
    """Reads bodies, with a limit on all bodies in memory together.

    Args:
        limit: Maximum size of one body, in bytes.
        together: Maximum size of all bodies in memory, in bytes; those of eight of maximum size are enough, and one
            has room in any case.
    """

    def __init__(self, limit: int, together: int) -> None:
        self._limit = limit
        self._room = max(limit, min(limit * _FULL_BODIES, together))

    async def read(self, request: Request) -> bytes:
        """Return the body.

        Raises:
            RequestError: It is too large, encoded, or too slow; or too many are in memory.
            ClientGone: The client disconnected.
        """
        encoding = request.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise RequestError(f"Content-Encoding is {encoding[:40]!r}; expected none", 415)
        self._check_size(_declared_bytes(request))
        taken = 0
        chunks = []
        try:
            async with asyncio.timeout(_READ_S) as deadline:
                begin = progress = asyncio.get_running_loop().time()
                seen = 0
                deadline.reschedule(begin + min(_READ_S, _PROGRESS_S))
                async for chunk in request.stream():
                    taken += len(chunk)
                    self._room -= len(chunk)
                    self._check_size(taken)
                    if self._room < 0:
                        raise RequestError("too many large requests at once", 503, RETRY_AFTER_S)
                    chunks.append(chunk)
                    if taken - seen >= _LEAST_BYTES:
                        seen, progress = taken, asyncio.get_running_loop().time()
                        deadline.reschedule(min(begin + _READ_S, progress + _PROGRESS_S))
        except TimeoutError:
            raise RequestError(
                f"the body did not arrive: expected {_LEAST_BYTES} bytes in {_PROGRESS_S:g} s, all in {_READ_S:g} s",
                408,
            ) from None
        except ClientDisconnect:
            raise ClientGone from None
        finally:
            # The tensors that are made from the body have a separate budget.
            self._room += taken
        return b"".join(chunks)

    def _check_size(self, size: int) -> None:
        if size > self._limit:
            raise RequestError(f"the body has {size} bytes or more; expected at most {self._limit}", 413)


def _declared_bytes(request: Request) -> int:
    declared = request.headers.get("content-length", "0")
    return int(declared) if declared.isascii() and declared.isdigit() and len(declared) < 20 else 0
