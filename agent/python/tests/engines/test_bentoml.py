"""A service of BentoML with several workers."""

from __future__ import annotations

from pathlib import Path

import pytest
from server_programs import Model, Store
from serving import check, serving

pytest.importorskip("bentoml")

BENTOML = serving(
    "bentoml",
    ["bentoml", "serve", "bentoml_service:Classifier", "--port", "{port}"],
    "/classify",
    lambda features: {"features": features},
    lambda document: document["scores"],
)


def test_workers_hold_one_copy(classifier: Model, servers_store: Store, tmp_path: Path) -> None:
    check(BENTOML, classifier, servers_store, tmp_path)
