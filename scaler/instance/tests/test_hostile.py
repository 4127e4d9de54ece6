"""Hostile bodies. After each of them the server answers the next request."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterator

import pytest
from fakes import FakeEngine
from serving import Answer, Client, Serving, wait_until

from tetris_instance import body

LIMIT = 1 << 16
TENSOR = b'{"inputs":[{"name":"values","datatype":"INT64","shape":%s,"data":%s}]}'

BODIES: dict[str, tuple[bytes, int, str]] = {
    "nothing": (b"", 400, "not JSON"),
    "no JSON": (b"hello", 400, "not JSON"),
    "half": (b'{"inputs":[{', 400, "not JSON"),
    "not UTF-8": (b'{"id":"\xff"}', 400, "not UTF-8"),
    "UTF-16": ('{"inputs":[]}'.encode("utf-16"), 400, "not UTF-8"),
    "nulls": (b"\0" * 100, 400, "not JSON"),
    "deep arrays": (b"[" * 50_000, 400, ""),
    "deep arrays that end": (b"[" * 25_000 + b"]" * 25_000, 400, ""),
    "deep objects": (b'{"a":' * 10_000, 400, ""),
    "deep data": (TENSOR % (b"[1,1]", b"[" * 900 + b"1" + b"]" * 900), 400, ""),
    "a number": (b"1", 400, "the body is 1; expected an object"),
    "an array": (b"[]", 400, "the body is an array of 0; expected an object"),
    "null": (b"null", 400, "the body is None; expected an object"),
    "not a number": (TENSOR % (b"[1,1]", b"[NaN]"), 400, "NaN is not a JSON number"),
    "infinity": (TENSOR % (b"[1,1]", b"[-Infinity]"), 400, "-Infinity is not a JSON number"),
    "a long number": (TENSOR % (b"[1,1]", b"[" + b"9" * 20_000 + b"]"), 400, ""),
    "a number of 4,000 digits": (TENSOR % (b"[1,1]", b"[" + b"9" * 4_000 + b"]"), 400, "does not fit"),
    "a large number": (TENSOR % (b"[1,1]", b"[1e999999999]"), 400, "expects integers"),
    "a huge shape": (TENSOR % (b"[9223372036854775807,9223372036854775807]", b"[1]"), 400, "at most 2^40"),
    "a huge empty shape": (TENSOR % (b"[9223372036854775807,0]", b"[]"), 400, "at most 2^40"),
    "a shape that wraps": (TENSOR % (b"[4294967296,4294967296]", b"[]"), 400, "at most 2^40"),
    "a shape of 4,000 digits": (TENSOR % (b"[" + b"9" * 4_000 + b",1]", b"[1]"), 400, "2^63 - 1"),
    "a negative shape": (TENSOR % (b"[-1,-1]", b"[1]"), 400, "2^63 - 1"),
    "a shape of booleans": (TENSOR % (b"[true,true]", b"[1]"), 400, "2^63 - 1"),
    "a shape of floats": (TENSOR % (b"[1.0,1.0]", b"[1]"), 400, "2^63 - 1"),
    "many axes": (TENSOR % (b"[" + b"1," * 5_000 + b"1]", b"[1]"), 400, "at most 16"),
    "many rows": (TENSOR % (b"[20000,1]", b"[" + b"1," * 19_999 + b"1]"), 413, "20000 rows"),
    "many inputs": (b'{"inputs":[' + b"{}," * 10_000 + b"{}]}", 400, "inputs[0].name is None"),
    "long names": (b'{"inputs":[{"name":"' + b"x" * 50_000 + b'"}]}', 400, "inputs[0].name is 'xxx"),
    "too large": (b" " * (LIMIT + 1), 413, f"expected at most {LIMIT}"),
}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Serving(FakeEngine(), "--max-body-mib", str(LIMIT / 2**20)) as serving:
        yield serving.client


def assert_serves(client: Client) -> None:
    assert client.values([[1, 2]]).json()["outputs"][0]["data"] == [3]


@pytest.mark.parametrize("name", BODIES)
def test_hostile_bodies_get_an_error(client: Client, name: str) -> None:
    sent, status, message = BODIES[name]
    answer = client.ask(client.infer_path, sent)
    assert answer.status == status, answer
    assert message in answer.json()["error"]
    assert len(answer.body) < 1000
    assert_serves(client)


def test_random_changes_to_a_request_get_an_answer(client: Client) -> None:
    valid = TENSOR % (b"[2,2]", b"[[1,2],[3,4]]")
    source = random.Random(7)
    for _ in range(300):
        changed = bytearray(valid)
        for _ in range(source.randint(1, 4)):
            at = source.randrange(len(changed))
            choice = source.random()
            if choice < 0.4:
                changed[at] = source.randrange(256)
            elif choice < 0.7:
                del changed[at : at + source.randint(1, 8)]
            else:
                changed[at:at] = source.choice(
                    [b"[", b"]", b"{", b'"', b"-", b"1e9", b"null", b",", b"\\u0000", b"9" * 30]
                )
        answer = client.ask(client.infer_path, bytes(changed))
        assert answer.status in (200, 400, 413, 500), answer
        assert ("error" in answer.json()) == (answer.status != 200)
        if answer.status == 500:
            # An error of the model only, not of the server.
            assert answer.json()["error"].startswith("the model failed"), answer
    assert_serves(client)


def raw(client: Client, *parts: bytes) -> bytes:
    """Send bytes, close the sending side, and return the response."""
    with socket.create_connection(("127.0.0.1", client.port), timeout=60) as connection:
        try:
            for part in parts:
                connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has answered already
        found = b""
        try:
            while piece := connection.recv(1 << 16):
                found += piece
        except ConnectionResetError:
            pass
        return found


def post(client: Client, *headers: str) -> bytes:
    lines = [f"POST {client.infer_path} HTTP/1.1", "Host: x", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode()


def test_a_declared_size_is_refused_before_the_body_comes(client: Client) -> None:
    assert b" 413 " in raw(client, post(client, f"Content-Length: {LIMIT + 1}"))
    assert b" 413 " in raw(client, post(client, "Content-Length: 9999999999999999999"))
    assert_serves(client)


def test_a_body_in_chunks_is_counted(client: Client) -> None:
    chunk = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
    assert b" 413 " in raw(client, post(client, "Transfer-Encoding: chunked"), chunk * 20, b"0\r\n\r\n")
    assert_serves(client)


def test_what_is_no_http_is_refused(client: Client) -> None:
    for bytes_ in (b"\x16\x03\x01" + b"\0" * 100, b"GET\r\n\r\n", b"POST /v2 HTTP/1.1\r\nContent-Length: -1\r\n\r\n"):
        assert b" 400 " in raw(client, bytes_)
    assert b" 4" in raw(client, b"GET /v2 HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n")
    assert_serves(client)


def test_an_encoded_body_is_refused(client: Client) -> None:
    answer = client.ask(client.infer_path, b"{}", {"Content-Encoding": "gzip"})
    assert (answer.status, answer.json()) == (415, {"error": "Content-Encoding is 'gzip'; expected none"})


def test_a_client_that_leaves_within_its_request_is_no_error(client: Client) -> None:
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", client.port), timeout=60) as connection:
            connection.sendall(post(client, "Content-Length: 100") + b'{"inputs"')
    assert_serves(client)


def test_errors_are_documents_whatever_the_path(client: Client) -> None:
    for path in ("/v2/models/" + "x" * 5000, "/v2/models/%00/ready", "/v2/models/%ff%fe", "/%2e%2e/etc/passwd", "//"):
        answer: Answer = client.ask(path)
        assert answer.status == 404, answer
        assert set(answer.json()) == {"error"}
    assert_serves(client)


def test_bodies_together_are_bounded(client: Client) -> None:
    before = client.metric('tetris_instance_requests_total{code="503"}')
    # Nine bodies without their last byte, with room for eight whole ones.
    connections = [socket.create_connection(("127.0.0.1", client.port), timeout=60) for _ in range(9)]
    try:
        for connection in connections:
            connection.sendall(post(client, f"Content-Length: {LIMIT}") + b" " * (LIMIT - 1))
        wait_until(
            lambda: client.metric('tetris_instance_requests_total{code="503"}') == before + 1, "one to be refused"
        )
        statuses = []
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.sendall(b" ")
            statuses.append(connection.recv(12))
        # The others are read to their end, and are not JSON.
        assert sorted(statuses) == [b"HTTP/1.1 400"] * 8 + [b"HTTP/1.1 503"]
    finally:
        for connection in connections:
            connection.close()
    assert_serves(client)


def test_a_body_that_does_not_come_is_not_waited_for(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "_READ_S", 0.05)
    with socket.create_connection(("127.0.0.1", client.port), timeout=60) as connection:
        connection.sendall(post(client, "Content-Length: 10") + b"12345")
        assert connection.recv(12) == b"HTTP/1.1 408"
    assert_serves(client)
