"""A classifier over HTTP, as plain WSGI; with `--preload` it is loaded before gunicorn forks its workers.

MODEL=classifier.safetensors gunicorn -w 4 gunicorn_wsgi
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

import classifier
import torch

# Each worker is one of many, so one thread is enough. And with `--preload`, threads that torch had started before the
# fork would be missing after it: the next computation would wait for them for ever.
torch.set_num_threads(1)

model = classifier.load(os.environ["MODEL"])


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a POST of 64 numbers, ``[0.5, ...]``, with the scores of the labels."""
    if environ["REQUEST_METHOD"] != "POST":
        return respond(start_response, HTTPStatus.METHOD_NOT_ALLOWED, {"error": "POST an array of numbers"})
    try:
        features = json.loads(environ["wsgi.input"].read())
        return respond(start_response, HTTPStatus.OK, classifier.answer(model, features))
    except (ValueError, TypeError, RuntimeError) as error:
        return respond(start_response, HTTPStatus.BAD_REQUEST, {"error": str(error)})


def respond(start_response: Callable[..., Any], status: HTTPStatus, document: dict[str, Any]) -> Iterable[bytes]:
    """Answer with a JSON document."""
    body = json.dumps(document).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start_response(f"{status.value} {status.phrase}", headers)
    return [body]
