"""Seeds of the fuzz target ``instance_request``, through the check that the target runs, without a fuzzer."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "fuzz")
    return importlib.import_module("instance_request")


def test_requests_are_judged_as_their_names_say(target: Any, tmp_path: Path) -> None:
    importlib.import_module("python_target").replay(target.TARGET, tmp_path)


def test_requests_of_many_entries_take_no_more_memory_than_their_length_allows(target: Any, tmp_path: Path) -> None:
    accepted = {name for name, body in target.heavy().items() if target.check(tmp_path, body)}
    assert accepted == {"binary texts"}
