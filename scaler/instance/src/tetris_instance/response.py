"""``$inference_response`` of the protocol, encoded as bytes."""

from __future__ import annotations

import json
from typing import Any

from tetris_instance import binary_data, json_data
from tetris_instance.request import InferenceRequest
from tetris_instance.tensors import Tensors, datatype_of


def encode(name: str, version: str, request: InferenceRequest, outputs: Tensors) -> tuple[bytes, dict[str, str]]:
    """Return the body of the answer, and its headers.

    Raises:
        RequestError: JSON cannot represent a value of a JSON output.
    """
    blobs = []
    described: list[dict[str, Any]] = []
    for wanted in request.outputs:
        array = outputs[wanted.name]
        one: dict[str, Any] = {"name": wanted.name, "shape": list(array.shape), "datatype": datatype_of(array)}
        if wanted.binary:
            blobs.append(binary_data.bytes_of(array))
            one["parameters"] = {"binary_data_size": len(blobs[-1])}
        else:
            one["data"] = json_data.values_of(array, wanted.name)
        described.append(one)
    document: dict[str, Any] = {"model_name": name, "model_version": version, "outputs": described}
    if request.id is not None:
        document["id"] = request.id
    head = json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")
    if not blobs:
        return head, {"content-type": "application/json"}
    headers = {"content-type": "application/octet-stream", binary_data.HEADER: str(len(head))}
    return b"".join([head, *blobs]), headers
