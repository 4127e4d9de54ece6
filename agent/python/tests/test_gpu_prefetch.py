"""Models that the mirror holds for this process without mapping them, and the state of a device."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tetris
import tetris.gpu
from gpu_mirror import LONG_S, MIB, Mirror, chunks, eventually
from model_files import stored, write
from process import run
from tetris import GpuUnavailableError


def model_of(folder: Path, numbers: range) -> Path:
    tensors = {f"layer.{at}": stored("U8", [MIB], seed=at) for at in numbers}
    return write(folder / f"{numbers.start}.safetensors", tensors, {"format": "pt"})


def state_of(held: tetris.gpu.Prefetch) -> tuple[str, int]:
    (model,) = [model for model in tetris.gpu.status()["models"] if model["model"] == held.model]
    assert model["bytes"] == held.nbytes
    return model["state"], model["bytes_left"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file of 6 MiB."""
    return model_of(tmp_path, range(6))


def test_a_prefetched_model_is_held_and_not_mapped(mirror: Mirror, model: Path) -> None:
    with tetris.gpu.prefetch(model) as held:
        held.wait(LONG_S)
        assert (held.state, held.nbytes, held.bytes_left, held.reason) == ("resident", 6 * MIB, 0, None)
        assert chunks() == {}
        usage = tetris.gpu.usage()
        assert usage["leases"] == 1
        assert usage["devices"][0]["held_bytes"] == 6 * MIB
        assert state_of(held) == ("resident", 0)
        assert held.model is not None
        assert len(held.model) == 64
        loaded = tetris.gpu.load(model, "simulated")
        loaded.wait()
        assert loaded["layer.3"].tobytes() == stored("U8", [MIB], seed=3).data
        loaded.release()
        assert "6291456 bytes, resident" in repr(held)
    assert held.state == "closed"
    eventually("nothing is held", lambda: tetris.gpu.usage()["leases"] == 0)
    with pytest.raises(GpuUnavailableError):
        held.wait(1)


def test_the_state_of_a_device(mirror: Mirror) -> None:
    (device,) = tetris.gpu.devices()
    status = tetris.gpu.status()
    assert status["uuid"] == device["uuid"]
    assert (status["capacity_bytes"], status["free_bytes"]) == (64 * MIB, 64 * MIB)
    assert (status["bytes_per_second"], status["switch"]) == (None, None)
    assert (status["links"], status["transfers"]) == ([], [])
    for name in (0, "simulated", "simulated:0", device["uuid"], "GPU-" + device["uuid"]):
        assert tetris.gpu.status(name)["uuid"] == device["uuid"]


def test_a_device_that_is_not_there(mirror: Mirror, model: Path) -> None:
    for name in (1, "cuda:0", "simulated:3", "GPU-0"):
        with pytest.raises(GpuUnavailableError, match=r"expected device .* found simulated"):
            tetris.gpu.status(name)
        with pytest.raises(GpuUnavailableError):
            tetris.gpu.prefetch(model, name)
    for name in (-1, "gpu", "cuda:", "cuda:x"):
        with pytest.raises(ValueError, match="expected a number"):
            tetris.gpu.status(name)
    with pytest.raises(TypeError):
        tetris.gpu.status(True)


def test_a_prefetch_waits_until_another_is_closed(mirror: Mirror, tmp_path: Path) -> None:
    first = tetris.gpu.prefetch(model_of(tmp_path, range(40)), 0)
    first.wait(LONG_S)
    second = tetris.gpu.prefetch(model_of(tmp_path, range(50, 90)), 0)
    eventually("it waits", lambda: second.state == "waiting")
    with pytest.raises(TimeoutError):
        second.wait(0.01)
    first.close()
    second.wait(LONG_S)
    assert (state_of(first), state_of(second)) == (("absent", 40 * MIB), ("resident", 0))
    third = tetris.gpu.prefetch(model_of(tmp_path, range(40)), 0, wait=0)
    with pytest.raises(GpuUnavailableError, match="in use"):
        third.wait(LONG_S)
    assert third.state == "failed"
    assert third.reason is not None


def test_what_cannot_be_loaded_fails_later(mirror: Mirror, tmp_path: Path) -> None:
    held = tetris.gpu.prefetch(tmp_path / "none.safetensors")
    with pytest.raises(tetris.ModelNotFoundError):
        held.wait(LONG_S)
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"no model")
    held = tetris.gpu.prefetch(broken)
    with pytest.raises(tetris.HeaderError):
        held.wait(LONG_S)
    assert held.state == "failed"


def test_without_a_mirror_it_is_said_at_once(store: Path, model: Path) -> None:
    with pytest.raises(GpuUnavailableError, match="expected a mirror at"):
        tetris.gpu.prefetch(model)


def test_a_killed_mirror_fails_what_it_held(mirror: Mirror, model: Path) -> None:
    held = tetris.gpu.prefetch(model)
    held.wait(LONG_S)
    mirror.kill()
    eventually("it has failed", lambda: held.state == "failed")
    assert "hung up" in str(held.reason)


def test_a_killed_process_holds_nothing(mirror: Mirror, model: Path) -> None:
    run(f"""
        import os, signal, tetris.gpu
        held = tetris.gpu.prefetch({str(model)!r})
        held.wait({LONG_S})
        assert tetris.gpu.usage()["leases"] == 1
        os._exit(0)
    """)
    eventually("nothing is held", lambda: tetris.gpu.usage()["leases"] == 0)


def test_a_childs_copy_does_not_end_its_parents_hold(mirror: Mirror, model: Path) -> None:
    held = tetris.gpu.prefetch(model)
    held.wait(LONG_S)
    child = os.fork()
    if child == 0:
        held.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert held.state == "resident"
    assert tetris.gpu.usage()["leases"] == 1
    held.close()
    eventually("nothing is held", lambda: tetris.gpu.usage()["leases"] == 0)
