"""Clients that make no progress, and many at once: what they hold is free after a time, and others are served."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import FakeEngine, Gate
from serving import HANGS_S, Client, Serving, values_request, wait_until

from tetris_instance import body, connection, protocol, request
from tetris_instance.connection import Connection, Reading
from tetris_instance.errors import RequestError
from tetris_instance.memory import Budget, memory_limit

LONG_S = 1e9


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No limit of time but the test's own: a test that passes has seen this one."""
    for name in ("HEAD_S", "READ_S"):
        monkeypatch.setattr(connection, name, LONG_S)
    for name in ("_READ_S", "_PROGRESS_S"):
        monkeypatch.setattr(body, name, LONG_S)


@pytest.fixture
def serving() -> Iterator[Serving]:
    with Serving(FakeEngine()) as made:
        yield made


def assert_serves(client: Client) -> None:
    assert client.values([[1, 2]]).json()["outputs"][0]["data"] == [3]


def open_connections(serving: Serving) -> list[Connection]:
    return [
        connection for connection in serving.server._http.server_state.connections if isinstance(connection, Connection)
    ]


def connect(client: Client, sent: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", client.port), timeout=HANGS_S)
    made.sendall(sent)
    return made


def is_closed(connected: socket.socket) -> bool:
    """Wait until the server closes a connection, after the rest of an earlier answer."""
    try:
        while connected.recv(1 << 16):
            pass
        return True
    except ConnectionResetError:
        return True


def without_reading(client: Client) -> socket.socket:
    """Ask for an answer of some megabytes, which is more than the kernel keeps, and do not read it."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(HANGS_S)
    made.connect(("127.0.0.1", client.port))
    text = json.dumps(values_request([[10**15] * 300_000])).encode()
    made.sendall(f"POST {client.infer_path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
    return made


@pytest.mark.parametrize("sent", [b"", b"GET /v2 HT", b"GET /v2 HTTP/1.1\r\nHost: x\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 0.2)
    with connect(serving.client, sent) as connected:
        assert is_closed(connected)
    assert_serves(serving.client)


def test_the_next_head_on_a_connection_is_not_waited_for_either(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    with connect(serving.client, head) as connected:
        assert connected.recv(1 << 16).startswith(b"HTTP/1.1 200")
        wait_until(lambda: len(open_connections(serving)) == 1, "the earlier ones to close")
        # Between requests it may be idle, as connections of proxies are.
        (known,) = open_connections(serving)
        assert known._head_since is None and not known.has_stalled(time.monotonic() + 2 * LONG_S)
        monkeypatch.setattr(connection, "HEAD_S", 0.2)
        connected.sendall(head[:20])
        assert is_closed(connected)
    with connect(serving.client, head + head[:20]) as connected:
        assert connected.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert is_closed(connected)


def test_a_client_that_does_not_read_holds_its_answer_for_a_time(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    with without_reading(serving.client):
        wait_until(
            lambda: any(connection.unread for connection in open_connections(serving)),
            "an answer that is not read",
        )
        assert_serves(serving.client)
        monkeypatch.setattr(connection, "READ_S", 0.2)
        wait_until(lambda: not open_connections(serving), "its connection to be closed")
    assert serving.client.metric("tetris_instance_requests_in_flight") == 0


def test_a_client_that_reads_slowly_is_answered(serving: Serving) -> None:
    # Progress by the clock of the test: at each look it has taken enough, or not.
    with without_reading(serving.client) as connected:
        wait_until(
            lambda: any(connection.unread for connection in open_connections(serving)),
            "an answer that is not read",
        )
        (slow,) = [connection for connection in open_connections(serving) if connection.unread]
        assert not slow.has_stalled(0.0) and not slow.has_stalled(LONG_S - 1)
        before = slow.unread
        while before - slow.unread < connection.LEAST_BYTES:
            assert connected.recv(1 << 16)
        assert not slow.has_stalled(LONG_S + 1)


def test_a_client_must_take_enough_in_time() -> None:
    reading, enough = Reading(), connection.LEAST_BYTES
    assert not reading.has_stalled(10 * enough, 0.0)
    # Too little, until the time is over.
    assert not reading.has_stalled(9 * enough + 1, LONG_S)
    assert reading.has_stalled(9 * enough + 1, LONG_S + 1)
    # Enough: its time begins again.
    assert not reading.has_stalled(9 * enough, LONG_S + 1)
    assert not reading.has_stalled(8 * enough + 1, 2 * LONG_S + 1)
    assert reading.has_stalled(8 * enough + 1, 2 * LONG_S + 2)
    # All of it, and a longer answer after it.
    assert not reading.has_stalled(0, 2 * LONG_S + 2)
    assert not reading.has_stalled(enough, 9 * LONG_S)


def test_answers_that_are_not_read_are_bounded_together(serving: Serving) -> None:
    serving.server._http._connections._unread_bytes = 1 << 30
    with without_reading(serving.client), without_reading(serving.client):
        wait_until(
            lambda: sum(connection.unread > 0 for connection in open_connections(serving)) == 2,
            "two unread answers",
        )
        largest = max(connection.unread for connection in open_connections(serving))
        serving.server._http._connections._unread_bytes = largest
        # The larger of the two, and no more.
        wait_until(lambda: len(open_connections(serving)) == 1, "one to be closed")
        assert_serves(serving.client)
        assert sum(connection.unread > 0 for connection in open_connections(serving)) == 1


def test_connections_are_bounded(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_CONNECTIONS", 4)
    wait_until(lambda: not open_connections(serving), "the earlier ones to close")
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(connect(serving.client)) for _ in range(4)]
        wait_until(lambda: len(open_connections(serving)) == 4, "all to be open")
        with connect(serving.client) as refused:
            assert is_closed(refused)
        assert len(open_connections(serving)) == 4
        kept[0].close()
        wait_until(lambda: len(open_connections(serving)) == 3, "one to be closed")
        assert_serves(serving.client)


def test_a_body_that_makes_no_progress_is_not_waited_for(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "_PROGRESS_S", 0.2)
    head = f"POST {serving.client.infer_path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n".encode()
    with connect(serving.client, head + b" " * (body._LEAST_BYTES - 1)) as connected:
        assert connected.recv(12) == b"HTTP/1.1 408"
    assert_serves(serving.client)


def test_tensors_of_waiting_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    monkeypatch.setattr(protocol, "memory_limit", lambda: 40_000)
    with Serving(FakeEngine(before=gate), "--max-body-mib", "0.01") as serving:
        # 8,000 bytes each, of 10,000 in all.
        first = serving.client.start_values([[2] * 1000])
        gate.wait_for_run()
        refused = serving.client.values([[2] * 1000])
        assert refused.status == 503 and refused.headers["Retry-After"] == "1"
        assert refused.json() == {"error": "the tensors of all requests have 8000 bytes already"}
        gate.open(2)
        assert first.result(HANGS_S).status == 200
        assert serving.client.values([[2] * 1000]).status == 200
        assert serving.client.values([[2] * 2000]).status == 413


def test_a_budget_has_room_again_whatever_happens() -> None:
    budget = Budget(10, "the tensors")
    with pytest.raises(KeyError), budget.hold(10):
        with pytest.raises(RequestError, match="have 10 bytes already"), budget.hold(1):
            pass
        raise KeyError
    with budget.hold(10):
        pass
    with pytest.raises(RequestError, match="at most 10"), budget.hold(11):
        pass


def test_arrays_are_counted_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request.json, "loads", lambda *_, **__: pytest.fail("it was parsed"))
    with pytest.raises(RequestError, match="expected at most 131072"):
        request._json(b"[" + b"[]," * 2**17 + b"0]")


def test_the_limit_of_memory_is_that_of_the_closest_cgroups(tmp_path: Path) -> None:
    cgroups, own = tmp_path / "cgroup", tmp_path / "own"
    folder = cgroups / "pod" / "container"
    folder.mkdir(parents=True)
    own.write_text("0::/pod/container\n")
    machine = memory_limit(cgroups, tmp_path / "none")
    assert machine > 1 << 20
    (folder / "memory.max").write_text("max\n")
    assert memory_limit(cgroups, own) == machine
    (cgroups / "pod" / "memory.max").write_text("1048576\n")
    assert memory_limit(cgroups, own) == 1048576
    (folder / "memory.max").write_text("4096\n")
    assert memory_limit(cgroups, own) == 4096
