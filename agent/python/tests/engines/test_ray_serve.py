"""Ray Serve with several replicas of a deployment, each a process that loads the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from server_programs import HANGS_S, Model, Store
from serving import check, serving

pytest.importorskip("ray.serve")

#: Variables of the replicas alone, as `ray job submit --runtime-env-json` passes them. Braces are doubled: the value is
#: a format of :class:`Server`.
RUNTIME_ENV = json.dumps({"runtime_env": {"env_vars": {"TETRIS_PATCH": "1"}}}).replace("{", "{{").replace("}", "}}")


@pytest.mark.parametrize(
    "environment",
    [{"TETRIS_PATCH": "1"}, {"TETRIS_PATCH": "0", "RAY_JOB_CONFIG_JSON_ENV_VAR": RUNTIME_ENV}],
    ids=["environment", "runtime_env"],
)
def test_replicas_hold_one_copy(
    classifier: Model, servers_store: Store, tmp_path: Path, environment: dict[str, str]
) -> None:
    kind = serving(
        "ray-serve",
        ["ray_serve_app"],
        "/",
        lambda features: features,
        lambda document: document["scores"],
        PORT="{port}",
        RAY_USAGE_STATS_ENABLED="0",
        # Ray ends workers that start slowly. On a busy machine those do that give way to every other program.
        RAY_worker_niceness="0",
        RAY_worker_register_timeout_seconds=str(HANGS_S),
        **environment,
    )
    # The proxy's list of what it serves.
    check(kind, classifier, servers_store, tmp_path, ready=("/-/routes", "classifier"))
