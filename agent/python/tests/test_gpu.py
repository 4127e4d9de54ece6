"""Models in device memory, over the simulated device; the last one on a GPU, where there is one."""

from __future__ import annotations

import gc
import json
import os
import signal
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy
import pytest
import tetris
import tetris.gpu
from gpu_mirror import LONG_S, MIB, Mirror, chunks, eventually, held_bytes
from model_files import BITS, Stored, floats, stored, write
from process import Helper, held, python, run
from tetris import GpuUnavailableError

torch = pytest.importorskip("torch")


def load(path: Path, **options: Any) -> tetris.gpu.DeviceModel:
    return tetris.gpu.load(path, "simulated", **options)


def nothing_held() -> None:
    """The mirror has got everything back, and nothing is mapped here."""
    gc.collect()
    eventually("nothing is held", lambda: tetris.gpu.usage()["leases"] == 0)
    assert held_bytes() == 0
    assert chunks() == {}


def big(count: int, mib: int = 1) -> dict[str, Stored]:
    """Tensors that have an object each."""
    return {f"layer.{at}": stored("U8", [mib * MIB], seed=at) for at in range(count)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file of 6 MiB."""
    return write(tmp_path / "model.safetensors", big(6), {"format": "pt"})


# Content


def test_every_element_type_has_the_bytes_of_the_file(mirror: Mirror, tmp_path: Path) -> None:
    shapes: list[list[int]] = [[], [8], [4, 2], [0], [3, 0, 2], [64, 1024]]
    # Elements of less than a byte have to fill whole ones.
    tensors = {
        f"{dtype} {shape}": stored(dtype, shape)
        for dtype in BITS
        for shape in shapes
        if shape != [] or BITS[dtype] % 8 == 0
    }
    path = write(tmp_path / "m.safetensors", tensors, {"a": "b"})
    model = load(path)
    assert list(model) == model.keys() == list(tensors)
    assert len(model) == len(tensors)
    assert model.metadata == {"a": "b"}
    for name, tensor in model.items():
        expected = tensors[name]
        assert (tensor.name, tensor.dtype, tensor.shape) == (name, expected.dtype, tuple(expected.shape))
        assert tensor.nbytes == len(expected.data)
        assert tensor.tobytes() == expected.data
        assert tensor.address % 64 == 0
        assert (tensor.address == 0) == (tensor.nbytes == 0)
        assert tensor.device == "simulated"
        assert tensor.__dlpack_device__() == (1, 0)
        if tensor.nbytes:
            assert tensor.id == tetris._native.content_id(expected.data)


class Stream:
    """A stream as frameworks show theirs."""

    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)


class Protocol(Stream):
    """A stream of the protocol of CUDA's Python packages."""

    def __cuda_stream__(self) -> tuple[int, int]:
        return self.version, 4096  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        # Memory that the driver would follow.
        (4096, ValueError),
        (0xDEADBEEF, ValueError),
        (3, ValueError),
        (0, ValueError),
        (-1, TypeError),
        (1 << 64, TypeError),
        (True, ValueError),
        (None, TypeError),
        (1.0, TypeError),
        ("1", TypeError),
        (object(), TypeError),
        (Stream(cuda_stream="1"), TypeError),
        (Stream(cuda_stream=-1), OverflowError),
        (Stream(cuda_stream=4096, device_index=1), ValueError),
        (Stream(cuda_stream=4096, device_index="x"), ValueError),
        (Protocol(version=1), TypeError),
        # Of the right form: nothing is left to wait for.
        (1, None),
        (2, None),
        (Stream(cuda_stream=4096), None),
        (Stream(cuda_stream=4096, device_index=0), None),
        (Protocol(version=0), None),
        (Protocol(version=1, cuda_stream=4096), None),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", type(value).__name__),
)
def test_only_a_stream_is_waited_on(mirror: Mirror, model: Path, stream: object, error: type[Exception] | None) -> None:
    loaded = load(model)
    loaded.wait(timeout=60.0)
    if error is None:
        assert loaded.wait_on_stream("layer.0", stream) is False
        return
    with pytest.raises(error):
        loaded.wait_on_stream("layer.0", stream)


def test_frameworks_take_the_memory_itself(mirror: Mirror, tmp_path: Path) -> None:
    dtypes = {
        "BOOL": torch.bool,
        "U8": torch.uint8,
        "I8": torch.int8,
        "I16": torch.int16,
        "I32": torch.int32,
        "I64": torch.int64,
        "F16": torch.float16,
        "BF16": torch.bfloat16,
        "F32": torch.float32,
        "F64": torch.float64,
        "C64": torch.complex64,
        "F8_E4M3": torch.float8_e4m3fn,
        "F8_E5M2": torch.float8_e5m2,
    }
    tensors = {f"{dtype} {shape}": stored(dtype, shape) for dtype in dtypes for shape in ([], [0, 3], [5, 7])}
    model = load(write(tmp_path / "m.safetensors", tensors))
    for name, tensor in model.items():
        taken = torch.from_dlpack(tensor)
        assert taken.dtype == dtypes[tensor.dtype]
        assert tuple(taken.shape) == tensor.shape
        assert taken.device.type == "cpu"
        assert taken.numel() == 0 or taken.data_ptr() == tensor.address
        assert bytes(taken.contiguous().flatten().view(torch.uint8).numpy()) == tensors[name].data
        if tensor.dtype in ("F16", "F32", "I64"):
            array = numpy.from_dlpack(tensor)
            assert array.size == 0 or array.ctypes.data == tensor.address
            assert array.tobytes() == tensors[name].data
            assert not array.flags.writeable


def test_bits_for_who_has_not_the_element_type(mirror: Mirror, tmp_path: Path) -> None:
    widths = {"BF16": numpy.uint16, "F8_E4M3": numpy.uint8, "F32": numpy.uint32, "F64": numpy.uint64}
    tensors = {dtype: stored(dtype, [5, 8]) for dtype in (*widths, "F4")}
    model = load(write(tmp_path / "m.safetensors", tensors))
    with pytest.raises((BufferError, RuntimeError, TypeError)):
        numpy.from_dlpack(model["BF16"])
    for dtype, width in widths.items():
        bits = model[dtype].bits()
        array = numpy.from_dlpack(bits)
        del bits
        assert (array.dtype, array.shape) == (width, (5, 8))
        assert array.ctypes.data == model[dtype].address
        assert array.tobytes() == tensors[dtype].data
        assert not array.flags.writeable
    with pytest.raises(BufferError, match="8, 16, 32 or 64 bits, found F4 with 4"):
        model["F4"].bits()


def test_jax_takes_it(mirror: Mirror, tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    model = load(write(tmp_path / "m.safetensors", {"a": floats([16, 16])}))
    array = jax.dlpack.from_dlpack(model["a"])
    assert numpy.asarray(array).tobytes() == model["a"].tobytes()


def test_capsules_say_what_they_are(mirror: Mirror, model: Path) -> None:
    tensor = load(model)["layer.0"]
    unversioned, versioned = tensor.__dlpack__(), tensor.__dlpack__(max_version=(1, 0))
    assert '"dltensor"' in repr(unversioned)
    assert '"dltensor_versioned"' in repr(versioned)
    copy = numpy.from_dlpack(tensor, copy=True)
    copy[:] = 0
    assert tensor.tobytes() != copy.tobytes()
    for wrong in ({"stream": 1}, {"dl_device": (2, 0)}, {"dl_device": (1, 1)}):
        with pytest.raises(BufferError, match=r"stream|dl_device"):
            tensor.__dlpack__(**wrong)
    with pytest.raises(OverflowError):
        tensor.__dlpack__(max_version=(-1, 0))


def test_a_mapping_as_any_other(mirror: Mirror, model: Path) -> None:
    found = load(model)
    assert "layer.3" in found
    assert "layer" not in found
    assert 7 not in found
    assert found.get("layer.3").nbytes == MIB  # type: ignore[union-attr]
    assert found.get("layer") is None
    assert found.get("layer", 7) == 7
    assert [tensor.name for tensor in found.values()] == found.keys()
    for ask in (found.__getitem__, found.wait, found.is_ready):
        with pytest.raises(KeyError, match="layer"):
            ask("layer")
    assert len(found["layer.0"]) == MIB
    assert "layer.0" in repr(found["layer.0"])
    assert "6 tensors" in repr(found)


def test_a_directory_of_shards(mirror: Mirror, tmp_path: Path) -> None:
    tensors = big(8)
    names = list(tensors)
    weight_map = {}
    for at in range(4):
        file = f"model-{at + 1:05}-of-00004.safetensors"
        part = {name: tensors[name] for name in names[2 * at : 2 * at + 2]}
        write(tmp_path / file, part)
        weight_map |= dict.fromkeys(part, file)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    model = load(tmp_path)
    assert model.keys() == names
    assert all(model[name].tobytes() == tensors[name].data for name in names)
    assert tetris.gpu.usage()["leases"] == 1


def test_a_model_without_bytes_needs_no_memory(mirror: Mirror, tmp_path: Path) -> None:
    model = load(write(tmp_path / "m.safetensors", {"empty": Stored("F32", [0], b"")}))
    model.wait(timeout=0)
    assert model.mapped_bytes == model.nbytes == model.resident_bytes == 0
    assert torch.from_dlpack(model["empty"]).shape == (0,)
    assert tetris.gpu.usage()["leases"] == 0


# Lifetime


def test_memory_lives_as_long_as_anything_over_it(mirror: Mirror, model: Path) -> None:
    loaded = load(model)
    assert loaded.mapped_bytes == 6 * MIB
    assert len(chunks()) == 2
    tensor = loaded["layer.1"]
    expected = tensor.tobytes()
    del loaded
    gc.collect()
    assert held_bytes() == 6 * MIB
    taken = torch.from_dlpack(tensor)
    del tensor
    gc.collect()
    view = taken[5:]
    del taken
    gc.collect()
    assert held_bytes() == 6 * MIB
    assert bytes(view.numpy()) == expected[5:]
    del view
    nothing_held()


def test_a_capsule_that_nobody_takes_holds_it_too(mirror: Mirror, model: Path) -> None:
    capsules = [load(model)["layer.0"].__dlpack__(max_version=version) for version in (None, (1, 0))]
    gc.collect()
    assert held_bytes() == 6 * MIB
    del capsules
    nothing_held()


def test_what_is_released_is_gone_and_tensors_stay(mirror: Mirror, model: Path) -> None:
    loaded = load(model)
    tensor = loaded["layer.2"]
    expected = tensor.tobytes()
    loaded.release()
    loaded.release()
    for use in (
        lambda: loaded["layer.2"],
        lambda: len(loaded),
        lambda: loaded.device,
        lambda: loaded.wait(),
        lambda: loaded.is_ready(),
        lambda: "x" in loaded,
    ):
        with pytest.raises(RuntimeError, match="released"):
            use()
    assert "released" in repr(loaded)
    assert tensor.tobytes() == expected
    del tensor
    nothing_held()


def test_ten_loads_leave_nothing(mirror: Mirror, model: Path) -> None:
    files = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        loaded = load(model)
        loaded.wait()
        del loaded
        nothing_held()
    assert len(os.listdir("/proc/self/fd")) == files


def test_a_second_load_is_the_same_memory(mirror: Mirror, model: Path, tmp_path: Path) -> None:
    first, second = load(model), load(model)
    assert [tensor.address for tensor in first.values()] == [tensor.address for tensor in second.values()]
    # Another file of the same tensors, with a name more.
    tensors = big(6)
    other = load(write(tmp_path / "other.safetensors", {"tied": tensors["layer.0"], **tensors}))
    assert other["tied"].address == other["layer.0"].address == first["layer.0"].address
    assert tetris.gpu.usage()["leases"] == 1
    assert first["layer.0"] is not second["layer.0"]
    first.release()
    assert second["layer.5"].tobytes() == tensors["layer.5"].data


def test_kept_models_stay_until_they_are_released(mirror: Mirror, model: Path) -> None:
    load(model, keep=True)
    gc.collect()
    assert held_bytes() == 6 * MIB
    mapped = chunks()
    again = load(model)
    assert chunks() == mapped
    # It is used: it is not kept any longer, and goes with its last user.
    assert tetris.gpu.release() == 0
    assert held_bytes() == 6 * MIB
    assert again["layer.0"].is_ready()
    load(model, keep=True)
    del again
    gc.collect()
    assert tetris.gpu.release() == 6 * MIB
    nothing_held()
    assert tetris.gpu.release() == 0


def test_host_references_go_when_everything_has_arrived(mirror: Mirror, store: Path, model: Path) -> None:
    loaded = load(model)
    # Nothing waits for it.
    eventually("the store's objects are not held", lambda: held(store) == [])
    assert loaded.is_ready()
    assert loaded.resident_bytes == loaded.nbytes == 6 * MIB


def test_models_are_collected(mirror: Mirror, model: Path) -> None:
    loaded = load(model)
    reference, tensor = weakref.ref(loaded), weakref.ref(loaded["layer.0"])
    assert tensor() is None
    del loaded
    assert reference() is None


# Waiting


def test_waiting(mirror: Mirror, model: Path) -> None:
    loaded = load(model, order=["layer.5", "layer.3", "there is no such layer", "layer.5"])
    loaded.wait("layer.5", timeout=LONG_S)
    assert loaded.is_ready("layer.5")
    loaded["layer.0"].wait()
    assert loaded["layer.0"].is_ready()
    loaded.wait(timeout=LONG_S)
    assert loaded.is_ready()
    assert all(loaded.is_ready(name) for name in loaded)
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="timeout must be a number of seconds"):
            loaded.wait(timeout=wrong)


def stopped(mirror: Mirror, stop: bool = True) -> None:
    os.kill(mirror.process.pid, signal.SIGSTOP if stop else signal.SIGCONT)


def slow_model(tmp_path: Path) -> Path:
    """A file that takes some time to copy."""
    return write(tmp_path / "slow.safetensors", {str(at): stored("U8", [16 * MIB], seed=at) for at in range(12)})


def test_a_tensor_that_does_not_come_in_time(store: Path, tmp_path: Path) -> None:
    path = slow_model(tmp_path)
    with Mirror(store, 256 * MIB) as mirror:
        model = load(path)
        stopped(mirror)
        # What has arrived by now is as it may be; the last has arrived only if all of them have.
        if not model.is_ready():
            with pytest.raises(TimeoutError, match=r"the model in device memory within 0.2 s"):
                model.wait(timeout=0.2)
            assert model.resident_bytes <= model.nbytes
        stopped(mirror, False)
        model.wait()
        assert model.resident_bytes == model.nbytes


def test_a_mirror_that_says_nothing(mirror: Mirror, model: Path) -> None:
    stopped(mirror)
    with pytest.raises(GpuUnavailableError, match="expected the mirror's greeting within 200ms"):
        load(model, timeout=0.2)
    stopped(mirror, False)
    assert load(model).is_ready() in (True, False)


def test_a_copy_that_never_ends_is_said(store: Path, tmp_path: Path) -> None:
    path = slow_model(tmp_path)
    with Mirror(store, 256 * MIB) as mirror:
        model = load(path)
        mirror.kill()
        gone = 0
        for name in model:
            try:
                model.wait(name)
                assert len(model[name].tobytes()) == 16 * MIB
            except GpuUnavailableError as error:
                gone += 1
                assert "hung up" in str(error)
                with pytest.raises(GpuUnavailableError):
                    torch.from_dlpack(model[name])
        eventually("the store's objects are not held", lambda: held(store) == [])
        mirror.restart()
        # A model that will not arrive is not used again.
        again = load(path)
        again.wait()
        assert gone == 0 or again["0"].address != model["0"].address


# Refusals


def test_without_a_mirror(store: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for ask in (lambda: load(model), tetris.gpu.devices, tetris.gpu.status, tetris.gpu.usage):
        with pytest.raises(GpuUnavailableError, match=rf"expected a mirror at `{store}/gpu`, found none"):
            ask()
    assert held(store) == []
    monkeypatch.setenv("TETRIS_STORE", str(store / "none"))
    with pytest.raises(GpuUnavailableError, match=f"and there is none: .*`{store}/none`"):
        load(model)
    assert issubclass(GpuUnavailableError, tetris.Error)
    assert tetris.gpu.release() == 0


def test_the_socket_can_be_named(store: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    socket = tmp_path / "elsewhere"
    with Mirror(store, socket=socket):
        with pytest.raises(GpuUnavailableError):
            load(model)
        monkeypatch.setenv("TETRIS_GPU_SOCKET", str(socket))
        assert load(model)["layer.0"].nbytes == MIB


def test_a_socket_of_something_else(store: Path, model: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(store / "gpu"))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.recv(1 << 16)
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(GpuUnavailableError, match="mirror"):
            load(model)
        thread.join()
    (store / "gpu").unlink()
    (store / "gpu").write_text("")
    with pytest.raises(GpuUnavailableError, match=f"{store}/gpu"):
        load(model)


def test_a_model_larger_than_the_device(store: Path, model: Path) -> None:
    with Mirror(store, 4 * MIB):
        with pytest.raises(
            GpuUnavailableError, match=r"larger than the device.* at least \d+ bytes, found at most 4194304"
        ):
            load(model)
        nothing_held()
        assert held(store) == []


def test_a_quota(store: Path, model: Path) -> None:
    refused = pytest.raises(GpuUnavailableError, match=r"quota.*may hold 4194304 bytes.*needs \d+ more")
    with Mirror(store, 64 * MIB, store_bytes=4 * MIB), refused:
        load(model)


def test_room_can_be_waited_for(store: Path, model: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.safetensors", {"other": stored("U8", [6 * MIB])})
    with Mirror(store, 8 * MIB):
        first = load(model)
        with pytest.raises(GpuUnavailableError, match=r"in use.*needs \d+ bytes.*\d+ are available"):
            load(other)
        loaded: list[tetris.gpu.DeviceModel] = []
        thread = threading.Thread(target=lambda: loaded.append(load(other, wait=LONG_S)))
        thread.start()
        eventually("it waits", lambda: tetris.gpu.usage()["waiting"] == 1)
        first.release()
        thread.join()
        assert len(loaded[0]["other"].tobytes()) == 6 * MIB


def test_what_the_store_cannot_hold(store: Path, mirror: Mirror) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become a user who cannot write to the store")
    program = """
        import json, os, sys, tetris.gpu
        os.setuid(65534)
        try:
            tetris.gpu.load(sys.argv[1], "simulated")
        except tetris.GpuUnavailableError as error:
            print(json.dumps(str(error)))
    """
    path = write(store.parent / "m.safetensors", big(1))
    store.parent.chmod(0o755)
    assert "could not hold 1048576 bytes of the model" in python(program, path)


@pytest.mark.parametrize(
    "device", ["", "cpu", "cuda:", "cuda:-1", "cuda:01", "cuda:99999999999", "cuda:0\0", "cuda:\u0661", "x" * 100_000]
)
def test_hostile_names_of_devices(mirror: Mirror, model: Path, device: str) -> None:
    with pytest.raises(ValueError, match='expected "cuda"') as error:
        tetris.gpu.load(model, device)
    assert len(str(error.value)) < 400


def test_wrong_arguments(mirror: Mirror, model: Path, tmp_path: Path) -> None:
    for device in (None, True, 1.5, b"cuda"):
        with pytest.raises(TypeError, match="device must be"):
            tetris.gpu.load(model, device)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cuda:-1"):
        tetris.gpu.load(model, -1)
    for option in ("wait", "timeout"):
        with pytest.raises(ValueError, match=f"{option} must be a number of seconds"):
            load(model, **{option: -1.0})
    with pytest.raises(TypeError):
        load(model, order="layer.0")
    with pytest.raises(tetris.LoadError):
        load(tmp_path / "none.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(tetris.HeaderError):
        load(tmp_path / "bad.safetensors")
    nothing_held()


@pytest.mark.parametrize("device", ["cuda", "cuda:0", 0, 7])
def test_a_gpu_of_a_mirror_that_has_none(mirror: Mirror, model: Path, device: str | int) -> None:
    with pytest.raises(GpuUnavailableError, match=r"expected a mirror of cuda.*found one of host memory"):
        tetris.gpu.load(model, device)


# Processes


#: Loads, says where, and waits.
PEER = """
    import json, sys, tetris.gpu, gpu_mirror
    model = tetris.gpu.load(sys.argv[1], "simulated")
    model.wait()
    print(json.dumps(sorted(gpu_mirror.chunks())), flush=True)
    sys.stdin.readline()
"""


def test_two_processes_have_the_same_memory(mirror: Mirror, model: Path) -> None:
    mine = load(model)
    mine.wait()
    with Helper(PEER, model) as peer:
        assert peer.line() == sorted(chunks())
        status = tetris.gpu.usage()
        assert status["leases"] == 2
        device = status["devices"][0]
        assert device["held_bytes"] == device["live_bytes"] == 6 * MIB
        assert device["created_bytes"] == mine.mapped_bytes
        assert chunks(peer.pid) == chunks()
        assert set(chunks().values()) == {"r--s"}
    # The peer was killed.
    eventually("its hold is gone", lambda: tetris.gpu.usage()["leases"] == 1)
    mine.release()
    nothing_held()


def test_tensors_outlive_the_mirror(mirror: Mirror, model: Path) -> None:
    loaded = load(model)
    taken = torch.from_dlpack(loaded["layer.0"])
    loaded.wait()
    mirror.kill()
    expected = big(6)
    assert bytes(taken.numpy()) == expected["layer.0"].data
    # Also one that nobody had asked for yet, and without a mirror.
    assert loaded["layer.5"].tobytes() == expected["layer.5"].data
    assert torch.from_dlpack(loaded["layer.4"]).numel() == MIB
    mirror.restart()
    assert tetris.gpu.usage()["leases"] == 0
    assert bytes(taken.numpy()) == expected["layer.0"].data
    again = load(model)
    again.wait()
    assert again["layer.0"].address == loaded["layer.0"].address


FORK = """
    import gc, json, os, sys, tetris.gpu, gpu_mirror
    model = tetris.gpu.load(sys.argv[1], "simulated")
    model.wait()
    tensor, expected = model["layer.0"], model["layer.0"].tobytes()

    def child():
        # What had arrived is there.
        assert tensor.tobytes() == expected
        model.wait()
        assert model.is_ready()
        # A load has a separate connection.
        again = tetris.gpu.load(sys.argv[1], "simulated")
        assert again["layer.0"].tobytes() == expected
        assert again["layer.0"].address != tensor.address
        assert tetris.gpu.usage()["leases"] == 2
        again.release()
        del again
        model.release()

    # A thread that a fork leaves behind would keep in the child what it holds.
    gpu_mirror.eventually("the load's thread has ended", lambda: gpu_mirror.threads() == 1)
    pid = os.fork()
    if pid == 0:
        try:
            child()
            del tensor, model
            gc.collect()
            # The thread that waited for the arrival may be the last to let go.
            gpu_mirror.eventually("nothing is mapped", lambda: gpu_mirror.chunks() == {})
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    # The child has let go of everything, and taken nothing along.
    gpu_mirror.eventually("the child's connection is gone", lambda: tetris.gpu.usage()["leases"] == 1)
    assert tensor.tobytes() == expected
    del tensor, model
    gc.collect()
    gpu_mirror.eventually("all is given back", lambda: tetris.gpu.usage()["leases"] == 0)
    print(json.dumps(os.waitstatus_to_exitcode(status)))
"""


def test_a_child_of_a_fork(mirror: Mirror, model: Path) -> None:
    done = run(FORK, model)
    assert done.stdout.splitlines() == ["0"], done.stderr


FORK_BEFORE_ARRIVAL = """
    import json, os, signal, sys, tetris.gpu
    model = tetris.gpu.load(sys.argv[1], "simulated")
    os.kill(int(sys.argv[2]), signal.SIGSTOP)
    arrived = model.is_ready()
    pid = os.fork()
    if pid == 0:
        try:
            model.wait()
        except tetris.GpuUnavailableError as error:
            assert "forked" in str(error)
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    os.kill(int(sys.argv[2]), signal.SIGCONT)
    model.wait()
    for tensor in model.values():
        tensor.tobytes()
    print(json.dumps([arrived, os.waitstatus_to_exitcode(status)]))
"""


def test_a_child_forked_before_the_arrival_takes_no_news(store: Path, tmp_path: Path) -> None:
    path = slow_model(tmp_path)
    with Mirror(store, 256 * MIB) as mirror:
        arrived, status = python(FORK_BEFORE_ARRIVAL, path, mirror.process.pid)
        assert (arrived, status) in [(True, 0), (False, 3)]


# Threads


def test_many_threads(mirror: Mirror, model: Path) -> None:
    expected = big(6)
    failures: list[BaseException] = []
    start = threading.Barrier(12)

    def use(number: int) -> None:
        try:
            start.wait()
            for turn in range(5):
                loaded = load(model, keep=number == 0)
                name = f"layer.{(number + turn) % 6}"
                assert bytes(torch.from_dlpack(loaded[name]).numpy()) == expected[name].data
                loaded.wait()
                if number % 3 == 0:
                    loaded.release()
                tetris.gpu.release()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=[number]) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    tetris.gpu.release()
    nothing_held()


INTERRUPTED = """
    import json, signal, sys, tetris.gpu
    # The starter of the tests may have told all processes to ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    device = "simulated"
    held = tetris.gpu.load(sys.argv[1], device)
    print(json.dumps("held"), flush=True)
    try:
        tetris.gpu.load(sys.argv[2], device, wait=1000)
    except KeyboardInterrupt:
        print(json.dumps("interrupted"), flush=True)
    sys.stdin.readline()
"""


def test_control_c_ends_a_wait_for_room(store: Path, model: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.safetensors", {"other": stored("U8", [6 * MIB])})
    with Mirror(store, 8 * MIB), Helper(INTERRUPTED, model, other) as helper:
        assert helper.line() == "held"
        eventually("it waits", lambda: tetris.gpu.usage()["waiting"] == 1)
        os.kill(helper.pid, signal.SIGINT)
        assert helper.line() == "interrupted"
        # The thread that waited gives its place up.
        eventually("nobody waits", lambda: tetris.gpu.usage()["waiting"] == 0)
        assert tetris.gpu.usage()["leases"] == 1


# On a GPU: TETRIS_STORE=... of a daemon with [gpu_mirror], then `pytest tests/test_gpu.py -m gpu`


def no_gpu() -> str | None:
    """The reason the tests on a GPU cannot run."""
    try:
        import ctypes

        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no CUDA driver (libcuda.so.1)"
    if not torch.cuda.is_available():
        return "torch sees no GPU"
    if "TETRIS_GPU_STORE" not in os.environ:
        return "no mirror: name the store of a daemon with [gpu_mirror] in TETRIS_GPU_STORE"
    return None


@pytest.fixture
def gpu_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store of a daemon with a GPU."""
    if reason := no_gpu():
        pytest.skip(reason)
    monkeypatch.setenv("TETRIS_STORE", os.environ["TETRIS_GPU_STORE"])


@pytest.mark.gpu
def test_on_a_gpu(gpu_store: None, tmp_path: Path) -> None:
    weight = floats([512, 512])
    path = write(tmp_path / "m.safetensors", {"weight": weight, "empty": Stored("F32", [0], b""), **big(4)})
    model = tetris.gpu.load(path, "cuda:0")
    assert model.device == "cuda:0"
    for name, tensor in model.items():
        taken = torch.from_dlpack(tensor)
        assert taken.device == torch.device("cuda:0")
        assert taken.numel() == 0 or taken.data_ptr() == tensor.address
        assert bytes(taken.cpu().contiguous().view(torch.uint8).numpy()) == tensor.tobytes(), name
    matrix = torch.from_dlpack(model["weight"])
    vector = torch.ones(512, device="cuda:0")
    expected = torch.frombuffer(bytearray(weight.data), dtype=torch.float32).view(512, 512).sum(1)
    # The first product makes cuBLAS allocate a workspace, 8 MiB or more, from torch's memory.
    torch.mv(torch.ones(512, 512, device="cuda:0"), vector)
    before = torch.cuda.memory_allocated()
    torch.cuda.empty_cache()
    assert torch.allclose((matrix @ vector).cpu(), expected, atol=1e-3)
    assert torch.cuda.memory_allocated() <= before + MIB
    del model, taken, tensor
    gc.collect()
    # A kernel that is queued still reads it when the last tensor goes.
    product = matrix @ vector
    del matrix
    gc.collect()
    assert torch.allclose(product.cpu(), expected, atol=1e-3)
    eventually("nothing is held", lambda: tetris.gpu.usage()["leases"] == 0)


def halves(path: Path) -> tuple[Path, bytes]:
    """A file with a tensor of float16, and its bytes."""
    tensor = stored("F16", [64, 1024])
    return write(path, {"half": tensor}), tensor.data


@pytest.mark.gpu
def test_cupy_takes_float16_on_a_gpu(gpu_store: None, tmp_path: Path) -> None:
    cupy = pytest.importorskip("cupy", reason="needs cupy")
    path, data = halves(tmp_path / "m.safetensors")
    model = tetris.gpu.load(path, "cuda:0")
    array = cupy.from_dlpack(model["half"])
    assert (array.dtype, array.shape) == (numpy.float16, (64, 1024))
    assert array.data.ptr == model["half"].address
    # The array alone holds the memory, which a kernel of CuPy reads.
    del model
    gc.collect()
    assert tetris.gpu.usage()["leases"] == 1
    assert array.get().tobytes() == array.copy().get().tobytes() == data
    del array
    gc.collect()
    eventually("nothing is held", lambda: tetris.gpu.usage()["leases"] == 0)


@pytest.mark.gpu
def test_jax_takes_float16_on_a_gpu(gpu_store: None, tmp_path: Path) -> None:
    jax = pytest.importorskip("jax", reason="needs jax")
    try:
        jax.devices("gpu")
    except RuntimeError as error:
        pytest.skip(f"jax sees no GPU: {error}")
    path, data = halves(tmp_path / "m.safetensors")
    model = tetris.gpu.load(path, "cuda:0")
    array = jax.dlpack.from_dlpack(model["half"])
    assert (array.dtype, array.shape) == (numpy.float16, (64, 1024))
    assert {device.platform for device in array.devices()} == {"gpu"}
    # JAX may still read the memory when the model goes.
    del model
    gc.collect()
    assert numpy.asarray(array).tobytes() == numpy.asarray(jax.numpy.flip(jax.numpy.flip(array))).tobytes() == data
