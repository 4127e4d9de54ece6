"""Nothing is copied, nothing outlives its users, and nobody's write reaches the store or another process."""

from __future__ import annotations

import copy
import ctypes
import gc
import io
import json
import pickle
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import model_files
import numpy as np
import pytest
import tetris
import tetris.numpy
import tetris.torch
import torch
import torch.nn.functional as F
from model_files import floats, stored
from process import Helper, contents, held, is_mapped, mappings, objects, smaps
from tetris import ReadOnlyTensorError

SMALL, LARGE = [3, 5], [600, 512]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with tensors that are packed and one that is an object of its own."""
    tensors = {
        "small": floats(SMALL),
        "tiny": stored("BF16", [7]),
        "large": floats(LARGE),
        "none": stored("F32", [0, 3]),
    }
    return model_files.write(tmp_path_factory.mktemp("memory") / "file", tensors)


def loads(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tensors by every way to load them."""
    yield "load_file", tetris.torch.load_file(path)
    yield "load_file, read-only", tetris.torch.load_file(path, mode="read_only")
    yield "safe_open", tetris.safe_open(path, "pt").get_tensors()
    yield "safe_open, NumPy", tetris.numpy.safe_open(path).get_tensors()
    yield "load_file of NumPy", tetris.numpy.load_file(path)
    yield "load", dict(tetris.load(path).items())
    yield "load, copy-on-write", dict(tetris.load(path, mode="copy_on_write").items())


def address_of(tensor: Any) -> int:
    """Address of a tensor's bytes."""
    if isinstance(tensor, torch.Tensor):
        return tensor.data_ptr()
    return np.frombuffer(memoryview(tensor).cast("B"), np.uint8).ctypes.data if tensor.nbytes else 0


def test_tensors_are_where_the_store_is_mapped(any_store: Path, path: Path) -> None:
    for _ in range(2):
        for way, tensors in loads(path):
            for name, tensor in tensors.items():
                if name == "tiny" and isinstance(tensor, np.ndarray):
                    tensor = tensor.view(np.uint16)
                if tensor.nbytes:
                    assert is_mapped(any_store, address_of(tensor), tensor.nbytes), (way, name)
                    assert address_of(tensor) % 64 == 0, (way, name)


def test_slices_are_where_the_store_is_mapped(store: Path, path: Path) -> None:
    for framework in ("pt", "np"):
        with tetris.safe_open(path, framework) as opened:
            for index in (slice(None), slice(100, 200), (slice(0, 600), slice(3, 9))):
                part = opened.get_slice("large")[index]
                if framework == "np" and not is_mapped(store, address_of(opened.get_tensor("large")), 4):
                    pytest.fail("an array that is taken first is not shared")
                if framework == "pt":
                    assert is_mapped(store, part.data_ptr(), 4)


def test_one_object_is_there_once_for_any_number_of_files_with_the_same_bytes(store: Path, tmp_path: Path) -> None:
    for number in range(4):
        path = model_files.write(tmp_path / f"{number}", {f"name {number}": floats(LARGE)}, {"number": f"{number}"})
        tetris.torch.load_file(path)
    assert len(objects(store)) == 1


def test_memory_is_copy_on_write_for_the_kernel_in_any_mode(store: Path, path: Path) -> None:
    # What takes no notice of read-only buffers, as torch does, must not end the process.
    for mode in ("read_only", "copy_on_write"):
        kept = tetris.load(path, mode=mode)
        assert {mapping.access for mapping in mappings(store)} == {"rw-p"}
        del kept


class Held:
    """Owner of the memory of the tensor `large`."""

    def __init__(self, store: Path, keep: Any) -> None:
        self.store = store
        self.keep = keep

    def check_and_release(self) -> None:
        """Assert that this alone keeps the memory, and that nothing does when it is gone."""
        gc.collect()
        assert len(mappings(self.store)) == 1, [mapping.path for mapping in mappings(self.store)]
        [of] = held(self.store)
        assert of.stat().st_size >= 600 * 512 * 4
        self.keep = None
        gc.collect()
        assert mappings(self.store) == []
        assert held(self.store) == []


def whole_tensor(path: Path) -> torch.Tensor:
    return tetris.torch.load_file(path)["large"]


class Consumer:
    """Takes a capsule and gives it to every caller, as another library would."""

    def __init__(self, tensor: Any) -> None:
        self.capsule = tensor.__dlpack__()

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


KEEPERS: dict[str, Callable[[Path], Any]] = {
    "tensor": whole_tensor,
    "read-only tensor": lambda path: tetris.torch.load_file(path, mode="read_only")["large"],
    "view": lambda path: whole_tensor(path)[3:5, ::2],
    "transposed": lambda path: whole_tensor(path).t(),
    "view of a read-only tensor": lambda path: tetris.torch.load_file(path, mode="read_only")["large"][1],
    "plain tensor of a read-only one": lambda path: tetris.torch.load_file(path, mode="read_only")["large"].plain(),
    "detached": lambda path: whole_tensor(path).detach(),
    "element": lambda path: whole_tensor(path)[0, 0],
    "storage": lambda path: whole_tensor(path).untyped_storage(),
    "typed storage": lambda path: whole_tensor(path).storage(),
    "parameter": lambda path: torch.nn.Parameter(whole_tensor(path)),
    "module": lambda path: module_of(whole_tensor(path)),
    "graph of autograd": lambda path: (torch.ones(512, requires_grad=True) * whole_tensor(path)).sum(),
    "array of a tensor": lambda path: whole_tensor(path).numpy(),
    "array of a view": lambda path: whole_tensor(path)[1:2].numpy()[:, 3],
    "array of a read-only tensor": lambda path: tetris.torch.load_file(path, mode="read_only")["large"].numpy(),
    "array": lambda path: tetris.numpy.load_file(path)["large"],
    "view of an array": lambda path: tetris.numpy.load_file(path)["large"][5:, 1],
    "array of safe_open": lambda path: tetris.safe_open(path, "np").get_tensor("large"),
    "slice of an array": lambda path: tetris.safe_open(path, "np").get_slice("large")[2:3],
    "slice of a tensor": lambda path: tetris.safe_open(path, "pt").get_slice("large")[2:3],
    "native tensor": lambda path: tetris.load(path)["large"],
    "memoryview": lambda path: memoryview(tetris.load(path)["large"]),
    "part of a memoryview": lambda path: memoryview(tetris.load(path)["large"]).cast("B")[7:9],
    "array of a memoryview": lambda path: np.asarray(memoryview(tetris.load(path)["large"]))[1],
    "array of a native tensor": lambda path: np.asarray(tetris.load(path)["large"]),
    "array by DLPack": lambda path: np.from_dlpack(tetris.load(path)["large"]),
    "tensor by DLPack": lambda path: torch.from_dlpack(tetris.load(path, mode="copy_on_write")["large"]),
    "tensor of a tensor by DLPack": lambda path: torch.from_dlpack(whole_tensor(path)),
    "array of a tensor by DLPack": lambda path: np.from_dlpack(whole_tensor(path)),
    "capsule": lambda path: tetris.load(path, mode="copy_on_write")["large"].__dlpack__(),
    "capsule of version 1": lambda path: tetris.load(path)["large"].__dlpack__(max_version=(1, 0)),
    "ctypes": lambda path: (ctypes.c_char * 16).from_buffer(tetris.load(path, mode="copy_on_write")["large"]),
    "cycle": lambda path: cycle(whole_tensor(path)),
    "exception": lambda path: raised(whole_tensor(path)),
    "generator": lambda path: suspended(whole_tensor(path)),
}  # fmt: skip


def module_of(tensor: torch.Tensor) -> torch.nn.Module:
    module = torch.nn.Linear(512, 600, bias=False)
    module.load_state_dict({"weight": tensor}, assign=True)
    return module


def cycle(tensor: torch.Tensor) -> Any:
    """A list that holds itself."""
    found: list[Any] = [tensor]
    found.append(found)
    return found


def raised(tensor: torch.Tensor) -> Exception:
    """An exception that holds a frame."""
    try:
        raise ValueError(tensor)
    except ValueError as error:
        return error


def suspended(tensor: torch.Tensor) -> Any:
    """A generator that has begun."""
    generator = (tensor for _ in range(2))
    next(generator)
    return generator


@pytest.mark.parametrize("keeper", KEEPERS)
def test_memory_lives_as_long_as_any_user_and_no_longer(store: Path, path: Path, keeper: str) -> None:
    Held(store, KEEPERS[keeper](path)).check_and_release()


def test_a_user_in_another_thread_keeps_the_memory(store: Path, path: Path) -> None:
    import threading

    taken, go = threading.Event(), threading.Event()
    sums: list[float] = []

    def use(tensor: torch.Tensor) -> None:
        taken.set()
        go.wait()
        sums.append(float(tensor.sum()))

    tensor = whole_tensor(path)
    expected = float(tensor.sum())
    thread = threading.Thread(target=use, args=(tensor,))
    del tensor
    thread.start()
    taken.wait()
    gc.collect()
    assert len(mappings(store)) == 1
    go.set()
    thread.join()
    del thread
    gc.collect()
    assert sums == [expected]


def test_an_object_is_reclaimed_when_its_last_user_is_gone(store: Path, path: Path, tetris_bin: str) -> None:
    def collect() -> dict[str, Any]:
        command = [tetris_bin, "gc", "--store", str(store), "--format", "json"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    tensor = whole_tensor(path)
    view = tensor[1]
    del tensor
    gc.collect()
    report = collect()
    assert report["referenced_objects"] == 1
    assert [entry.stat().st_size for entry in objects(store)] == [600 * 512 * 4]
    assert view.shape == (512,)
    del view
    gc.collect()
    assert collect()["freed_objects"] == 1
    assert objects(store) == []
    assert tetris.torch.load_file(path)["large"].shape == (600, 512)


def test_a_model_lets_go_of_what_is_not_used_any_more(store: Path, tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {str(i): floats([200, 200], i) for i in range(10)})
    tensors = tetris.torch.load_file(path)
    kept = tensors.pop("3")
    del tensors
    gc.collect()
    assert len(mappings(store)) == 1 and is_mapped(store, kept.data_ptr(), kept.nbytes)
    model = tetris.load(path)
    assert len(mappings(store)) == 11
    del model
    gc.collect()
    assert len(mappings(store)) == 1


def test_loading_again_and_again_leaves_nothing_behind(store: Path, path: Path) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    def use() -> None:
        for _, tensors in loads(path):
            del tensors
        with tetris.safe_open(path, "np") as opened:
            opened.get_slice("large")[-1]
        with pytest.raises(FileNotFoundError):
            tetris.torch.load_file(path.parent / "no-such-file")

    use()
    gc.collect()
    before = descriptors()
    for _ in range(30):
        use()
    gc.collect()
    assert descriptors() == before
    assert mappings(store) == []


OTHER = """
    import sys, json, tetris.torch
    weights = tetris.torch.load_file(sys.argv[1])
    print("0")
    sys.stdin.readline()
    print(json.dumps(float(weights["large"].double().sum())))
    sys.stdin.readline()
"""


def test_a_write_is_seen_by_nobody_else(any_store: Path, path: Path) -> None:
    mine, again = tetris.torch.load_file(path), tetris.torch.load_file(path)
    before, expected = contents(any_store), float(mine["large"].double().sum())
    with Helper(OTHER, path) as other:
        other.line()
        for tensor in mine.values():
            tensor.fill_(7)
        assert float(mine["large"].double().sum()) == 600 * 512 * 7
        assert float(again["large"].double().sum()) == expected
        assert float(tetris.torch.load_file(path)["large"].double().sum()) == expected
        other.go_on()
        assert other.line() == expected
    assert contents(any_store) == before


def test_a_write_copies_its_pages_and_no_others(store: Path, tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {"large": floats([1 << 20])})
    tensor = tetris.torch.load_file(path)["large"]
    tensor.sum()
    assert smaps(store)["Anonymous"] == 0
    tensor[5] = 1
    page = smaps(store)["Anonymous"]
    assert 0 < page <= tensor.nbytes / 8
    tensor[-5:] = 1
    assert smaps(store)["Anonymous"] <= 2 * page
    assert smaps(store)["Shared_Dirty"] + smaps(store)["Private_Dirty"] > 0


# What is refused, and what is not: every entry works on a ReadOnlyTensor `t` of floats, 600 x 512, or raises.

REFUSED: dict[str, Callable[[Any], Any]] = {
    "fill_": lambda t: t.fill_(1),
    "zero_": lambda t: t.zero_(),
    "add_": lambda t: t.add_(1),
    "+=": lambda t: t.__iadd__(1),
    "-=": lambda t: t.__isub__(1),
    "*=": lambda t: t.__imul__(2),
    "/=": lambda t: t.__itruediv__(2),
    "//=": lambda t: t.__ifloordiv__(2),
    "%=": lambda t: t.__imod__(2),
    "**=": lambda t: t.__ipow__(2),
    "mul_": lambda t: t.mul_(2),
    "div_": lambda t: t.div_(2),
    "addmm_": lambda t: t[:512].addmm_(torch.ones(512, 3), torch.ones(3, 512)),
    "addcmul_": lambda t: t.addcmul_(torch.ones_like(t), torch.ones_like(t)),
    "addcdiv_": lambda t: t.addcdiv_(torch.ones(512), torch.ones(512)),
    "lerp_": lambda t: t.lerp_(torch.zeros(512), 0.5),
    "clamp_": lambda t: t.clamp_(0, 1),
    "neg_": lambda t: t.neg_(),
    "abs_": lambda t: t.abs_(),
    "exp_": lambda t: t.exp_(),
    "relu_": lambda t: t.relu_(),
    "sigmoid_": lambda t: t.sigmoid_(),
    "copy_": lambda t: t.copy_(torch.ones(600, 512)),
    "set by an index": lambda t: t.__setitem__((0, 0), 1),
    "set by a slice": lambda t: t.__setitem__(slice(1, 3), torch.zeros(2, 512)),
    "set by a mask": lambda t: t.__setitem__(torch.ones(600, 512, dtype=torch.bool), 0),
    "set by indices": lambda t: t.__setitem__(torch.tensor([0, 1]), 0),
    "set by everything": lambda t: t.__setitem__(..., 0),
    "index_fill_": lambda t: t.index_fill_(0, torch.tensor([0]), 1),
    "index_copy_": lambda t: t.index_copy_(0, torch.tensor([0]), torch.ones(1, 512)),
    "index_add_": lambda t: t.index_add_(0, torch.tensor([0]), torch.ones(1, 512)),
    "index_put_": lambda t: t.index_put_((torch.tensor([0]),), torch.tensor(1.0)),
    "scatter_": lambda t: t.scatter_(0, torch.zeros(1, 512, dtype=torch.long), 1.0),
    "scatter_add_": lambda t: t.scatter_add_(0, torch.zeros(1, 512, dtype=torch.long), torch.ones(1, 512)),
    "scatter_reduce_": lambda t: t.scatter_reduce_(0, torch.zeros(1, 512, dtype=torch.long), torch.ones(1, 512), "sum"),
    "masked_fill_": lambda t: t.masked_fill_(torch.ones(512, dtype=torch.bool), 1),
    "masked_scatter_": lambda t: t.masked_scatter_(torch.ones(512, dtype=torch.bool), torch.ones(600, 512)),
    "put_": lambda t: t.put_(torch.tensor([0]), torch.tensor([1.0])),
    "fill_diagonal_": lambda t: t.fill_diagonal_(1),
    "triu_": lambda t: t.triu_(),
    "cumsum_": lambda t: t.cumsum_(0),
    "renorm_": lambda t: t.renorm_(2, 0, 0.1),
    "normal_": lambda t: t.normal_(),
    "uniform_": lambda t: t.uniform_(),
    "bernoulli_": lambda t: t.bernoulli_(),
    "random_": lambda t: t.random_(),
    "nan_to_num_": lambda t: t.nan_to_num_(),
    "init.xavier_uniform_": lambda t: torch.nn.init.xavier_uniform_(t),
    "init.constant_": lambda t: torch.nn.init.constant_(t, 0),
    "init.orthogonal_": lambda t: torch.nn.init.orthogonal_(t),
    "out= of a row": lambda t: torch.add(torch.ones(512), 1, out=t[0]),
    "out=": lambda t: torch.add(t, 1, out=t),
    "out= of mm": lambda t: torch.mm(torch.ones(600, 4), torch.ones(4, 512), out=t),
    "out= of cat": lambda t: torch.cat([torch.ones(300, 512)] * 2, out=t),
    "out= of two": lambda t: torch.max(torch.ones(512, 512), dim=0, out=(t[0], torch.zeros(512, dtype=torch.long))),
    "out= of sum": lambda t: torch.sum(torch.ones(600, 512), dim=1, out=t[:, 0]),
    "out= of linalg": lambda t: torch.linalg.inv(torch.eye(512), out=t[:512]),
    "view": lambda t: t.view(-1).add_(1),
    "view of another type": lambda t: t.view(torch.int32).fill_(0),
    "row": lambda t: t[0].zero_(),
    "transposed": lambda t: t.t().add_(1),
    "permuted": lambda t: t.permute(1, 0).add_(1),
    "diagonal": lambda t: t[:512].diagonal().zero_(),
    "narrowed": lambda t: t.narrow(0, 0, 1).zero_(),
    "chunked": lambda t: t.chunk(2)[1].zero_(),
    "split": lambda t: t.split(100)[0].zero_(),
    "unbound": lambda t: t.unbind()[0].zero_(),
    "expanded": lambda t: t[0].expand(3, 512)[0].zero_(),
    "strided": lambda t: t.as_strided((2, 2), (1, 1)).zero_(),
    "unfolded": lambda t: t.unfold(0, 2, 2)[0].zero_(),
    "reshaped": lambda t: t.reshape(-1).zero_(),
    "flattened": lambda t: t.flatten().zero_(),
    "squeezed": lambda t: t.unsqueeze(0).squeeze().zero_(),
    "select": lambda t: t.select(0, 0).zero_(),
    "contiguous": lambda t: t.contiguous().zero_(),
    "to of the same type": lambda t: t.to(torch.float32).zero_(),
    "float of a float": lambda t: t.float().zero_(),
    "cpu": lambda t: t.cpu().zero_(),
    "detached": lambda t: t.detach().zero_(),
    "data": lambda t: t.data.zero_(),
    "real": lambda t: torch.real(t).zero_(),
    "alias": lambda t: torch.ops.aten.alias(t).zero_(),
    "iterated": lambda t: next(iter(t)).zero_(),
    "requires_grad": lambda t: t.requires_grad_().detach().zero_(),
    "parameter": lambda t: torch.nn.Parameter(t, requires_grad=False).zero_(),
    "parameter's data": lambda t: torch.nn.Parameter(t).data.zero_(),
    "functional relu": lambda t: F.relu(t, inplace=True),
    "functional dropout": lambda t: F.dropout(t, inplace=True),
    "functional silu": lambda t: F.silu(t, inplace=True),
    "functional leaky_relu": lambda t: F.leaky_relu(t, inplace=True),
    "functional hardtanh": lambda t: F.hardtanh(t, inplace=True),
    "functional threshold": lambda t: F.threshold(t, 0, 0, inplace=True),
    "functional normalize": lambda t: F.normalize(t, out=t),
    "embedding with max_norm": lambda t: F.embedding(torch.tensor([0, 1]), t, max_norm=0.01),
    "running mean": lambda t: F.batch_norm(torch.randn(4, 512), t[0], torch.ones(512), training=True),
    "running mean, of torch's own function": lambda t: torch.batch_norm(
        torch.randn(4, 512), None, None, t[0], torch.ones(512), True, 0.1, 1e-5, False
    ),
    "running variance": lambda t: F.batch_norm(torch.randn(4, 512), torch.zeros(512), t[1], training=True),
    "instance norm": lambda t: F.instance_norm(torch.randn(4, 512, 3), t[0], torch.ones(512), use_input_stats=True),
    "running mean, by autograd": lambda t: F.batch_norm(
        torch.randn(4, 512, requires_grad=True), t[0], torch.ones(512), training=True
    ),
    "foreach": lambda t: torch._foreach_add_([torch.ones(2), t], 1),
    "foreach of several": lambda t: torch._foreach_mul_([t, t], [torch.ones(1), torch.ones(1)]),
    "foreach copy": lambda t: torch._foreach_copy_([t], [torch.zeros(600, 512)]),
    "resize_": lambda t: t.resize_(2, 2),
    "resize_as_": lambda t: t.resize_as_(torch.ones(2)),
    "no_grad": lambda t: torch.no_grad()(lambda: t.add_(1))(),
    "inference mode": lambda t: torch.inference_mode()(lambda: t.add_(1))(),
    "from another's method": lambda t: torch.Tensor.add_(t, 1),
    "clip_grad": lambda t: torch.nn.utils.clip_grad_value_([with_grad(t)], 0.1),
}  # fmt: skip

READ_ONLY_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda t: t.numpy().__setitem__(0, 1),
    "numpy, filled": lambda t: t.numpy().fill(0),
    "numpy, forced": lambda t: t.numpy(force=True).fill(0),
    "numpy of a view": lambda t: t[1:].numpy().sort(),
    "asarray": lambda t: np.asarray(t).fill(0),
    "ufunc with out": lambda t: np.add(1, 1, out=t.numpy()),
}


def with_grad(tensor: Any) -> torch.Tensor:
    """A tensor of which the gradient is read-only."""
    parameter = torch.zeros(600, 512, requires_grad=True)
    parameter.grad = tensor
    return parameter


def step(optimizer: Callable[[list[torch.Tensor]], torch.optim.Optimizer]) -> Callable[[Any], Any]:
    """A step of training on a read-only parameter."""

    def run(tensor: Any) -> Any:
        parameter = torch.nn.Parameter(tensor)
        optimizing = optimizer([parameter])
        (parameter * 2).sum().backward()
        optimizing.step()

    return run


for _name, _optimizer in {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD, one by one": lambda p: torch.optim.SGD(p, lr=0.1, foreach=False),
    "SGD, fused": lambda p: torch.optim.SGD(p, lr=0.1, fused=True),
    "Adam": lambda p: torch.optim.Adam(p),
    "AdamW, fused": lambda p: torch.optim.AdamW(p, fused=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p),
    "RMSprop": lambda p: torch.optim.RMSprop(p),
}.items():
    REFUSED[f"optimizer {_name}"] = step(_optimizer)

ALLOWED: dict[str, Callable[[Any], Any]] = {
    "+": lambda t: (t + 1).add_(1),
    "clone": lambda t: t.clone().zero_(),
    "to another type": lambda t: t.to(torch.float64).zero_(),
    "bfloat16": lambda t: t.bfloat16().zero_(),
    "matmul": lambda t: (t @ torch.ones(512)).zero_(),
    "linear": lambda t: F.linear(torch.ones(2, 512), t).zero_(),
    "embedding": lambda t: F.embedding(torch.tensor([0, 1]), t).zero_(),
    "layer norm": lambda t: F.layer_norm(torch.ones(2, 512), [512], t[0], t[1]).zero_(),
    "attention": lambda t: F.scaled_dot_product_attention(t[None, :4], t[None, :4], t[None, :4]).zero_(),
    "index_select": lambda t: t.index_select(0, torch.tensor([0])).zero_(),
    "indexing": lambda t: t[torch.tensor([0, 1])].zero_(),
    "mask": lambda t: t[t > 0].zero_(),
    "cat": lambda t: torch.cat([t, t]).zero_(),
    "stack": lambda t: torch.stack([t, t]).zero_(),
    "contiguous of a transposed": lambda t: t.t().contiguous().zero_(),
    "tolist": lambda t: t[:2].tolist(),
    "item": lambda t: t[0, 0].item(),
    "repr": lambda t: (repr(t), str(t), f"{t[0, 0]:.3f}"),
    "equal": lambda t: torch.equal(t, t),
    "grad": lambda t: (torch.ones(512, requires_grad=True) * t).sum().backward(),
    "grad of its own": lambda t: (t.requires_grad_() * 2).sum().backward(),
    "out of it": lambda t: torch.add(t, 1, out=torch.empty(600, 512)),
    "copy from it": lambda t: torch.empty(600, 512).copy_(t),
    "functional call": lambda t: torch.func.functional_call(
        torch.nn.Linear(512, 600, bias=False), {"weight": t}, torch.ones(1, 512)
    ),
    "vmap": lambda t: torch.vmap(lambda row: row.sum())(t),
    "autocast": lambda t: autocast(t),
    "storage": lambda t: t.untyped_storage().nbytes(),
    "array copied": lambda t: t.numpy().copy().fill(0),
    "array of clone": lambda t: t.clone().numpy().fill(0),
}  # fmt: skip


def autocast(tensor: Any) -> None:
    """Casts for a product are made, and cached, by torch."""
    with torch.autocast("cpu", torch.bfloat16):
        assert F.linear(torch.ones(2, 512), tensor).dtype == torch.bfloat16


@pytest.fixture
def protected(store: Path, path: Path) -> Iterator[Any]:
    """A read-only tensor. Afterwards the store, and its own bytes, are what they were."""
    tensor = tetris.torch.load_file(path, mode="read_only")["large"]
    before, own = contents(store), floats(LARGE).data
    yield tensor
    assert ctypes.string_at(tensor.data_ptr(), tensor.nbytes) == own, "written to silently"
    assert contents(store) == before


@pytest.mark.parametrize("operation", REFUSED)
def test_read_only_refuses(protected: Any, operation: str) -> None:
    with warnings.catch_warnings(), pytest.raises(ReadOnlyTensorError):
        warnings.simplefilter("ignore")
        REFUSED[operation](protected)


@pytest.mark.parametrize("operation", READ_ONLY_ARRAYS)
def test_arrays_of_read_only_tensors_refuse(protected: Any, operation: str) -> None:
    with pytest.raises(ValueError, match="read-only"):
        READ_ONLY_ARRAYS[operation](protected)


def test_a_read_only_tensor_can_be_given_other_memory(protected: Any) -> None:
    other = protected.detach()
    other.data = torch.zeros(3)
    assert other.tolist() == [0, 0, 0]


@pytest.mark.parametrize("operation", ALLOWED)
def test_read_only_allows(protected: Any, operation: str) -> None:
    ALLOWED[operation](protected)


def test_results_of_read_only_tensors_are_plain_and_views_are_read_only(protected: Any) -> None:
    for result in (protected + 1, protected.clone(), protected @ protected.t(), protected.double(), protected.sum()):
        assert type(result) is torch.Tensor
    for view in (
        protected[0],
        protected.view(-1),
        protected.t(),
        protected.detach(),
        protected.data,
        protected[..., None],
    ):
        assert type(view) is tetris.torch.ReadOnlyTensor
        assert view.untyped_storage().data_ptr() == protected.untyped_storage().data_ptr()


def test_copies_of_read_only_tensors_are_plain_and_private(store: Path, protected: Any) -> None:
    buffer = io.BytesIO()
    torch.save({"t": protected, "v": protected[1]}, buffer)
    buffer.seek(0)
    saved = torch.load(buffer)
    copies = [
        saved["t"],
        copy.deepcopy(protected),
        pickle.loads(pickle.dumps(protected)),
        copy.deepcopy(torch.nn.Parameter(protected, requires_grad=False)).data,
        protected.clone(),
    ]
    assert saved["v"].untyped_storage().data_ptr() == saved["t"].untyped_storage().data_ptr()
    for one in copies:
        assert type(one) is torch.Tensor
        assert torch.equal(one, protected)
        assert not is_mapped(store, one.data_ptr(), one.nbytes)
        one.zero_()


def test_read_only_modules_infer_and_cannot_be_trained(store: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 2)
    )
    path = tmp_path / "file"
    tetris.torch.save_file(module.state_dict(), path)
    expected = module.eval()(torch.ones(4, 8))
    module.load_state_dict(tetris.torch.load_file(path, mode="read_only"), assign=True)
    before = contents(store)
    assert torch.equal(module(torch.ones(4, 8)), expected)
    with torch.inference_mode():
        assert torch.equal(module(torch.ones(4, 8)), expected)
    module.train()
    with pytest.raises(ReadOnlyTensorError):
        # The running statistics.
        module(torch.randn(4, 8))
    module.eval()
    module(torch.ones(4, 8)).sum().backward()
    with pytest.raises(ReadOnlyTensorError):
        torch.optim.SGD(module.parameters(), lr=0.1).step()
    with pytest.raises(RuntimeError):
        module.load_state_dict({name: torch.zeros_like(one) for name, one in module.state_dict().items()})
    assert contents(store) == before
    assert torch.equal(module(torch.ones(4, 8)), expected)


ESCAPES: dict[str, Callable[[Any], Any]] = {
    "ctypes": lambda t: ctypes.memset(t.data_ptr(), 0, t.nbytes),
    "plain": lambda t: t.plain().zero_(),
    "storage": lambda t: t.untyped_storage().fill_(0),
    "DLPack, which torch cannot mark read-only": lambda t: np.from_dlpack(t).fill(0),
    "DLPack": lambda t: torch.from_dlpack(t.plain()).zero_(),
    "ctypes array": lambda t: np.ctypeslib.as_array((ctypes.c_float * 4).from_address(t.data_ptr())).fill(0),
    "set_": lambda t: torch.empty(0).set_(t.untyped_storage(), 0, (4,)).zero_(),
}


@pytest.mark.parametrize("escape", ESCAPES)
def test_a_write_past_torch_hurts_nobody_but_this_process(store: Path, path: Path, escape: str) -> None:
    tensor = tetris.torch.load_file(path, mode="read_only")["large"]
    before = contents(store)
    ESCAPES[escape](tensor)
    assert ctypes.string_at(tensor.data_ptr(), 16) == bytes(16)
    assert contents(store) == before
    other = tetris.torch.load_file(path)["large"]
    assert other.numpy().tobytes() == floats(LARGE).data


def test_arrays_of_numpy_cannot_be_written_to(store: Path, path: Path) -> None:
    arrays = tetris.numpy.load_file(path)
    before = contents(store)
    with tetris.numpy.safe_open(path) as opened:
        arrays |= {f"{name} again": array for name, array in opened.get_tensors().items()}
        arrays["slice"] = opened.get_slice("large")[1:]
    for name, array in arrays.items():
        if array.size == 0:
            continue  # nothing to write to
        assert not array.flags.writeable, name
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        if array.base is not None:
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.flags.writeable = True
        assert array.copy().flags.writeable
    assert contents(store) == before


def test_modes_are_checked(store: Path, path: Path) -> None:
    for mode in ("", "rw", None, 1):
        for call in (
            lambda mode=mode: tetris.torch.load_file(path, mode=mode),
            lambda mode=mode: tetris.safe_open(path, "pt", mode=mode),
            lambda mode=mode: tetris.load(path, mode=mode),
        ):
            with pytest.raises((ValueError, TypeError)):
                call()
