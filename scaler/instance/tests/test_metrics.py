"""Tests of the metrics."""

from __future__ import annotations

from fakes import FakeEngine
from prometheus_client.parser import text_string_to_metric_families
from serving import Serving


def test_metrics_say_what_has_been_done() -> None:
    with Serving(FakeEngine(), "--batch", "4", "--concurrency", "2", "--batch-wait-millis", "0") as serving:
        client = serving.client
        assert client.values([[1, 2], [3, 4], [5, 6]]).status == 200
        assert client.values([[1, 2]]).status == 200
        assert client.infer({}).status == 400
        assert client.infer({}, "/v2/models/other/infer").status == 404
        # These do not count as load.
        client.ask("/v2/health/ready")
        expected = {
            'tetris_instance_requests_total{code="200"}': 2,
            'tetris_instance_requests_total{code="400"}': 1,
            'tetris_instance_requests_total{code="404"}': 1,
            "tetris_instance_rows_total": 4,
            "tetris_instance_request_seconds_count": 2,
            "tetris_instance_queue_seconds_count": 2,
            "tetris_instance_compute_seconds_count": 2,
            "tetris_instance_batch_rows_count": 2,
            "tetris_instance_batch_rows_sum": 4,
            'tetris_instance_batch_rows_bucket{le="1.0"}': 1,
            'tetris_instance_batch_rows_bucket{le="2.0"}': 1,
            'tetris_instance_batch_rows_bucket{le="4.0"}': 2,
            "tetris_instance_requests_in_flight": 0,
            "tetris_instance_ready": 1,
            "tetris_instance_queue_rows": 0,
            'tetris_instance_model_bytes{memory="shared"}': 1000,
            'tetris_instance_model_bytes{memory="private"}': 24,
            'tetris_instance_setting{name="batch"}': 4,
            'tetris_instance_setting{name="concurrency"}': 2,
            'tetris_instance_setting{name="cpus"}': 1,
            'tetris_instance_setting{name="threads_per_worker"}': 1,
            'tetris_instance_setting{name="batch_wait_seconds"}': 0,
            'tetris_instance_setting{name="queue_rows"}': 64,
        }
        assert {sample: client.metric(sample) for sample in expected} == expected


def test_metrics_are_in_the_format_of_prometheus_and_have_our_prefix() -> None:
    with Serving(FakeEngine()) as serving:
        answer = serving.client.ask("/metrics")
        assert answer.headers["Content-Type"].startswith("text/plain")
        families = list(text_string_to_metric_families(answer.body.decode()))
        assert all(family.name.startswith(("tetris_instance_", "process_")) for family in families)
        assert all(family.documentation for family in families)
