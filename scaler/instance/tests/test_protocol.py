"""The Open Inference Protocol v2 over HTTP, against handwritten documents."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from fakes import PADDED, POISON, REFUSED, FakeEngine
from serving import Client, Serving, values_request

import tetris_instance

MODEL = {
    "name": "fake",
    "versions": ["1"],
    "platform": "fake",
    "inputs": [{"name": "values", "datatype": "INT64", "shape": [-1, -1]}],
    "outputs": [
        {"name": "sum", "datatype": "INT64", "shape": [-1]},
        {"name": "twice", "datatype": "INT64", "shape": [-1, -1]},
    ],
}
SUM = {"name": "sum", "shape": [2], "datatype": "INT64", "data": [3, 7]}
TWICE = {"name": "twice", "shape": [2, 2], "datatype": "INT64", "data": [2, 4, 6, 8]}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Serving(FakeEngine(PADDED), "--batch", "4", "--batch-wait-millis", "0") as serving:
        yield serving.client


def request(**changes: Any) -> dict[str, Any]:
    """Return a request that the server answers with SUM and TWICE. `inputs` in `changes` modifies
    its only input.
    """
    made = values_request([[1, 2], [3, 4]])
    made["inputs"][0] |= changes.pop("input", {})
    return made | changes


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            "/v2",
            {"name": "tetris-instance", "version": tetris_instance.__version__, "extensions": ["binary_tensor_data"]},
        ),
        ("/v2/health/live", {"live": True}),
        ("/v2/health/ready", {"ready": True}),
        ("/v2/models/fake", MODEL),
        ("/v2/models/fake/versions/1", MODEL),
        ("/v2/models/fake/ready", {"name": "fake", "ready": True}),
        ("/v2/models/fake/versions/1/ready", {"name": "fake", "ready": True}),
    ],
)
def test_metadata_and_health(client: Client, path: str, expected: object) -> None:
    answer = client.ask(path)
    assert (answer.status, answer.json()) == (200, expected)
    assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("path", ["/v2/models/fake/infer", "/v2/models/fake/versions/1/infer"])
def test_inference_answers_all_outputs(client: Client, path: str) -> None:
    answer = client.infer(request(), path)
    assert answer.status == 200, answer
    assert answer.json() == {"model_name": "fake", "model_version": "1", "outputs": [SUM, TWICE]}


@pytest.mark.parametrize("identifier", ["42", "", "€ 𝄞", "\ud800"])
def test_the_identifier_comes_back(client: Client, identifier: str) -> None:
    assert client.infer(request(id=identifier)).json()["id"] == identifier


def test_outputs_are_those_asked_for_in_their_order(client: Client) -> None:
    assert client.infer(request(outputs=[{"name": "twice"}, {"name": "sum"}])).json()["outputs"] == [TWICE, SUM]
    assert client.infer(request(outputs=[{"name": "sum"}])).json()["outputs"] == [SUM]
    assert client.infer(request(outputs=[])).json()["outputs"] == [SUM, TWICE]


def test_data_may_be_flat_and_parameters_may_be_there(client: Client) -> None:
    document = request(input={"data": [1, 2, 3, 4], "parameters": {"unknown": 1}}, parameters={"priority": 3})
    assert client.infer(document).json()["outputs"] == [SUM, TWICE]


def test_a_request_larger_than_a_batch_is_answered_as_one(client: Client) -> None:
    rows = [[i, i + 1] for i in range(11)]
    outputs = client.values(rows).json()["outputs"]
    assert outputs[0]["data"] == [2 * i + 1 for i in range(11)]
    assert (outputs[1]["shape"], outputs[1]["data"][-2:]) == ([11, 2], [20, 22])


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"id": 7}, "id is 7; expected a string"),
    ({"parameters": []}, "parameters is an array of 0; expected an object"),
    ({"inputs": None}, "inputs is missing; expected an array"),
    ({"inputs": {}}, "inputs is an object of 0; expected an array"),
    ({"inputs": []}, "inputs lacks `values`"),
    ({"inputs": [1]}, "inputs[0] is 1; expected an object"),
    ({"inputs": request()["inputs"] * 2}, "inputs[1].name is `values`, which is given twice"),
    ({"input": {"name": None}}, "inputs[0].name is None; expected a string"),
    ({"input": {"name": "x"}}, "inputs[0].name is 'x'; expected one of `values`"),
    ({"input": {"name": "text"}}, "inputs[0].name is 'text'; expected one of `values`"),
    ({"input": {"datatype": "INT32"}}, "inputs[0] (`values`).datatype is 'INT32'; expected INT64"),
    (
        {"input": {"datatype": "BF16"}},
        "inputs[0] (`values`).datatype is 'BF16'; expected INT64, and the protocol has no such datatype",
    ),
    ({"input": {"datatype": []}}, "inputs[0] (`values`).datatype is an array of 0; expected INT64"),
    ({"input": {"shape": None}}, "inputs[0] (`values`).shape is missing; expected an array"),
    ({"input": {"shape": [4]}}, "inputs[0] (`values`).shape is [4]; expected [-1, -1], where -1 is any size"),
    ({"input": {"shape": [0, 2]}}, "inputs[0] (`values`).shape is [0, 2]; expected at least one row"),
    (
        {"input": {"shape": [2, -2]}},
        "inputs[0] (`values`).shape is an array of 2; expected at most 16 integers of 0 to 2^63 - 1",
    ),
    ({"input": {"data": [[1, 2], [3]]}}, None),
    ({"input": {"data": [1, 2, 3]}}, "inputs[0] (`values`).data has 3 values; the shape [2, 2] needs 4"),
    ({"input": {"data": [1, 2, 3, 4.5]}}, "inputs[0] (`values`).data: value 3 is 4.5; INT64 expects integers"),
    ({"input": {"parameters": 1}}, "inputs[0] (`values`).parameters is 1; expected an object"),
    ({"outputs": {}}, "outputs is an object of 0; expected an array"),
    ({"outputs": ["sum"]}, "outputs[0] is 'sum'; expected an object"),
    ({"outputs": [{"name": "y"}]}, "outputs[0].name is 'y'; expected one of `sum`, `twice`"),
    ({"outputs": [{"name": []}]}, "outputs[0].name is an array of 0; expected one of `sum`, `twice`"),
    ({"outputs": [{"name": "sum"}, {"name": "sum"}]}, "outputs[1].name is `sum`, which is given twice"),
    (
        {"outputs": [{"name": "sum", "parameters": {"binary_data": 1}}]},
        "outputs[0].parameters.binary_data is 1; expected true or false",
    ),
    ({"input": {"data": [REFUSED] * 4}}, f"`values` has {REFUSED}"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
def test_errors_name_the_field_the_found_and_the_expected(
    client: Client, changes: dict[str, Any], message: str
) -> None:
    answer = client.infer(request(**{key: dict(value) if key == "input" else value for key, value in changes.items()}))
    assert answer.status == 400, answer
    assert answer.headers["Content-Type"] == "application/json"
    if message is None:
        message = "inputs[0] (`values`).data has an array of 1 at axis 1; the shape [2, 2] needs an array of 2 there"
    assert answer.json() == {"error": message}


def test_a_request_without_data_is_refused(client: Client) -> None:
    document = request()
    del document["inputs"][0]["data"]
    assert client.infer(document).json() == {"error": "inputs[0] (`values`).data is missing"}


def test_failure_of_the_model_is_an_error_of_the_server(client: Client) -> None:
    answer = client.values([[POISON, 1]])
    assert (answer.status, answer.json()) == (500, {"error": "the model failed: ValueError: poison"})


@pytest.mark.parametrize(
    ("path", "method", "status", "message"),
    [
        ("/v2/models/other", "GET", 404, "the model is 'other'; this instance serves `fake`"),
        ("/v2/models/other/ready", "GET", 404, "the model is 'other'; this instance serves `fake`"),
        ("/v2/models/other/infer", "POST", 404, "the model is 'other'; this instance serves `fake`"),
        ("/v2/models/fake/versions/2/infer", "POST", 404, "the version is '2'; this instance serves `1`"),
        ("/v2/models/fake/infer", "GET", 405, "GET '/v2/models/fake/infer': Method Not Allowed"),
        ("/nowhere", "GET", 404, "GET '/nowhere': Not Found"),
    ],
)
def test_unknown_paths_and_models(client: Client, path: str, method: str, status: int, message: str) -> None:
    answer = client.ask(path, b"{}" if method == "POST" else None, method=method)
    assert (answer.status, answer.json()) == (status, {"error": message})


class TestBinaryExtension:
    """JSON, then bytes; a header gives the end of the JSON."""

    HEAD = (
        b'{"id":"b","inputs":[{"name":"values","shape":[2,2],"datatype":"INT64",'
        b'"parameters":{"binary_data_size":32}}],"outputs":[{"name":"sum","parameters":{"binary_data":true}}]}'
    )
    DATA = struct.pack("<4q", 1, 2, 3, 4)

    def ask(self, client: Client, head: bytes, data: bytes, length: object = None) -> Any:
        headers = {"Inference-Header-Content-Length": str(len(head) if length is None else length)}
        return client.ask(client.infer_path, head + data, headers)

    def test_tensors_go_both_ways_as_bytes(self, client: Client) -> None:
        answer = self.ask(client, self.HEAD, self.DATA)
        assert answer.status == 200, answer
        assert answer.headers["Content-Type"] == "application/octet-stream"
        head = int(answer.headers["Inference-Header-Content-Length"])
        assert answer.body[head:] == struct.pack("<2q", 3, 7)
        assert answer.body[:head] == (
            b'{"model_name":"fake","model_version":"1","outputs":[{"name":"sum","shape":[2],"datatype":"INT64",'
            b'"parameters":{"binary_data_size":16}}],"id":"b"}'
        )

    def test_all_outputs_may_be_asked_for_as_bytes_but_for_some(self, client: Client) -> None:
        outputs = [{"name": "sum"}, {"name": "twice", "parameters": {"binary_data": False}}]
        answer = client.infer(request(parameters={"binary_data_output": True}, outputs=outputs))
        head = int(answer.headers["Inference-Header-Content-Length"])
        assert answer.body[head:] == struct.pack("<2q", 3, 7)
        assert json.loads(answer.body[:head])["outputs"][1] == TWICE

    def test_data_in_json_and_answer_in_json_need_no_header(self, client: Client) -> None:
        answer = client.infer(request(parameters={"binary_data_output": False}))
        assert "Inference-Header-Content-Length" not in answer.headers

    @pytest.mark.parametrize(
        ("old", "new", "data", "length", "message"),
        [
            (b"32", b"31", DATA, None, "has 31 bytes; INT64 of the shape [2, 2] needs 32"),
            (b"32", b"40", DATA, None, "binary_data_size is 40; 32 bytes of binary data are left"),
            (b"32", b"-1", DATA, None, "binary_data_size is -1; expected a number of bytes"),
            (b"32", b"3.5", DATA, None, "binary_data_size is 3.5; expected a number of bytes"),
            (b'{"binary_data_size":32}', b'{"binary_data_size":32},"data":[]', DATA, None, "expected one of them"),
            (b"", b"", DATA + b"x", None, "1 bytes after the data of all inputs"),
            (b"", b"", DATA, 10_000, "Inference-Header-Content-Length is 10000; the body has"),
            (b"", b"", DATA, "x", "Inference-Header-Content-Length is 'x'; expected a number of bytes"),
            (b"", b"", DATA, -5, "Inference-Header-Content-Length is '-5'; expected a number of bytes"),
            (b"", b"", DATA, 20, "the body is not JSON"),
        ],
    )
    def test_what_does_not_add_up_is_refused(
        self, client: Client, old: bytes, new: bytes, data: bytes, length: object, message: str
    ) -> None:
        answer = self.ask(client, self.HEAD.replace(old, new) if old else self.HEAD, data, length)
        assert answer.status == 400, answer
        assert message in answer.json()["error"]

    def test_without_the_header_there_is_no_binary_data(self, client: Client) -> None:
        answer = client.ask(client.infer_path, self.HEAD)
        assert (answer.status, answer.json()["error"]) == (
            400,
            "inputs[0] (`values`).parameters.binary_data_size is 32; "
            "binary data needs the header Inference-Header-Content-Length",
        )
