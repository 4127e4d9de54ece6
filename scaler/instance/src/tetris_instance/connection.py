"""Connections of clients: their number, and the pace at which heads come and answers go, are limited.

A client that makes no progress holds nothing for longer than these times: bodies of requests have theirs in
:mod:`tetris_instance.body`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from tetris_instance.memory import memory_limit

#: Most connections at a time.
MAX_CONNECTIONS = 512
#: Longest time from a connection, or from the first byte of a request, to the end of its head, in seconds.
HEAD_S = 10.0
#: Time in which a client must take :data:`LEAST_BYTES` of its answer, or all that is left of it, in seconds.
READ_S = 10.0
LEAST_BYTES = 64 << 10
#: Share of the memory's limit that answers may have which clients have not taken.
_UNREAD_SHARE = 1 / 8


class Reading:
    """Progress of a client that reads its answer, by the bytes that it has not taken at each look."""

    def __init__(self) -> None:
        self._since_s, self._unread = 0.0, 0

    def has_stalled(self, unread: int, now: float) -> bool:
        """Return true if the client has taken too little for too long."""
        taken = self._unread - unread
        if unread == 0 or taken < 0 or taken >= LEAST_BYTES or self._unread == 0:
            self._since_s, self._unread = now, unread
            return False
        return now - self._since_s > READ_S


class Connection(H11Protocol):
    """A connection that is closed when its client makes no progress."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        #: Time since which a head is awaited; `None` while a request is answered, and between requests.
        self._head_since: float | None = time.monotonic()
        self._reading = Reading()
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._awaits_head():
            self._head_since = None
        elif self._head_since is None:
            self._head_since = time.monotonic()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Bytes of the next request may be here already: then its head is awaited.
        pending = self._awaits_head() and bool(self.conn.trailing_data[0])
        self._head_since = time.monotonic() if pending else None

    @property
    def unread(self) -> int:
        """Bytes of answers that the client has not taken."""
        return self.transport.get_write_buffer_size()

    def has_stalled(self, now: float) -> bool:
        """Return true if the client has made no progress for too long. To be asked again and again."""
        if self._head_since is not None and now - self._head_since > HEAD_S:
            return True
        return self._reading.has_stalled(self.unread, now)

    def _awaits_head(self) -> bool:
        return self.cycle is None or self.cycle.response_complete


class Connections:
    """Closes connections without progress.

    Args:
        unread_bytes: Most bytes of answers that clients have not taken; by default a share of the memory's limit.
    """

    def __init__(self, unread_bytes: int | None = None) -> None:
        self._unread_bytes = int(memory_limit() * _UNREAD_SHARE) if unread_bytes is None else unread_bytes

    def look(self, connections: Iterable[Any], now: float) -> None:
        """Close the connections that have made no progress, and those with most to read beyond the limit of all."""
        open_ones = [connection for connection in connections if isinstance(connection, Connection)]
        for connection in open_ones:
            if connection.has_stalled(now):
                connection.transport.abort()
        waiting = sorted((peer for peer in open_ones if peer.unread), key=lambda peer: peer.unread)
        total = sum(one.unread for one in waiting)
        while total > self._unread_bytes and waiting:
            largest = waiting.pop()
            total -= largest.unread
            largest.transport.abort()
