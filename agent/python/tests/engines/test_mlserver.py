"""MLServer with parallel workers, each of which loads every model."""

from __future__ import annotations

from pathlib import Path

import pytest
from server_programs import WORKERS, Model, Store
from serving import FOLDER, OPEN_INFERENCE, check, open_inference

pytest.importorskip("mlserver")

MLSERVER = open_inference(
    "mlserver",
    ["mlserver.cli.main", "start", str(FOLDER / "mlserver_classifier")],
    MLSERVER_HTTP_PORT="{port}",
    MLSERVER_GRPC_PORT="0",
    MLSERVER_METRICS_ENDPOINT="",
    MLSERVER_PARALLEL_WORKERS=str(WORKERS),
)


def test_parallel_workers_hold_one_copy(classifier: Model, servers_store: Store, tmp_path: Path) -> None:
    check(MLSERVER, classifier, servers_store, tmp_path, ready=(f"{OPEN_INFERENCE}/ready", ""))
