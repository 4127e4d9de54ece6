"""Layouts in the GPU mirror's memory, over the simulated device, whose host memory is mapped read-only."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import tetris.gpu
import tetris.torch
import torch
from gpu_mirror import MIB, Mirror, chunks, eventually, held_bytes
from process import Helper, mappings
from tetris._device import mirror as device_mirror
from tetris._torch_layout import _host_bytes
from tetris.errors import GpuUnavailableError, ShareError
from tetris.torch import Layout, ReadOnlyTensor, device_loads, is_mirrored, layout

#: Chunks that were mapped before the test: compiled code of another one may keep them.
_earlier: set[int] = set()


@pytest.fixture(autouse=True)
def _said(store: Path) -> None:
    """One-time messages of the log come once in each test, which has a separate store."""
    device_mirror._said.clear()
    _earlier.clear()
    _earlier.update(chunks())


def mapped() -> dict[int, str]:
    """Chunks that this process has mapped since the test began, and the access to them."""
    return {number: access for number, access in chunks().items() if number not in _earlier}


def built() -> dict[str, torch.Tensor]:
    """Tensors with ties, views, strides, and small ones."""
    qkv = torch.randn(768, 256, generator=torch.Generator().manual_seed(5)).to(torch.bfloat16)
    return {
        "qkv": qkv,
        "tied": qkv,
        "k": qkv[256:512],
        "transposed": qkv.t(),
        "other": qkv.clone(),
        "mask": torch.arange(70000, dtype=torch.uint8)[3:],
        "scale": torch.tensor(0.5),
        "bias": torch.full((256,), 0.25),
        "none": torch.empty(0, 4),
    }


def made(**options: Any) -> Layout:
    return layout("fuse qkv", built, sources={"w": torch.ones(4)}, **options)


def assert_same(found: Layout) -> None:
    expected = built()
    assert list(found.tensors) == list(expected)
    for name, tensor in expected.items():
        one = found.tensors[name]
        assert (one.dtype, one.shape, one.stride()) == (tensor.dtype, tensor.shape, tensor.stride()), name
        assert torch.equal(one, tensor), name


def test_tensors_are_mapped_from_the_mirror_as_they_were(mirror: Mirror) -> None:
    before = device_loads()
    for origin in ("new", "shared"):
        found = made().to("simulated")
        assert (found.origin, found.copied_reason) == (origin, None)
        assert_same(found)
        address = {name: tensor.data_ptr() for name, tensor in found.tensors.items()}
        assert address["qkv"] == address["tied"] == address["transposed"] == address["k"] - 256 * 256 * 2
        # Equal bytes are there once, as nothing writes to them.
        assert address["other"] == address["qkv"]
        assert all(is_mirrored(tensor) for tensor in found.tensors.values() if tensor.numel())
        assert set(mapped().values()) == {"r--s"}
    assert device_loads().mirrored == before.mirrored + 2
    assert device_loads().copied == before.copied


def test_processes_hold_one_copy_and_none_of_the_host(mirror: Mirror, store: Path) -> None:
    found = made().to("simulated")
    gc.collect()
    assert not mappings(store), "the host's memory is of no more use"
    held = held_bytes()
    program = """
    import json, torch, tetris.torch
    def built():
        raise AssertionError("it is there")
    found = tetris.torch.layout("fuse qkv", built, sources={"w": torch.ones(4)}).to("simulated")
    print(json.dumps(found.tensors["qkv"].float().sum().item()), flush=True)
    input()
    """
    with Helper(program) as other:
        assert other.line() == found.tensors["qkv"].float().sum().item()
        assert chunks(other.pid) == mapped() != {}
        assert held_bytes() == held
    view = found.tensors["k"][1:]
    del found
    gc.collect()
    assert held_bytes() == held, "a view of a tensor keeps it"
    del view
    gc.collect()
    eventually("nothing is held", lambda: held_bytes() == 0)


def test_copies_of_tensors_that_are_written_to(mirror: Mirror) -> None:
    found = made().to("simulated", private=["k", "bias", "mask"])
    assert_same(found)
    tensors = found.tensors
    # What shares memory with a copy is in it.
    for name in ("qkv", "tied", "k", "transposed", "bias", "mask"):
        assert not is_mirrored(tensors[name]), name
    for name in ("other", "scale"):
        assert is_mirrored(tensors[name]), name
    tensors["qkv"][256, 0] = 7
    tensors["bias"][0] = 1
    tensors["mask"].zero_()
    assert tensors["k"][0, 0] == tensors["transposed"][0, 256] == 7
    assert tensors["other"][256, 0] != 7
    assert_same(made().to("simulated"))
    everything = made().to("simulated", private=True)
    assert not any(is_mirrored(tensor) for tensor in everything.tensors.values())
    assert everything.copied_reason is None


def test_read_only_tensors_are_so_on_the_device(mirror: Mirror) -> None:
    tensors = made(mode="read_only").to("simulated").tensors
    assert isinstance(tensors["qkv"], ReadOnlyTensor)
    with pytest.raises(tetris.ReadOnlyTensorError):
        tensors["qkv"].zero_()


def assert_copied(found: Layout, reason: str) -> None:
    assert found.copied_reason is not None and reason in found.copied_reason, found.copied_reason
    assert_same(found)
    tensors = found.tensors
    assert not any(is_mirrored(tensor) for tensor in tensors.values())
    tensors["qkv"][300, 0] = 7
    assert tensors["tied"][300, 0] == tensors["k"][44, 0] == tensors["transposed"][0, 300] == 7
    assert not mapped()


def test_without_a_mirror_tensors_are_copied(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = device_loads()
    assert_copied(made().to("simulated"), str(store / "gpu"))
    assert device_loads().copied == before.copied + 1
    assert ["nothing is shared there" in record.message for record in caplog.records] == [True]


def test_without_room_tensors_are_copied(store: Path) -> None:
    large = {"large": torch.zeros(9 * MIB, dtype=torch.uint8)}
    with Mirror(store, device_bytes=8 * MIB):
        found = layout("large", lambda: large, sources={"w": torch.ones(4)}).to("simulated")
        assert found.copied_reason is not None and "device" in found.copied_reason
        assert torch.equal(found.tensors["large"], large["large"])
        assert held_bytes() == 0


def test_a_mirror_that_is_switched_off_is_not_asked(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TETRIS_GPU", "0")
    assert_copied(made().to("simulated"), "switched off")


def test_a_layout_that_is_not_in_the_store_is_copied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TETRIS_STORE", str(tmp_path / "none"))
    found = made()
    assert found.origin == "private"
    assert_copied(found.to("simulated"), "not in the store")


def test_bytes_of_the_store_are_mapped_without_a_framework(mirror: Mirror) -> None:
    content = b"tetris" * 20000
    memory = tetris._agent.agent().publish(content)
    model = tetris.gpu.load_memories([memory, memory], "simulated")
    assert [tensor.tobytes() for tensor in model.values()] == [content, content]
    assert len({tensor.address for tensor in model.values()}) == 1
    assert list(model) == [memory.object] * 2
    assert model.nbytes == len(content)
    assert len(tetris.gpu.load_memories([], "simulated")) == 0
    with pytest.raises(ValueError, match='expected "cuda"'):
        tetris.gpu.load_memories([memory], "gpu")
    mirror.kill()
    with pytest.raises(GpuUnavailableError, match="gpu"):
        tetris.gpu.load_memories([memory], "simulated")


def test_bytes_of_a_device_are_copied_from_a_tensors_begin_on() -> None:
    # What a build on a GPU is published from. Here the memory is the host's.
    tensor = torch.arange(100, dtype=torch.int16)[10:90:2]
    expected = torch.arange(10, 60, dtype=torch.int16)
    assert bytes(_host_bytes(tensor, 100)) == bytes(expected.numpy())
    with pytest.raises(ShareError, match="different storages"):
        _host_bytes(tensor, 181)
