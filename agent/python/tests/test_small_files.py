"""Small files, and those that were written a moment ago: loaded without the store where that takes less."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import model_files
import pytest
import safetensors.torch
import tetris
import tetris.torch
import torch
from model_files import GRANULARITY_NS, settle, stored
from process import contents, is_mapped, objects, python

#: Too small to be shared.
SMALL = {"a": stored("F32", [10, 10]), "b": stored("BF16", [7])}
#: Shared once it is old.
MIDDLE = {"w": stored("F32", [256, 1024])}


@pytest.fixture(autouse=True)
def _default(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TETRIS_MIN_SHARED_BYTES")


def while_new(path: Path, act: Callable[[], Any]) -> Any:
    """Result of `act` on a file that was new all the while; the file is written until it is."""
    for _ in range(100):
        begun = time.time_ns()
        model_files.write(path, MIDDLE)
        result = act()
        if time.time_ns() - begun < GRANULARITY_NS * 9 // 10:
            return result
    pytest.fail("the file was never read within 90 ms")


def same(ours: dict[str, torch.Tensor], path: Path) -> bool:
    """Returns true if tensors are those of a file."""
    theirs = safetensors.torch.load(path.read_bytes())
    equal = [torch.equal(ours[name].view(torch.uint8), one.view(torch.uint8)) for name, one in theirs.items()]
    return sorted(ours) == sorted(theirs) and all(equal)


def unshared() -> int:
    """Files that were not shared by choice, so far; nothing may be private for another reason."""
    counters = tetris.agent().counters
    assert counters["private_loads"] == counters["private_bytes"] == 0
    return counters["unshared_files"]


def test_a_small_file_never_comes_to_the_store(store: Path, tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "small.safetensors", SMALL)
    settle(path)
    for number in range(1, 4):
        weights = tetris.torch.load_file(path)
        assert same(weights, path) and unshared() == number
        weights["a"].zero_()
    with tetris.safe_open(path, "pt") as opened:
        assert same(opened.get_tensors(), path)
    assert unshared() == 4
    assert objects(store) == []


def test_the_report_says_why(tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "small.safetensors", SMALL)
    report = tetris.load(path).report
    assert report["recognized"] == ["unshared"] and report["bytes_private"] == 0
    assert report["bytes_unshared"] == 414
    assert "smaller than 65536 bytes" in str(report["private_reason"])


def test_nothing_is_logged_as_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = model_files.write(tmp_path / "small.safetensors", SMALL)
    with caplog.at_level(logging.DEBUG):
        tetris.torch.load_file(path)
        while_new(tmp_path / "new.safetensors", lambda: tetris.torch.load_file(tmp_path / "new.safetensors"))
    assert unshared() >= 2
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []


def test_a_small_file_is_shared_by_those_who_ask_for_that(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = model_files.write(tmp_path / "small.safetensors", SMALL)
    settle(path)
    assert tetris.load(path, min_shared_bytes=0).report["recognized"] == ["hashing"]
    assert tetris.Agent(store, min_shared_bytes=0).load(path).report["recognized"] == ["stat"]
    assert tetris.load(path).report["recognized"] == ["unshared"]
    monkeypatch.setenv("TETRIS_MIN_SHARED_BYTES", str(path.stat().st_size))
    weights = tetris.torch.load_file(path)
    assert is_mapped(store, weights["a"].data_ptr(), weights["a"].nbytes)
    monkeypatch.setenv("TETRIS_MIN_SHARED_BYTES", str(path.stat().st_size + 1))
    weights = tetris.torch.load_file(path)
    assert not is_mapped(store, weights["a"].data_ptr(), weights["a"].nbytes)


def test_a_size_that_is_none_has_no_effect_and_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = model_files.write(tmp_path / "small.safetensors", SMALL)
    for wrong in ("64 KiB", "-1", "1e3"):
        monkeypatch.setenv("TETRIS_MIN_SHARED_BYTES", wrong)
        caplog.clear()
        assert tetris.load(path).report["recognized"] == ["unshared"]
        assert "TETRIS_MIN_SHARED_BYTES" in caplog.text and wrong in caplog.text


def test_a_new_file_is_left_to_safetensors_until_it_is_old(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "new.safetensors"
    weights = while_new(path, lambda: tetris.torch.load_file(path))
    assert same(weights, path) and unshared() >= 1
    opened = while_new(path, lambda: tetris.safe_open(path, "pt"))
    assert same(opened.get_tensors(), path)
    settle(path)
    before = unshared()
    weights = tetris.torch.load_file(path)
    assert is_mapped(store, weights["w"].data_ptr(), weights["w"].nbytes)
    assert unshared() == before and MIDDLE["w"].data in contents(store).values()


def test_a_new_file_loaded_read_only_cannot_be_written_to(tmp_path: Path) -> None:
    path = tmp_path / "new.safetensors"
    weights = while_new(path, lambda: tetris.torch.load_file(path, mode="read_only"))
    opened = while_new(path, lambda: tetris.safe_open(path, "pt", mode="read_only"))
    for tensor in (weights["w"], opened.get_tensor("w")):
        assert type(tensor) is tetris.torch.ReadOnlyTensor
        with pytest.raises(tetris.errors.ReadOnlyTensorError):
            tensor.zero_()


def test_a_file_that_is_swapped_within_a_tick_is_never_stale(tmp_path: Path) -> None:
    path = tmp_path / "swapped.safetensors"
    for tensors in (SMALL, MIDDLE):
        for number in range(20):
            new = {name: stored(one.dtype, one.shape, number) for name, one in tensors.items()}
            # In place: the file keeps its inode.
            model_files.write(path, new)
            assert same(tetris.torch.load_file(path), path)


def test_a_module_never_takes_the_memory_of_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "new.safetensors"

    def load() -> tuple[torch.nn.ParameterDict, int]:
        module = torch.nn.ParameterDict({"w": torch.zeros(256, 1024)})
        address = module["w"].data_ptr()
        tetris.torch.load_model(module, path)
        return module, address

    module, address = while_new(path, load)
    assert module["w"].data_ptr() == address
    assert same({"w": module["w"].detach()}, path)
    assert path.name not in Path("/proc/self/maps").read_text()


def test_a_small_module_of_a_patched_program_keeps_its_memory(store: Path, tmp_path: Path) -> None:
    large = model_files.write(tmp_path / "large", {"w": stored("F32", [512, 1024])})
    settle(large)
    program = """
        import json, sys, torch
        from safetensors.torch import load_file
        keep = load_file(sys.argv[1])
        module, other = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        before = [one.data_ptr() for one in module.parameters()]
        module.load_state_dict(other.state_dict())
        same = all(map(torch.equal, module.parameters(), other.parameters()))
        print(json.dumps([same, before == [one.data_ptr() for one in module.parameters()]]))
    """
    assert python(program, large, env={"TETRIS_PATCH": "1"}) == [True, True]
    assert len(objects(store)) == 1
