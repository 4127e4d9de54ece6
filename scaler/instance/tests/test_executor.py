"""Executors: many models on one device, whose weights come and go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from gpu_pool import MIB, Gateway, Mirror, executor, program
from models import tiny_bert
from serving import HANGS_S, Answer, Client, at_once, wait_until

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tetris_instance import options
from tetris_instance.errors import ConfigurationError
from tetris_instance.executor.device import Device
from tetris_instance.executor.server import ExecutorServer

NAMES = ["a", "b", "c"]
IDS = [[2, 4, 5, 3]]
DOCUMENT = {
    "inputs": [
        {"name": name, "shape": [1, 4], "datatype": "INT64", "data": data}
        for name, data in (("input_ids", IDS[0]), ("attention_mask", [1] * 4))
    ]
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models of equal shape, with all but one layer in common."""
    folder = tmp_path_factory.mktemp("repository")
    base = transformers.BertModel.from_pretrained(tiny_bert(tmp_path_factory.mktemp("base")))
    for number, name in enumerate(NAMES):
        torch.manual_seed(number)
        torch.nn.init.normal_(base.encoder.layer[1].output.dense.weight)
        base.save_pretrained(folder / name)
    return folder


def expected(folder: Path) -> Any:
    model = transformers.BertModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        return model(input_ids=torch.tensor(IDS)).last_hidden_state.mean(dim=1).numpy()


def check(answer: Answer, folder: Path) -> None:
    assert answer.status == 200, answer
    found = np.array(answer.json()["outputs"][0]["data"], dtype=np.float32).reshape(1, -1)
    np.testing.assert_allclose(found, expected(folder), rtol=1e-5, atol=1e-6)


class FakeLease:
    """A lease that becomes resident when its test says so."""

    def __init__(self, device: FakeDevice) -> None:
        self._device = device
        self._closed = False

    @property
    def state(self) -> str:
        if self._closed:
            return "closed"
        return "resident" if self._device.arrived.is_set() else "loading"

    def wait(self, timeout: float | None = None) -> None:
        if self._device.full:
            raise RuntimeError("there is no room")
        if not self._device.arrived.wait(timeout):
            raise TimeoutError

    def close(self) -> None:
        self._closed = True
        self._device.leases -= 1


class FakeDevice(Device):
    """A device whose memory is the host's."""

    def __init__(self) -> None:
        super().__init__("simulated", "here")
        self.arrived = threading.Event()
        self.arrived.set()
        self.leases = 0
        self.prefetched: list[str] = []
        self.full = False

    def describe(self) -> dict[str, Any]:
        return {"uuid": "fake", "capacity_bytes": 1 << 30}

    def prefetch(self, path: Path, wait_s: float) -> FakeLease:
        self.leases += 1
        self.prefetched.append(path.name)
        return FakeLease(self)

    def map(self, path: Path) -> Any:
        from safetensors.torch import load_file

        return load_file(path / "model.safetensors")


class Serving:
    """An executor of this process."""

    def __init__(self, repository: Path, *arguments: str) -> None:
        self.device = FakeDevice()
        given = ["--model-repository", str(repository), "--device", "simulated", "--port", "0", "--cpus", "1"]
        self._server = ExecutorServer(options.parse([*given, *arguments], {}), self.device)
        self._thread = threading.Thread(target=self._server.run)

    def __enter__(self) -> Self:
        self._thread.start()
        self.client = Client(self._server.port())
        wait_until(lambda: self.client.ask("/v2/health/ready").status == 200, "readiness")
        return self

    def __exit__(self, *_: object) -> None:
        self.device.arrived.set()
        self._server.stop()
        self._thread.join(HANGS_S)

    def infer(self, name: str) -> Answer:
        return self.client.infer(DOCUMENT, f"/v2/models/{name}/infer")

    def states(self) -> dict[str, str]:
        return {model["name"]: model["state"] for model in self.client.ask("/v2/gpu").json()["models"]}

    def order(self, name: str, order: str) -> int:
        return self.client.ask(f"/v2/repository/models/{name}/{order}", b"").status


@pytest.fixture
def serving(store: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    monkeypatch.setenv("TETRIS_MIN_SHARED_BYTES", "0")
    with Serving(repository) as found:
        yield found


def test_weights_come_with_a_load_or_a_request_and_go_with_an_unload(serving: Serving, repository: Path) -> None:
    assert serving.states() == dict.fromkeys(NAMES, "absent")
    assert serving.order("a", "load") == 202
    assert serving.order("a", "load") == 202
    assert serving.states()["a"] == "resident"
    check(serving.infer("a"), repository / "a")
    check(serving.infer("b"), repository / "b")
    assert serving.device.prefetched == ["a", "b"]
    assert serving.order("a", "unload") == 200
    assert serving.states() == {"a": "absent", "b": "resident", "c": "absent"}
    assert serving.device.leases == 1
    check(serving.infer("a"), repository / "a")
    assert serving.client.ask("/v2/repository/index", b"").json()[2] == {
        "name": "c",
        "state": "UNAVAILABLE",
        "reason": "not on the device",
    }
    assert serving.order("z", "load") == 404


def test_the_only_version_of_a_model_may_be_named(serving: Serving, repository: Path) -> None:
    check(serving.client.infer(DOCUMENT, "/v2/models/a/versions/1/infer"), repository / "a")
    other = serving.client.infer(DOCUMENT, "/v2/models/a/versions/2/infer")
    assert (other.status, "serves `1`" in other.json()["error"]) == (404, True)


def test_a_load_does_not_wait_for_the_bytes_and_a_request_does(serving: Serving, repository: Path) -> None:
    serving.device.arrived.clear()
    assert serving.order("a", "load") == 202
    assert serving.states()["a"] == "loading"
    answers: list[Answer] = []
    asking = threading.Thread(target=lambda: answers.append(serving.infer("a")))
    asking.start()
    wait_until(lambda: serving.client.ask("/v2/gpu").json()["running"] == 1, "the request's turn")
    # An order to unload does not take weights from a request.
    assert serving.order("a", "unload") == 200
    serving.device.arrived.set()
    asking.join(HANGS_S)
    check(answers[0], repository / "a")
    wait_until(lambda: serving.states()["a"] == "absent", "the end of the lease")
    assert serving.device.leases == 0


def test_requests_run_one_at_a_time_and_their_weights_come_meanwhile(serving: Serving) -> None:
    serving.device.arrived.clear()
    asking = [threading.Thread(target=serving.infer, args=[name]) for name in NAMES]
    for one in asking:
        one.start()
    wait_until(lambda: serving.client.ask("/v2/gpu").json()["queued"] == 2, "two that wait")
    assert serving.client.ask("/v2/gpu").json()["running"] == 1
    wait_until(lambda: len(serving.device.prefetched) == 3, "three that were asked for")
    serving.device.arrived.set()
    for one in asking:
        one.join(HANGS_S)


def test_a_request_whose_weights_do_not_come_is_refused_and_the_next_one_asks_anew(
    serving: Serving, repository: Path
) -> None:
    serving.device.full = True
    answer = serving.infer("a")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert "there is no room" in answer.json()["error"]
    serving.device.full = False
    check(serving.infer("a"), repository / "a")


def test_models_in_common_have_parts_in_common(serving: Serving) -> None:
    page = serving.client.ask("/v2/gpu").json()
    a, b, _ = ({part["id"]: part["bytes"] for part in model["parts"]} for model in page["models"])
    assert len(a.keys() - b.keys()) == 1
    assert [model["bytes"] for model in page["models"]] == [sum(a.values())] * 3
    assert len({model["model"] for model in page["models"]}) == 3
    without = serving.client.ask("/v2/gpu?parts=false").json()["models"]
    assert all("parts" not in model for model in without)


def test_options_of_one_model_and_of_executors_do_not_mix(repository: Path) -> None:
    for arguments, says in (
        (["--model-repository", str(repository), "--batch", "2"], "--batch: not with --model-repository"),
        (["--model-repository", str(repository), "--engine", "onnxruntime"], "expects torch"),
        (["--model-repository", "/nowhere"], "expected a folder"),
        (["--model-path", "x", "--device", "cuda:0"], "--device: only with --model-repository"),
        ([], "expected --model-path"),
    ):
        with pytest.raises(ConfigurationError, match=says):
            options.parse(arguments, {})


def test_without_a_store_or_models_it_does_not_start(repository: Path, tmp_path: Path, store: Path) -> None:
    program("TETRIS_SIMULATED_MIRROR", "the example simulated of tetris-gpu-server")
    with executor(tmp_path, store / "gpu") as empty:
        assert empty.wait() == 1
        assert "without a folder" in empty.said()


def test_killed_executors_and_daemons_lose_no_request(repository: Path, store: Path, tmp_path: Path) -> None:
    """Two simulated devices with a mirror each, two executors, and the gateway, all of them
    processes.
    """
    sockets = [store / "gpu", store / "gpu2"]
    with Mirror(store, sockets[0], 64 * MIB), Mirror(store, sockets[1], 64 * MIB) as second:
        programs = [executor(repository, socket) for socket in sockets]
        try:
            ports = [program.ready_client().port for program in programs]
            with Gateway(tmp_path, ports, NAMES) as gateway:
                gateway.wait_for_executors(2)
                _ask_all(gateway, repository)

                programs[0].process.kill()
                programs[0].wait()
                # The other one has them, also those that had begun: the functions are idempotent.
                _ask_all(gateway, repository)
                gateway.wait_for_executors(1)

                programs[0] = executor(repository, sockets[0], port=ports[0])
                gateway.wait_for_executors(2)
                second.restart()
                # A daemon that has just ended may cost a request its weights: it is refused at once.
                _ask_all(gateway, repository, refusals=True)
                gateway.wait_for_executors(2)
                _ask_all(gateway, repository)
                loads = gateway.metric('tetris_gateway_gpu_dispatches_total{pool="main",hit="no"}')
                assert loads >= len(NAMES)
        finally:
            for one in programs:
                one.__exit__()


def test_the_gateway_gives_orders_with_a_token_at_their_own_port(repository: Path, store: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("the token of these orders\n")
    arguments = ("--orders-port", "0", "--orders-token-file", str(token))
    with Mirror(store, store / "gpu", 64 * MIB), executor(repository, store / "gpu", *arguments) as served:
        client = served.ready_client()
        (line,) = [line for line in served.said().splitlines() if line.startswith("orders on ")]
        orders = int(line.rpartition(":")[2])
        assert client.ask("/v2/gpu").status == 404 and Client(orders).ask("/v2/gpu").status == 403
        with Gateway(tmp_path, [client.port], NAMES, orders=([orders], token)) as gateway:
            gateway.wait_for_executors(1)
            _ask_all(gateway, repository)
            # Another token is read by both.
            token.write_text("another token of these orders\n")
            gateway.wait_for_executors(1)
            _ask_all(gateway, repository)
            wrong = tmp_path / "wrong"
            wrong.write_text("none of these orders' tokens")
        with Gateway(tmp_path, [client.port], NAMES, orders=([orders], wrong), wait="1s") as gateway:
            assert _ask(gateway, "a").status == 503
            token.write_text("none of these orders' tokens")
            gateway.wait_for_executors(1)
            _ask_all(gateway, repository)


def test_a_full_device_refuses_and_serves_again_when_there_is_room(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("TETRIS_SIMULATED_MIRROR", "the example simulated of tetris-gpu-server")
    import tetris.gpu

    repository = tmp_path / "repository"
    for number, name in enumerate(["a", "b"]):
        torch.manual_seed(number)
        config = transformers.BertConfig(
            vocab_size=64, hidden_size=256, num_hidden_layers=2, num_attention_heads=4, intermediate_size=1024
        )
        transformers.BertModel(config).save_pretrained(repository / name)
    socket = store / "gpu"
    # Two chunks: there is room for either model, and not for both.
    with (
        Mirror(store, socket, 8 * MIB),
        executor(repository, socket, "--load-timeout", "2") as served,
        Gateway(tmp_path, [served.ready_client().port], ["a", "b"]) as gateway,
    ):
        gateway.wait_for_executors(1)
        monkeypatch.setenv("TETRIS_GPU_SOCKET", str(socket))
        monkeypatch.setenv("TETRIS_MIN_SHARED_BYTES", "0")
        held = tetris.gpu.prefetch(repository / "b", "simulated", wait=HANGS_S)
        held.wait(HANGS_S)
        refused = _ask(gateway, "a")
        assert (refused.status, "Retry-After" in refused.headers) == (503, True)
        check(_ask(gateway, "b"), repository / "b")
        held.close()
        wait_until(lambda: _ask(gateway, "a").status == 200, "room")
        check(_ask(gateway, "a"), repository / "a")


def _ask(gateway: Gateway, name: str) -> Answer:
    return gateway.client.infer(DOCUMENT, f"/functions/{name}/v2/models/{name}/infer")


def _ask_all(gateway: Gateway, repository: Path, refusals: bool = False) -> None:
    """Send requests for all functions at the same time, and check each answer."""
    for name, answer in at_once(lambda name: _ask(gateway, name), NAMES * 4):
        if refusals and answer.status == 503:
            assert "Retry-After" in answer.headers
        else:
            check(answer, repository / name)
