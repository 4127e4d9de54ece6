"""Files that nobody should trust: the outcome is that of safetensors, and never a crash or a wait without end."""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import model_files
import pytest
import safetensors
import safetensors.torch
import tetris
import tetris.numpy
import tetris.torch
import torch
from differential import OURS, THEIRS, Library, assert_equal, assert_same, outcome
from model_files import Stored, framed, settle, stored

pytestmark = pytest.mark.usefixtures("store", "min_shared_bytes")


def entry(dtype: object = "U8", shape: object = (4,), offsets: object = (0, 4)) -> dict[str, object]:
    """Entry of a tensor in a header."""
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def file(header: object, data: bytes = b"abcd", length: int | None = None) -> bytes:
    """A file with this header."""
    return framed(header if isinstance(header, bytes) else json.dumps(header).encode(), data, length)


def text(**fields: str) -> bytes:
    """A header with one tensor, of which these fields are as they are given."""
    given = {"dtype": '"U8"', "shape": "[4]", "data_offsets": "[0,4]", **fields}
    return b'{"a":{' + ",".join(f'"{name}":{value}' for name, value in given.items()).encode() + b"}}"


GOOD = file({"a": entry()})
LENGTH = struct.unpack("<Q", GOOD[:8])[0]

HOSTILE: dict[str, bytes] = {
    "nothing": b"",
    "one byte": b"\0",
    "seven bytes": b"\0" * 7,
    "a length alone": struct.pack("<Q", 100),
    "no header": struct.pack("<Q", 0),
    "no header, but data": struct.pack("<Q", 0) + b"abcd",
    "a header of blanks": file(b"  "),
    "a length of 2^64 - 1": file({"a": entry()}, length=2**64 - 1),
    "a length of 2^63": file({"a": entry()}, length=2**63),
    "a length above the limit": file({"a": entry()}, length=100_000_001),
    "a length past the end": file({"a": entry()}, length=LENGTH + 5),
    "a length into the data": file({"a": entry()}, length=LENGTH + 1),
    "a length too short": file({"a": entry()}, length=LENGTH - 1),
    "a length in the other byte order": struct.pack(">Q", LENGTH) + GOOD[8:],
    "truncated in the header": GOOD[:20],
    "truncated in the data": GOOD[:-1],
    "without its data": GOOD[:-4],
    "a byte too many": GOOD + b"x",
    "a page too many": GOOD + b"\0" * 4096,
    "zeros": b"\0" * 4096,
    "ones": b"\xff" * 4096,
    "text": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    "a zip": b"PK\3\4" + b"\0" * 100,
    "blanks in front": file(b" " + json.dumps({"a": entry()}).encode()),
    "blanks behind": file(json.dumps({"a": entry()}).encode() + b" \n\t "),
    "NULs behind": file(json.dumps({"a": entry()}).encode() + b"\0\0"),
    "words behind": file(json.dumps({"a": entry()}).encode() + b" x"),
    "two objects": file(b"{}{}", b""),
    "not UTF-8": file(b'{"\xff":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'),
    "half a surrogate": file(b'{"\\ud800":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'),
    "a byte order mark": file(b"\xef\xbb\xbf" + json.dumps({"a": entry()}).encode()),
    "UTF-16": file(json.dumps({"a": entry()}).encode("utf-16")),
    "a comment": file(b'{/* */"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'),
    "a trailing comma": file(b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},}'),
    "single quotes": file(b"{'a':{'dtype':'U8','shape':[4],'data_offsets':[0,4]}}"),
    "no quotes": file(b"{a:1}"),
    "an open string": file(b'{"a'),
    "an array": file(b"[]", b""),
    "an array of numbers": file(b"[1,2]", b""),
    "a number": file(b"1", b""),
    "null": file(b"null", b""),
    "a string": file(b'"a"', b""),
    "an empty object": file(b"{}", b""),
    "an empty object with data": file(b"{}"),
    "a tensor that is null": file({"a": None}),
    "a tensor that is a number": file({"a": 1}),
    "a tensor that is a string": file({"a": "F32"}),
    "a tensor that is an array": file({"a": ["U8", [4], [0, 4]]}),
    "a tensor that is empty": file({"a": {}}),
    "without a type": file({"a": {"shape": [4], "data_offsets": [0, 4]}}),
    "without a shape": file({"a": {"dtype": "U8", "data_offsets": [0, 4]}}),
    "without offsets": file({"a": {"dtype": "U8", "shape": [4]}}),
    "a field too many": file({"a": {**entry(), "x": 1}}),
    "a deep field too many": file({"a": {**entry(), "x": {"y": [{"z": [None, 1.5, "s"]}]}}}),
    "an unknown type": file({"a": entry("F128")}),
    "a type in lower case": file({"a": entry("u8")}),
    "an empty type": file({"a": entry("")}),
    "a type that is a number": file({"a": entry(3)}),
    "a type that is null": file({"a": entry(None)}),
    "a type that is an object": file({"a": entry({"U8": None})}),
    "a type of an array": file({"a": entry(["U8"])}),
    "a shape that is too big": file({"a": entry(shape=[5])}),
    "a shape that is too small": file({"a": entry(shape=[3])}),
    "a shape of too big elements": file({"a": entry("F32", [4])}),
    "a shape that is null": file({"a": entry(shape=None)}),
    "a shape that is a number": file({"a": entry(shape=4)}),
    "a shape that is negative": file({"a": entry(shape=[-4])}),
    "two negative dimensions": file({"a": entry(shape=[-2, -2])}),
    "a dimension of 4.0": file({"a": entry(shape=[4.0])}),
    "a dimension of 4.5": file({"a": entry(shape=[4.5])}),
    "a dimension of 4e0": file(text(shape="[4e0]")),
    "a dimension of -0": file(text(shape="[-0]", data_offsets="[0,0]"), b""),
    "a dimension of 04": file(text(shape="[04]")),
    "a dimension of +4": file(text(shape="[+4]")),
    "a dimension of 0x4": file(text(shape="[0x4]")),
    "a dimension that is a string": file({"a": entry(shape=["4"])}),
    "a dimension that is null": file({"a": entry(shape=[None])}),
    "a dimension that is true": file({"a": entry(shape=[True])}),
    "a dimension of 2^64": file({"a": entry(shape=[2**64])}),
    "a dimension of 2^64 - 1": file({"a": entry(shape=[2**64 - 1])}),
    "a dimension of 10^400": file({"a": entry(shape=[10**400])}),
    "a product of 2^64": file({"a": entry(shape=[2**32, 2**32])}),
    "a product of 2^64 + 4": file({"a": entry(shape=[2, 2**63 + 2])}),
    "a product that overflows, of which one is 0": file({"a": entry(shape=[2**63, 4, 0], offsets=[0, 0])}, b""),
    "0 and then an overflow": file({"a": entry(shape=[0, 2**63, 4], offsets=[0, 0])}, b""),
    "a huge dimension of no elements": file({"a": entry(shape=[2**62, 0], offsets=[0, 0])}, b""),
    "65 dimensions": file({"a": entry(shape=[1] * 64 + [4])}),
    "33 dimensions": file({"a": entry(shape=[1] * 32 + [4])}),
    "1000 dimensions": file({"a": entry(shape=[1] * 999 + [4])}),
    "bits that overflow": file({"a": entry("F64", [2**61], [0, 0])}, b""),
    "offsets that are null": file({"a": entry(offsets=None)}),
    "one offset": file({"a": entry(offsets=[0])}),
    "three offsets": file({"a": entry(offsets=[0, 4, 8])}),
    "no offsets": file({"a": entry(offsets=[])}),
    "offsets in an object": file({"a": entry(offsets={"begin": 0, "end": 4})}),
    "offsets that are swapped": file({"a": entry(offsets=[4, 0])}),
    "a negative offset": file({"a": entry(offsets=[-4, 0])}),
    "an offset of 0.0": file({"a": entry(offsets=[0.0, 4])}),
    "an offset of 2^64": file({"a": entry(offsets=[0, 2**64])}),
    "an offset of 2^64 - 1": file({"a": entry(offsets=[0, 2**64 - 1])}),
    "offsets at the end of all numbers": file({"a": entry(offsets=[2**64 - 5, 2**64 - 1])}),
    "an offset past the end": file({"a": entry(shape=[8], offsets=[0, 8])}),
    "a hole in front": file({"a": entry(shape=[3], offsets=[1, 4])}),
    "a hole behind": file({"a": entry(shape=[3], offsets=[0, 3])}),
    "a hole between": file({"a": entry(shape=[1], offsets=[0, 1]), "b": entry(shape=[2], offsets=[2, 4])}),
    "an overlap": file({"a": entry(shape=[3], offsets=[0, 3]), "b": entry(shape=[2], offsets=[2, 4])}),
    "the same bytes twice": file({"a": entry(), "b": entry()}),
    "bytes of no tensor": file({"a": entry(shape=[0], offsets=[0, 0])}),
    "an empty tensor out of place": file({"a": entry(), "b": entry(shape=[0], offsets=[2, 2])}),
    "an empty tensor past the end": file({"a": entry(), "b": entry(shape=[0], offsets=[9, 9])}),
    "a name twice": file(
        b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}}'
    ),
    "a name twice, one of them without bytes": file(
        b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}}'
    ),
    "a name twice, of different ranges": file(
        b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}'
    ),
    "the same name in another spelling": file(
        b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"\\u0061":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}'
    ),
    "a field twice": file(b'{"a":{"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]}}'),
    "fields in another order": file(b'{"a":{"data_offsets":[0,4],"shape":[4],"dtype":"U8"}}'),
    "metadata alone": file({"__metadata__": {"k": "v"}}, b""),
    "metadata behind": file({"a": entry(), "__metadata__": {"k": "v"}}),
    "metadata twice": file(b'{"__metadata__":{"k":"v"},"__metadata__":{"l":"w"}}', b""),
    "a key of metadata twice": file(b'{"__metadata__":{"k":"v","k":"w"}}', b""),
    "metadata that is null": file({"__metadata__": None, "a": entry()}),
    "metadata that is a string": file({"__metadata__": "x", "a": entry()}),
    "metadata that is an array": file({"__metadata__": [], "a": entry()}),
    "metadata that is a tensor": file({"__metadata__": entry()}),
    "metadata of a number": file({"__metadata__": {"k": 1}, "a": entry()}),
    "metadata of null": file({"__metadata__": {"k": None}, "a": entry()}),
    "metadata of an object": file({"__metadata__": {"k": {}}, "a": entry()}),
    "metadata of NUL": file({"__metadata__": {"k": "\0"}, "a": entry()}),
    "nesting": file(b"[" * 200_000, b""),
    "nesting of objects": file(b'{"a":' * 200_000, b""),
    "nesting that is closed": file(b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}", b""),
    "nesting in a field that nobody reads": file(text(x="[" * 120 + "]" * 120)),
    "deep nesting in a field that nobody reads": file(text(x="[" * 5000 + "]" * 5000)),
    "nesting in metadata": file(b'{"__metadata__":' + b"[" * 100_000),
    "1e400": file(text(x="1e400")),
    "NaN": file(text(x="NaN")),
    "a control character in a name": file(b'{"a\nb":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'),
    "half a byte": file({"a": entry("F4", [1], [0, 0])}, b""),
    "three quarters of a byte": file({"a": entry("F6_E2M3", [1], [0, 0])}, b""),
}


def ways(path: Path) -> list[Callable[[Library], Any]]:
    """The calls that read a file."""
    return [
        lambda lib: dict(sorted(lib.torch.load_file(path).items())),
        lambda lib: lib.safe_open(path, "pt").keys(),
        lambda lib: dict(sorted(lib.safe_open(path, "np").get_tensors().items())),
    ]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files, by what is wrong with them."""
    folder = tmp_path_factory.mktemp("hostile")
    paths = {}
    for number, (what, content) in enumerate(HOSTILE.items()):
        paths[what] = folder / str(number)
        paths[what].write_bytes(content)
    return paths


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_has_the_outcome_that_it_has_with_safetensors(hostile: dict[str, Path], what: str) -> None:
    for call in ways(hostile[what]):
        assert_same(call)
    assert_same(lambda lib: lib.torch.load_model(torch.nn.Linear(1, 1), hostile[what]))


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_loaded_or_refused_without_a_framework(hostile: dict[str, Path], what: str) -> None:
    try:
        expected = {name: one.nbytes for name, one in safetensors.torch.load_file(hostile[what]).items()}
    except Exception:
        expected = None
    try:
        found = {name: tensor.nbytes for name, tensor in tetris.load(hostile[what]).items()}
    except tetris.LoadError as error:
        assert str(hostile[what]) in str(error)
        return
    assert expected is None or found == expected


def test_the_same_hostile_file_without_a_store(hostile: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TETRIS_STORE", "/nonexistent/store")
    for path in hostile.values():
        for call in ways(path):
            assert_same(call)


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero", "/dev/full", "/proc/self/maps", "/proc/self", "/sys", "/"])
def test_what_is_not_a_file(path: str) -> None:
    if not os.path.exists(path):
        pytest.skip(f"there is no {path}")
    for call in ways(Path(path)):
        assert_same(call)


@pytest.mark.parametrize("kind", ["directory", "empty directory", "dangling link", "loop", "socket", "below a file"])
def test_what_is_no_file_in_a_file_system(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "it"
    if kind == "directory":
        path.mkdir()
        # What Hugging Face lays out is a model to `tetris.load`, but no file.
        model_files.write(path / "model.safetensors", {"a": stored("F32", [2])})
        assert list(tetris.load(path)) == ["a"]
    elif kind == "empty directory":
        path.mkdir()
    elif kind == "dangling link":
        path.symlink_to("nowhere")
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "socket":
        import socket

        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    else:
        path.write_bytes(GOOD)
        path /= "below"
    for call in ways(path):
        assert_same(call)


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(tetris.LoadError):
        tetris.load(path)
    # Safetensors itself waits for a writer; here is one.
    writer = os.open(path, os.O_RDWR)
    for call in ways(path):
        assert_same(call)
    os.close(writer)


def test_a_link_to_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(GOOD)
    (tmp_path / "link").symlink_to("blob")
    for call in ways(tmp_path / "link"):
        assert assert_same(call)[0] != "raised"


def test_a_file_that_must_not_be_read(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        os.chmod(model_files.write(tmp_path / "file", {"a": stored("F32", [2])}), 0)
        for call in ways(tmp_path / "file"):
            assert assert_same(call)[0] == "raised"
        return
    # Root may read everything: be somebody else, in a thread of this process alone.
    path = Path(os.path.realpath(tmp_path)) / "file"
    model_files.write(path, {"a": stored("F32", [2])})
    path.chmod(0)
    os.seteuid(65534)
    try:
        outcomes = [(outcome(call, OURS), outcome(call, THEIRS)) for call in ways(path)]
    finally:
        os.seteuid(0)
    for ours, theirs in outcomes:
        assert theirs[0] == "raised"
        assert_equal(ours, theirs)


def test_a_file_that_is_truncated_after_it_was_opened(tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {"a": stored("F32", [4]), "b": stored("F32", [100_000])})
    # One that is new is left to safetensors.
    settle(path)
    with tetris.safe_open(path, "pt") as opened:
        os.truncate(path, 1000)
        # Safetensors would map the file and die of SIGBUS.
        with pytest.raises((tetris.LoadError, safetensors.SafetensorError)):
            opened.get_tensor("b")
    other = model_files.write(tmp_path / "other", {"b": stored("F32", [100_000])})
    settle(other)
    loaded = tetris.torch.load_file(other)
    os.truncate(tmp_path / "other", 0)
    assert loaded["b"].view(torch.uint8).numpy().tobytes() == stored("F32", [100_000]).data


def test_a_file_that_is_changed_after_it_was_opened_is_read_as_it_is_now(tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {"a": stored("F32", [4], 1)})
    changed = model_files.encode({"a": stored("F32", [4], 2)})
    with tetris.safe_open(path, "pt") as opened:
        path.write_bytes(changed)
        assert opened.get_tensor("a").view(torch.uint8).numpy().tobytes() == stored("F32", [4], 2).data


MUTANTS = 4000


def mutant(rng: random.Random, seeds: list[tuple[bytes, bytes]]) -> bytes:
    """A file that is almost valid."""
    header, data = map(bytearray, rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        part = data if rng.random() < 0.1 else header
        at = rng.randrange(len(part) + 1)
        action = rng.randrange(7)
        if action == 0:
            part[at : at + 1] = bytes([rng.randrange(256)])
        elif action == 1:
            part[at:at] = rng.choice(
                (b"0", b"9", b" ", b"\n", b'"', b",", b"[", b"]", b"{", b"}", b"\0", b"-", b".", b"e")
            )
        elif action == 2:
            del part[at : at + rng.choice((1, 1, 2, 8))]
        elif action == 3:
            part[at:at] = part[at : at + rng.choice((1, 4, 20, 60))]
        elif action == 4:
            # Within a name or a type, most often.
            part[at : at + 1] = bytes([rng.choice(b"abcdefghijklmnopqrstuvwxyzFBUI0123456789_")])
        elif action == 5:
            digits = [i for i, byte in enumerate(part) if byte in b"0123456789"]
            if digits:
                part[rng.choice(digits)] = rng.choice(b"0123456789")
        else:
            part[at : at + 1] = bytes(byte ^ (1 << rng.randrange(8)) for byte in part[at : at + 1])
    wrong = rng.choice((len(header) + rng.randrange(-9, 9), rng.randrange(2**64)))
    return framed(bytes(header), bytes(data), max(0, wrong) if rng.random() < 0.1 else None)


def test_mutants_of_small_files_have_the_outcome_that_they_have_with_safetensors(tmp_path: Path) -> None:
    whole = [
        model_files.encode({"a": stored("F32", [2, 2]), "b": stored("I64", [1]), "c": stored("U8", [3])}),
        model_files.encode({"a": stored("BF16", [4]), "": stored("F16", [])}, {"format": "pt", "k": "v"}),
        model_files.encode({"w": stored("F8_E4M3", [2, 4]), "e": stored("F64", [0, 3])}, {}),
        model_files.encode({}, {"only": "metadata"}),
        model_files.encode({"x": Stored("BOOL", [4], b"\0\1\1\0"), "y": stored("C64", [1])}, align=1),
    ]
    begins = [8 + struct.unpack("<Q", one[:8])[0] for one in whole]
    seeds = [(one[8:begin], one[begin:]) for one, begin in zip(whole, begins, strict=True)]
    rng = random.Random(20)
    for number in range(MUTANTS):
        (tmp_path / str(number)).write_bytes(mutant(rng, seeds))
    read = 0
    for number in range(MUTANTS):
        path = tmp_path / str(number)
        for call in ways(path):
            theirs, ours = outcome(call, THEIRS), outcome(call, OURS)
            if theirs[0] == "raised":
                # Which of several faults theirs meets first is chance.
                theirs, ours = theirs[:2], ours[:2]
            content = path.read_bytes() if ours != theirs else b""
            assert_equal(ours, theirs, f"mutant {number}: {content!r}")
            read += theirs[0] != "raised"
    # The mutations must leave something to read.
    assert MUTANTS / 4 < read < MUTANTS * 3
