"""torch tensors in the GPU mirror's memory, over the simulated device, whose host memory is mapped read-only."""

from __future__ import annotations

import copy
import gc
import logging
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import model_files
import pytest
import safetensors
import safetensors.torch
import tetris
import tetris.errors
import tetris.gpu
import tetris.torch
import torch
from differential import bits
from gpu_mirror import LONG_S, Mirror, chunks
from model_files import BITS, floats, stored
from process import python
from safetensors.torch import load_file as load_copied
from safetensors.torch import save_file, save_model
from tetris._device import load as device_load
from tetris._device import mirror as device_mirror
from tetris._device import plan as device_plan
from tetris._torch_tensor import DTYPES
from tetris.torch import (
    ReadOnlyTensor,
    device_loads,
    is_mirrored,
    load_model,
    private_,
    record_order,
    release,
    wait,
)

DEVICE_BYTES = 64 << 20


# Not imported by name: unpatching replaces that by what safetensors has.
def load_file(*arguments: Any, **others: Any) -> dict[str, torch.Tensor]:
    return tetris.torch.load_file(*arguments, **others)


def safe_open(*arguments: Any, **others: Any) -> Any:
    return tetris.torch.safe_open(*arguments, **others)


@pytest.fixture(autouse=True)
def _said() -> Iterator[None]:
    """Fixture: one-time messages of the log come once in each test, and no test leaves torch's functions watched."""
    device_mirror._said.clear()
    _earlier.clear()
    _earlier.update(chunks())
    yield


def eventually(what: Callable[[], bool]) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + LONG_S
    while not what():
        assert time.monotonic() < deadline, "not in time"
        gc.collect()
        time.sleep(0.01)


#: Chunks that were mapped before the test: compiled code of another one may keep them.
_earlier: set[int] = set()


def mapped() -> int:
    """Number of chunks of the simulated device's memory that this process has mapped since the test began."""
    return len(chunks().keys() - _earlier)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tensors = {"a": floats([4, 6]), "b": floats([5]), "none": stored("F32", [0, 3]), "scalar": stored("F32", [])}
    return model_files.write(tmp_path / "model.safetensors", tensors)


def test_every_element_type_has_the_bytes_of_the_file(mirror: Mirror, tmp_path: Path) -> None:
    tensors = {name: stored(name, [3, 4, 8]) for name in BITS if name in DTYPES}
    path = model_files.write(tmp_path / "types", tensors)
    before = device_loads()
    loaded = load_file(path, device="simulated")
    expected = load_file(path)
    assert list(loaded) == list(expected)
    for name, tensor in loaded.items():
        assert is_mirrored(tensor), name
        assert tensor.dtype == expected[name].dtype and tensor.shape == expected[name].shape
        assert bits(tensor) == bits(expected[name]) == tensors[name].data
    after = device_loads()
    assert (after.mirrored, after.copied) == (before.mirrored + 1, before.copied)
    assert after.mirrored_bytes > before.mirrored_bytes


def test_tensors_without_bytes_and_without_dimensions(mirror: Mirror, path: Path) -> None:
    loaded = load_file(path, device="simulated")
    for name, tensor in load_copied(path).items():
        assert torch.equal(loaded[name], tensor) and loaded[name].shape == tensor.shape
        assert loaded[name].is_contiguous()


def test_two_loads_and_two_processes_have_one_copy(mirror: Mirror, path: Path) -> None:
    one = load_file(path, device="simulated")
    other = load_file(path, device="simulated")
    assert one["a"].data_ptr() == other["a"].data_ptr()
    program = """
        import json, os, sys
        from tetris.torch import load_file
        loaded = load_file(sys.argv[1], device="simulated")
        print(json.dumps([loaded["a"].tolist(), sorted({
            line.split()[4] for line in open("/proc/self/maps") if "/memfd:tetris" in line
        })]))
    """
    values, inodes = python(program, path)
    assert values == one["a"].tolist()
    assert inodes and {int(inode) for inode in inodes} <= chunks().keys()


@pytest.mark.parametrize("keep", ["tensor", "view", "slice", "storage", "parameter", "numpy"])
def test_memory_is_held_as_long_as_anything_over_it_lives(mirror: Mirror, path: Path, keep: str) -> None:
    expected = load_copied(path)["a"]
    assert mapped() == 0
    loaded = load_file(path, device="simulated")
    make: dict[str, Callable[[torch.Tensor], Any]] = {
        "tensor": lambda tensor: tensor,
        "view": lambda tensor: tensor.view(-1)[3:],
        "slice": lambda tensor: tensor[1:, ::2],
        "storage": lambda tensor: tensor.untyped_storage(),
        "parameter": lambda tensor: torch.nn.Parameter(tensor),
        "numpy": lambda tensor: tensor.numpy(),
    }
    kept = make[keep](loaded["a"])
    loaded.clear()
    gc.collect()
    assert mapped() > 0
    if keep == "storage":
        assert bytes(kept.tolist()) == bits(expected)
    else:
        assert (torch.as_tensor(kept).reshape(-1) == torch.as_tensor(make[keep](expected)).reshape(-1)).all()
    del kept
    eventually(lambda: mapped() == 0)


def test_without_a_mirror_tensors_are_copied_and_the_log_says_so_once(
    store: Path, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = device_loads().copied
    with caplog.at_level(logging.WARNING, "tetris"):
        for _ in range(2):
            loaded = load_file(path, device="simulated")
            for name, tensor in load_copied(path).items():
                assert torch.equal(loaded[name], tensor) and not is_mirrored(loaded[name])
        with safe_open(path, "pt", device="simulated") as opened:
            assert torch.equal(opened.get_tensor("a"), loaded["a"])
    said = [record.getMessage() for record in caplog.records if "simulated" in record.getMessage()]
    assert len(said) == 1
    assert device_loads().copied == before + 3
    assert device_loads().reason and device_loads().reason in said[0]
    # They are this process's own.
    loaded["a"].add_(1)


def test_a_model_that_has_no_room_is_copied(mirror: Mirror, tmp_path: Path) -> None:
    path = tmp_path / "large"
    save_file({"a": torch.zeros(DEVICE_BYTES + 4096, dtype=torch.uint8)}, str(path))
    assert not is_mirrored(load_file(path, device="simulated")["a"])
    module = torch.nn.Module()
    module.register_buffer("a", torch.ones(DEVICE_BYTES + 4096, dtype=torch.uint8))
    assert load_model(module, path, device="simulated") == ([], [])
    assert not module.a.any()


def test_the_environment_can_do_without(mirror: Mirror, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TETRIS_GPU", "0")
    assert not is_mirrored(load_file(path, device="simulated")["a"])
    monkeypatch.setenv("TETRIS_GPU", "1")
    assert is_mirrored(load_file(path, device="simulated")["a"])


@pytest.mark.parametrize("device", ["nonsense", "cuda:nonsense", "simulated:0", "meta:x"])
def test_errors_are_those_of_safetensors(mirror: Mirror, path: Path, tmp_path: Path, device: str) -> None:
    with pytest.raises(Exception) as ours:
        load_file(path, device=device)
    with pytest.raises(Exception) as theirs:
        load_copied(path, device=device)
    assert type(ours.value) is type(theirs.value) and str(ours.value) == str(theirs.value)
    with pytest.raises(FileNotFoundError):
        load_file(tmp_path / "none", device="simulated")
    broken = tmp_path / "broken"
    broken.write_bytes(b"no header")
    with pytest.raises(safetensors.SafetensorError):
        load_file(broken, device="simulated")


# What is written to, and what must not be.


def test_read_only_tensors_refuse_writes(mirror: Mirror, path: Path) -> None:
    loaded = load_file(path, device="simulated", mode="read_only")
    expected = load_copied(path)
    for write in (lambda t: t.add_(1), lambda t: t[0].zero_(), lambda t: torch.add(t, 1, out=t)):
        with pytest.raises(tetris.ReadOnlyTensorError):
            write(loaded["a"])
    assert type(loaded["a"]) is ReadOnlyTensor and torch.equal(loaded["a"] + 0, expected["a"])
    assert type(loaded["a"].clone()) is torch.Tensor


def test_chosen_tensors_are_private(mirror: Mirror, path: Path) -> None:
    expected = load_copied(path)
    for private in (["a"], {"a": None}, lambda name: name == "a"):
        for mode in ("copy_on_write", "read_only"):
            loaded = load_file(path, device="simulated", mode=mode, private=private)
            assert not is_mirrored(loaded["a"]) and is_mirrored(loaded["b"])
            loaded["a"].add_(1)
            assert torch.equal(loaded["a"], expected["a"] + 1)
    for wrong in ("a", b"a", 1):
        with pytest.raises(TypeError, match="private"):
            load_file(path, device="simulated", private=wrong)
    # No one else sees it.
    assert torch.equal(load_file(path, device="simulated")["a"], expected["a"])


class Net(torch.nn.Module):
    """A tied weight, one that is used by another module, buffers of both kinds, and a part that nobody calls."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 8)
        self.first = torch.nn.Linear(8, 8)
        # Uses out_proj without calling it.
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = torch.nn.BatchNorm1d(8)
        self.head = torch.nn.Linear(8, 10, bias=False)
        self.head.weight = self.embedding.weight
        self.unused = torch.nn.Linear(8, 8)
        self.register_buffer("scale", torch.full([8], 0.5), persistent=False)

    def forward(self, indexes: torch.Tensor) -> torch.Tensor:
        x = self.first(self.embedding(indexes)) * self.scale
        x = self.attention(x, x, x)[0]
        return self.head(self.norm(x.transpose(1, 2)).transpose(1, 2))


INDEXES = torch.tensor([[1, 2, 3]])


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def saved(net: Net, tmp_path: Path) -> Path:
    path = tmp_path / "net.safetensors"
    save_model(net, str(path))
    return path


def fresh() -> Net:
    torch.manual_seed(1)
    return Net().eval()


def weights(module: torch.nn.Module) -> list[torch.Tensor]:
    return [tensor for name, tensor in [*module.named_parameters(), *module.named_buffers()] if name != "scale"]


def test_parameters_on_the_meta_device_become_parameters(mirror: Mirror, net: Net, saved: Path) -> None:
    with torch.device("meta"):
        module = Net()
    module.norm.weight.requires_grad_(False)
    load_model(module, saved, device="simulated")
    found = dict(module.named_parameters())
    assert {type(parameter) for parameter in found.values()} == {torch.nn.Parameter}
    assert {name for name, parameter in found.items() if not parameter.requires_grad} == {"norm.weight"}
    assert all(is_mirrored(parameter) for parameter in found.values())
    assert module.head.weight is module.embedding.weight
    assert all(type(buffer) is torch.Tensor for buffer in module.buffers())


@pytest.mark.parametrize("overlap", [False, True])
def test_a_modules_parameters_stay_the_same_objects(mirror: Mirror, net: Net, saved: Path, overlap: bool) -> None:
    module = fresh()
    before = weights(module)
    assert load_model(module, saved, device="simulated", overlap=overlap) == ([], [])
    assert all(one is other for one, other in zip(before, weights(module), strict=True))
    assert all(is_mirrored(tensor) for tensor in weights(module))
    assert module.head.weight is module.embedding.weight and module.head.weight.requires_grad
    with torch.no_grad():
        assert torch.equal(module(INDEXES), net(INDEXES))


@pytest.mark.parametrize("overlap", [False, True])
def test_a_module_on_the_meta_device_takes_no_memory_of_its_own(
    mirror: Mirror, net: Net, saved: Path, overlap: bool
) -> None:
    with torch.device("meta"):
        module = fresh()
    load_model(module, saved, device="simulated", overlap=overlap)
    # It has no values for it, and neither has the file.
    assert module.scale.is_meta
    module.scale = net.scale.clone()
    assert module.head.weight is module.embedding.weight
    assert torch.equal(module(INDEXES), net(INDEXES))
    assert all(is_mirrored(tensor) for tensor in weights(module))


def test_another_element_type_is_cast(mirror: Mirror, net: Net, saved: Path) -> None:
    for overlap in (False, True):
        module = fresh().to(torch.float64)
        load_model(module, saved, device="simulated", overlap=overlap)
        assert module.first.weight.dtype == torch.float64 and not is_mirrored(module.first.weight)
        assert torch.equal(module.first.weight, net.first.weight.double())


def test_names_and_shapes_are_checked_as_safetensors_does(mirror: Mirror, saved: Path) -> None:
    class Other(Net):
        def __init__(self) -> None:
            super().__init__()
            self.more = torch.nn.Linear(2, 2, bias=False)
            del self.unused

    def run(load: Callable[..., Any], **others: Any) -> Any:
        try:
            missing, unexpected = load(Other(), saved, **others)
        except RuntimeError as error:
            return str(error)
        return sorted(missing), sorted(unexpected)

    for strict in (True, False):
        wanted = run(safetensors.torch.load_model, strict=strict)
        assert run(load_model, strict=strict, device="simulated") == wanted
        assert run(load_model, strict=strict, device="simulated", private=True) == wanted

    module = fresh()
    module.first = torch.nn.Linear(3, 3)
    before = weights(module)
    with pytest.raises(RuntimeError, match="size mismatch for first"):
        load_model(module, saved, device="simulated")
    assert all(one is other for one, other in zip(before, weights(module), strict=True))


# Overlap: the daemon stands still while some of the weights are on their way.


class Slow:
    """A model whose tensors arrive when the test says so."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.waited: list[str | None] = []
        self.arrived = False
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def __getitem__(self, name: str) -> Any:
        return self.model[name]

    def __contains__(self, name: str) -> bool:
        return name in self.model

    def wait(self, name: str | None = None, timeout: float | None = None) -> None:
        self.waited.append(name)
        if self.error is not None:
            raise self.error
        self.model.wait(name, timeout)

    def arriving(self) -> list[str]:
        return [name for name in self.model if name not in self.waited and not self.arrived]

    def is_ready(self, name: str | None = None) -> bool:
        return self.arrived or (name is None and {*self.waited} >= {*self.model})


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[Slow]:
    """Models that are loaded from now on; they do not say that they are complete before everything was waited for."""

    made: list[Slow] = []
    original = device_load.open_mirrored

    def opened(*args: Any) -> Any:
        model = original(*args)
        made.append(Slow(model))
        return made[-1]

    monkeypatch.setattr(device_load, "open_mirrored", opened)
    return made


def hooks(module: torch.nn.Module) -> int:
    return sum(len(part._forward_pre_hooks) + len(part._forward_hooks) for part in module.modules())


def test_each_layer_waits_for_its_own_weights(mirror: Mirror, net: Net, saved: Path, slow: list[Slow]) -> None:
    module = fresh()
    load_model(module, saved, device="simulated", overlap=True)
    waited = slow[-1].waited
    assert waited == [] and hooks(module) > 0
    seen = []
    module.norm.register_forward_pre_hook(lambda *_: seen.extend(waited))
    assert torch.equal(module(INDEXES), net(INDEXES))
    assert "norm.weight" not in seen[: seen.index("attention.out_proj.weight")]
    assert waited.index("first.weight") < waited.index("attention.in_proj_weight") < waited.index("norm.weight")
    # A function of another module uses it.
    assert "attention.out_proj.weight" in waited
    # It is not used yet.
    assert "unused.weight" not in waited and hooks(module) > 1
    module.unused(torch.zeros(8))
    assert hooks(module) == 1
    before = list(waited)
    module(INDEXES)
    assert waited == before


def test_hooks_go_as_soon_as_everything_is_there(mirror: Mirror, net: Net, saved: Path, slow: list[Slow]) -> None:
    module = fresh()
    load_model(module, saved, device="simulated", overlap=True)
    slow[-1].arrived = True
    assert torch.equal(module(INDEXES), net(INDEXES))
    assert hooks(module) == 0


@pytest.mark.parametrize("called", [True, False])
def test_memory_goes_with_its_module_and_not_with_a_collection_of_garbage(
    mirror: Mirror, net: Net, saved: Path, slow: list[Slow], called: bool
) -> None:
    gc.collect()
    gc.disable()
    try:
        module = fresh()
        load_model(module, saved, device="simulated", overlap=True)
        if called:
            slow[-1].arrived = True
            assert torch.equal(module(INDEXES), net(INDEXES))
        slow.clear()
        assert mapped() > 0
        if called:
            tetris.torch.release(module)
        del module
        eventually(lambda: mapped() == 0)
    finally:
        gc.enable()


def test_a_part_can_be_called_by_itself(mirror: Mirror, net: Net, saved: Path, slow: list[Slow]) -> None:
    module = fresh()
    load_model(module, saved, device="simulated", overlap=True)
    x = torch.ones(1, 2, 8)
    assert torch.equal(module.attention(x, x, x)[0], net.attention(x, x, x)[0])
    assert set(slow[-1].waited) == {name for name in load_file(saved) if name.startswith("attention")}


def test_everything_can_be_waited_for(mirror: Mirror, net: Net, saved: Path, slow: list[Slow]) -> None:
    module = fresh()
    load_model(module, saved, device="simulated", overlap=True)
    wait(module)
    assert slow[-1].waited == [None] and hooks(module) == 0
    assert torch.equal(copy.deepcopy(module)(INDEXES), net(INDEXES))
    wait(module)
    wait(torch.nn.Linear(2, 2))


# Made by the test: an error that outlives it keeps the frames it was raised through, and with them the device's memory.
@pytest.mark.parametrize(
    "error", [partial(tetris.errors.GpuUnavailableError, "the copy failed"), partial(TimeoutError, "too long")]
)
def test_weights_that_do_not_arrive_are_copied(
    mirror: Mirror, net: Net, saved: Path, slow: list[Slow], error: Callable[[], Exception]
) -> None:
    module = fresh()
    before = weights(module)
    load_model(module, saved, device="simulated", overlap=True)
    slow[-1].error = error()
    copied = device_loads().copied
    assert torch.equal(module(INDEXES), net(INDEXES))
    assert device_loads().copied == copied + 1 and device_loads().reason == str(error())
    assert hooks(module) == 0 and not any(is_mirrored(tensor) for tensor in weights(module))
    assert all(one is other for one, other in zip(before, weights(module), strict=True))


def test_a_failed_call_leaves_nothing_behind(mirror: Mirror, net: Net, saved: Path, slow: list[Slow]) -> None:
    module = fresh()
    load_model(module, saved, device="simulated", overlap=True)
    with pytest.raises(IndexError):
        module(torch.tensor([[99]]))
    assert torch.equal(module(INDEXES), net(INDEXES))


def test_compiled_modules_wait_for_everything(mirror: Mirror, net: Net, saved: Path, slow: list[Slow]) -> None:
    module = fresh()
    load_model(module, saved, device="simulated", overlap=True)
    compiled: Any = torch.compile(module, backend="eager")
    with torch.no_grad():
        assert torch.allclose(compiled(INDEXES), net(INDEXES))
    assert None in slow[-1].waited and hooks(module) == 0
    torch._dynamo.reset()


def test_weights_are_waited_for_in_fact(mirror: Mirror, tmp_path: Path) -> None:
    """With the real mirror, many layers, and all of them used at once by the first call."""
    net = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(24)])
    path = tmp_path / "deep.safetensors"
    save_model(net, str(path))
    with torch.device("meta"):
        module = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(24)])
    load_model(module, path, device="simulated", overlap=True, order=[f"{layer}.weight" for layer in range(24)])
    x = torch.ones(2, 256)
    assert torch.equal(module(x), net(x))
    assert all(is_mirrored(tensor) for tensor in module.parameters())


def test_a_module_that_changes_its_weights_while_it_loads_reads_what_has_arrived(
    mirror: Mirror, tmp_path: Path, slow: list[Slow]
) -> None:
    class Doubled(torch.nn.Linear):
        def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
            state_dict[prefix + "weight"] = state_dict[prefix + "weight"] * 2
            super()._load_from_state_dict(state_dict, prefix, *others)

    path = tmp_path / "file"
    save_file({"weight": torch.ones(4, 4), "bias": torch.zeros(4)}, str(path))
    module = Doubled(4, 4)
    load_model(module, path, device="simulated", overlap=True)
    assert torch.equal(module.weight, torch.full([4, 4], 2.0)) and None in slow[-1].waited


# The order of use.


def test_an_order_file_is_used_by_every_load(
    mirror: Mirror, net: Net, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tetris import gpu

    orders = []
    original = gpu.load

    def load(*args: Any, **others: Any) -> Any:
        orders.append(others["order"])
        return original(*args, **others)

    monkeypatch.setattr(gpu, "load", load)
    load_file(saved, device="simulated")
    with record_order(net, saved) as recording:
        net(INDEXES)
    load_file(saved, device="simulated")
    load_model(fresh(), saved, device="simulated")
    with safe_open(saved, "pt", device="simulated") as opened:
        opened.get_tensor("first.weight")
    load_file(saved, device="simulated", order=["norm.weight", "gone"])
    load_file(saved, device="simulated", order=False)
    assert recording.path is not None
    Path(recording.path).write_bytes(b"[" * 100_000)
    assert torch.equal(load_file(saved, device="simulated")["first.weight"], net.first.weight)
    names = set(load_file(saved))
    recorded = [name for name in recording.names if name in names]
    assert recorded[0] == "embedding.weight" or "head.weight" in recorded[:1]
    assert orders == [None, recorded, recorded, recorded, ["norm.weight", "gone"], None, None]


# safe_open, the patch, transformers.


def test_safe_open_waits_for_one_tensor_and_slices(mirror: Mirror, path: Path) -> None:
    expected = load_copied(path)
    with safe_open(path, "pt", device="simulated") as opened:
        assert opened.keys() == sorted(expected) and opened.metadata() == safetensors.safe_open(path, "pt").metadata()
        tensor = opened.get_tensor("a")
        part = opened.get_slice("a")
        assert part.get_shape() == [4, 6] and part.get_dtype() == "F32"
        assert torch.equal(part[1:3, ::2], expected["a"][1:3, ::2]) and is_mirrored(part[1:3])
        assert list(opened.get_tensors()) == list(expected)
        with pytest.raises(safetensors.SafetensorError):
            opened.get_tensor("nothing")
    # They live longer than the file was open.
    assert torch.equal(tensor, expected["a"]) and torch.equal(part[0], expected["a"][0])
    with safe_open(path, "pt", device="simulated", private=True) as opened:
        assert not is_mirrored(opened.get_tensor("a"))


def test_safe_open_gives_the_file_that_it_has_opened(mirror: Mirror, path: Path, tmp_path: Path) -> None:
    expected = load_copied(path)["a"]
    with safe_open(path, "pt", device="simulated") as opened:
        os.replace(model_files.write(tmp_path / "new", {"a": stored("F32", [4, 6], seed=9)}), path)
        assert torch.equal(opened.get_tensor("a"), expected)


@pytest.fixture
def warmed_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The package is patched, and the CPU, as libraries call it, is the simulated device.

    The calls by which transformers allocates a model's size in advance.
    """
    modeling_utils = pytest.importorskip("transformers.modeling_utils")
    calls: list[Any] = []
    monkeypatch.setattr(modeling_utils, "caching_allocator_warmup", lambda *arguments: calls.append(arguments))
    original = device_mirror.mirror_device
    for module in (device_mirror, device_plan):
        monkeypatch.setattr(
            module, "mirror_device", lambda device: "simulated" if str(device) == "cpu" else original(device)
        )
    tetris.patch()
    yield calls
    tetris.unpatch()


@pytest.fixture
def llama(tmp_path: Path) -> Any:
    """A small model of transformers, saved in several files."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, vocab_size=200
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()
    model.save_pretrained(tmp_path / "llama", max_shard_size="100KB")
    assert len(list((tmp_path / "llama").glob("*.safetensors"))) > 1
    return model


def from_pretrained(tmp_path: Path, dtype: torch.dtype = torch.bfloat16) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(tmp_path / "llama", device_map="cpu", dtype=dtype).eval()


def same_weights(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    return all(torch.equal(*pair) for pair in zip(one.parameters(), other.parameters(), strict=True))


def test_from_pretrained_uses_the_mirror(mirror: Mirror, warmed_up: list[Any], llama: Any, tmp_path: Path) -> None:
    model = from_pretrained(tmp_path)
    assert all(is_mirrored(parameter) for parameter in model.parameters())
    assert same_weights(model, llama) and model(INDEXES).logits.isfinite().all()
    # Nothing of the model's size is allocated in advance.
    assert warmed_up == []
    again = from_pretrained(tmp_path)
    assert again.lm_head.weight.data_ptr() == model.lm_head.weight.data_ptr()


def test_a_model_that_is_cast_does_not_go_through_the_mirror(
    mirror: Mirror, warmed_up: list[Any], llama: Any, tmp_path: Path
) -> None:
    before = device_loads().mirrored
    model = from_pretrained(tmp_path, torch.float32)
    assert not any(is_mirrored(parameter) for parameter in model.parameters())
    assert device_loads().mirrored == before and len(warmed_up) == 1
    assert torch.equal(model.lm_head.weight, llama.lm_head.weight.float())


def test_from_pretrained_without_a_mirror_is_as_before(
    store: Path, warmed_up: list[Any], llama: Any, tmp_path: Path
) -> None:
    model = from_pretrained(tmp_path)
    assert same_weights(model, llama) and len(warmed_up) == 1
    assert not any(is_mirrored(parameter) for parameter in model.parameters())
    assert device_loads().reason


def test_unpatching_takes_everything_back(warmed_up: list[Any]) -> None:
    from transformers import core_model_loading, modeling_utils

    def hooked() -> list[Any]:
        return [
            core_model_loading._materialize_copy,
            modeling_utils.caching_allocator_warmup,
            modeling_utils.PreTrainedModel._load_pretrained_model,
        ]

    patched = hooked()
    assert all(callable(function) and function.__module__ for function in patched)
    tetris.unpatch()
    assert not any(one is other for one, other in zip(patched, hooked(), strict=True))
    tetris.patch()


def test_patched_safetensors_uses_the_mirror(mirror: Mirror, warmed_up: list[Any], path: Path) -> None:
    assert is_mirrored(safetensors.torch.load_file(path, device="simulated")["a"])
    with safetensors.safe_open(path, "pt", device="simulated") as opened:
        assert is_mirrored(opened.get_tensor("a"))


def test_loading_a_state_into_a_mirrored_module_writes_to_memory_of_its_own(
    mirror: Mirror, warmed_up: list[Any], net: Net, saved: Path
) -> None:
    module = fresh()
    load_model(module, saved, device="simulated")
    state = {name: torch.zeros_like(tensor) for name, tensor in module.state_dict().items()}
    module.load_state_dict(state)
    assert not module.first.weight.any() and not is_mirrored(module.first.weight)
    assert torch.equal(load_file(saved, device="simulated")["first.weight"], net.first.weight)


# Training and adapters.


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_optimizers_train_copies(mirror: Mirror, net: Net, saved: Path, optimizer: Any) -> None:
    module, reference = fresh(), net
    load_model(module, saved, device="simulated")
    for trained in (module, reference):
        steps = optimizer(trained.parameters(), lr=0.1)
        for _ in range(2):
            steps.zero_grad()
            trained(INDEXES).square().sum().backward()
            steps.step()
    for one, other in zip(module.parameters(), reference.parameters(), strict=True):
        assert torch.equal(one, other)
        assert is_mirrored(one) == (one.grad is None)
    assert not is_mirrored(module.first.weight) and module.head.weight is module.embedding.weight
    assert is_mirrored(module.unused.weight)


def test_a_module_gets_copies_of_its_own(mirror: Mirror, net: Net, saved: Path) -> None:
    module = fresh()
    load_model(module, saved, device="simulated")
    parameter = module.first.weight
    assert private_(module, ["first.weight"]) == parameter.nbytes
    assert private_(module, ["first.weight"]) == 0
    assert module.first.weight is parameter and not is_mirrored(parameter) and is_mirrored(module.norm.weight)
    with torch.no_grad():
        parameter.add_(1)
    assert torch.equal(load_file(saved, device="simulated")["first.weight"], net.first.weight)
    private_(module)
    assert not any(is_mirrored(tensor) for tensor in weights(module))
    assert module.head.weight is module.embedding.weight


class Adapted(torch.nn.Module):
    """LoRA: what a linear layer computes, and a product of two small matrices."""

    def __init__(self, base: torch.nn.Linear, rank: int = 2) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = torch.nn.Parameter(torch.zeros(rank, base.in_features))
        self.up = torch.nn.Parameter(torch.ones(base.out_features, rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + x @ self.down.T @ self.up.T


def test_adapters_are_private_and_the_base_is_shared(mirror: Mirror, net: Net, saved: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "adapter_model.safetensors"
    save_file({"down": torch.full([2, 8], 0.1), "up": torch.full([8, 2], 0.2)}, str(adapter))
    before = device_loads()
    loaded = load_file(adapter, device="simulated")
    named = load_file(adapter, device="simulated", private=True)
    with safe_open(adapter, "pt", device="simulated") as opened:
        assert not is_mirrored(opened.get_tensor("up"))
    # They take no room in the mirror, and that is no failure of it.
    assert device_loads() == before
    assert not is_mirrored(loaded["up"]) and not is_mirrored(named["up"])
    assert is_mirrored(load_file(adapter, device="simulated", private=False)["up"])

    functions = []
    for _ in range(2):
        module = fresh()
        load_model(module, saved, device="simulated")
        module.first = Adapted(module.first)
        functions.append(module)
        module.first.load_state_dict(loaded, strict=False)
    one, other = functions
    assert one.first.base.weight.data_ptr() == other.first.base.weight.data_ptr()
    training = torch.optim.SGD([one.first.down, one.first.up], lr=0.1)
    one(INDEXES).square().sum().backward()
    training.step()
    assert is_mirrored(one.first.base.weight) and not torch.equal(one.first.up, other.first.up)
    with torch.no_grad():
        private_(one, lambda name: name == "first.base.weight")
        one.first.base.weight += one.first.up @ one.first.down
    assert torch.equal(other.first.base.weight, net.first.weight)


def test_peft_over_the_mirror(mirror: Mirror, warmed_up: list[Any], llama: Any, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="needs peft")
    model = peft.get_peft_model(
        from_pretrained(tmp_path), peft.LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False)
    )
    base = [parameter for name, parameter in model.named_parameters() if "lora" not in name]
    adapters = [parameter for name, parameter in model.named_parameters() if "lora" in name]
    assert base and adapters and all(is_mirrored(parameter) for parameter in base)
    model(INDEXES, labels=INDEXES).loss.backward()
    torch.optim.AdamW(adapters).step()
    assert all(is_mirrored(parameter) for parameter in base) and not any(is_mirrored(adapter) for adapter in adapters)
    model.save_pretrained(tmp_path / "adapter")

    other = peft.PeftModel.from_pretrained(from_pretrained(tmp_path), tmp_path / "adapter", torch_device="cpu").eval()
    assert torch.equal(other(INDEXES).logits, model.eval()(INDEXES).logits)
    assert not any(is_mirrored(parameter) for name, parameter in other.named_parameters() if "lora" in name)
    # Merging writes to the weights that were adapted.
    assert private_(other, lambda name: "q_proj.base_layer" in name) > 0
    merged = other.merge_and_unload()
    assert is_mirrored(merged.lm_head.weight) and not is_mirrored(merged.model.layers[0].self_attn.q_proj.weight)


# Giving back.


def test_a_module_is_released_and_filled_again(mirror: Mirror, net: Net, saved: Path) -> None:
    module = fresh()
    load_model(module, saved, device="simulated", overlap=True)
    assert mapped() > 0
    held = sum(tensor.nbytes for tensor in weights(module))
    assert release(module) == held
    eventually(lambda: mapped() == 0)
    assert all(tensor.is_meta for tensor in weights(module)) and module.head.weight is module.embedding.weight
    assert release(module) == 0
    load_model(module, saved, device="simulated")
    assert torch.equal(module(INDEXES), net(INDEXES)) and module.head.weight.requires_grad


def test_a_state_dict_is_released(mirror: Mirror, path: Path) -> None:
    loaded = load_file(path, device="simulated", private=["b"])
    view = loaded["a"][1:]
    expected = load_copied(path)
    assert release(loaded) == expected["a"].nbytes + expected["scalar"].nbytes
    assert set(loaded) == {"b", "none"}
    # What is still looked at stays.
    gc.collect()
    assert torch.equal(view, expected["a"][1:])
    del view
    eventually(lambda: mapped() == 0)


def test_a_daemon_that_is_killed_harms_nobody(mirror: Mirror, net: Net, saved: Path) -> None:
    module = fresh()
    load_model(module, saved, device="simulated")
    mirror.kill()
    assert torch.equal(module(INDEXES), net(INDEXES))
    later = fresh()
    load_model(later, saved, device="simulated")
    assert torch.equal(later(INDEXES), net(INDEXES)) and device_loads().copied > 0


# Other frameworks.


def test_jax_takes_a_tensor_by_dlpack(mirror: Mirror, path: Path) -> None:
    jax = pytest.importorskip("jax", reason="needs jax")
    from tetris import gpu

    model = gpu.load(path, "simulated")
    array = jax.dlpack.from_dlpack(model["a"])
    assert array.tolist() == load_copied(path)["a"].tolist()
    del model
    gc.collect()
    assert mapped() > 0 and float(array.sum()) == float(array.sum())
    del array
    eventually(lambda: mapped() == 0)


def test_numpy_takes_a_tensor_by_dlpack(mirror: Mirror, path: Path) -> None:
    import numpy
    from tetris import gpu

    array = numpy.from_dlpack(gpu.load(path, "simulated")["a"])
    assert array.tolist() == load_copied(path)["a"].tolist()
    assert not array.flags.writeable


# On a GPU: TETRIS_GPU_STORE names the store of a daemon with the table [gpu_mirror].


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    if "TETRIS_GPU_STORE" not in os.environ:
        pytest.skip("no mirror: name the store of a daemon with [gpu_mirror] in TETRIS_GPU_STORE")
    monkeypatch.setenv("TETRIS_STORE", os.environ["TETRIS_GPU_STORE"])


def large(tmp_path: Path) -> tuple[torch.nn.Sequential, Path]:
    """A model of 256 MiB."""
    torch.manual_seed(os.getpid())
    net = torch.nn.Sequential(*[torch.nn.Linear(4096, 2048, bias=False), torch.nn.Linear(2048, 4096, bias=False)] * 4)
    path = tmp_path / "large.safetensors"
    save_file({name: tensor.clone() for name, tensor in net.state_dict().items()}, str(path))
    return net, path


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda", "cuda:0", 0, torch.device("cuda", 0)])
def test_gpu_tensors_have_the_bytes_of_the_file(gpu: None, path: Path, device: Any) -> None:
    for name, tensor in load_file(path, device=device).items():
        assert tensor.device == torch.device("cuda", 0) and (tensor.nbytes == 0 or is_mirrored(tensor))
        assert torch.equal(tensor.cpu(), load_copied(path)[name])
    with safe_open(path, "pt", device=device) as opened:
        assert torch.equal(opened.get_slice("a")[1:3].cpu(), load_copied(path)["a"][1:3])


@pytest.mark.gpu
def test_gpu_memory_is_not_torchs(gpu: None, tmp_path: Path) -> None:
    _, path = large(tmp_path)
    torch.zeros(1, device="cuda")
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    loaded = load_file(path, device="cuda:0")
    assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == before
    torch.cuda.empty_cache()
    assert all(torch.equal(tensor.cpu(), load_copied(path)[name]) for name, tensor in loaded.items())


@pytest.mark.gpu
def test_gpu_tensors_can_be_protected_and_copied(gpu: None, path: Path) -> None:
    with pytest.raises(tetris.ReadOnlyTensorError):
        load_file(path, device="cuda:0", mode="read_only")["a"].add_(1)
    own = load_file(path, device="cuda:0", private=["a"])["a"].add_(1)
    assert torch.equal(own.cpu(), load_copied(path)["a"] + 1)
    assert torch.equal(load_file(path, device="cuda:0")["a"].cpu(), load_copied(path)["a"])


@pytest.mark.gpu
@pytest.mark.parametrize("overlap", [False, True])
def test_gpu_modules_compute_what_they_do_on_copies(gpu: None, tmp_path: Path, overlap: bool) -> None:
    net, path = large(tmp_path)
    module = copy.deepcopy(net).to("meta")
    load_model(module, path, device="cuda:0", overlap=overlap)
    x = torch.ones(1, 4096, device="cuda:0")
    result = module(x)
    assert all(is_mirrored(parameter) for parameter in module.parameters())
    assert torch.equal(result, net.cuda()(x))


@pytest.mark.gpu
def test_gpu_from_pretrained_allocates_nothing_of_the_models_size(gpu: None, llama: Any, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    tetris.patch()
    try:
        before = torch.cuda.memory_reserved()
        model = AutoModelForCausalLM.from_pretrained(tmp_path / "llama", device_map="cuda:0", dtype=torch.bfloat16)
    finally:
        tetris.unpatch()
    assert all(is_mirrored(parameter) for parameter in model.parameters())
    assert torch.cuda.memory_reserved() - before <= 4 << 20
    assert model(INDEXES.cuda()).logits.isfinite().all()


@pytest.mark.gpu
def test_gpu_cupy_takes_a_tensor_by_dlpack(gpu: None, path: Path) -> None:
    cupy = pytest.importorskip("cupy", reason="needs cupy")
    array = cupy.from_dlpack(tetris.gpu.load(path, "cuda:0")["a"])
    assert array.get().tolist() == load_copied(path)["a"].tolist()
