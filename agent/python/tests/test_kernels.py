"""Kernels that are loaded ahead: traces of operators, recorded, merged, and run without the model."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import random
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import model_files
import pytest
import tetris.torch
import torch
import warm_jobs
from decoder import Decoder, first_token, tokens
from model_files import floats
from tetris import _kernels, _kernels_call, _kernels_replay, _kernels_target, warm
from tetris._kernels import KernelTrace, add_to_kernels, kernels_of, read_kernels
from tetris.torch import KernelRecording, record_kernels
from tetris.warm import LoadedKernels, Pool, load_kernels
from torch.utils._python_dispatch import TorchDispatchMode

LONG_S = 120.0
LIMIT = 1 << 20


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own."""
    monkeypatch.setenv("TETRIS_ORDER_DIR", str(tmp_path_factory.mktemp("cache") / "order"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return model_files.write(tmp_path / "model.safetensors", {"a": floats([4])})


def small_decoder() -> Decoder:
    torch.manual_seed(0)
    return Decoder().eval()


def kernels_file(path: Path) -> Path:
    return Path(f"{path}.kernels.json")


def write(path: Path, *calls: Any, **fields: Any) -> Path:
    """Write a kernels file of the CPU."""
    document = {"format": "tetris-kernels", "version": 1, "models": [], "devices": {"cpu": list(calls)}}
    kernels_file(path).write_text(json.dumps(document | fields))
    return path


def tensor(sizes: list[int], dtype: str = "float32", strides: list[int] | None = None) -> dict[str, Any]:
    return {"tensor": [dtype, sizes, strides, "cpu"]}


ADD = ["aten.add.Tensor", [tensor([2, 3]), tensor([2, 3])], {}]


class Seen(TorchDispatchMode):
    """The operators that are called with real tensors, and the tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not any(isinstance(arg, torch.Tensor) and arg.is_meta for arg in (*args, result)):
            self.calls.append((str(func), args))
        return result


def described(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tensor.shape, tensor.stride()


@pytest.mark.parametrize("context", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_each_recorded_call_runs_as_it_was_recorded(path: Path, context: Any) -> None:
    model = small_decoder()
    with context(), record_kernels(path) as recorded, Seen() as original:
        token = model(tokens(16))[0, -1].argmax()
    assert recorded.path == str(kernels_file(path)) and recorded.left_out == 0
    assert token == first_token(model, tokens(16))
    calls = recorded.calls["cpu"]
    names = [json.loads(call)[0] for call in calls]
    assert len(calls) == len(set(calls)) < len(original.calls)
    assert set(names) == {name for name, _ in original.calls}
    with Seen() as again:
        loaded = load_kernels(path, "cpu")
    assert loaded == LoadedKernels(recorded.path, ran=len(calls))

    def pairs(seen: Seen) -> set[Any]:
        return {(name, *map(described, filter(torch.is_tensor, args))) for name, args in seen.calls}

    # What makes the arguments is beside the calls.
    assert pairs(original) <= pairs(again)


def test_arguments_of_every_kind_come_back(path: Path) -> None:
    states = torch.randn(2, 8, 4, 4).to(memory_format=torch.channels_last)
    with torch.inference_mode(), record_kernels(path) as recorded:
        states.masked_fill_(states > 0, float("-inf"))
        torch.gather(states.contiguous(), 1, torch.ones(2, 8, 4, 4, dtype=torch.int64))
        torch.nn.functional.gelu(states, approximate="tanh")
        torch.cat([states, states.expand(2, 8, 4, 4)], dim=1)
        torch.zeros(3, dtype=torch.bfloat16, layout=torch.strided, device="cpu")
        states.to(torch.float16).contiguous(memory_format=torch.contiguous_format)
        torch.randn(1, 1, 1).expand(4, 5, 6).add(1.5)
        states[torch.tensor([0, 1]), None, torch.tensor([1, 1])]
        torch.add(states, 1, out=torch.empty(0))
        torch.nonzero(states)
        states.sum().item()
    assert recorded.left_out == 0
    assert {"aten.nonzero.default", "aten.add.out", "aten.index.Tensor"} <= {
        json.loads(call)[0] for call in recorded.calls["cpu"]
    }
    assert load_kernels(path, "cpu") == LoadedKernels(recorded.path, ran=len(recorded.calls["cpu"]))


def test_calls_that_a_trace_cannot_have_run_and_are_counted(path: Path) -> None:
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad(), record_kernels(path) as recorded:
        torch.ones(2) + 1
        known = {device: list(calls) for device, calls in recorded.calls.items()}
        torch.rand(2, generator=generator)
        torch.empty(2, device="meta") + 1
        torch.eye(2).to_sparse() @ torch.eye(2)
        assert torch.cond(torch.tensor(True), lambda one: one + 1, lambda one: one - 1, (torch.ones(2),))[0] == 2
    assert recorded.left_out >= 5
    assert all("meta" not in call and "sparse" not in call.split("to_sparse")[-1] for call in recorded.calls["cpu"])
    assert set(known["cpu"]) < set(recorded.calls["cpu"]) and set(recorded.calls) == {"cpu"}


def test_a_failed_run_writes_nothing(path: Path) -> None:
    with pytest.raises(KeyError), record_kernels(path):
        torch.ones(2) + 1
        raise KeyError("the program's")
    assert not kernels_file(path).exists()
    with record_kernels(path) as recorded:
        pass
    assert recorded == KernelRecording() and not kernels_file(path).exists()


def test_recordings_are_merged_and_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for length in (2, 3, 2):
        with torch.no_grad(), record_kernels(path) as recorded:
            torch.ones(length).neg()
    assert recorded.path is not None
    calls = read_kernels(recorded.path).devices["cpu"]
    assert [json.loads(call)[1][0] for call in calls if "neg" in call] == [tensor([2]), tensor([3])]
    monkeypatch.setattr(_kernels, "MAX_CALLS", len(calls) + 1)
    with torch.no_grad(), record_kernels(path):
        torch.ones(4).neg()
        torch.ones(5).neg()
    assert len(read_kernels(recorded.path).devices["cpu"]) == len(calls) + 1
    assert read_kernels(recorded.path).devices["cpu"][:-1] == calls
    assert read_kernels(recorded.path).is_full()
    with torch.no_grad(), record_kernels(path):
        torch.ones(6).neg()
    assert read_kernels(recorded.path).devices["cpu"][:-1] == calls


def test_merging_keeps_all_calls_of_all_devices_and_survives_its_file(tmp_path: Path) -> None:
    draw = random.Random(5)
    file = tmp_path / "a.kernels.json"

    def made() -> KernelTrace:
        devices = draw.sample(["cpu", "cuda", "xpu"], draw.randint(0, 3))
        calls = [f'["aten.neg.default",[{number}],{{}}]' for number in range(4)]
        return KernelTrace(frozenset("m"), {name: tuple(draw.sample(calls, draw.randint(1, 4))) for name in devices})

    def sets(trace: KernelTrace) -> dict[str, set[str]]:
        return {device: set(calls) for device, calls in trace.devices.items()}

    for _ in range(200):
        one, other = made(), made()
        merged = one + other
        for device in one.devices.keys() | other.devices.keys():
            assert sets(merged)[device] == sets(one).get(device, set()) | sets(other).get(device, set())
        assert sets(merged) == sets(other + one)
        assert merged + merged == merged + KernelTrace() == merged
        file.write_text(_kernels._encoded(merged))
        assert read_kernels(file) == merged


def test_a_trace_of_other_content_is_passed_over_and_replaced(path: Path, store: Path) -> None:
    model_files.settle(path)
    loaded = tetris.load(path)
    with torch.no_grad(), record_kernels(path) as recorded:
        torch.ones(2).neg()
    assert recorded.path is not None
    known = read_kernels(recorded.path)
    assert len(known.models) == 1
    assert load_kernels(path, "cpu").ran == len(recorded.calls["cpu"])
    add_to_kernels(path, KernelTrace(frozenset(["another"]), known.devices), recorded.path)
    assert load_kernels(path, "cpu") == LoadedKernels()
    with torch.no_grad(), record_kernels(path) as recorded:
        torch.ones(3).neg()
    assert read_kernels(recorded.path).models == known.models
    assert load_kernels(path, "cpu").ran == len(recorded.calls["cpu"])
    del loaded


def test_a_directory_and_a_kernels_file_name_a_trace_too(path: Path, tmp_path: Path) -> None:
    with record_kernels(path.parent):
        torch.ones(2).neg()
    assert load_kernels(path.parent, "cpu").ran > 0
    shard = model_files.write(path.parent / "model-00001-of-00002.safetensors", {"b": floats([4])})
    assert load_kernels(shard, "cpu").ran > 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with record_kernels(path, to=elsewhere / "one.kernels.json") as recorded:
        torch.ones(2).neg()
    assert recorded.path == str(elsewhere / "one.kernels.json")
    assert load_kernels(elsewhere / "one.kernels.json", "cpu").ran == len(recorded.calls["cpu"])


BROKEN: dict[str, bytes] = {
    "empty": b"",
    "not JSON": b"{",
    "not UTF-8": b'"\xff\xfe"',
    "deep": b"[" * 200_000,
    "a list": b"[]",
    "another format": b'{"format": "tetris-order", "version": 1, "models": [], "devices": {}}',
    "another version": b'{"format": "tetris-kernels", "version": 2, "models": [], "devices": {}}',
    "a true version": b'{"format": "tetris-kernels", "version": true, "models": [], "devices": {}}',
    "no devices": b'{"format": "tetris-kernels", "version": 1, "models": []}',
    "too long": b" " * ((16 << 20) + 1),
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_passed_over(path: Path, text: bytes, caplog: pytest.LogCaptureFixture) -> None:
    kernels_file(path).write_bytes(text)
    with caplog.at_level(logging.WARNING, "tetris"):
        assert load_kernels(path, "cpu") == LoadedKernels()
    assert str(kernels_file(path)) in caplog.text
    assert load_kernels(kernels_file(path), "cpu") == LoadedKernels()
    # The next recording replaces it.
    with record_kernels(path):
        torch.ones(2).neg()
    assert load_kernels(path, "cpu").ran > 0


@pytest.mark.parametrize("kind", ["directory", "fifo", "device", "dangling link"])
def test_what_is_no_file_is_passed_over(path: Path, kind: str) -> None:
    made = kernels_file(path)
    if kind == "directory":
        made.mkdir()
    elif kind == "fifo":
        # Opening it for reading would wait for a writer.
        os.mkfifo(made)
    else:
        made.symlink_to("/dev/zero" if kind == "device" else "nowhere")
    assert load_kernels(path, "cpu") == LoadedKernels()


@pytest.mark.parametrize(
    "call",
    [
        "aten.neg.default",
        ["aten.neg.default", []],
        [1, [], {}],
        ["aten.neg", [], {}],
        ["aten.neg.default.more", [], {}],
        ["aten.neg.default", {}, {}],
        ["aten.neg.default", [], []],
        ["aten.neg.default", [{}], {}],
        ["aten.neg.default", [{"tensor": 1}], {}],
        ["aten.neg.default", [{"tensor": ["float32", [-1], None, "cpu"]}], {}],
        ["aten.neg.default", [{"tensor": ["float32", [True], None, "cpu"]}], {}],
        ["aten.neg.default", [{"tensor": ["float32", [1.0], None, "cpu"]}], {}],
        ["aten.neg.default", [{"tensor": ["float32", [2, 2], [1], "cpu"]}], {}],
        ["aten.neg.default", [{"tensor": ["float32", [1] * 65, None, "cpu"]}], {}],
        ["aten.neg.default", [{"tensor": ["float32", [1 << 63], None, "cpu"]}], {}],
        ["aten.neg.default", [{"tensor": [["float32"], [1], None, "cpu"]}], {}],
        ["aten.neg.default", [{"dtype": "os.system"}], {}],
        ["aten.neg.default", [{"object": "float32"}], {}],
        ["aten.neg.default", [{"float": "1"}], {}],
        ["aten.neg.default", [1 << 63], {}],
        ["aten.neg.default", [float("nan")], {}],
        ["aten.neg.default", [[[[[[1]]]]]], {}],
        ["aten.neg.default", ["x" * 4000], {}],
        ["aten.neg.default", [], {"a" * 200: 1}],
    ],
    ids=lambda call: json.dumps(call)[:60],
)
def test_a_call_that_is_none_makes_the_file_none(path: Path, call: Any) -> None:
    write(path, ADD, call)
    with pytest.raises(ValueError, match=r"record it again|is not JSON"):
        read_kernels(kernels_file(path))
    assert load_kernels(path, "cpu") == LoadedKernels()


def test_lists_as_deep_as_the_interpreter_reads_are_none(path: Path) -> None:
    for depth in range(5, sys.getrecursionlimit() + 10, 7):
        text = json.dumps({"format": "tetris-kernels", "version": 1, "models": [], "devices": {"cpu": ["HERE"]}})
        kernels_file(path).write_text(text.replace('"HERE"', "[" * depth + "]" * depth))
        assert kernels_of(path) is None


def test_any_change_of_a_file_gives_a_trace_or_none(path: Path) -> None:
    with record_kernels(path):
        first_token(small_decoder(), tokens(16))
    text = kernels_file(path).read_bytes()
    draw = random.Random(3)
    found = 0
    for _ in range(200):
        changed = bytearray(text)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(changed))
            part = changed[at : at + draw.randint(0, 9)]
            changed[at : at + draw.randint(0, 3)] = draw.choice([b"", b"9" * 30, b"1e999", b"[", b'"', b"null", part])
        kernels_file(path).write_bytes(changed)
        trace = kernels_of(path)
        assert trace is None or len(trace[1].devices) <= 1
        found += trace is not None
    assert 0 < found < 200


def test_more_calls_than_a_trace_has_are_none(path: Path) -> None:
    write(path, *[["aten.neg.default", [number], {}] for number in range(_kernels.MAX_CALLS)])
    assert read_kernels(kernels_file(path)).is_full()
    write(path, *[["aten.neg.default", [number], {}] for number in range(_kernels.MAX_CALLS + 1)])
    assert kernels_of(path) is None


@pytest.fixture
def custom() -> Iterator[list[int]]:
    """An operator of another library, and the numbers of elements that it was called with."""
    called: list[int] = []
    library = torch.library.Library("tetris_test", "DEF")
    library.define("probe(Tensor one) -> Tensor")

    def probe(one: torch.Tensor) -> torch.Tensor:
        called.append(one.numel())
        return one.clone()

    library.impl("probe", probe, "CompositeExplicitAutograd")
    yield called
    library._destroy()


def test_only_operators_of_aten_are_called(path: Path, custom: list[int], tmp_path: Path) -> None:
    torch.ops.tetris_test.probe(torch.ones(3))
    assert custom.pop() == 3
    made = str(tmp_path / "made")
    calls = [
        ["tetris_test.probe.default", [tensor([3])], {}],
        ["aten.from_file.default", [made, True, 16], {}],
        ["aten.from_file.out", [made, True, 16], {"out": tensor([16])}],
        ["aten.save.default", [tensor([3]), made], {}],
        ["aten.manual_seed.default", [7], {}],
        ["aten._assert_async.default", [tensor([1], "bool")], {}],
        ["aten._assert_async.msg", [tensor([1], "bool"), "message"], {}],
        ["aten.__init__.default", ["prims"], {}],
        ["aten.__class__.default", ["x"], {}],
        ["aten.__name__.default", [], {}],
        ["aten.neg.__class__", [], {}],
        ["aten.neg.__call__", [tensor([3])], {}],
        ["aten.neg.no_such", [tensor([3])], {}],
        ["aten.no_such.default", [tensor([3])], {}],
        ["aten.neg.default", [tensor([3], "no_such_dtype")], {}],
        ["aten.neg.default", [tensor([3], "ones")], {}],
        ["aten.neg.default", [{"tensor": ["float32", [3], None, "cuda"]}], {}],
        ["tetris_test.neg.default", [tensor([3])], {}],
        ["aten.len.Tensor", [tensor([3])], {}],
        ["_C._cuda_init.default", [], {}],
        ["prim.Print.default", ["x"], {}],
    ]
    write(path, ADD, *calls)
    state = torch.get_rng_state()
    loaded = load_kernels(path, "cpu")
    assert loaded == LoadedKernels(str(kernels_file(path)), ran=1, unknown=len(calls))
    assert custom == [] and not Path(made).exists()
    assert torch.equal(state, torch.get_rng_state())


def test_an_operator_of_another_library_is_not_recorded(path: Path, custom: list[int]) -> None:
    with torch.no_grad(), record_kernels(path) as recorded:
        torch.ops.tetris_test.probe(torch.ones(3))
    assert custom == [3] and recorded.left_out == 1
    assert not any("probe" in call for call in recorded.calls["cpu"])


def test_larger_calls_are_refused_before_memory_is_taken(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    big = LIMIT // 4 + 1
    calls = [
        ["aten.neg.default", [tensor([big])], {}],
        ["aten.neg.default", [tensor([1 << 62, 1 << 62])], {}],
        ["aten.add.Tensor", [tensor([big // 2 + 1]), tensor([big // 2 + 1])], {}],
        ["aten.cat.default", [[tensor([big // 2 + 1]), tensor([big // 2 + 1])]], {}],
        # One element of each far from the other, and one for all.
        ["aten.neg.default", [tensor([2], strides=[big])], {}],
        ["aten.neg.default", [tensor([1 << 40], strides=[0])], {}],
        # Small arguments with large results.
        ["aten.zeros.default", [[1 << 40]], {"device": {"device": "cpu"}}],
        ["aten.repeat.default", [tensor([1]), [1 << 20, 1 << 20]], {}],
    ]
    # What operators say only when they run: another process does.
    refused = [
        ["aten.arange.default", [1e12], {}],
        ["aten.arange.default", [1 << 40], {}],
        ["aten.bincount.default", [tensor([4], "int64"), None, 1 << 40], {}],
        # A product of a column and a row, within another operator.
        ["aten.linear.default", [tensor([20_000, 1]), tensor([20_000, 1])], {}],
    ]
    small = [["aten.neg.default", [tensor([big - 1])], {}], ["aten.bincount.default", [tensor([4], "int64")], {}]]
    write(path, *calls, *refused, *small)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    made: list[int] = []
    make = _kernels_call._made_up
    monkeypatch.setattr(_kernels_call, "_made_up", lambda *args: made.append(args[1]) or make(*args))
    loaded = load_kernels(path, "cpu", limit_bytes=LIMIT)
    assert loaded == LoadedKernels(str(kernels_file(path)), ran=len(small), too_large=len(calls), failed=len(refused))
    assert made == [[big - 1], [4]]
    assert resource.getrlimit(resource.RLIMIT_AS) == limits


class FakeCuda:
    """The part of `torch.cuda` that limits memory: 1,000 bytes, of which PyTorch has 100."""

    def __init__(self) -> None:
        self.fractions: list[tuple[float, int]] = []

    def get_device_properties(self, index: int) -> Any:
        return SimpleNamespace(total_memory=1000)

    def memory_reserved(self, index: int) -> int:
        return 100

    def set_per_process_memory_fraction(self, fraction: float, index: int) -> None:
        self.fractions.append((fraction, index))


def test_memory_of_a_device_is_limited_meanwhile() -> None:
    for room, expected in ((400, 0.5), (4000, 1.0)):
        cuda = FakeCuda()
        with pytest.raises(KeyError), _kernels_target.device_memory(cuda, 3, room):
            assert cuda.fractions == [(expected, 3)]
            raise KeyError("a call's")
        assert cuda.fractions[1:] == [(1.0, 3)]


def test_calls_that_fail_are_counted_and_the_others_run(path: Path) -> None:
    wrong = [
        ["aten.mm.default", [tensor([2, 3]), tensor([2, 3])], {}],
        ["aten.add_.Tensor", [tensor([4], strides=[0]), tensor([4])], {}],
    ]
    write(path, *wrong, ADD)
    loaded = load_kernels(path, "cpu")
    assert loaded == LoadedKernels(str(kernels_file(path)), ran=1, failed=len(wrong))
    assert loaded.left_out == len(wrong)


def test_calls_are_left_when_the_time_is_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, ADD)
    monkeypatch.setattr(_kernels_replay, "MAX_S", -1.0)
    assert load_kernels(path, "cpu") == LoadedKernels(str(kernels_file(path)), late=1)


def test_a_trace_of_another_device_is_passed_over(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(path, devices={"cuda": [ADD]})
    with caplog.at_level(logging.WARNING, "tetris"):
        assert load_kernels(path, "cpu") == LoadedKernels(str(kernels_file(path)))
    assert "expected kernels of cpu, found those of cuda" in caplog.text
    # A recording on this one is beside it.
    with record_kernels(path):
        torch.ones(2).neg()
    assert read_kernels(kernels_file(path)).devices.keys() == {"cuda", "cpu"}
    assert load_kernels(path, "cpu").ran > 0
    with pytest.raises(RuntimeError):
        load_kernels(path, "no-such-device")


def test_random_numbers_and_modes_go_on_as_before(path: Path) -> None:
    with torch.no_grad(), record_kernels(path) as recorded:
        torch.rand(4)
        torch.multinomial(torch.ones(8), 2)
        torch.ones(3).uniform_()
    assert recorded.left_out == 0
    torch.manual_seed(5)
    expected = torch.rand(4)
    torch.manual_seed(5)
    assert load_kernels(path, "cpu").left_out == 0
    assert torch.equal(torch.rand(4), expected)
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_integers_are_indexes_that_exist_and_the_rest_is_no_trash(path: Path) -> None:
    write(
        path,
        ["aten.embedding.default", [tensor([1, 4]), tensor([3, 5], "int64")], {}],
        ["aten.index.Tensor", [tensor([1, 4]), [tensor([3], "int64"), tensor([3], "int64")]], {}],
        ["aten.multinomial.default", [tensor([8]), 2], {}],
    )
    with Seen() as seen:
        assert load_kernels(path, "cpu").ran == 3
    made = [arg for _, args in seen.calls for arg in args if torch.is_tensor(arg)]
    assert made and all(one.eq(1 if one.is_floating_point() else 0).all() for one in made)


def test_processes_of_a_pool_have_kernels_before_they_are_prepared(path: Path, tmp_path: Path) -> None:
    with torch.no_grad(), record_kernels(path):
        torch.ones(2, 2).mm(torch.ones(2, 2))
    broken = tmp_path / "broken.kernels.json"
    broken.write_bytes(b"{")
    models = [tmp_path / "none" / "model.safetensors", broken, path]
    for kernels, expected in ((models, "kernels"), ([], "no kernels")):
        with Pool(1, device="cpu", kernels=kernels, prepare="warm_jobs:prepare_after_kernels") as pool:
            assert pool.run("warm_jobs:left").result(LONG_S) == [expected]


def test_a_process_loads_the_kernels_of_each_model_on_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = multiprocessing.Pipe()
    events: list[Any] = []
    monkeypatch.setattr(warm, "load_kernels", lambda *arguments: events.append(arguments))
    monkeypatch.setattr(warm_jobs, "prepare", lambda: events.append("prepared"))
    ours.send(("warm_jobs:left", (), {}))
    warm._serve(theirs, "cpu", ["one", "two"], "warm_jobs:prepare")
    assert events == [("one", "cpu"), ("two", "cpu"), "prepared"]
    assert ours.recv()[0] and ours.recv()[0]


def test_a_process_needs_no_compiler_for_kernels(path: Path) -> None:
    with record_kernels(path):
        first_token(small_decoder(), tokens(16))
    with Pool(1, device="cpu", kernels=[path]) as pool:
        assert pool.run("warm_jobs:has_module", "tetris._kernels_replay").result(LONG_S)
        assert not pool.run("warm_jobs:has_module", "torch._dynamo").result(LONG_S)


def test_a_pool_refuses_kernels_without_a_device() -> None:
    with pytest.raises(ValueError, match="expected a device"):
        Pool(1, kernels=["model.safetensors"])
    with pytest.raises(ValueError, match="expected a list of models"):
        Pool(1, device="cpu", kernels="model.safetensors")
