"""The worker's side of :mod:`tetris_bench.workers`: one JSON object per line for each request, until the input ends."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any


def serve(make: Callable[[], object]) -> None:
    """Makes the object whose methods answer requests, says that it is ready, and answers."""
    # Libraries may print; that must not get between the replies.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def reply(content: dict[str, Any]) -> None:
        replies.write(json.dumps(content) + "\n")
        replies.flush()

    try:
        worker = make()
    except Exception as error:
        reply({"error": f"{type(error).__name__}: {error}"})
        return
    reply({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply(getattr(worker, request.pop("do"))(**request))
        except Exception as error:
            reply({"error": f"{type(error).__name__}: {error}"})
