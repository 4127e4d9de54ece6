"""A deployment of Ray Serve, of which each replica is a process that loads the model.

TETRIS_PATCH=1 MODEL=classifier.safetensors python ray_serve_app.py
"""

from __future__ import annotations

import os
from typing import Any

import plain
import ray
from ray import serve
from starlette.requests import Request


# Each replica has one thread. Ray counts no processors for it, so that four fit on any machine.
@serve.deployment(num_replicas=int(os.environ.get("WORKERS", "4")), ray_actor_options={"num_cpus": 0})
class Classifier:
    """The classifier."""

    def __init__(self) -> None:
        self._model = plain.load()

    async def __call__(self, request: Request) -> dict[str, Any]:
        """Return the scores, and the process that computed them."""
        return {"pid": os.getpid(), "scores": plain.scores(self._model, await request.json())}


def main() -> None:
    """Serve until a signal ends it."""
    # Replicas on this machine inherit the environment. On a cluster, set it where `ray start` runs.
    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=100 << 20)
    serve.start(http_options={"port": int(os.environ.get("PORT", "8000"))})
    serve.run(Classifier.bind(), name="classifier", blocking=True)


if __name__ == "__main__":
    main()
