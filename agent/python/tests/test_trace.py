"""Traces: merged over runs, of one content, with the tensors that differ between initializations."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import model_files
import pytest
import tetris.torch
import torch
from gpu_mirror import Mirror
from model_files import floats
from safetensors.torch import save_file
from tetris import _order, _trace_files
from tetris._device.mirror import dynamic_names
from tetris._order import OrderError, add_to_trace, order_for, read_trace, trace_for
from tetris._trace import LAST, Origins, Phase, Trace, Use
from tetris.torch import is_mirrored, record_initialization, record_order

# Functions of tetris.torch that load are not imported by name: unpatching replaces those by what safetensors has.
NAMES = ["a", "b", "c", "d"]


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own."""
    monkeypatch.setenv("TETRIS_ORDER_DIR", str(tmp_path_factory.mktemp("cache") / "order"))


def random_trace(draw: random.Random) -> Trace:
    def phase() -> Phase:
        if draw.random() < 0.2:
            return Phase()
        names = draw.sample(NAMES, draw.randint(0, 4))
        return Phase.of(names, {name: draw.randint(0, 2) for name in names})

    contents = {name: draw.choice("xy") for name in draw.sample(NAMES, draw.randint(0, 4))}
    origins = Origins() if draw.random() < 0.3 else Origins.of(contents)
    return Trace(frozenset(draw.sample("mn", draw.randint(0, 2))), phase(), phase(), origins)


def test_merging_is_commutative_and_associative_and_survives_its_file(tmp_path: Path) -> None:
    draw = random.Random(7)
    for _ in range(300):
        one, two, three = (random_trace(draw) for _ in range(3))
        assert one + two == two + one
        merged = (one + two) + three
        assert merged == one + (two + three)
        assert merged + Trace() == merged
        path = tmp_path / "order.json"
        path.write_text(json.dumps(_order._encoded(merged)))
        assert read_trace(path) == merged


def test_a_tensor_is_dynamic_if_any_initialization_gave_it_other_bytes_or_none() -> None:
    draw = random.Random(11)
    for _ in range(200):
        runs = [{name: draw.choice("xxxy") for name in NAMES if draw.random() < 0.9} for _ in range(draw.randint(1, 4))]
        merged = Origins()
        for contents in runs:
            merged += Origins.of(contents)
        for name in NAMES:
            seen = {contents.get(name) for contents in runs}
            assert (name in merged.same) == (len(seen) == 1 and None not in seen)
            assert (name in merged.dynamic) == (len(seen) > 1)


def test_the_order_is_that_of_the_mean_rank() -> None:
    merged = Phase.of(["a", "b", "c"]) + Phase.of(["b", "a"]) + Phase.of(["b", "a", "c"])
    assert merged.order() == ["b", "a", "c"]
    # What few runs use comes late, however early they use it.
    rare = Phase.of(["d", "a"]) + Phase.of(["a"]) + Phase.of(["a"])
    assert rare.order() == ["a", "d"]
    assert Phase.of(["a"], {"a": 3}).uses["a"] == Use(0, 1, 3)


def test_what_initialization_alone_needs_comes_first() -> None:
    trace = Trace(inference=Phase.of(["a", "b", "c"]), initialization=Phase.of(["c", "d", "b"]))
    assert trace.order() == ["d", "a", "b", "c"]
    dynamic = replace(trace, origins=Origins.of({"b": "x"}) + Origins.of({"b": "y"}))
    assert dynamic.order() == ["d", "b", "a", "c"]
    assert Trace(initialization=Phase.of(["b", "a"])).order() == ["b", "a"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return model_files.write(tmp_path / "model.safetensors", {name: floats([4]) for name in NAMES})


def test_runs_of_one_content_are_merged_and_those_of_another_replace_it(path: Path) -> None:
    first = Trace(frozenset(["m"]), inference=Phase.of(["b", "a"]))
    file, _ = add_to_trace(path, first)
    _, merged = add_to_trace(path, Trace(frozenset(["m"]), inference=Phase.of(["b", "c"])))
    assert merged.inference.runs == 2 and read_trace(file) == merged
    _, other = add_to_trace(path, Trace(frozenset(["n"]), inference=Phase.of(["d"])))
    assert other.inference.runs == 1 and read_trace(file).order() == ["d"]


def test_a_trace_of_other_content_is_passed_over(path: Path) -> None:
    add_to_trace(path, Trace(frozenset(["m"]), inference=Phase.of(["c"])))
    assert order_for(path, NAMES) == ["c"]
    assert order_for(path, NAMES, trace=lambda: trace_for(path, lambda: "m")) == ["c"]
    # Not known to the store: names alone must do.
    assert order_for(path, NAMES, trace=lambda: trace_for(path, lambda: None)) == ["c"]
    assert order_for(path, NAMES, trace=lambda: trace_for(path, lambda: "n")) is None


def test_a_trace_is_found_by_content_wherever_the_model_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_file = _trace_files.replace

    def refuse(target: str, text: str) -> str:
        if Path(target).parent == path.parent:
            raise PermissionError(f"no writing to {target}")
        return replace_file(target, text)

    monkeypatch.setattr(_trace_files, "replace", refuse)
    written, _ = add_to_trace(path, Trace(frozenset(["m"]), inference=Phase.of(["c"])))
    assert written == str(Path(os.environ["TETRIS_ORDER_DIR"], "m.order.json"))
    elsewhere = path.rename(path.with_name("moved.safetensors"))
    assert order_for(elsewhere, NAMES, trace=lambda: trace_for(elsewhere, lambda: "m")) == ["c"]
    assert trace_for(elsewhere, lambda: "n") is None
    _, merged = add_to_trace(path, Trace(frozenset(["m"]), inference=Phase.of(["c", "a"])))
    assert merged.inference.runs == 2


VALID = _order._encoded(Trace(frozenset(["m"]), Phase.of(["a"]), Phase.of(["b"]), Origins.of({"a": "x"})))


@pytest.mark.parametrize(
    "change",
    [
        {"models": "m"},
        {"models": [1]},
        {"inference": None},
        {"inference": {"runs": -1, "uses": {}}},
        {"inference": {"runs": True, "uses": {}}},
        {"inference": {"runs": 1 << 80, "uses": {}}},
        {"inference": {"runs": 1, "uses": []}},
        {"inference": {"runs": 1, "uses": {"a": [0, 2, 0]}}},
        {"inference": {"runs": 1, "uses": {"a": [0, 0, 0]}}},
        {"inference": {"runs": 1, "uses": {"a": [LAST + 1, 1, 0]}}},
        {"inference": {"runs": 1, "uses": {"a": [0.5, 1, 0]}}},
        {"inference": {"runs": 1, "uses": {"a": [0, 1]}}},
        {"initialization": {}},
        {"origins": {"runs": 1, "same": {"a": 1}, "dynamic": []}},
        {"origins": {"runs": 1, "same": {}, "dynamic": "a"}},
        {"origins": []},
    ],
    ids=str,
)
def test_a_hostile_trace_is_no_order(path: Path, change: dict[str, object]) -> None:
    file = Path(add_to_trace(path, Trace(inference=Phase.of(["c"])))[0])
    file.write_text(json.dumps({**VALID, **change}))
    with pytest.raises(OrderError):
        read_trace(file)
    assert order_for(path, NAMES) is None


class Net(torch.nn.Module):
    """A base with a head that requests replace, and a weight that they merge something into."""

    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(8, 8, bias=False)
        self.merged = torch.nn.Linear(8, 8, bias=False)
        self.base = torch.nn.Linear(8, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.merged(self.base(x)))


@pytest.fixture
def net_file(tmp_path: Path) -> Path:
    path = tmp_path / "net.safetensors"
    save_file({name: tensor.detach().clone() for name, tensor in Net().state_dict().items()}, str(path))
    model_files.settle(path)
    return path


def build(path: Path, request: int) -> Net:
    net = Net()
    tetris.torch.load_model(net, path)
    with torch.no_grad():
        net.head.weight.copy_(torch.full((8, 8), float(request)))
        net.merged.weight.add_(request)
    return net


def test_dynamic_parts_are_found_by_comparing_initializations(net_file: Path, store: Path) -> None:
    with record_initialization(net_file) as first:
        first.module = build(net_file, 1)
    assert first.dynamic == frozenset()
    assert set(first.reads) >= {"merged.weight"}
    with record_initialization(net_file) as same:
        same.module = build(net_file, 1)
    assert same.dynamic == frozenset()
    with record_initialization(net_file) as other:
        other.module = build(net_file, 2)
    assert other.dynamic == {"head.weight", "merged.weight"}
    assert other.path == str(net_file) + ".order.json"
    trace = read_trace(other.path)
    assert trace.origins.runs == 3 and set(trace.origins.same) == {"base.weight"}
    assert len(trace.models) == 1


def test_an_initialization_without_a_module_is_refused(net_file: Path, store: Path) -> None:
    with pytest.raises(ValueError, match="module"), record_initialization(net_file):
        pass


def test_recordings_of_both_phases_are_one_file(net_file: Path, store: Path) -> None:
    for request in (1, 2):
        with record_initialization(net_file) as recorded:
            recorded.module = build(net_file, request)
        with record_order(recorded.module, net_file) as recording:
            recorded.module(torch.ones(1, 8))
        assert recording.streams == {}
    assert recording.path == recorded.path and recording.path is not None
    trace = read_trace(recording.path)
    assert (trace.inference.runs, trace.initialization.runs, trace.origins.runs) == (2, 2, 2)
    assert trace.inference.order() == ["base.weight", "merged.weight", "head.weight"]


def test_a_trace_does_not_have_each_process_copy_a_large_part_of_a_model(caplog: pytest.LogCaptureFixture) -> None:
    def chosen(names: list[str], sizes: dict[str, int]) -> frozenset[str]:
        trace = Trace(origins=Origins(2, {}, frozenset(names)))
        return dynamic_names(trace, {name: SimpleNamespace(nbytes=size) for name, size in sizes.items()}, "the model")

    mib = 1 << 20
    small, large = {"a": 15 * mib, "b": 1 * mib}, {"a": 75 * mib, "b": 25 * mib, "c": 1}
    # Nothing that counts, whatever its share.
    assert chosen(["a", "b", "gone"], small) == {"a", "b"}
    assert chosen(["b"], large) == {"b"} and chosen(["b", "gone"], large) == {"b"} and not caplog.records
    for names in (["a"], ["b", "c"], ["a", "b", "c"]):
        caplog.clear()
        assert chosen(names, large) == frozenset()
        assert "the model: dynamic tensors of its trace are passed over" in caplog.text


def test_a_trace_of_another_owner_or_that_others_can_write_to_is_passed_over(
    net_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, _ = add_to_trace(net_file, Trace(inference=Phase.of(["head.weight"])))
    os.chmod(path, 0o666)
    assert trace_for(net_file) is None and order_for(net_file, order=path) is None
    assert "expected one that others cannot write to" in caplog.text
    os.chmod(path, 0o644)
    assert trace_for(net_file) is not None and order_for(net_file, order=path) == ["head.weight"]
    if os.geteuid() == 0:
        os.chown(path, 12345, 0)
        assert trace_for(net_file) is None and order_for(net_file, order=path) is None
        os.chown(net_file, 12345, 0)
        assert trace_for(net_file) is not None


def test_dynamic_tensors_are_private_on_a_device(net_file: Path, store: Path, mirror: Mirror) -> None:
    for request in (1, 2):
        with record_initialization(net_file) as recorded:
            recorded.module = build(net_file, request)
    loaded = tetris.torch.load_file(net_file, device="simulated")
    assert {name for name, tensor in loaded.items() if is_mirrored(tensor)} == {"base.weight"}
    # In place, as the initialization that was recorded: an error on a device without copies.
    loaded["merged.weight"].add_(1)
    net = Net()
    tetris.torch.load_model(net, net_file, device="simulated")
    assert is_mirrored(net.base.weight) and not is_mirrored(net.head.weight)
    assert all(
        is_mirrored(tensor) for tensor in tetris.torch.load_file(net_file, device="simulated", private=False).values()
    )
