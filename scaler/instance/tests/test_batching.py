"""Requests that share runs of the model, through HTTP. Gates decide the order of events, never
time.
"""

from __future__ import annotations

import threading

from fakes import ALONE, POISON, UNPADDED, FakeEngine, Gate
from serving import HANGS_S, Answer, Serving, values_request, wait_until

#: A wait longer than any test.
FOR_EVER = ("--batch-wait-millis", "60000")
AT_ONCE = ("--batch-wait-millis", "0")


def sums(answer: Answer) -> list[int]:
    assert answer.status == 200, answer
    found: list[int] = answer.json()["outputs"][0]["data"]
    return found


def twice(answer: Answer) -> tuple[list[int], list[int]]:
    output = answer.json()["outputs"][1]
    return output["shape"], output["data"]


def test_requests_that_come_together_are_one_run_and_each_gets_its_own() -> None:
    engine = FakeEngine()
    with Serving(engine, "--batch", "4", *FOR_EVER) as serving:
        futures = [serving.client.start_values([[i, 10]]) for i in range(4)]
        answers = [future.result(HANGS_S) for future in futures]
        assert [sums(answer) for answer in answers] == [[10], [11], [12], [13]]
        assert len(engine.runs) == 1


def test_a_request_alone_is_run_when_it_has_waited() -> None:
    engine = FakeEngine()
    with Serving(engine, "--batch", "4", "--batch-wait-millis", "30") as serving:
        assert sums(serving.client.values([[1, 2]])) == [3]
        assert serving.client.metric("tetris_instance_queue_seconds_sum") >= 0.03


def test_without_batching_each_request_is_a_run() -> None:
    engine = FakeEngine()
    with Serving(engine, *FOR_EVER) as serving:
        futures = [serving.client.start_values([[i, 10]]) for i in range(5)]
        assert sorted(sums(future.result(HANGS_S))[0] for future in futures) == [10, 11, 12, 13, 14]
        assert sorted(engine.runs) == [[[i, 10]] for i in range(5)]


def test_what_comes_during_a_run_is_the_next_batch_in_the_order_of_arrival() -> None:
    gate = Gate()
    engine = FakeEngine(before=gate)
    with Serving(engine, "--batch", "4", *AT_ONCE) as serving:
        first = serving.client.start_values([[100, 0]])
        gate.wait_for_run()
        futures = []
        for i in range(6):
            futures.append(serving.client.start_values([[i, 0]]))
            wait_until(lambda i=i: serving.client.metric("tetris_instance_queue_rows") == i + 1, "a row to wait")
        gate.open(3)
        assert sums(first.result(HANGS_S)) == [100]
        assert [sums(future.result(HANGS_S)) for future in futures] == [[i] for i in range(6)]
        assert engine.runs == [[[100, 0]], [[0, 0], [1, 0], [2, 0], [3, 0]], [[4, 0], [5, 0]]]


def test_rows_of_different_length_are_padded_and_cut() -> None:
    engine = FakeEngine()
    with Serving(engine, "--batch", "3", *FOR_EVER) as serving:
        futures = [serving.client.start_values([list(range(1, length + 1))]) for length in (1, 4, 2)]
        answers = [future.result(HANGS_S) for future in futures]
        assert [sums(answer) for answer in answers] == [[1], [10], [3]]
        assert [twice(answer) for answer in answers] == [([1, 1], [2]), ([1, 4], [2, 4, 6, 8]), ([1, 2], [2, 4])]
        [run] = engine.runs
        assert sorted(run) == [[1, 0, 0, 0], [1, 2, 0, 0], [1, 2, 3, 4]]


def test_without_padding_only_equal_shapes_share_a_run() -> None:
    engine = FakeEngine(UNPADDED)
    with Serving(engine, "--batch", "2", *FOR_EVER) as serving:
        futures = [serving.client.start_values([row]) for row in ([1], [2, 2], [3], [4, 4])]
        assert [sums(future.result(HANGS_S)) for future in futures] == [[1], [4], [3], [8]]
        assert sorted(sorted(run) for run in engine.runs) == [[[1], [3]], [[2, 2], [4, 4]]]


def test_a_model_without_rows_is_run_once_per_request() -> None:
    engine = FakeEngine(ALONE)
    with Serving(engine, "--batch", "4", *FOR_EVER) as serving:
        assert sums(serving.client.values([[1, 2], [3, 4], [5, 6]])) == [3, 7, 11]
        assert engine.runs == [[[1, 2], [3, 4], [5, 6]]]


def test_a_large_request_is_split_and_shares_runs_with_others() -> None:
    gate = Gate()
    engine = FakeEngine(before=gate)
    with Serving(engine, "--batch", "4", *AT_ONCE) as serving:
        first = serving.client.start_values([[100, 0]])
        gate.wait_for_run()
        large = serving.client.start_values([[i, 1] for i in range(6)])
        wait_until(lambda: serving.client.metric("tetris_instance_queue_rows") == 6, "the rows to wait")
        small = serving.client.start_values([[50, 1], [60, 1]])
        wait_until(lambda: serving.client.metric("tetris_instance_queue_rows") == 8, "the rows to wait")
        gate.open(3)
        assert sums(first.result(HANGS_S)) == [100]
        assert sums(large.result(HANGS_S)) == [1, 2, 3, 4, 5, 6]
        assert sums(small.result(HANGS_S)) == [51, 61]
        assert engine.runs[1:] == [[[0, 1], [1, 1], [2, 1], [3, 1]], [[4, 1], [5, 1], [50, 1], [60, 1]]]


def test_one_request_that_fails_does_not_fail_those_it_shares_a_run_with() -> None:
    engine = FakeEngine()
    with Serving(engine, "--batch", "3", *FOR_EVER) as serving:
        futures = [serving.client.start_values([[value, 1]]) for value in (1, POISON, 3)]
        answers = [future.result(HANGS_S) for future in futures]
        assert [answer.status for answer in answers] == [200, 500, 200]
        assert (sums(answers[0]), sums(answers[2])) == ([2], [4])
        assert answers[1].json() == {"error": "the model failed: ValueError: poison"}


def test_a_large_request_with_a_part_that_fails_fails_whole() -> None:
    engine = FakeEngine()
    with Serving(engine, "--batch", "2", *FOR_EVER) as serving:
        assert serving.client.values([[1, 1], [2, 1], [POISON, 1], [4, 1]]).status == 500
        assert sums(serving.client.values([[1, 1], [2, 1]])) == [2, 3]


def test_a_full_queue_answers_503_and_when_to_try_again() -> None:
    gate = Gate()
    engine = FakeEngine(before=gate)
    with Serving(engine, "--queue", "2", *AT_ONCE) as serving:
        running = serving.client.start_values([[0, 0]])
        gate.wait_for_run()
        waiting = [serving.client.start_values([[i, 0]]) for i in (1, 2)]
        wait_until(lambda: serving.client.metric("tetris_instance_queue_rows") == 2, "the queue to be full")
        refused = serving.client.values([[3, 0]])
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        assert refused.json() == {"error": "the queue is full: 2 rows wait, expected at most 2"}
        never = serving.client.values([[3, 0]] * 3)
        assert (never.status, never.headers["Retry-After"]) == (413, None)
        gate.open(3)
        assert [sums(future.result(HANGS_S))[0] for future in (running, *waiting)] == [0, 1, 2]
        assert serving.client.metric('tetris_instance_requests_total{code="503"}') == 1


def test_a_client_that_has_gone_is_not_computed_and_leaves_its_room() -> None:
    gate = Gate()
    engine = FakeEngine(before=gate)
    with Serving(engine, "--queue", "1", *AT_ONCE) as serving:
        running = serving.client.start_values([[0, 0]])
        gate.wait_for_run()
        with serving.client.send_and_keep(values_request([[7, 7]])):
            wait_until(lambda: serving.client.metric("tetris_instance_queue_rows") == 1, "the row to wait")
        wait_until(lambda: serving.client.metric("tetris_instance_queue_rows") == 0, "the row to be forgotten")
        follows = serving.client.start_values([[8, 8]])
        wait_until(lambda: serving.client.metric("tetris_instance_queue_rows") == 1, "the next row")
        gate.open(2)
        assert sums(running.result(HANGS_S)) == [0]
        assert sums(follows.result(HANGS_S)) == [16]
        assert engine.runs == [[[0, 0]], [[8, 8]]]
        assert serving.client.metric('tetris_instance_requests_total{code="499"}') == 1


def test_a_client_that_goes_during_the_run_hurts_nobody() -> None:
    gate = Gate()
    with Serving(FakeEngine(before=gate), *AT_ONCE) as serving:
        with serving.client.send_and_keep(values_request([[7, 7]])):
            gate.wait_for_run()
        wait_until(
            lambda: serving.client.metric('tetris_instance_requests_total{code="499"}') == 1, "the client to be missed"
        )
        gate.open(2)
        assert sums(serving.client.values([[8, 8]])) == [16]


def test_as_many_runs_as_workers_are_under_way_at_once() -> None:
    # The barrier opens only with all three runs.
    barrier = threading.Barrier(3)
    engine = FakeEngine(before=lambda _: (barrier.wait(HANGS_S), None)[1])
    with Serving(engine, "--concurrency", "3", *AT_ONCE) as serving:
        futures = [serving.client.start_values([[i, 0]]) for i in range(9)]
        assert sorted(sums(future.result(HANGS_S))[0] for future in futures) == list(range(9))
        assert not barrier.broken


def test_no_more_runs_than_workers_are_under_way() -> None:
    gate = Gate()
    engine = FakeEngine(before=gate)
    with Serving(engine, "--concurrency", "2", *AT_ONCE) as serving:
        futures = [serving.client.start_values([[i, 0]]) for i in range(3)]
        gate.wait_for_run()
        gate.wait_for_run()
        # No worker is left for the third.
        wait_until(lambda: serving.client.metric("tetris_instance_queue_rows") == 1, "one row to wait")
        gate.open(3)
        assert sorted(sums(future.result(HANGS_S))[0] for future in futures) == [0, 1, 2]


def test_health_is_answered_while_all_workers_are_busy() -> None:
    gate = Gate()
    with Serving(FakeEngine(before=gate), *AT_ONCE) as serving:
        running = serving.client.start_values([[0, 0]])
        gate.wait_for_run()
        assert serving.client.ask("/v2/health/live").status == 200
        gate.open()
        assert sums(running.result(HANGS_S)) == [0]
