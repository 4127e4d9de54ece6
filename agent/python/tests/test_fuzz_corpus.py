"""Seeds of the fuzz targets in Python, through the check that the target runs, without a fuzzer."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

FUZZ = Path(__file__).parents[3] / "fuzz"


@pytest.fixture(params=["kernels_file", "order_file"])
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(FUZZ)
    monkeypatch.setenv("TETRIS_ORDER_DIR", str(tmp_path / "order"))
    return importlib.import_module(request.param)


def test_files_are_judged_as_their_names_say(target: Any, tmp_path: Path) -> None:
    importlib.import_module("python_target").replay(target.TARGET, tmp_path)


def test_kernels_files_of_many_entries_take_no_more_memory_than_their_length_allows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(FUZZ)
    target = importlib.import_module("kernels_file")
    for name, content in target.heavy().items():
        assert target.check(tmp_path, content), name


def test_a_parser_that_takes_more_than_its_bound_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FUZZ)
    bound = importlib.import_module("python_target").Bound(fixed=1000, per_byte=2)
    assert len(bound.hold(10_000, lambda: bytes(20_000))) == 20_000
    with pytest.raises(AssertionError, match="bytes of heap for an input of 10000"):
        bound.hold(10_000, lambda: bytes(30_000))
