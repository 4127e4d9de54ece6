"""The model and the store of the servers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_programs import Model, Store, made_classifier


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A model of 34 MB."""
    return made_classifier(tmp_path_factory.mktemp("classifier"))


@pytest.fixture
def servers_store() -> Iterator[Store]:
    """An empty store."""
    directory = Path(tempfile.mkdtemp(prefix="tetris-servers-", dir="/dev/shm"))
    yield Store(directory)
    shutil.rmtree(directory)
