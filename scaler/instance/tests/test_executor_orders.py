"""Orders of an executor: a port and a token of their own."""

from __future__ import annotations

import http.client
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self, cast

import pytest
from serving import HANGS_S, Answer, Client, wait_until

pytest.importorskip("torch")

from tetris_instance import options
from tetris_instance.errors import ConfigurationError
from tetris_instance.executor.device import Device
from tetris_instance.executor.model import ServedModel
from tetris_instance.executor.runner import Runner
from tetris_instance.executor.server import ExecutorServer
from tetris_instance.executor.token import Token

TOKEN = "a token of 24 characters"
ORDERS = [
    ("GET", "/v2/gpu"),
    ("POST", "/v2/repository/index"),
    ("POST", "/v2/repository/models/a/load"),
    ("POST", "/v2/repository/models/a/unload"),
]


class FakeModel:
    """A model that counts its orders."""

    name = "a"

    def __init__(self) -> None:
        self.orders: list[str] = []

    def load(self) -> None:
        self.orders.append("load")

    def unload(self) -> None:
        self.orders.append("unload")

    def state(self) -> str:
        return "absent"

    def document(self, with_parts: bool) -> dict[str, Any]:
        return {"name": self.name, "state": "absent"}


class FakeDevice(Device):
    def __init__(self) -> None:
        super().__init__("simulated", "here")

    def describe(self) -> dict[str, Any]:
        return {"uuid": "fake"}


class Server(ExecutorServer):
    """An executor without PyTorch's models."""

    def __init__(self, *arguments: str) -> None:
        self.model = FakeModel()
        super().__init__(options.parse(list(arguments), {}), FakeDevice())

    def _prepare(self) -> None:
        self._runner = Runner(1, 1, self._metrics, lambda: None)
        self._app.set_ready({"a": cast(ServedModel, self.model)}, self._runner)


class Serving:
    """Such an executor, in a thread."""

    def __init__(self, *arguments: str) -> None:
        self.server = Server("--port", "0", "--cpus", "1", *arguments)
        self._thread = threading.Thread(target=self.server.run)

    def __enter__(self) -> Self:
        self._thread.start()
        self.client = Client(self.server.port())
        wait_until(lambda: self.client.ask("/v2/health/ready").status == 200, "readiness")
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()
        self._thread.join(HANGS_S)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return path


@pytest.fixture
def serving(tmp_path: Path, token: Path) -> Iterator[Serving]:
    with Serving("--model-repository", str(tmp_path), "--orders-port", "0", "--orders-token-file", str(token)) as found:
        yield found


@pytest.fixture
def orders(serving: Serving) -> Client:
    return Client(serving.server.orders_port())


def ask(client: Client, method: str, path: str, authorization: str | None, **headers: str) -> Answer:
    given = {**headers, **({} if authorization is None else {"Authorization": authorization})}
    return client.ask(path, b"" if method == "POST" else None, given)


@pytest.mark.parametrize(("method", "path"), ORDERS)
def test_the_port_of_requests_takes_no_orders(serving: Serving, orders: Client, method: str, path: str) -> None:
    for host in ("x", f"127.0.0.1:{orders.port}"):
        for authorization in (None, f"Bearer {TOKEN}"):
            answer = ask(serving.client, method, path, authorization, Host=host)
            assert answer.status == 404, answer
    # As it is for a path that there is not.
    assert ask(serving.client, method, "/v2/none", None).status == 404
    assert serving.server.model.orders == []


@pytest.mark.parametrize(("method", "path"), ORDERS)
def test_orders_need_the_token(serving: Serving, orders: Client, method: str, path: str) -> None:
    wrong = [
        None, "", "Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}",
        "Bearer " + "x" * len(TOKEN), "Bearer \xe9", f"Bearer {TOKEN} {TOKEN}",
    ]  # fmt: skip
    for authorization in wrong:
        answer = ask(orders, method, path, authorization)
        assert answer.status == 403 and set(answer.json()) == {"error"} and TOKEN not in str(answer.body)
    assert serving.server.model.orders == []
    assert ask(orders, method, path, f"Bearer {TOKEN}").status in (200, 202)
    assert ask(orders, method, path, f"bearer  {TOKEN} ").status in (200, 202)


def test_the_port_of_orders_takes_no_requests_and_says_nothing_to_strangers(orders: Client) -> None:
    for path in ("/v2", "/metrics", "/v2/health/ready", "/v2/models/a", "/v2/none"):
        assert ask(orders, "GET", path, None).status == 403
        assert ask(orders, "GET", path, f"Bearer {TOKEN}").status == 404
    assert ask(orders, "POST", "/v2/models/a/infer", f"Bearer {TOKEN}").status == 404


def test_the_token_is_read_again_when_its_file_changes(orders: Client, token: Path) -> None:
    def status(of: str) -> int:
        return ask(orders, "GET", "/v2/gpu", f"Bearer {of}").status

    # In place, by a rename as kubelet does, and with the same length.
    other = TOKEN.replace("a token", "another")
    token.write_text(other)
    assert (status(TOKEN), status(other)) == (403, 200)
    staged = token.with_name("staged")
    staged.write_text(TOKEN)
    staged.rename(token)
    assert (status(TOKEN), status(other)) == (200, 403)
    # Without a token there is none to have.
    for broken in (b"", b" \n", b"short", b"x" * 5000):
        token.write_bytes(broken)
        assert (status(TOKEN), status("")) == (403, 403)
        assert ask(orders, "GET", "/v2/gpu", "Bearer " + broken.decode().strip()).status == 403
    token.unlink()
    assert (status(TOKEN), status("")) == (403, 403)
    os.mkfifo(token)
    assert (status(TOKEN), status("")) == (403, 403)
    token.unlink()
    token.write_text(TOKEN)
    assert status(TOKEN) == 200


def test_comparing_tokens_takes_the_whole_token(token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import hmac

    compared: list[tuple[bytes, bytes]] = []
    same = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append((a, b)) or same(a, b))
    found = Token(token)
    assert found.allows(f"Bearer {TOKEN}") and not found.allows("Bearer x") and not found.allows(None)
    assert [b for _, b in compared] == [TOKEN.encode()] * 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--orders-port", "0"], "--orders-token-file is missing"),
        (["--orders-token-file", "TOKEN"], "--orders-port is missing"),
        (["--orders-host", "127.0.0.1"], "--orders-host: only with --orders-port"),
        (["--orders-port", "x", "--orders-token-file", "TOKEN"], "--orders-port is 'x'"),
        (["--orders-port", "0", "--orders-token-file", "/no/such/token"], "--orders-token-file is /no/such/token"),
        (["--orders-port", "0", "--orders-token-file", "EMPTY"], "expected a file with 16 to 4096 bytes"),
        # Who reaches the port would be obeyed.
        (["--host", "0.0.0.0"], "strangers could give orders"),
        (["--host", "::"], "strangers could give orders"),
        (["--host", "10.1.2.3"], "strangers could give orders"),
    ],
)
def test_an_executor_does_not_start_with_orders_for_anybody(
    tmp_path: Path, token: Path, arguments: list[str], says: str
) -> None:
    (tmp_path / "empty").write_text("\n")
    places = {"TOKEN": str(token), "EMPTY": str(tmp_path / "empty")}
    with pytest.raises(ConfigurationError, match=says):
        Server("--model-repository", str(tmp_path), *[places.get(argument, argument) for argument in arguments])


def test_orders_have_no_port_of_a_server_of_one_model(token: Path) -> None:
    with pytest.raises(ConfigurationError, match="only with --model-repository"):
        options.parse(["--model-path", "/m", "--orders-port", "1", "--orders-token-file", str(token)], {})


def test_on_a_loopback_address_orders_may_come_where_requests_do(tmp_path: Path) -> None:
    with Serving("--model-repository", str(tmp_path)) as serving:
        for method, path in ORDERS:
            assert ask(serving.client, method, path, None).status in (200, 202)
        assert serving.server.model.orders == ["load", "unload"]


def test_a_connection_of_requests_stays_one(serving: Serving, orders: Client) -> None:
    kept = http.client.HTTPConnection("127.0.0.1", serving.client.port, timeout=HANGS_S)
    try:
        for path, status in (("/v2", 200), ("/v2/gpu", 404), ("/v2", 200)):
            kept.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}", "Host": f"127.0.0.1:{orders.port}"})
            answer = kept.getresponse()
            answer.read()
            assert answer.status == status
    finally:
        kept.close()
