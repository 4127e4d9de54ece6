"""The bounded queue in which requests wait for a worker, and for others to share a run with."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence

from tetris_instance.batch import Item
from tetris_instance.errors import RequestError

#: When a client that was refused may try again, in seconds: HTTP has no less.
RETRY_AFTER_S = 1


class BatchQueue:
    """Items wait in groups of equal keys, first come, first served within a group.

    A batch starts when it is full, that is when it has `batch_rows` or the next item does not fit, or when its oldest
    item has waited for `wait_s`. Of several that could start, that with the oldest item does.

    Args:
        limit_rows: Rows that may wait.
        batch_rows: Rows of a full batch. No item has more.
        wait_s: Seconds that an item waits for others at most; a worker that is busy may take longer.
        clock: Seconds that never go back.
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
        """Rows that wait now."""
        return self._rows

    @property
    def wait_s(self) -> float:
        """Seconds that an item waits for others at most."""
        return self._wait_s

    @wait_s.setter
    def wait_s(self, value: float) -> None:
        with self._changed:
            self._wait_s = value
            self._changed.notify_all()

    def offer(self, items: Sequence[Item]) -> None:
        """Let items wait: all of them, or none.

        Raises:
            RequestError: There is no room, or never will be, or the queue is closed.
        """
        rows = sum(item.rows for item in items)
        self.check_rows(rows)
        with self._changed:
            if self._closed:
                raise stopping()
            if self._rows + rows > self.limit_rows:
                raise RequestError(
                    f"the queue is full: {self._rows} rows wait, and {self.limit_rows} may", 503, RETRY_AFTER_S
                )
            for item in items:
                self._groups.setdefault(item.key, deque()).append(item)
            self._rows += rows
            self._changed.notify_all()

    def check_rows(self, rows: int) -> None:
        """Look at the rows of a request.

        Raises:
            RequestError: There will never be room for so many.
        """
        if rows > self.limit_rows:
            raise RequestError(f"the request has {rows} rows; this instance takes at most {self.limit_rows}", 413)

    def take(self) -> list[Item] | None:
        """Wait for a batch; `None` when the queue is closed and empty."""
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
        """Forget items that nobody waits for any more, unless a worker has them."""
        with self._changed:
            for item in items:
                group = self._groups.get(item.key)
                if group is not None and item in group:
                    group.remove(item)
                    self._removed(item.key, item.rows)
            self._changed.notify_all()

    def close(self) -> None:
        """Take nothing more, and let nothing that is there wait for others."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def abandon(self) -> list[Item]:
        """Close, and return all that waits, which no worker will get."""
        with self._changed:
            self._closed = True
            left = [item for group in self._groups.values() for item in group]
            self._groups.clear()
            self._rows = 0
            self._changed.notify_all()
            return left

    def _ready(self, now: float) -> tuple[list[Item], float | None]:
        """Take the batch that is to start now; or say when the next one is."""
        for key, group in sorted(self._groups.items(), key=lambda pair: pair[1][0].arrived):
            count, full = self._fitting(group)
            if full or self._closed or now >= group[0].arrived + self._wait_s:
                batch = [group.popleft() for _ in range(count)]
                self._removed(key, sum(item.rows for item in batch))
                return batch, None
        oldest = min((group[0].arrived for group in self._groups.values()), default=None)
        return [], None if oldest is None else oldest + self._wait_s

    def _fitting(self, group: deque[Item]) -> tuple[int, bool]:
        """How many items from the front make a batch, and whether it is full."""
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
    """The answer to a request that comes, or still waits, when the instance stops."""
    return RequestError("the instance is stopping", 503, RETRY_AFTER_S)
