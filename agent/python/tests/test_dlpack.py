"""The buffer protocol and DLPack: what consumers are told is true, and what they take lives as long as they use it."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path
from typing import Any

import model_files
import numpy as np
import pytest
import tetris
import torch
from differential import bits
from model_files import BITS, floats, stored
from process import contents, held, mappings

FORMATS = {
    "BOOL": "?", "U8": "B", "I8": "b", "U16": "H", "I16": "h", "U32": "I", "I32": "i", "U64": "Q", "I64": "q",
    "F16": "e", "F32": "f", "F64": "d", "C64": "Zf",
}  # fmt: skip
SHAPE = [3, 4, 8]
PYBUF_WRITABLE, PYBUF_FORMAT, PYBUF_ND, PYBUF_STRIDES, PYBUF_F_CONTIGUOUS = 1, 4, 8, 0x18, 0x58


@pytest.fixture(params=["store", "no store"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file with every element type, loaded through a store or into private memory."""
    if request.param == "store":
        request.getfixturevalue("store")
    tensors = {dtype: stored(dtype, SHAPE) for dtype in BITS}
    return model_files.write(tmp_path / "file", {**tensors, "scalar": stored("F32", []), "none": stored("F32", [0, 3])})


def modes(path: Path) -> list[tuple[bool, tetris.Model]]:
    """The model, and whether it can be written to."""
    return [(mode == "copy_on_write", tetris.load(path, mode=mode)) for mode in ("copy_on_write", "read_only")]


@pytest.mark.parametrize("dtype", BITS)
def test_a_memoryview_says_what_the_tensor_is(path: Path, dtype: str) -> None:
    for _, model in modes(path):
        tensor = model[dtype]
        view = memoryview(tensor)
        assert view.tobytes() == stored(dtype, SHAPE).data and view.nbytes == tensor.nbytes
        assert view.readonly == tensor.readonly and view.c_contiguous
        if dtype in FORMATS:
            assert (view.format, view.itemsize, view.shape) == (FORMATS[dtype], BITS[dtype] // 8, tuple(SHAPE))
        else:
            assert (view.format, view.itemsize, view.ndim) == ("B", 1, 1)


def test_memory_is_writable_as_it_was_loaded(store: Path, tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {"a": floats([4, 5])})
    for writable, model in modes(path):
        assert memoryview(model["a"]).readonly != writable
        assert np.asarray(model["a"]).flags.writeable == writable
        if writable:
            ctypes.c_char.from_buffer(model["a"])
        else:
            with pytest.raises((BufferError, TypeError), match=r"read-only|not writable"):
                ctypes.c_char.from_buffer(model["a"])
            with pytest.raises(TypeError):
                memoryview(model["a"]).cast("B")[0] = 1


class PyBuffer(ctypes.Structure):
    """`Py_buffer`"""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


def get_buffer(tensor: Any, flags: int) -> PyBuffer:
    """The view that C gets. It is to be released."""
    view = PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(tensor), ctypes.byref(view), ctypes.c_int(flags))
    return view


@pytest.mark.parametrize("flags", [0, PYBUF_FORMAT, PYBUF_ND, PYBUF_STRIDES, PYBUF_STRIDES | PYBUF_FORMAT, 0x11C])
def test_a_consumer_gets_the_fields_that_it_asks_for(store: Path, tmp_path: Path, flags: int) -> None:
    path = model_files.write(tmp_path / "file", {"a": floats([4, 5])})
    for writable, model in modes(path):
        view = get_buffer(model["a"], flags)
        assert (view.len, view.itemsize, bool(view.readonly)) == (80, 4, not writable)
        assert view.format == (b"f" if flags & PYBUF_FORMAT else None)
        assert bool(view.shape) == bool(flags & PYBUF_ND)
        assert bool(view.strides) == (flags & PYBUF_STRIDES == PYBUF_STRIDES)
        if view.strides:
            assert view.ndim == 2 and view.shape[:2] == [4, 5] and view.strides[:2] == [20, 4]
        assert ctypes.string_at(view.buf, view.len) == floats([4, 5]).data
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
        if writable:
            view = get_buffer(model["a"], flags | PYBUF_WRITABLE)
            ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
        else:
            with pytest.raises(BufferError, match="read-only"):
                get_buffer(model["a"], flags | PYBUF_WRITABLE)


def test_a_consumer_that_wants_columns_first_is_refused_or_told_the_truth(store: Path, tmp_path: Path) -> None:
    """PEP 3118: a request for Fortran order must fail where the memory is not in that order."""
    path = model_files.write(tmp_path / "file", {"a": floats([4, 5]), "row": floats([5])})
    with pytest.raises(BufferError):
        get_buffer(tetris.load(path)["a"], PYBUF_F_CONTIGUOUS)
    view = get_buffer(tetris.load(path)["row"], PYBUF_F_CONTIGUOUS)
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))


def test_tensors_without_dimensions_or_elements_are_views_as_well(path: Path) -> None:
    for _, model in modes(path):
        scalar, none = model["scalar"], model["none"]
        assert memoryview(scalar).shape == () and np.asarray(scalar).shape == ()
        assert memoryview(none).shape == (0, 3) and np.asarray(none).shape == (0, 3)
        assert np.from_dlpack(none).shape == (0, 3) and np.from_dlpack(scalar).tobytes() == stored("F32", []).data
        with pytest.raises(TypeError):
            len(scalar)
        assert len(none) == 0


WITH_TORCH = [dtype for dtype in BITS if not dtype.startswith("F6")]


@pytest.mark.parametrize("dtype", FORMATS)
def test_numpy_takes_tensors_without_a_copy(path: Path, dtype: str) -> None:
    for _, model in modes(path):
        address = np.asarray(model[dtype]).ctypes.data
        for array in (np.asarray(model[dtype]), np.from_dlpack(model[dtype]), np.from_dlpack(model[dtype], copy=False)):
            assert array.ctypes.data == address and array.shape == tuple(SHAPE)
            assert array.tobytes() == stored(dtype, SHAPE).data
        assert not (model[dtype].readonly and np.from_dlpack(model[dtype]).flags.writeable)
        copied = np.from_dlpack(model[dtype], copy=True)
        assert copied.ctypes.data != address and copied.tobytes() == stored(dtype, SHAPE).data
        assert np.array(model[dtype]).flags.writeable


@pytest.mark.parametrize("dtype", WITH_TORCH)
def test_torch_takes_tensors_without_a_copy(path: Path, dtype: str) -> None:
    tensor = tetris.load(path, mode="copy_on_write")[dtype]
    try:
        found = torch.from_dlpack(tensor)
    except (RuntimeError, BufferError) as error:
        pytest.skip(f"torch takes no {dtype} by DLPack: {str(error).splitlines()[0]}")
    assert found.data_ptr() == np.frombuffer(memoryview(tensor).cast("B"), np.uint8).ctypes.data
    if dtype != "F4":
        assert tuple(found.shape) == tuple(SHAPE)
        assert bits(found) == stored(dtype, SHAPE).data


def test_what_torch_takes_from_read_only_memory_never_ends_the_process(store: Path, tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {"a": floats([4, 5])})
    tensor = tetris.load(path)["a"]
    before = contents(store)
    # torch knows no read-only memory.
    for found in (torch.from_dlpack(tensor), torch.frombuffer(tensor, dtype=torch.float32)):
        found.zero_()
        assert contents(store) == before
    assert torch.equal(torch.from_dlpack(tetris.load(path)["a"]).count_nonzero(), torch.tensor(20))


def test_versions_devices_streams_and_copies_are_as_the_standard_says(store: Path, tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {"a": floats([4, 5])})
    for _, model in modes(path):
        tensor = model["a"]
        assert tensor.__dlpack_device__() == (1, 0)
        for version in ((1, 0), (1, 1), (2, 0), (9, 9)):
            assert '"dltensor_versioned"' in repr(tensor.__dlpack__(max_version=version))
        for version in (None, (0, 8), (0, 0)):
            # These cannot say that memory is read-only; a write would go to pages of the process's own.
            assert '"dltensor"' in repr(tensor.__dlpack__(max_version=version))
        assert tensor.__dlpack__(dl_device=(1, 0), max_version=(1, 0)) is not None
        for device in ((2, 0), (1, 1), (13, 0)):
            with pytest.raises(BufferError):
                tensor.__dlpack__(dl_device=device, max_version=(1, 0))
        for stream in (0, 1, -1, "x"):
            with pytest.raises(BufferError):
                tensor.__dlpack__(stream=stream, max_version=(1, 0))
        tensor.__dlpack__(stream=None, max_version=(1, 0), copy=False)
        # A copy can be written to, so that consumers of any version can have one.
        assert tensor.__dlpack__(copy=True) is not None
        for wrong in ({"max_version": 1}, {"max_version": "10"}, {"dl_device": 1}, {"copy": "x"}, {"nonsense": 1}):
            with pytest.raises(TypeError):
                tensor.__dlpack__(**wrong)
        with pytest.raises(TypeError):
            tensor.__dlpack__(None)


def test_a_capsule_is_consumed_once(store: Path, tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {"a": floats([400, 500])})
    capsule = tetris.load(path, mode="copy_on_write")["a"].__dlpack__()
    taken = torch.utils.dlpack.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match=r"consumed once|already"):
        torch.utils.dlpack.from_dlpack(capsule)
    del capsule
    gc.collect()
    assert bits(taken) == floats([400, 500]).data and len(mappings(store)) == 1
    del taken
    gc.collect()
    assert mappings(store) == []


def test_a_capsule_that_nobody_consumes_lets_go(store: Path, tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {"a": floats([400, 500])})
    for arguments in ({}, {"max_version": (1, 0)}, {"copy": True}):
        capsule = tetris.load(path, mode="copy_on_write")["a"].__dlpack__(**arguments)
        gc.collect()
        assert len(mappings(store)) == (0 if "copy" in arguments else 1)
        del capsule
        gc.collect()
        assert mappings(store) == [] and held(store) == []


def test_exports_again_and_again_leave_nothing_behind(store: Path, tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {"a": floats([400, 500])})
    tensor = tetris.load(path, mode="copy_on_write")["a"]

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    def export() -> None:
        for _ in range(2000):
            tensor.__dlpack__()
            tensor.__dlpack__(max_version=(1, 0))
            np.from_dlpack(tensor)
            torch.from_dlpack(tensor)
            memoryview(tensor).release()
        for _ in range(50):
            tensor.__dlpack__(copy=True)

    export()
    gc.collect()
    before = resident()
    export()
    gc.collect()
    # One export that leaked each time would be a megabyte, one copy 40.
    assert resident() - before < 4 << 20
    assert len(mappings(store)) == 1


def test_jax_takes_tensors(store: Path, tmp_path: Path) -> None:
    jax_dlpack = pytest.importorskip("jax.dlpack", reason="jax is not installed")
    jax_numpy = pytest.importorskip("jax.numpy")
    tensors = {"a": floats([40, 50]), "b": stored("BF16", [7]), "i": stored("I32", [5]), "f": stored("F8_E4M3", [8])}
    path = model_files.write(tmp_path / "file", tensors)
    before = None
    for _, model in modes(path):
        before = before or contents(store)
        for name, tensor in tensors.items():
            found = jax_dlpack.from_dlpack(model[name])
            assert np.asarray(found).tobytes() == tensor.data and found.shape == tuple(tensor.shape)
            assert np.asarray(jax_numpy.concatenate([found, found])).tobytes() == tensor.data * 2
        del model, found
    gc.collect()
    assert contents(store) == before


def test_cupy_takes_tensors(store: Path, tmp_path: Path) -> None:
    cupy = pytest.importorskip("cupy", reason="cupy is not installed")
    path = model_files.write(tmp_path / "file", {"a": floats([40, 50])})
    assert cupy.asnumpy(cupy.asarray(np.asarray(tetris.load(path)["a"]))).tobytes() == floats([40, 50]).data


def test_views_of_published_memory_are_bytes(store: Path) -> None:
    memory = tetris.agent().publish(b"x" * 5000)
    view = memoryview(memory)
    assert (view.format, view.shape, view.readonly, len(memory), bytes(view)) == ("B", (5000,), True, 5000, b"x" * 5000)
    with pytest.raises(BufferError):
        get_buffer(memory, PYBUF_WRITABLE)
    writable = tetris.agent().publish(b"x" * 5000, mode="copy_on_write")
    memoryview(writable)[0] = 0
    assert bytes(view[:1]) == b"x"


def test_tensors_and_models_are_what_they_say(store: Path, tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {"a": floats([4]), "b": floats([4])}, {"k": "v"})
    model = tetris.load(path)
    assert list(model) == model.keys() == ["a", "b"] and len(model) == 2 and "a" in model and "x" not in model
    assert model.get("x") is None and model.get("x", 1) == 1 and model.metadata == {"k": "v"}
    with pytest.raises(KeyError):
        model["x"]
    tensor = model["a"]
    assert (tensor.name, tensor.dtype, tensor.shape, tensor.nbytes) == ("a", "F32", (4,), 16)
    assert tensor.id == model["b"].id and len(str(tensor.id)) == 64
    assert dict(model.items())["a"] is tensor and model.values()[0] is tensor
    assert "a" in repr(tensor) and "2 tensors" in repr(model)
    with pytest.raises(AttributeError):
        tensor.name = "b"
