"""Bounded queue of requests that wait for a worker, and for others to share a run with."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence

from tetris_instance.batch import Item
from tetris_instance.errors import RequestError

#: Time after which a refused client may retry, in seconds: the smallest that HTTP can express.
RETRY_AFTER_S = 1


class BatchQueue:
    """Items in groups of equal keys, first come, first served within a group.

    A batch starts when it is full: it has `batch_rows`, or the next item does not fit. It also
    starts when its oldest item has waited for `wait_s`. Among several ready batches, the one with
    the oldest item starts.

    Args:
        limit_rows: Maximum number of queued rows.
        batch_rows: Number of rows of a full batch. No item has more.
        wait_s: Longest wait of an item for others, in seconds; a busy worker may take longer.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self, limit_rows: int, batch_rows: int, wait_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limit_rows = limit_rows
        self.batch_rows = batch_rows
        self.clock = clock
        self._wait_s = wait_s
        self._groups: dict[Hashable, deque[Item]] = {}
        self._rows = 0
        self._closed = False
        self._changed = threading.Condition()

    @property
    def rows(self) -> int:
        """Number of queued rows."""
        return self._rows

    @property
    def wait_s(self) -> float:
        """Longest wait of an item for others, in seconds."""
        return self._wait_s

    @wait_s.setter
    def wait_s(self, value: float) -> None:
        with self._changed:
            self._wait_s = value
            self._changed.notify_all()

    def offer(self, items: Sequence[Item]) -> None:
        """Queue items: all of them, or none.

        Raises:
            RequestError: The queue has no room, is too small for them, or is closed.
        """
        rows = sum(item.rows for item in items)
        self.check_rows(rows)
        with self._changed:
            if self._closed:
                raise stopping()
            if self._rows + rows > self.limit_rows:
                raise RequestError(
                    f"the queue is full: {self._rows} rows wait, expected at most {self.limit_rows}", 503, RETRY_AFTER_S
                )
            for item in items:
                self._groups.setdefault(item.key, deque()).append(item)
            self._rows += rows
            self._changed.notify_all()

    def check_rows(self, rows: int) -> None:
        """Check the number of rows of a request.

        Raises:
            RequestError: The queue is too small for it.
        """
        if rows > self.limit_rows:
            raise RequestError(f"the request has {rows} rows; this instance takes at most {self.limit_rows}", 413)

    def take(self) -> list[Item] | None:
        """Wait for a batch; return `None` once the queue is closed and empty."""
        with self._changed:
            while True:
                now = self.clock()
                batch, next_at = self._ready(now)
                if batch:
                    return batch
                if self._closed and not self._groups:
                    return None
                self._changed.wait(None if next_at is None else max(0.0, next_at - now))

    def discard(self, items: Sequence[Item]) -> None:
        """Remove items without a waiting client, unless a worker has them."""
        with self._changed:
            for item in items:
                group = self._groups.get(item.key)
                if group is not None and item in group:
                    group.remove(item)
                    self._removed(item.key, item.rows)
            self._changed.notify_all()

    def close(self) -> None:
        """Refuse new items, and run queued ones without waiting for others."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def abandon(self) -> list[Item]:
        """Close the queue, and return all its items, which no worker will get."""
        with self._changed:
            self._closed = True
            left = [item for group in self._groups.values() for item in group]
            self._groups.clear()
            self._rows = 0
            self._changed.notify_all()
            return left

    def _ready(self, now: float) -> tuple[list[Item], float | None]:
        """Take the batch that starts now, or return the time of the next one."""
        for key, group in sorted(self._groups.items(), key=lambda pair: pair[1][0].arrived):
            count, full = self._fitting(group)
            if full or self._closed or now >= group[0].arrived + self._wait_s:
                batch = [group.popleft() for _ in range(count)]
                self._removed(key, sum(item.rows for item in batch))
                return batch, None
        oldest = min((group[0].arrived for group in self._groups.values()), default=None)
        return [], None if oldest is None else oldest + self._wait_s

    def _fitting(self, group: deque[Item]) -> tuple[int, bool]:
        """Return the number of items at the front that make a batch, and true if it is full."""
        rows = 0
        for count, item in enumerate(group):
            if rows + item.rows > self.batch_rows:
                return count, True
            rows += item.rows
        return len(group), rows == self.batch_rows

    def _removed(self, key: Hashable, rows: int) -> None:
        self._rows -= rows
        if not self._groups[key]:
            del self._groups[key]


def stopping() -> RequestError:
    """Return the answer to a request that arrives or still waits while the instance stops."""
    return RequestError("the instance is stopping", 503, RETRY_AFTER_S)
