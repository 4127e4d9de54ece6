"""Every function gives what safetensors' own gives: bits, types, shapes, strides, order, errors and their messages.

Left out of the comparison: paths in messages; the order of metadata, which is chance in theirs; strides of arrays
without elements; that arrays of `tetris.numpy` cannot be written to; strides of slices of arrays, which are views here
and copies there. Where more is read than safetensors reads, the test says so in its name.
"""

from __future__ import annotations

import math
import os
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import model_files
import numpy as np
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch
import tetris
import tetris.numpy
import tetris.torch
import torch
from differential import OURS, THEIRS, Library, assert_equal, assert_same, bits, described, outcome
from model_files import BITS, Stored, stored

pytestmark = pytest.mark.usefixtures("store", "min_shared_bytes")

SHAPES = ([], [1], [8], [3, 8], [2, 3, 4], [0], [3, 0], [0, 4], [1, 1, 1, 1, 16])
NAMES = (
    "weight",
    "",
    "a.b.c",
    "../up",
    "/root",
    "a b",
    "ключ",
    "名前",
    "\U0001f600",
    "nul\0inside",
    "new\nline",
    '"',
    "\\",
)


def every_way(path: object) -> list[Callable[[Library], Any]]:
    """The calls that read a whole file."""
    return [
        lambda lib: lib.torch.load_file(path),
        lambda lib: lib.torch.load_file(path, backend="pread"),
        lambda lib: read(lib.safe_open(path, "pt")),
        lambda lib: read(lib.safe_open(path, "np")),
        lambda lib: lib.safe_open(path, framework="pytorch", device="cpu").get_tensors(),
        lambda lib: lib.safe_open(path, framework="numpy", backend="pread").get_tensors(),
    ]


def read(opened: Any) -> Any:
    """All answers of a handle."""
    with opened as file:
        one_by_one = {}
        for name in file.keys():
            part = file.get_slice(name)
            one_by_one[name] = [file.get_tensor(name), part.get_shape(), part.get_dtype()]
        found = file.metadata()
        metadata = found if found is None else dict(sorted(found.items()))
        return [file.keys(), file.offset_keys(), metadata, one_by_one, file.get_tensors()]


def assert_same_file(path: Path) -> None:
    """Assert that a file reads the same in every way, when it is new to the store and when it is known."""
    for _ in range(2):
        for call in every_way(path):
            assert_same(call)
    assert_same_arrays(path)


def assert_same_arrays(path: Path) -> None:
    """As above for `safetensors.numpy.load_file`, of which the arrays differ in that they can be written to."""
    theirs = outcome(lambda lib: lib.numpy.load_file(path), THEIRS)
    ours = outcome(lambda lib: {name: array.copy() for name, array in lib.numpy.load_file(path).items()}, OURS)
    if theirs[0] == "raised" and theirs[1:] != ours[1:]:
        # Element types of ml_dtypes are more than safetensors offers.
        assert theirs[1] in (TypeError, AttributeError, KeyError, safetensors.SafetensorError, ValueError)
        assert any(array.dtype.name.startswith(("bfloat", "float8")) for array in tetris.numpy.load_file(path).values())
    else:
        assert_equal(ours, theirs)


@pytest.mark.parametrize("dtype", [dtype for dtype in BITS if dtype != "F4"])
def test_every_element_type_in_every_shape(tmp_path: Path, dtype: str) -> None:
    # A part of a byte is no tensor.
    shapes = [[*shape, 4] if math.prod(shape) * BITS[dtype] % 8 else shape for shape in SHAPES]
    # All at first: a file that has only just been written is not loaded at once.
    paths = [model_files.write(tmp_path / str(i), {"tensor": stored(dtype, one)}) for i, one in enumerate(shapes)]
    for path in paths:
        assert_same_file(path)


@pytest.mark.parametrize("shape", [[8], [3, 8], [2, 3, 4], [2, 2], [0], [3, 0], [0, 4]], ids=str)
def test_half_bytes_are_read_one_by_one_as_safetensors_does_and_together_as_well(
    tmp_path: Path, shape: list[int]
) -> None:
    path = model_files.write(tmp_path / "file", {"tensor": stored("F4", shape)})
    ours = tetris.torch.load_file(path)["tensor"]
    assert (ours.dtype, ours.shape) == (torch.float4_e2m1fn_x2, (*shape[:-1], shape[-1] // 2))
    assert bits(ours) == stored("F4", shape).data
    if math.prod(shape):
        assert described(ours) == assert_same(lambda lib: lib.safe_open(path, "pt").get_tensor("tensor"))
    assert_same(lambda lib: lib.safe_open(path, "np").get_tensor("tensor"))
    assert_same(lambda lib: lib.safe_open(path, "np").get_tensors())


@pytest.mark.parametrize(("dtype", "shape"), [("F4", [4, 3]), ("F4", [2, 1]), ("F6_E2M3", [4, 3]), ("F6_E3M2", [3, 4])])
def test_elements_of_less_than_a_byte_with_odd_last_dimensions(tmp_path: Path, dtype: str, shape: list[int]) -> None:
    assert_same_file(model_files.write(tmp_path / "file", {"tensor": stored(dtype, shape)}))


def test_all_element_types_in_one_file(tmp_path: Path) -> None:
    with_torch = [dtype for dtype in BITS if not dtype.startswith(("F6", "F4"))]
    assert_same_file(model_files.write(tmp_path / "file", {dtype: stored(dtype, [4, 8]) for dtype in with_torch}))


def test_one_type_that_nobody_has_does_not_keep_the_others_from_being_read(tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {"odd": stored("F6_E2M3", [4]), "usual": stored("F32", [4])})
    for framework in ("pt", "np"):
        for name in ("usual", "odd"):
            assert_same(lambda lib, f=framework, n=name: lib.safe_open(path, f).get_tensor(n))
    assert_same_file(path)


NAN_PATTERNS = {
    "F16": ("<H", [0x7C01, 0x7E00, 0xFE01, 0x7FFF, 0xFFFF, 0x7C00]),
    "BF16": ("<H", [0x7F81, 0x7FC0, 0xFF81, 0x7FFF, 0xFFFF, 0x7F80]),
    "F32": ("<I", [0x7F800001, 0x7FC00000, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FA5A5A5]),
    "F64": ("<Q", [0x7FF0000000000001, 0x7FF8000000000000, 0xFFF0000000000001, 0x7FFFFFFFFFFFFFFF]),
    "F8_E4M3": ("<B", [0x7F, 0xFF, 0x7E, 0x80]),
    "F8_E5M2": ("<B", [0x7D, 0x7E, 0x7F, 0xFD]),
}


@pytest.mark.parametrize("dtype", NAN_PATTERNS)
def test_the_payload_of_a_nan_is_kept(tmp_path: Path, dtype: str) -> None:
    letter, patterns = NAN_PATTERNS[dtype]
    data = b"".join(struct.pack(letter, pattern) for pattern in patterns)
    path = model_files.write(tmp_path / "file", {"nan": Stored(dtype, [len(patterns)], data)})
    assert_same_file(path)
    loaded = tetris.torch.load_file(path)["nan"]
    assert loaded.view(torch.uint8).numpy().tobytes() == data


@pytest.mark.parametrize("misalign", range(9))
def test_data_that_is_not_aligned(tmp_path: Path, misalign: int) -> None:
    tensors = {
        "byte": stored("U8", [3]),
        "double": stored("F64", [5]),
        "half": stored("F16", [7]),
        "long": stored("I64", []),
        "single": stored("F32", [2, 2]),
    }
    assert_same_file(model_files.write(tmp_path / "file", tensors, misalign=misalign, align=16))


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_unusual_names(tmp_path: Path, name: str) -> None:
    tensors = {name: stored("F32", [2]), "other": stored("F32", [3])}
    path = model_files.write(tmp_path / "file", tensors)
    assert_same_file(path)
    for framework in ("pt", "np"):
        assert_same(lambda lib, f=framework: lib.safe_open(path, f).get_slice(name)[:1])


def test_a_long_name(tmp_path: Path) -> None:
    for length in (4096, 4097, 70_000):
        assert_same_file(model_files.write(tmp_path / f"{length}", {"n" * length: stored("F32", [2])}))


@pytest.mark.parametrize(
    "metadata",
    [None, {}, {"format": "pt"}, {"": ""}, {"clé": "値\n"}, {str(i): "x" * i for i in range(100)}],
    ids=["absent", "empty", "one", "empty-strings", "unicode", "many"],
)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_metadata(tmp_path: Path, metadata: dict[str, str] | None, count: int) -> None:
    tensors = {str(index): stored("F32", [2], index) for index in range(count)}
    path = model_files.write(tmp_path / "file", tensors, metadata)
    assert_same_file(path)


def test_a_big_header(tmp_path: Path) -> None:
    tensors = {f"layer.{index}.{'x' * 100}": stored("I16", [index % 5], index) for index in range(5000)}
    path = model_files.write(tmp_path / "file", tensors, {"notes": "n" * 1_000_000})
    assert_same(lambda lib: lib.torch.load_file(path))
    assert_same(lambda lib: [lib.safe_open(path, "pt").keys(), lib.safe_open(path, "pt").offset_keys()])
    assert_same_arrays(path)


def test_tensors_come_in_the_order_of_their_bytes_and_keys_sorted(tmp_path: Path) -> None:
    text = (
        b'{"c":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},'
        b'"b":{"dtype":"U8","shape":[0],"data_offsets":[1,1]},'
        b'"z":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
        b'"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]},'
        b'"e":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}}'
    )
    path = tmp_path / "file"
    path.write_bytes(model_files.framed(text, b"\1\2\3\4"))
    assert_same_file(path)
    assert list(tetris.torch.load_file(path)) == ["z", "b", "c", "a", "e"]


def test_many_tensors_of_no_bytes_keep_an_order(tmp_path: Path) -> None:
    tensors = {name: stored("F32", [0]) for name in "zyxabc"}
    path = model_files.write(tmp_path / "file", tensors)
    assert_same(lambda lib: lib.safe_open(path, "pt").keys())
    assert sorted(tetris.torch.load_file(path)) == sorted(safetensors.torch.load_file(path))


class Loose:
    """Objects that are like others, but not quite."""

    def __init__(self, path: object) -> None:
        self._path = path

    def __fspath__(self) -> Any:
        return self._path


@pytest.mark.parametrize("kind", ["str", "Path", "PathLike", "bytes", "PathLike-bytes", "None", "int", "file", "list"])
def test_types_of_file_names(tmp_path: Path, kind: str) -> None:
    path = model_files.write(tmp_path / "file", {"tensor": stored("F32", [2])})
    with open(path, "rb") as file:
        names: dict[str, object] = {
            "str": str(path),
            "Path": path,
            "PathLike": Loose(str(path)),
            "bytes": os.fsencode(path),
            "PathLike-bytes": Loose(os.fsencode(path)),
            "None": None,
            "int": file.fileno(),
            "file": file,
            "list": [str(path)],
        }
        for call in every_way(names[kind]):
            assert_same(call)


def test_file_names_that_are_not_utf8_are_read_as_well(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")
    model_files.write(path, {"tensor": stored("F32", [2])})
    for call in every_way(path):
        assert outcome(call, OURS)[0] != "raised"
    missing = f"{path}\udcff"
    for call in every_way(missing):
        assert_same(call)


def test_a_relative_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model_files.write(tmp_path / "file", {"tensor": stored("F32", [2])})
    monkeypatch.chdir(tmp_path)
    for name in ("file", "./file", Path("file"), "", "\0", "no-such-file"):
        for call in every_way(name):
            assert_same(call)


@pytest.mark.parametrize(
    "framework", ["pt", "torch", "pytorch", "np", "numpy", "tf", "jax", "mlx", "paddle", "PT", "", "nonsense", None, 1]
)
def test_frameworks(tmp_path: Path, framework: Any) -> None:
    path = model_files.write(tmp_path / "file", {"tensor": stored("F32", [2, 2])})
    assert_same(lambda lib: read(lib.safe_open(path, framework)))
    assert_same(lambda lib: read(lib.safe_open(path, framework=framework, device="cpu")))


@pytest.mark.parametrize(
    "device",
    [
        "cpu",
        torch.device("cpu"),
        "cuda",
        "cuda:0",
        0,
        -1,
        99,
        "meta",
        "mps",
        "xpu:0",
        "",
        "nonsense",
        None,
        1.5,
        ["cpu"],
    ],
    ids=repr,
)
def test_devices(tmp_path: Path, device: Any) -> None:
    path = model_files.write(tmp_path / "file", {"tensor": stored("F32", [2, 2]), "none": stored("F32", [0])})
    assert_same(lambda lib: lib.torch.load_file(path, device=device))
    assert_same(lambda lib: lib.torch.load_file(path, device))
    assert_same(lambda lib: lib.safe_open(path, "np", device=device).get_tensors())
    assert_same(lambda lib: lib.safe_open(path, "pt", device).get_slice("tensor")[0])


@pytest.mark.parametrize("backend", ["mmap", "pread", "io_uring", "", "MMAP", None, 1], ids=repr)
def test_backends(tmp_path: Path, backend: Any) -> None:
    path = model_files.write(tmp_path / "file", {"tensor": stored("F32", [2, 2])})
    assert_same(lambda lib: lib.torch.load_file(path, backend=backend))
    assert_same(lambda lib: read(lib.safe_open(path, "pt", backend=backend)))
    assert_same(lambda lib: read(lib.safe_open(path, "np", backend=backend)))
    theirs = outcome(lambda lib: lib.numpy.load_file(path, backend=backend), THEIRS)
    ours = outcome(lambda lib: lib.numpy.load_file(path, backend=backend), OURS)
    assert ours == theirs if theirs[0] == "raised" else ours[0] == theirs[0]


def test_arguments_by_position_by_name_and_in_excess(tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {"tensor": stored("F32", [2, 2])})
    assert_same(lambda lib: read(lib.safe_open(filename=path, framework="pt")))
    for call in (
        lambda lib: lib.safe_open(),
        lambda lib: lib.safe_open(path),
        lambda lib: lib.safe_open(path, "pt", "cpu", "mmap"),
        lambda lib: lib.safe_open(path, "pt", nonsense=1),
        lambda lib: lib.torch.load_file(),
        lambda lib: lib.torch.load_file(path, "cpu", "mmap"),
        lambda lib: lib.numpy.load_file(path, "cpu"),
    ):
        assert outcome(call, OURS)[:2] == outcome(call, THEIRS)[:2] == ("raised", TypeError)


@pytest.mark.parametrize("framework", ["pt", "np"])
def test_a_closed_handle(tmp_path: Path, framework: str) -> None:
    path = model_files.write(tmp_path / "file", {"tensor": stored("F32", [4, 2])})

    def closed(lib: Library) -> Any:
        with lib.safe_open(path, framework) as file:
            pass
        return file

    for use in (
        lambda file: file.keys(),
        lambda file: file.offset_keys(),
        lambda file: file.metadata(),
        lambda file: file.get_tensor("tensor"),
        lambda file: file.get_tensor("nonsense"),
        lambda file: file.get_tensors(),
        lambda file: file.get_slice("tensor"),
        lambda file: file.get_slice("nonsense"),
        lambda file: read(file),
        lambda file: file.__exit__(None, None, None),
    ):
        assert_same(lambda lib, use=use: use(closed(lib)))


@pytest.mark.parametrize("framework", ["pt", "np"])
def test_tensors_and_slices_outlive_their_handle(tmp_path: Path, framework: str) -> None:
    path = model_files.write(tmp_path / "file", {"tensor": stored("F32", [4, 2])})

    def outlive(lib: Library) -> Any:
        with lib.safe_open(path, framework) as file:
            whole, taken, untouched = file.get_tensor("tensor"), file.get_slice("tensor"), file.get_slice("tensor")
            part = taken[1:3]
        del file
        return [whole, part, taken[:1], untouched[:2], untouched.get_shape(), untouched.get_dtype()]

    assert_same(outlive)


def test_a_handle_ends_with_the_exception_that_it_met(tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {"tensor": stored("F32", [4, 2])})

    def failing(lib: Library) -> Any:
        with lib.safe_open(path, "pt") as file:
            file.get_tensor("nonsense")

    raised = assert_same(failing)
    assert raised[1] is safetensors.SafetensorError


@pytest.mark.parametrize("name", ["nonsense", "", "tensor ", None, 1, b"tensor", ["tensor"]], ids=repr)
@pytest.mark.parametrize("framework", ["pt", "np"])
def test_names_that_are_not_there(tmp_path: Path, framework: str, name: Any) -> None:
    path = model_files.write(tmp_path / "file", {"tensor": stored("F32", [4, 2])})
    assert_same(lambda lib: lib.safe_open(path, framework).get_tensor(name))
    assert_same(lambda lib: lib.safe_open(path, framework).get_slice(name)[:])


class Index:
    """An integer in a class of its own."""

    def __index__(self) -> int:
        return 1

    # Tests' names are the same in each process.
    def __repr__(self) -> str:
        return "Index()"


INDICES: tuple[Any, ...] = (
    0, 1, -1, 3, 4, -4, -5, 2**31, 2**63, -(2**63) - 1, True, False, None, ..., (), Index(), 1.0, "a", b"a", 1j,
    object, slice(None), slice(1), slice(1, None), slice(1, 3), slice(0, 4), slice(0, 5), slice(2, 2), slice(3, 1),
    slice(4, None), slice(5, None), slice(-2, None), slice(None, -1), slice(-100, 100), slice(None, None, 1),
    slice(None, None, 2), slice(1, None, 3), slice(None, None, 100), slice(None, None, -1), slice(None, None, 0),
    slice(0.5, 2), slice("a", "b"), slice(2**62, 2**63), slice(None, 2**64), slice(Index(), None),
    slice(None, Index()), slice(True, None), slice(None, True), slice(np.int64(1), np.int64(3)), slice(None, 0),
    slice(0, 0), slice(np.uint8(1), None), slice(None, None, None), (slice(None), 0), (slice(None), -1),
    (0, slice(None)), (1, 2), (1, 2, 3), (-1, -1), (0, 0, 0, 0), (9, 0), (0, 9), (slice(None), slice(1, 3)),
    (slice(1, 3), slice(None)), (slice(1, 3), slice(2, 4)), (slice(1, 3), 1), (1, slice(1, 3)),
    (slice(None), slice(None), slice(None)), (slice(None),) * 4, (slice(None),) * 70, (slice(0, 2),),
    (slice(3, 1), slice(None)), (..., 0), (0, ...), (..., slice(0, 1)), (..., ...), (slice(None), ..., 0), (None, 0),
    (0, None), (None, None, slice(1, 2)), (slice(None, None, 2), slice(None, None, 2)),
    (slice(-2, None), slice(-2, None)), (slice(0, 100), slice(0, 100)), (True, 0), (slice(None), True),
    (slice(None), None), (0, 1.5), (slice(None), "a"), (slice(None, None, -1), 0), [0], [0, 1], [[0, 1]], [1, -1],
    [9], [True, False, True, False], [True], [], ([0, 1], [0, 1]), (slice(None), [0, 1]), ([0, 1], slice(None)),
    (0, [0, 1]), [slice(None), 0], [None], [...], range(2), (range(2), 0), np.int64(1), np.int32(-1), np.uint8(2),
    np.bool_(True), np.float32(1), np.array(1), np.array([0, 1]), np.array([True] * 4), np.array([0.5]),
    (np.int64(1), np.int64(1)), (slice(None), np.int64(1)), (slice(None), np.array([0, 1])),
    np.array([[True, False, True]] * 4), torch.tensor(1), torch.tensor([0, 1]),
    torch.tensor([True, False, True, False]), torch.tensor([0.5]), torch.tensor([9]), (slice(None), torch.tensor(1)),
    (slice(None), torch.tensor([0, 1])), (torch.tensor([0, 1]), torch.tensor([0, 1])),
    slice(torch.tensor(1), torch.tensor(3)), torch.tensor(True), torch.empty(0, dtype=torch.long),
)  # fmt: skip


def without_warnings(call: Callable[[Library], Any]) -> Callable[[Library], Any]:
    """A list as an index is deprecated in torch, which both say."""

    def quiet(lib: Library) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(lib)

    return quiet


@pytest.fixture(scope="module")
def sliced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of tensors to slice, by their names."""
    tensors = {
        "scalar": stored("F32", []),
        "vector": stored("I64", [4]),
        "matrix": stored("F32", [4, 3]),
        "half": stored("BF16", [4, 4]),
        "truth": stored("BOOL", [4, 3]),
        "quarter": stored("F8_E4M3", [4, 2]),
        "fourth": stored("F4", [4, 4]),
        "cube": stored("U8", [2, 3, 4]),
        "empty": stored("F64", [0, 3]),
        "hollow": stored("F64", [4, 0]),
        "six": stored("F6_E2M3", [4, 4]),
    }
    return model_files.write(tmp_path_factory.mktemp("sliced") / "file", tensors)


@pytest.mark.parametrize("index", INDICES, ids=lambda index: ascii(index).replace("\n", ""))
@pytest.mark.parametrize("framework", ["pt", "np"])
def test_slices_by_every_kind_of_index(sliced: Path, framework: str, index: Any) -> None:
    with OURS.safe_open(sliced, framework) as our_file, THEIRS.safe_open(sliced, framework) as their_file:
        for name in our_file.keys():
            call = without_warnings(lambda file, name=name: file.get_slice(name)[index])
            theirs, ours = outcome(call, their_file), outcome(call, our_file)
            if ours[0] == theirs[0] == "numpy":
                # Theirs is a copy, ours a view: the same numbers, further apart.
                ours, theirs = (*ours[:4], None, *ours[5:]), (*theirs[:4], None, *theirs[5:])
            assert_equal(ours, theirs, name)


def test_slices_of_half_bytes_have_a_shape_in_elements(tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {"tensor": stored("F4", [6, 4]), "none": stored("F4", [0, 4])})
    for name in ("tensor", "none"):
        assert_same(lambda lib, n=name: [lib.safe_open(path, "pt").get_slice(n).get_shape(), n])


def test_methods_are_those_of_safetensors(tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {"tensor": stored("F32", [2])})
    theirs, ours = safetensors.safe_open(path, "pt"), tetris.safe_open(path, "pt")
    for one, other in ((theirs, ours), (theirs.get_slice("tensor"), ours.get_slice("tensor"))):
        assert {name for name in dir(one) if not name.startswith("__")} <= set(dir(other))
        for protocol in ("__len__", "__getitem__", "__enter__", "__exit__"):
            assert hasattr(one, protocol) == hasattr(other, protocol), protocol


def test_both_modules_offer_the_same_names() -> None:
    for theirs, ours in ((safetensors.torch, tetris.torch), (safetensors.numpy, tetris.numpy)):
        public = {"load", "load_file", "load_model", "save", "save_file", "save_model"} & set(dir(theirs))
        assert public <= set(dir(ours))


class Tied(torch.nn.Module):
    """A module with tied weights and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(8, 4)
        self.head = torch.nn.Linear(4, 8, bias=False)
        self.head.weight = self.embedding.weight
        self.norm = torch.nn.BatchNorm1d(4)
        self.double = torch.nn.Linear(4, 4, dtype=torch.float64)


def tied(seed: int) -> Tied:
    torch.manual_seed(seed)
    return Tied()


def test_load_model_gives_the_same_module_and_names(tmp_path: Path) -> None:
    path = tmp_path / "file"
    safetensors.torch.save_model(tied(1), str(path))

    def load(lib: Library) -> Any:
        model = tied(2)
        parameters = {name: id(one) for name, one in model.named_parameters()}
        names = lib.torch.load_model(model, path)
        assert {name: id(one) for name, one in model.named_parameters()} == parameters
        assert model.head.weight is model.embedding.weight
        return [sorted(names[0]), sorted(names[1]), dict(model.state_dict())]

    assert_same(load)


def narrowed(drop: tuple[str, ...] = (), add: tuple[str, ...] = (), **replace: torch.Tensor) -> dict[str, torch.Tensor]:
    """The tensors of a file for `Tied`, with changes."""
    state = {name: one.clone() for name, one in tied(3).state_dict().items() if name not in (*drop, "head.weight")}
    return {**state, **{name: torch.ones(2) for name in add}, **replace}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    "tensors",
    [
        narrowed(drop=("norm.weight",)),
        narrowed(drop=("embedding.weight",)),
        narrowed(add=("surplus",)),
        narrowed(drop=("norm.bias",), add=("head.weight", "surplus")),
        narrowed(**{"norm.weight": torch.ones(5)}),
        narrowed(**{"norm.weight": torch.ones(4, dtype=torch.bfloat16)}),
        narrowed(**{"norm.weight": torch.full((4,), float("nan"))}),
        narrowed(**{"double.weight": torch.ones(4, 4)}),
        {},
    ],
    ids=["missing", "missing-tied", "unexpected", "both", "other-shape", "other-type", "nan", "narrower", "nothing"],
)
def test_load_model_fails_and_casts_as_safetensors_does(
    tmp_path: Path, tensors: dict[str, torch.Tensor], strict: bool
) -> None:
    path = tmp_path / "file"
    safetensors.torch.save_file(tensors, path)

    def load(lib: Library) -> Any:
        model = tied(4)
        try:
            names = lib.torch.load_model(model, path, strict=strict)
        except RuntimeError as error:
            return [str(error), dict(model.state_dict())]
        return [sorted(names[0]), sorted(names[1]), dict(model.state_dict())]

    assert_same(load)


def test_load_model_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(b"nonsense")
    for name in ("no-such-file", "damaged", ".", ""):
        assert_same(lambda lib, name=name: lib.torch.load_model(tied(1), tmp_path / name))
    good = model_files.write(tmp_path / "good", {"surplus": stored("F32", [2])})
    for device in ("nonsense", 0):
        assert_same(lambda lib, device=device: lib.torch.load_model(tied(1), good, device=device))


def test_save_and_load_go_round(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(3, dtype=torch.bfloat16), "c": torch.tensor(1)}
    assert_same(lambda lib: lib.torch.save(tensors, metadata={"k": "v"}))
    assert_same(lambda lib: dict(sorted(lib.torch.load(lib.torch.save(tensors)).items())))
    arrays: dict[str, np.ndarray] = {"a": np.arange(6.0).reshape(2, 3), "b": np.ones(3, np.float16), "c": np.array(1)}
    assert_same(lambda lib: lib.numpy.save(arrays, metadata={"k": "v"}))
    assert_same(lambda lib: dict(sorted(lib.numpy.load(lib.numpy.save(arrays)).items())))
    for data in (b"", b"nonsense", b"\xff" * 8):
        assert_same(lambda lib, data=data: lib.torch.load(data))
        assert_same(lambda lib, data=data: lib.numpy.load(data))


def test_a_file_that_is_saved_over_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for value in range(3):
        for save in (tetris.torch.save_file, safetensors.torch.save_file):
            save({"t": torch.full((3,), float(value))}, path)
            assert tetris.torch.load_file(path)["t"].tolist() == [value] * 3
    tetris.numpy.save_file({"t": np.full(3, 9.0)}, path)
    assert tetris.numpy.load_file(path)["t"].tolist() == [9.0] * 3


def test_what_was_loaded_can_be_saved_as_the_same_file(tmp_path: Path) -> None:
    tensors = {dtype: stored(dtype, [4, 8]) for dtype in BITS if not dtype.startswith(("F6", "F4", "BOOL"))}
    path = model_files.write(tmp_path / "file", tensors)
    assert_same(lambda lib: lib.torch.save(lib.torch.load_file(path)))
    read_only = tetris.torch.load_file(path, mode="read_only")
    assert tetris.torch.save(read_only) == safetensors.torch.save(safetensors.torch.load_file(path))


def test_a_handle_stays_with_the_file_that_it_opened(tmp_path: Path) -> None:
    path = tmp_path / "file"
    expected = {}
    for lib in (THEIRS, OURS):
        model_files.write(path, {"tensor": stored("F32", [4], 1)})
        with lib.safe_open(path, "pt") as file:
            model_files.write(tmp_path / "other", {"tensor": stored("F32", [4], 2)})
            os.replace(tmp_path / "other", path)
            expected[lib] = described(file.get_tensor("tensor"))
    assert expected[OURS] == expected[THEIRS]


@pytest.mark.parametrize("framework", ["pt", "np"])
@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_a_write_shows_in_what_is_taken_later_only_where_it_does_with_safetensors(
    tmp_path: Path, framework: str, backend: str
) -> None:
    names = ("whole", "sliced", "all", "sliced whole", "again", "other")
    path = model_files.write(tmp_path / "file", {name: stored("I32", [4, 6], i) for i, name in enumerate(names)})

    def write(lib: Library) -> Any:
        found = []
        with lib.safe_open(path, framework, backend=backend) as file:
            file.get_tensor("whole")[0] = 1
            found += [file.get_tensor("whole"), file.get_tensors()["whole"], file.get_slice("whole")[:2]]
            part = file.get_slice("sliced")
            part[:2][0] = 1
            found += [part[:2], file.get_slice("sliced")[:2], file.get_tensor("sliced")]
            file.get_tensors()["all"][1] = 1
            found += [file.get_tensor("all"), file.get_tensors()]
            taken = file.get_slice("sliced whole")
            file.get_tensor("sliced whole")[0] = 1
            found += [taken[:1], taken[0:2, 1:3]]
            first, second = file.get_tensor("again"), file.get_tensor("again")
            first[0] = 1
            second[1] = 2
            found += [first, second, file.get_tensor("again"), file.get_tensor("other")]
        return [one.copy() if isinstance(one, np.ndarray) else one for one in found]

    assert_same(write)
    # Nor in what another handle gives.
    assert_same(lambda lib: read(lib.safe_open(path, framework, backend=backend)))


@pytest.mark.parametrize("count", [10, 1000, 100_000])
def test_tensors_of_equal_bytes_are_independent(tmp_path: Path, count: int) -> None:
    path = model_files.write(tmp_path / "file", {name: stored("F32", [count]) for name in "abc"})
    for load in (tetris.torch.load_file, lambda path: tetris.safe_open(path, "np").get_tensors()):
        for _ in range(2):
            loaded = load(path)
            loaded["a"][:] = 1
            loaded["c"][0] = 2
            expected = stored("F32", [count]).data
            assert described(loaded["b"])[-1] == expected
            assert described(loaded["c"])[-1][4:] == expected[4:]
