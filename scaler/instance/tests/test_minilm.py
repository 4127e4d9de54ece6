"""all-MiniLM-L6-v2 with both engines, in real processes: correct embeddings, from one copy of the
weights.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel import held, smaps
from models import MINILM_BYTES, minilm
from programs import Program
from serving import HANGS_S, Answer, Client

pytest.importorskip("torch")

TOKENS = [
    [101, 7592, 2088, 102],
    [101, 2028, 6100, 1997, 2296, 23435, 102],
    [101, 102],
]
#: Exports the folder with the mean in the graph. Runs in a separate process, as the exporter leaves
#: much behind.
EXPORT = """
import sys, torch, transformers

class Network(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, ids, mask):
        hidden = self.inner(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * weights).sum(dim=1) / weights.sum(dim=1)

inner = transformers.BertModel.from_pretrained(sys.argv[1], attn_implementation="eager")
ids = torch.arange(32).reshape(2, 16) + 2000
rows, both = {0: "batch"}, {0: "batch", 1: "sequence"}
torch.onnx.export(
    Network(inner).eval(), (ids, torch.ones_like(ids)), sys.argv[2], dynamo=False, opset_version=17,
    input_names=["input_ids", "attention_mask"], output_names=["embedding"],
    dynamic_axes={"input_ids": both, "attention_mask": both, "embedding": rows},
)
"""
#: Prints the embeddings of transformers itself.
DIRECT = """
import json, sys, torch, transformers

model = transformers.BertModel.from_pretrained(sys.argv[1]).eval()
with torch.inference_mode():
    states = [model(input_ids=torch.tensor([row])).last_hidden_state[0] for row in json.loads(sys.argv[2])]
print(json.dumps([one.mean(dim=0).tolist() for one in states]))
"""


def python(program: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=2 * HANGS_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return minilm(tmp_path_factory.mktemp("all-MiniLM-L6-v2"))


@pytest.fixture(scope="module")
def onnx_file(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    path = tmp_path_factory.mktemp("onnx") / "all-MiniLM-L6-v2.onnx"
    python(EXPORT, folder, path)
    return path


@pytest.fixture(scope="module")
def expected(folder: Path) -> list[list[float]]:
    import json

    found: list[list[float]] = json.loads(python(DIRECT, folder, json.dumps(TOKENS)))
    return found


@pytest.fixture(params=["torch", "onnxruntime"])
def model(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue("folder" if request.param == "torch" else "onnx_file")
    return path


def infer(client: Client, rows: list[list[int]]) -> Answer:
    """Ask for rows, padded to the longest."""
    length = max(map(len, rows))
    ids = [[*row, *[0] * (length - len(row))] for row in rows]
    mask = [[*[1] * len(row), *[0] * (length - len(row))] for row in rows]
    tensors = {"input_ids": ids, "attention_mask": mask}
    inputs = [
        {"name": name, "shape": [len(rows), length], "datatype": "INT64", "data": data}
        for name, data in tensors.items()
    ]
    return client.infer({"inputs": inputs})


def embeddings(answer: Answer) -> list[list[float]]:
    assert answer.status == 200, answer
    [output] = answer.json()["outputs"]
    assert (output["name"], output["datatype"], output["shape"][1:]) == ("embedding", "FP32", [384])
    data = output["data"]
    return [data[begin : begin + 384] for begin in range(0, len(data), 384)]


def assert_close(found: list[list[float]], wanted: list[list[float]]) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one == pytest.approx(other, rel=1e-3, abs=2e-5)


def start(model: Path, *arguments: str) -> Program:
    given = ["--model-path", str(model), "--model-name", "minilm", "--port", "0", "--cpus", "1", *arguments]
    return Program(given, "minilm")


def in_threads(*calls: Callable[[], Any]) -> list[Any]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(HANGS_S) for future in [pool.submit(call) for call in calls]]


def test_embeddings_are_those_of_transformers_alone_and_in_batches(
    store: Path, model: Path, expected: list[list[float]]
) -> None:
    with start(model, "--batch", "3", "--batch-wait-millis", "60000", "--concurrency", "2") as server:
        client = server.ready_client()
        assert_close(embeddings(infer(client, TOKENS)), expected)
        # Rows of three clients, with different lengths, share one run.
        before = client.metric("tetris_instance_batch_rows_count")
        answers = in_threads(*[lambda row=row: infer(client, [row]) for row in TOKENS])
        assert [len(embeddings(answer)) for answer in answers] == [1, 1, 1]
        assert_close([embeddings(answer)[0] for answer in answers], expected)
        assert client.metric("tetris_instance_batch_rows_count") == before + 1
        # More than a batch.
        assert_close(embeddings(infer(client, TOKENS * 3)), expected * 3)


def test_two_servers_hold_one_copy_and_leave_nothing_behind(store: Path, model: Path) -> None:
    with start(model) as first, start(model) as second:
        clients = [first.ready_client(), second.ready_client()]
        answers = [embeddings(infer(client, TOKENS)) for client in clients]
        assert answers[0] == answers[1]
        shared = [client.metric('tetris_instance_model_bytes{memory="shared"}') for client in clients]
        private = [client.metric('tetris_instance_model_bytes{memory="private"}') for client in clients]
        assert shared[0] == shared[1] >= MINILM_BYTES
        assert max(private) < 1 << 20
        pages = [smaps(store, server.pid) for server in (first, second)]
        # Half of the bytes are embeddings of unused words; ONNX Runtime never touches their pages.
        assert all(page["Rss"] >= 0.3 * shared[0] for page in pages), pages
        # Shared pages exist once, and neither process has private copies.
        assert sum(page["Pss"] for page in pages) <= 1.1 * shared[0], pages
        assert all(page["Anonymous"] == 0 for page in pages), pages
        assert held(store)
        for server in (first, second):
            server.terminate()
            assert server.wait() == 0, server.said()
        assert not held(store)


def test_without_a_store_it_serves_from_private_memory(folder: Path, expected: list[list[float]]) -> None:
    with start(folder) as server:
        client = server.ready_client()
        assert_close(embeddings(infer(client, TOKENS)), expected)
        assert client.metric('tetris_instance_model_bytes{memory="shared"}') == 0
        assert client.metric('tetris_instance_model_bytes{memory="private"}') >= MINILM_BYTES
