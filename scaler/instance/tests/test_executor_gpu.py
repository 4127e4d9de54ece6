"""An executor on a GPU, as a process: with the store of a daemon that has a mirror, which `TETRIS_GPU_STORE` names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs import Program
from serving import Answer, Client, at_once, wait_until

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

#: Before the tests' environment is cleared.
STORE = os.environ.get("TETRIS_GPU_STORE")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(STORE is None, reason="TETRIS_GPU_STORE names no store whose daemon has a mirror"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch has no GPU"),
]

DEVICE = "cuda:0"
NAMES = [f"encoder-{number}" for number in range(6)]
IDS = np.random.default_rng(1).integers(5, 4000, (1, 48))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Encoders of 200 MB with all but one matrix in common."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("repository")
    base = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=4096, hidden_size=1024, num_hidden_layers=4, num_attention_heads=16, intermediate_size=4096
        )
    )
    for name in NAMES:
        torch.nn.init.normal_(base.encoder.layer[3].output.dense.weight, std=0.02)
        base.save_pretrained(folder / name)
    return folder


@pytest.fixture(scope="module")
def expected(repository: Path) -> dict[str, Any]:
    """Answers of PyTorch on the CPU."""
    answers = {}
    for name in NAMES:
        model = transformers.BertModel.from_pretrained(repository / name).eval()
        with torch.inference_mode():
            answers[name] = model(input_ids=torch.tensor(IDS)).last_hidden_state.mean(dim=1).numpy()
    return answers


@pytest.fixture
def start(repository: Path) -> Iterator[Callable[[], Program]]:
    """Start executors, which end with the test."""
    started: list[Program] = []

    def one() -> Program:
        assert STORE is not None
        given = ["--model-repository", str(repository), "--device", DEVICE, "--port", "0"]
        started.append(Program(given, TETRIS_STORE=STORE))
        return started[-1]

    yield one
    for program in started:
        program.__exit__()


def ask(client: Client, name: str) -> Answer:
    inputs = {"input_ids": IDS, "attention_mask": np.ones_like(IDS)}
    document = {
        "inputs": [
            {"name": key, "shape": list(values.shape), "datatype": "INT64", "data": values.ravel().tolist()}
            for key, values in inputs.items()
        ]
    }
    return client.infer(document, f"/v2/models/{name}/infer")


def check(answer: Answer, expected: Any) -> None:
    assert answer.status == 200, answer
    found = np.array(answer.json()["outputs"][0]["data"], dtype=np.float32).reshape(1, -1)
    # The GPU sums in another order.
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def check_all(client: Client, expected: dict[str, Any]) -> None:
    """Ask for all models at the same time, three times each."""
    for name, answer in at_once(lambda name: ask(client, name), NAMES * 3):
        check(answer, expected[name])


def models(client: Client) -> dict[str, Any]:
    return {model["name"]: model for model in client.ask("/v2/gpu").json()["models"]}


def test_many_models_share_a_gpu_and_their_weights_come_and_go(
    start: Callable[[], Program], expected: dict[str, Any]
) -> None:
    client = start().ready_client()
    page = client.ask("/v2/gpu").json()
    assert page["bytes_per_second"] > 1e9
    assert {model["state"] for model in page["models"]} == {"absent"}
    free = page["free_bytes"]
    check_all(client, expected)
    assert {model["state"] for model in models(client).values()} == {"resident"}
    length = next(iter(models(client).values()))["bytes"]
    taken = free - client.ask("/v2/gpu").json()["free_bytes"]
    assert taken < 2 * length, "each model has all of the bytes in common"
    for name in NAMES:
        assert client.ask(f"/v2/repository/models/{name}/unload", b"").status == 200
    wait_until(lambda: {model["state"] for model in models(client).values()} == {"absent"}, "the end of the leases")
    check(ask(client, NAMES[0]), expected[NAMES[0]])


def test_an_executor_that_is_killed_leaves_its_weights_to_the_next(
    start: Callable[[], Program], expected: dict[str, Any]
) -> None:
    first = start()
    check_all(first.ready_client(), expected)
    first.process.kill()
    first.wait()
    client = start().ready_client()
    check_all(client, expected)
