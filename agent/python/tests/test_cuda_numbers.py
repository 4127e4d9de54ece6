"""Numbers of CUDA devices, with the fake driver: asking for them leaves CUDA to the children of a fork."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from process import python

SOURCES = Path(__file__).resolve().parents[2] / "gpu" / "server" / "tests" / "fake-driver"
#: The second of the fake driver's devices, and one that it does not have.
SECOND, UNKNOWN = b"\xfa" * 15 + b"\x01", b"\x77" * 16
PREAMBLE = b"TETRGPUM" + struct.pack("<I", 1)
HELLO_ACK, DEVICES = 32, 33
CUDA_DESCRIPTORS = 1


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fake driver."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("driver")
    options = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"]
    sources = sorted(str(path) for path in SOURCES.glob("*.c"))
    subprocess.run([compiler, *options, *sources, "-o", str(folder / "libcuda.so.1")], check=True)
    return folder


@pytest.fixture
def machine(driver: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with two devices."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as state:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
        monkeypatch.setenv("FAKE_CUDA_STATE", state)
        monkeypatch.setenv("FAKE_CUDA_DEVICES", "2")
        yield


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack("<IB", len(payload), kind) + payload


def take(connection: socket.socket) -> None:
    """Read a frame."""
    header = connection.recv(5, socket.MSG_WAITALL)
    length = struct.unpack("<IB", header)[0]
    connection.recv(length, socket.MSG_WAITALL)


def answer(listener: socket.socket) -> None:
    """Tell one client that the mirror has two GPUs."""
    connection, _ = listener.accept()
    with connection:
        connection.recv(len(PREAMBLE), socket.MSG_WAITALL)
        connection.sendall(PREAMBLE)
        take(connection)
        connection.sendall(frame(HELLO_ACK, bytes([CUDA_DESCRIPTORS])))
        take(connection)
        listed = b"".join(
            struct.pack("<I16sQQQB", number, uuid, 9, 8, 7, 3) + b"GPU" for number, uuid in enumerate((SECOND, UNKNOWN))
        )
        connection.sendall(frame(DEVICES, listed))


@pytest.fixture
def mirror_of_gpus(store: Path, machine: None) -> Iterator[None]:
    """A mirror of two GPUs that answers one question."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(store / "gpu"))
        listener.listen()
        thread = threading.Thread(target=answer, args=[listener], daemon=True)
        thread.start()
        yield
        thread.join()


ASKS = """
    import ctypes, json, os, sys, tetris.gpu
    if sys.argv[1] == "initialized":
        assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    names = [device["device"] for device in tetris.gpu.devices()]
    pid = os.fork()
    if pid == 0:
        # CUDA begins in the child.
        os._exit(ctypes.CDLL("libcuda.so.1").cuInit(0))
    _, status = os.waitpid(pid, 0)
    print(json.dumps([names, os.waitstatus_to_exitcode(status)]))
"""


def test_a_child_can_use_cuda_after_the_parent_has_listed_devices(mirror_of_gpus: None) -> None:
    assert python(ASKS, "new") == [["cuda:1", None], 0]


def test_a_process_that_uses_cuda_asks_itself(mirror_of_gpus: None) -> None:
    not_initialized = 3
    assert python(ASKS, "initialized") == [["cuda:1", None], not_initialized]


def test_without_a_driver_no_device_has_a_name(
    mirror_of_gpus: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    program = """
        import json, sys, tetris.gpu
        # The name of no interpreter: nothing is started.
        sys.executable = "/usr/sbin/server"
        print(json.dumps([device["device"] for device in tetris.gpu.devices()]))
    """
    assert python(program) == [None, None]
