"""Order files: recorded by the modules themselves, found where they are, harmless whatever is in them."""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import model_files
import pytest
import torch
from model_files import floats
from safetensors.torch import save_file, save_model
from tetris import _trace_files
from tetris._order import OrderError, order_for, read_order, write_order
from tetris.torch import load_file, record_order

NAMES = ["a", "b", "c"]


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own."""
    monkeypatch.setenv("TETRIS_ORDER_DIR", str(tmp_path_factory.mktemp("cache") / "order"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return model_files.write(tmp_path / "model.safetensors", {name: floats([4]) for name in NAMES})


def order_file(path: Path) -> Path:
    return path.with_name(path.name + ".order.json")


def test_what_is_written_is_read_back(path: Path) -> None:
    written = write_order(path, ["c", "a"])
    assert written == str(order_file(path))
    assert read_order(written) == ["c", "a"]
    assert json.loads(order_file(path).read_text())["format"] == "tetris-order"
    assert stat.S_IMODE(order_file(path).stat().st_mode) == 0o644
    assert order_for(path, NAMES) == ["c", "a"]
    # Nothing else is left of the writing.
    assert sorted(os.listdir(path.parent)) == ["model.safetensors", "model.safetensors.order.json"]


def test_names_that_are_gone_and_names_twice_are_passed_over(path: Path) -> None:
    write_order(path, ["gone", "c", "c", "b", "also gone", "c"])
    assert order_for(path, NAMES) == ["c", "b"]
    write_order(path, ["gone"])
    assert order_for(path, NAMES) is None


def test_an_order_can_be_given_or_refused(path: Path, tmp_path: Path) -> None:
    write_order(path, ["c"])
    other = write_order(path, ["b"], to=tmp_path / "other.json")
    assert order_for(path, NAMES, order=False) is None
    assert order_for(path, NAMES, order=True) == ["c"]
    assert order_for(path, NAMES, order=other) == ["b"]
    assert order_for(path, NAMES, order=Path(other)) == ["b"]
    assert order_for(path, NAMES, order=["a", "gone", "c"]) == ["a", "c"]


def test_a_directory_has_one_order_for_its_files(path: Path) -> None:
    assert write_order(path.parent, ["b"]) == str(path.parent / "model.safetensors.order.json")
    shard = model_files.write(path.parent / "model-00001-of-00002.safetensors", {"b": floats([4])})
    assert order_for(shard, ["b"]) == order_for(path.parent, NAMES) == ["b"]
    # Its own comes first.
    write_order(shard, ["a"])
    assert order_for(shard, ["b", "a"]) == ["a"]


def test_an_order_goes_to_the_cache_if_the_directory_takes_none(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As root, a directory's mode keeps nobody from writing.
    replace = _trace_files.replace

    def refuse(target: str, text: str) -> str:
        if Path(target).parent == path.parent:
            raise PermissionError(f"no writing to {target}")
        return replace(target, text)

    monkeypatch.setattr(_trace_files, "replace", refuse)
    written = write_order(path, ["c"])
    assert Path(written).parent == Path(os.environ["TETRIS_ORDER_DIR"])
    assert order_for(path, NAMES) == ["c"]
    # A link to the file, as in a cache of Hugging Face, leads to the same order.
    link = path.parent / "link"
    link.symlink_to(path)
    assert order_for(link, NAMES) == ["c"]


def test_no_order_is_no_reason_to_warn(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tetris"):
        assert order_for(path, NAMES) is None
    assert not caplog.records


HOSTILE = {
    "empty": b"",
    "not JSON": b"{",
    "not UTF-8": b'"\xff\xfe"',
    "deep": b"[" * 200_000,
    "a number of a million digits": b'{"format": "tetris-order", "version": ' + b"1" * 1_000_000 + b"}",
    "a list": b'["a"]',
    "another format": b'{"format": "other", "version": 1, "tensors": ["a"]}',
    "version 2 without a trace": b'{"format": "tetris-order", "version": 2, "tensors": ["a"]}',
    "version 3": b'{"format": "tetris-order", "version": 3, "tensors": ["a"]}',
    "a true version": b'{"format": "tetris-order", "version": true, "tensors": ["a"]}',
    "no names": b'{"format": "tetris-order", "version": 1}',
    "names that are none": b'{"format": "tetris-order", "version": 1, "tensors": ["a", 1]}',
    "one name": b'{"format": "tetris-order", "version": 1, "tensors": "abc"}',
    "half a surrogate pair": b'{"format": "tetris-order", "version": 1, "tensors": ["\\ud800"]}',
    "too long": b" " * (_trace_files.MAX_BYTES + 1),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_order_file_changes_nothing(path: Path, store: Path, text: bytes) -> None:
    order_file(path).write_bytes(text)
    assert order_for(path, NAMES) is None
    assert order_for(path, NAMES, order=order_file(path)) is None
    assert list(load_file(path)) == NAMES


@pytest.mark.parametrize("kind", ["directory", "fifo", "device", "dangling link", "unreadable"])
def test_what_is_no_file_is_no_order(path: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    made = order_file(path)
    if kind == "directory":
        made.mkdir()
    elif kind == "fifo":
        # Opening it for reading would wait for a writer.
        os.mkfifo(made)
    elif kind == "device":
        made.symlink_to("/dev/zero")
    elif kind == "dangling link":
        made.symlink_to("nowhere")
    else:
        made.symlink_to("/proc/self/mem")
    assert order_for(path, NAMES) is None
    with pytest.raises((OSError, OrderError)):
        read_order(made)


class Net(torch.nn.Module):
    """Uses its parts in another order than it has them: one twice, one through another's weight, one never."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = torch.nn.Linear(4, 4)
        self.last = torch.nn.Linear(4, 4, bias=False)
        self.functional = torch.nn.Linear(4, 4, bias=False)
        self.first = torch.nn.Embedding(5, 4)
        self.tied = torch.nn.Linear(4, 5, bias=False)
        self.tied.weight = self.first.weight
        self.register_buffer("scale", torch.ones(4))

    def forward(self, indexes: torch.Tensor) -> torch.Tensor:
        # Metadata is no use.
        assert self.unused.weight.dtype == torch.float32 and self.unused.weight.shape[0] == 4
        x = self.first(indexes) + self.first(indexes)
        x = torch.nn.functional.linear(x, self.functional.weight) * self.scale
        return self.tied(self.last(x))


@pytest.fixture
def net() -> Iterator[Net]:
    made = Net().eval()
    yield made
    assert not any(part._forward_pre_hooks or part._forward_hooks for part in made.modules())


INDEXES = torch.tensor([[1, 2]])


def test_a_module_records_what_it_uses_first(net: Net, tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    save_model(net, str(path))
    wanted = net(INDEXES)
    with record_order(net, path) as recording:
        assert torch.equal(net(INDEXES), wanted)
        net(INDEXES)
    # A module's own buffers are there when it is called.
    assert recording.names == ["scale", "first.weight", "tied.weight", "functional.weight", "last.weight"]
    # Of the tied ones the file has one.
    kept = [name for name in recording.names if name in load_file(path)]
    assert len(kept) == 4
    assert recording.path == str(order_file(path))
    assert read_order(recording.path) == kept
    assert torch.equal(net(INDEXES), wanted)


def test_names_are_those_of_the_file(net: Net, tmp_path: Path) -> None:
    """A checkpoint of the whole, loaded into a part, and the other way round."""
    named = {"scale": net.scale, "first.weight": net.first.weight, "last.weight": net.last.weight}
    whole, part = tmp_path / "whole.safetensors", tmp_path / "part.safetensors"
    save_file({f"model.net.{name}": tensor.detach().clone() for name, tensor in named.items()}, str(whole))
    with record_order(net, whole) as recording:
        net(INDEXES)
    assert recording.path is not None
    assert read_order(recording.path) == ["model.net.first.weight", "model.net.last.weight"]

    save_file({name: tensor.detach().clone() for name, tensor in named.items()}, str(part))
    with record_order(torch.nn.ModuleDict({"net": net}), part) as recording:
        net(INDEXES)
    assert recording.path is not None
    assert read_order(recording.path) == ["first.weight", "last.weight"]


def test_a_failed_run_writes_nothing_and_leaves_no_hooks(net: Net, path: Path) -> None:
    with pytest.raises(IndexError), record_order(net, path) as recording:
        net(torch.tensor([[99]]))
    assert recording.path is None and not order_file(path).exists()
    # The failed call has left nothing behind that would see this one.
    recording.names.clear()
    net(INDEXES)
    assert recording.names == []


def test_nothing_used_is_nothing_written(net: Net, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tetris"), record_order(net, path) as recording:
        pass
    assert recording.path is None and not order_file(path).exists()
    assert "no tensor of it was used" in caplog.text


def test_compiled_code_is_not_recorded(path: Path) -> None:
    net = Net().eval()
    compiled: Any = torch.compile(net, backend="eager")
    with pytest.raises(RuntimeError, match="not compiled"), record_order(net, path):
        compiled(INDEXES)
