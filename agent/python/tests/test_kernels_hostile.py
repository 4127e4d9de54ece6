"""Kernels files that are made to harm: no call of one ends the process that loads it, or holds it for long."""

from __future__ import annotations

import json
import logging
import os
import stat
import sys
from pathlib import Path
from typing import Any

import model_files
import pytest
import torch
import warm_jobs
from model_files import floats
from tetris import _kernels_replay, _kernels_trial, _kernels_verdicts, _trace_files, warm
from tetris._kernels import kernels_of
from tetris._kernels_call import Call, UnknownError
from tetris._kernels_operators import is_permitted
from tetris.torch import record_kernels
from tetris.warm import LoadedKernels, Pool, WarmError, load_kernels
from torch.utils._python_dispatch import TorchDispatchMode

LONG_S = 120.0
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    made = tmp_path_factory.mktemp("cache") / "order"
    monkeypatch.setenv("TETRIS_ORDER_DIR", str(made))
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return model_files.write(tmp_path / "model.safetensors", {"a": floats([4])})


def kernels_file(path: Path) -> Path:
    return Path(f"{path}.kernels.json")


def write(path: Path, *calls: Any) -> Path:
    document = {"format": "tetris-kernels", "version": 1, "models": [], "devices": {"cpu": list(calls)}}
    kernels_file(path).write_text(json.dumps(document))
    return path


def tensor(sizes: list[int], dtype: str = "float32") -> dict[str, Any]:
    return {"tensor": [dtype, sizes, None, "cpu"]}


def unary(name: str, size: int = 2) -> list[Any]:
    return [f"aten.{name}.default", [tensor([size])], {}]


class Called(TorchDispatchMode):
    """Names of the operators that this process calls."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(str(func).split(".")[1])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "call",
    [
        # Numbers that stand for an enumeration's values: operators take some of these as they are.
        ["aten.zeros.default", [[2]], {"dtype": 77}],
        ["aten._to_copy.default", [tensor([2])], {"dtype": 1 << 40}],
        ["aten._to_copy.default", [tensor([2])], {"memory_format": 9}],
        ["aten._to_copy.default", [tensor([2])], {"layout": 3}],
        ["aten._to_copy.default", [tensor([2])], {"device": "cpu"}],
        ["aten.sum.dim_IntList", [tensor([2]), [0]], {"dtype": -1}],
        ["aten._to_copy.default", [tensor([2])], {"dtype": {"dtype": "qint8"}}],
        ["aten._to_copy.default", [tensor([2])], {"layout": {"layout": "sparse_coo"}}],
        # Values of other types than the schema's.
        ["aten.neg.default", [[tensor([2])]], {}],
        ["aten.neg.default", ["a"], {}],
        ["aten.neg.default", [None], {}],
        ["aten.cat.default", [tensor([2])], {}],
        ["aten.sum.dim_IntList", [tensor([2]), [0.5]], {}],
        ["aten.sum.dim_IntList", [tensor([2]), [0], 1], {}],
        ["aten.softmax.int", [tensor([2]), True], {}],
        ["aten.rand.generator", [[2]], {"generator": 1}],
        ["aten.neg.default", [], {}],
        ["aten.neg.default", [tensor([2])], {"self": tensor([2])}],
        ["aten.neg.default", [tensor([2])], {"no_such": 1}],
        ["aten.neg.default", [tensor([2]), 1], {}],
        # Operators that no inference needs.
        ["aten.set_.source_Tensor", [tensor([2]), tensor([2])], {}],
        ["aten.resize_.default", [tensor([2]), [4]], {}],
        ["aten._sparse_coo_tensor_unsafe.default", [tensor([1, 1], "int64"), tensor([1]), [2]], {}],
        ["aten._make_per_tensor_quantized_tensor.default", [tensor([2], "int8"), 1.0, 0], {}],
        ["aten._fbgemm_pack_gemm_matrix_fp16_impl.default", [tensor([2])], {}],
        ["aten.quantize_per_tensor.default", [tensor([2]), 1.0, 0, {"dtype": "qint8"}], {}],
        ["prims.neg.default", [tensor([2])], {}],
    ],
    ids=lambda call: json.dumps(call)[:70],
)  # fmt: skip
def test_a_call_of_other_types_or_operators_is_not_made(path: Path, call: Any) -> None:
    with pytest.raises(UnknownError):
        Call.of(json.dumps(call), CPU, 1 << 20)
    with Called() as called:
        loaded = load_kernels(write(path, call), "cpu")
    assert loaded == LoadedKernels(str(kernels_file(path)), unknown=1) and not called.names


def test_no_operator_is_permitted_of_another_namespace_or_with_memory_of_others() -> None:
    assert is_permitted("aten", "mm") and is_permitted("aten", "add_") and is_permitted("aten", "__and__")
    for name in ("set_", "resize_", "resize_as_", "from_file", "_assert_async", "__init__", "_make_dual", "mm__", "_"):
        assert not is_permitted("aten", name)
    assert not is_permitted("quantized", "add") and not is_permitted("prims", "neg")


#: Speaks the protocol of a trial without PyTorch, and does with some calls what a library may do.
CHILD = """
import json, os, signal, sys
work = json.load(sys.stdin)
with open({log!r}, "a") as log:
    print(len(work["calls"]), file=log)
if {start!r} == "no":
    sys.exit(3)
os.write(1, b"+")
kept = []
for call in work["calls"]:
    os.write(1, b"-")
    if "tanh" in call:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "sigmoid" in call:
        # No signal but SIGKILL ends it.
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
        while True:
            signal.sigwait([signal.SIGUSR1])
    if "relu" in call:
        while True:
            kept.append(bytearray(os.urandom(1 << 10) * (1 << 14)))
    os.write(1, b"r")
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let trials be made by :data:`CHILD`, and return a function that returns the number of calls of each process."""
    log = tmp_path / "processes"

    def use(start: str = "yes") -> None:
        program = tmp_path / "child"
        program.write_text(f"#!{os.path.realpath(sys.executable)}\n" + CHILD.format(log=str(log), start=start))
        program.chmod(0o755)
        monkeypatch.setattr(_kernels_trial, "_INTERPRETER", str(program))

    use()
    use.counts = lambda: list(map(int, log.read_text().split()))  # type: ignore[attr-defined]
    return use


@pytest.mark.parametrize(
    ("harm", "reason"),
    [("tanh", "ended with status -11"), ("sigmoid", "took too long"), ("relu", "took too much memory")],
)
def test_a_call_that_harms_a_process_is_not_made_here(
    path: Path, child: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, harm: str, reason: str
) -> None:
    if harm == "sigmoid":
        monkeypatch.setattr(_kernels_trial, "CALL_S", 2.0)
    if harm == "relu":
        monkeypatch.setattr(_kernels_trial, "_MORE_BYTES", 64 << 20)
    write(path, unary("neg"), unary(harm), unary("abs"))
    with caplog.at_level(logging.WARNING, "tetris"), Called() as called:
        loaded = load_kernels(path, "cpu", limit_bytes=1 << 20)
    assert loaded == LoadedKernels(str(kernels_file(path)), ran=2, refused=1) and loaded.left_out == 1
    assert called.names >= {"neg", "abs"} and harm not in called.names
    assert reason in caplog.text and harm in caplog.text
    # The outcome is known from then on, to other processes as well.
    assert load_kernels(path, "cpu", limit_bytes=1 << 20) == loaded
    assert child.counts() == [3, 1]


def test_after_some_that_harm_the_rest_is_not_tried(path: Path, child: Any) -> None:
    write(path, unary("neg"), *[unary("tanh", size) for size in range(1, 10)], unary("abs"))
    loaded = load_kernels(path, "cpu")
    assert loaded == LoadedKernels(str(kernels_file(path)), ran=1, refused=10)
    assert child.counts() == [11, 9, 8]


def test_without_a_trial_no_call_is_made(
    path: Path, child: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    child(start="no")
    write(path, unary("neg"), unary("abs"))
    with caplog.at_level(logging.WARNING, "tetris"), Called() as called:
        assert load_kernels(path, "cpu") == LoadedKernels(str(kernels_file(path)), late=2)
    assert not called.names and "no process could try" in caplog.text
    monkeypatch.setattr(_kernels_trial, "_INTERPRETER", "/no/such/interpreter")
    assert load_kernels(path, "cpu") == LoadedKernels(str(kernels_file(path)), late=2)
    # Another time it may.
    child()
    assert load_kernels(path, "cpu").ran == 2


def test_the_time_of_all_calls_is_limited(path: Path, child: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kernels_replay, "MAX_S", 2.0)
    write(path, unary("neg"), unary("sigmoid"), unary("abs"))
    assert load_kernels(path, "cpu") == LoadedKernels(str(kernels_file(path)), late=3)


def test_outcomes_of_others_are_not_believed(path: Path, child: Any, cache: Path) -> None:
    write(path, unary("tanh"))
    assert load_kernels(path, "cpu").refused == 1
    (verdict,) = cache.glob("*.kernels-trial.json")
    text = verdict.read_text()
    for hostile in (text.replace('"x"', '"rr"'), text.replace('"x"', '"y"'), text.replace('"x"', "[]"), "[", ""):
        verdict.write_text(hostile)
        assert load_kernels(path, "cpu").refused == 1
    verdict.write_text(text.replace('"x"', '"r"'))
    verdict.chmod(0o666)
    assert load_kernels(path, "cpu").refused == 1
    if os.geteuid() == 0:
        verdict.write_text(text.replace('"x"', '"r"'))
        verdict.chmod(0o644)
        os.chown(verdict, 12345, 0)
        assert load_kernels(path, "cpu").refused == 1


def test_outcomes_are_kept_for_a_number_of_traces(path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kernels_verdicts, "_MAX_FILES", 3)
    for number in range(6):
        _kernels_verdicts.keep(_kernels_verdicts.key_of([str(number)]), "r")
    assert len(list(cache.glob("*.kernels-trial.json"))) == 3
    assert _kernels_verdicts.known(_kernels_verdicts.key_of(["5"]), 1) == "r"


def test_a_call_that_ends_a_process_of_pytorch_does_not_end_this_one(path: Path) -> None:
    # In PyTorch 2.15 it ends by SIGSEGV. In another version it may raise an error.
    shapes = [tensor([7, 3]), tensor([7, 0, 0]), 1]
    named = {"out0": tensor([7, 2, 0, 2]), "out1": tensor([7])}
    write(path, unary("neg"), ["aten._weight_norm_interface.out", shapes, named], unary("abs"))
    loaded = load_kernels(path, "cpu")
    assert loaded.ran == 2 and loaded.refused + loaded.failed == 1


@pytest.mark.parametrize("serve", [warm_jobs.serve_that_ends, warm_jobs.serve_that_hangs, warm_jobs.serve_that_raises])
def test_a_pool_becomes_ready_where_loading_kernels_ends_its_processes(
    path: Path, serve: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(warm, "_serve", serve)
    if serve is warm_jobs.serve_that_hangs:
        monkeypatch.setattr(warm, "KERNELS_S", 1.0)
    with caplog.at_level(logging.WARNING, "tetris"), Pool(2, device="cpu", kernels=[path]) as pool:
        assert pool.run("warm_jobs:left").result(LONG_S) == []
        assert pool.run("warm_jobs:left").result(LONG_S) == []
    assert caplog.text.count("become ready without kernels") == 1
    # What is wrong without kernels is still said.
    with (
        Pool(1, device="cpu", kernels=[path], prepare="warm_jobs:fail") as pool,
        pytest.raises(WarmError, match="no kernels"),
    ):
        pool.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for files of another user")
def test_a_file_of_another_owner_than_the_model_is_not_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(path, unary("neg"))
    os.chown(kernels_file(path), 12345, 0)
    with caplog.at_level(logging.WARNING, "tetris"):
        assert kernels_of(path) is None and kernels_of(kernels_file(path)) is None
    assert "owned by user 12345, expected user 0" in caplog.text
    os.chown(path, 12345, 0)
    assert kernels_of(path) is not None


def test_a_file_that_others_can_write_to_is_not_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(path, unary("neg"))
    for mode, model, trusted in (
        (0o644, 0o644, True),
        (0o600, 0o644, True),
        (0o664, 0o644, False),
        # The group may write the model's weights as well.
        (0o664, 0o664, True),
        (0o666, 0o666, False),
        (0o646, 0o644, False),
    ):
        kernels_file(path).chmod(mode)
        path.chmod(model)
        assert (kernels_of(path) is not None) == trusted, oct(mode)
    assert "expected one that others cannot write to" in caplog.text
    # A recording takes its place.
    with record_kernels(path):
        torch.ones(2).neg()
    assert stat.S_IMODE(kernels_file(path).stat().st_mode) == 0o644 and kernels_of(path) is not None


def test_the_number_of_values_is_checked_before_they_are_parsed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels_file(path).write_bytes(
        b'{"format": "tetris-kernels", "x": [' + b"[]," * (_trace_files.MAX_VALUES // 2) + b"0]}"
    )
    monkeypatch.setattr(_trace_files.json, "loads", lambda _: pytest.fail("it was parsed"))
    assert kernels_of(path) is None
