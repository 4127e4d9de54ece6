"""Composition and start of batches, with the test's clock."""

from __future__ import annotations

import threading
from collections.abc import Hashable

import numpy as np
import pytest

from tetris_instance.batch import Item
from tetris_instance.errors import RequestError
from tetris_instance.queue import BatchQueue

WAIT_S = 10.0


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def item(rows: int = 1, key: Hashable = "k", arrived: float = 100.0) -> Item:
    return Item({"x": np.zeros((rows, 1))}, rows, key, arrived, lambda _: None)


def queue(batch: int = 4, limit: int = 16, wait_s: float = WAIT_S) -> tuple[BatchQueue, Clock]:
    clock = Clock()
    return BatchQueue(limit, batch, wait_s, clock), clock


def test_a_full_batch_starts_at_once_in_the_order_of_arrival() -> None:
    waiting, _ = queue(batch=3)
    items = [item() for _ in range(4)]
    waiting.offer(items)
    assert waiting.take() == items[:3]
    assert waiting.rows == 1


def test_a_batch_that_is_not_full_starts_when_its_oldest_has_waited() -> None:
    waiting, clock = queue()
    first, second = item(), item(arrived=105.0)
    waiting.offer([first])
    waiting.offer([second])
    clock.now = 100.0 + WAIT_S
    assert waiting.take() == [first, second]


def test_a_batch_that_is_not_full_waits_for_others() -> None:
    waiting, _ = queue(batch=2)
    first, second = item(), item()
    waiting.offer([first])
    taken: list[list[Item] | None] = []
    taker = threading.Thread(target=lambda: taken.append(waiting.take()))
    taker.start()
    # The clock stands still: only the second item can end the wait.
    waiting.offer([second])
    taker.join(120)
    assert taken == [[first, second]]


def test_rows_are_counted_and_order_is_kept_where_the_next_does_not_fit() -> None:
    waiting, clock = queue(batch=4)
    three, two, one = item(3), item(2), item(1)
    waiting.offer([three, two, one])
    # Full, although a later item would fit: first come, first served.
    assert waiting.take() == [three]
    assert waiting.rows == 3
    clock.now += WAIT_S
    assert waiting.take() == [two, one]


def test_items_of_different_keys_are_never_together_and_a_full_group_passes_one_that_waits() -> None:
    waiting, clock = queue(batch=2)
    waits, full = item(key="a", arrived=99.0), [item(key="b"), item(key="b")]
    waiting.offer([waits, *full])
    assert waiting.take() == full
    clock.now += WAIT_S
    assert waiting.take() == [waits]


def test_of_two_batches_that_can_start_the_one_with_the_oldest_does() -> None:
    waiting, clock = queue(batch=2)
    old, new = item(key="a", arrived=90.0), [item(key="b"), item(key="b")]
    waiting.offer([*new, old])
    clock.now = 100.0
    assert waiting.take() == [old]
    assert waiting.take() == new


def test_without_a_wait_whatever_is_there_starts() -> None:
    waiting, _ = queue(wait_s=0.0)
    items = [item(), item()]
    waiting.offer(items)
    assert waiting.take() == items


def test_a_full_queue_refuses_whole_requests_and_says_when_to_try_again() -> None:
    waiting, _ = queue(batch=4, limit=4)
    waiting.offer([item(3)])
    with pytest.raises(RequestError, match="3 rows wait, expected at most 4") as caught:
        waiting.offer([item(1), item(1)])
    assert (caught.value.status, caught.value.retry_after_s) == (503, 1)
    assert waiting.rows == 3
    waiting.offer([item(1)])
    assert waiting.take() is not None
    waiting.offer([item(4)])


def test_what_will_never_fit_is_not_to_be_tried_again() -> None:
    waiting, _ = queue(batch=4, limit=8)
    with pytest.raises(RequestError, match="9 rows; this instance takes at most 8") as caught:
        waiting.offer([item(4), item(4), item(1)])
    assert (caught.value.status, caught.value.retry_after_s) == (413, None)


def test_discarded_items_leave_room_and_are_not_computed() -> None:
    waiting, clock = queue(limit=2)
    gone, stays = item(), item()
    waiting.offer([gone, stays])
    waiting.discard([gone, gone])
    assert waiting.rows == 1
    clock.now += WAIT_S
    assert waiting.take() == [stays]
    # Too late: a worker has it.
    waiting.discard([stays])
    assert waiting.rows == 0


def test_items_with_equal_arrays_are_not_confused() -> None:
    waiting, clock = queue()
    twins = [item(), item()]
    waiting.offer(twins)
    waiting.discard([twins[1]])
    clock.now += WAIT_S
    taken = waiting.take()
    assert taken is not None and taken[0] is twins[0] and len(taken) == 1


def test_a_closed_queue_refuses_hands_out_what_is_there_at_once_and_ends() -> None:
    waiting, _ = queue()
    first = item()
    waiting.offer([first])
    waiting.close()
    with pytest.raises(RequestError, match="stopping") as caught:
        waiting.offer([item()])
    assert caught.value.status == 503
    assert waiting.take() == [first]
    assert waiting.take() is None


def test_what_is_abandoned_is_not_handed_out() -> None:
    waiting, _ = queue()
    items = [item(key="a"), item(key="b")]
    waiting.offer(items)
    assert waiting.abandon() == items
    assert waiting.take() is None
    assert waiting.rows == 0


def test_a_shorter_wait_counts_for_those_that_wait_already() -> None:
    waiting, clock = queue()
    first = item()
    waiting.offer([first])
    clock.now += 1.0
    waiting.wait_s = 1.0
    assert waiting.take() == [first]
