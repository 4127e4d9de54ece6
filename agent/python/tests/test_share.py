"""Sharing what is in memory already: values, ties and views stay, one copy is left, nothing is published twice."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import model_files
import numpy as np
import pytest
import tetris
import tetris.numpy
import tetris.torch
import torch
from differential import bits
from model_files import floats
from process import Helper, contents, held, is_mapped, mappings, objects, python, smaps
from tetris.torch import share_module_, share_state_dict

N = 256
NBYTES = N * N * 4

pytestmark = pytest.mark.usefixtures("store")


def weight(seed: int = 0, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers from a fixed seed, of enough bytes to be shared."""
    return torch.randn(*(shape or (N, N)), generator=torch.Generator().manual_seed(seed)).to(dtype)


def shared(store: Path, tensor: torch.Tensor) -> bool:
    """Returns true if a tensor is over memory of the store."""
    return is_mapped(store, tensor.data_ptr(), tensor.element_size())


class Holder(torch.nn.Module):
    """A module of any tensors: parameters, and buffers by names that begin with `b`."""

    def __init__(self, **tensors: torch.Tensor) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            if name.startswith("b") or not isinstance(tensor, torch.nn.Parameter):
                self.register_buffer(name, tensor, persistent=not name.startswith("bn"))
            else:
                self.register_parameter(name, tensor)


def parameter(tensor: torch.Tensor, grad: bool = True) -> torch.nn.Parameter:
    return torch.nn.Parameter(tensor, requires_grad=grad)


def snapshot(module: torch.nn.Module) -> dict[str, Any]:
    """All that must not change."""
    tensors = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    return {
        name: (id(one), type(one), one.dtype, tuple(one.shape), one.stride(), one.requires_grad, bits(one))
        for name, one in tensors.items()
        if one.layout is torch.strided and one.device.type == "cpu" and not one.is_quantized
    }


MODULES: dict[str, tuple[Callable[[], torch.nn.Module], int, int]] = {
    # made by, bytes that are shared, objects
    "a linear layer": (lambda: torch.nn.Linear(N, N), NBYTES, 1),
    "a tied parameter": (lambda: (lambda p: Holder(p=p, q=p))(parameter(weight())), NBYTES, 1),
    "a tied storage": (lambda: (lambda t: Holder(p=parameter(t), q=parameter(t)))(weight()), NBYTES, 1),
    "a view of a storage": (lambda: (lambda t: Holder(p=parameter(t), b=t[10:20]))(weight()), NBYTES + 10 * N * 4, 1),
    "overlapping views": (
        lambda: (lambda t: Holder(p=parameter(t[: N - 8]), q=parameter(t[8:])))(weight()),
        2 * (N - 8) * N * 4,
        1,
    ),
    "halves of one storage": (
        lambda: (lambda t: Holder(p=parameter(t[:N]), q=parameter(t[N:])))(weight(0, 2 * N, N)),
        2 * NBYTES,
        1,
    ),
    "transposed": (lambda: Holder(p=parameter(weight().t())), NBYTES, 1),
    "channels last": (
        lambda: Holder(p=parameter(weight(0, 64, 32, 4, 8).to(memory_format=torch.channels_last))),
        64 * 32 * 4 * 8 * 4,
        1,
    ),
    "expanded": (lambda: Holder(b=weight(0, 1, N * N).expand(3, N * N)), 3 * NBYTES, 1),
    "every other column": (lambda: Holder(p=parameter(weight(0, N, 2 * N)[:, ::2])), NBYTES, 1),
    "a part of a larger storage": (lambda: Holder(p=parameter(weight(0, 4 * N, N)[N : 2 * N])), NBYTES, 1),
    "a buffer": (lambda: Holder(b=weight()), NBYTES, 1),
    "a buffer that is not saved": (lambda: Holder(bn=weight()), NBYTES, 1),
    "bfloat16": (lambda: Holder(p=parameter(weight(dtype=torch.bfloat16))), NBYTES // 2, 1),
    "float8": (lambda: Holder(b=weight(0, 512, 512).to(torch.float8_e4m3fn)), 512 * 512, 1),
    "bool": (lambda: Holder(b=weight(0, 512, 512) > 0), 512 * 512, 1),
    "complex": (lambda: Holder(b=torch.complex(weight(), weight(1))), 2 * NBYTES, 1),
    "complex128": (lambda: Holder(b=torch.complex(weight().double(), weight(1).double())), 4 * NBYTES, 1),
    "int4 in bytes": (lambda: Holder(b=torch.arange(N * N * 4, dtype=torch.int64).to(torch.uint8)), NBYTES, 1),
    "without gradient": (lambda: Holder(p=parameter(weight(), grad=False)), NBYTES, 1),
    "equal bytes": (lambda: Holder(p=parameter(weight()), q=parameter(weight())), 2 * NBYTES, 1),
    "NaNs and negative zeros": (lambda: Holder(b=torch.tensor([float("nan"), -0.0] * (N * N))), 2 * NBYTES, 1),
    "an embedding with an offset": (lambda: Holder(p=parameter(weight(0, N + 1, N)[1:])), NBYTES, 1),
    "nothing": (lambda: torch.nn.ReLU(), 0, 0),
    "small": (lambda: torch.nn.Linear(4, 4), 0, 0),
    "empty": (lambda: Holder(p=parameter(torch.empty(0, 4)), b=torch.empty(3, 0)), 0, 0),
    "a conjugated view": (lambda: Holder(b=torch.complex(weight(), weight(1)).conj()), 0, 0),
    "a negated view": (lambda: Holder(b=torch.complex(weight(), weight(1)).conj().imag), 0, 0),
}


@pytest.mark.parametrize("kind", MODULES)
def test_a_module_keeps_its_values_its_objects_and_its_layout(store: Path, kind: str) -> None:
    make, nbytes, count = MODULES[kind]
    module = make()
    before = snapshot(module)
    report = share_module_(module)
    assert snapshot(module) == before
    gc.collect()
    assert report.bytes_shared == nbytes, report
    assert len(objects(store)) == count
    # Tensors that are the same memory count once.
    sizes = {
        (parameter.data_ptr(), parameter.shape): parameter.nbytes
        for parameter in (*module.parameters(), *module.buffers())
    }
    assert report.bytes_shared + report.bytes_private == sum(sizes.values())
    assert report.private_reason is None
    again = share_module_(module)
    assert again.bytes_already == report.bytes_shared and again.bytes_published == again.bytes_found == 0
    assert snapshot(module) == before and len(objects(store)) == count
    for name, one in (*module.named_parameters(), *module.named_buffers()):
        assert shared(store, one) == (name not in report.private_names), kind


@pytest.mark.parametrize("kind", [kind for kind in MODULES if MODULES[kind][2]])
def test_views_and_ties_of_a_module_stay_views_and_ties(store: Path, kind: str) -> None:
    def written(module: torch.nn.Module) -> dict[str, Any]:
        tensors = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers())
        with torch.no_grad():
            first = next(iter(tensors.values()))
            (first if first.stride()[:1] != (0,) else first[0]).view(-1) if first.is_contiguous() else first
            first[3:5].fill_(True if first.dtype is torch.bool else 1) if first.dim() and first.stride(0) else None
        return {name: bits(one) for name, one in tensors.items()}

    plain, module = MODULES[kind][0](), None
    torch.manual_seed(0)
    module = MODULES[kind][0]()
    module.load_state_dict(plain.state_dict()) if kind == "a linear layer" else None
    share_module_(module)
    before = contents(store)
    assert written(module) == written(plain)
    assert contents(store) == before


def test_what_cannot_be_mapped_stays_private_and_is_named(store: Path) -> None:
    module = Holder(
        p=parameter(weight()),
        bsparse=weight().to_sparse(),
        bmeta=torch.empty(N, N, device="meta"),
        bquantized=torch.quantize_per_tensor(weight(), 0.1, 0, torch.qint8),
        bsubclass=Marked(weight(5)),
        bread_only=tetris.torch.ReadOnlyTensor.of(weight(6)),
    )
    before = {name: type(one) for name, one in module.named_buffers()}
    report = share_module_(module)
    assert report.bytes_shared == NBYTES
    assert set(report.private_names) >= {"bsparse", "bmeta", "bquantized", "bsubclass", "bread_only"}
    assert {name: type(one) for name, one in module.named_buffers()} == before
    assert torch.equal(module.bsparse.to_dense(), weight()) and torch.equal(torch.Tensor(module.bsubclass), weight(5))


class Marked(torch.Tensor):
    """A subclass that means something by itself."""


def test_uninitialised_parameters_are_left_alone() -> None:
    module = torch.nn.LazyLinear(N)
    assert share_module_(module).bytes_shared == 0
    module(torch.ones(1, N))
    assert share_module_(module).bytes_shared == NBYTES


def test_hooks_gradients_and_optimizers_go_on(store: Path) -> None:
    module, plain = (torch.nn.Linear(N, N) for _ in range(2))
    module.load_state_dict(plain.state_dict())
    calls: list[str] = []
    module.register_forward_hook(lambda *_: calls.append("forward"))
    module.weight.register_hook(lambda grad: calls.append("grad"))
    optimizers = [torch.optim.AdamW(one.parameters(), lr=0.1) for one in (module, plain)]

    def train(count: int) -> None:
        for one, optimizer in zip((module, plain), optimizers, strict=True):
            for _ in range(count):
                optimizer.zero_grad()
                one(torch.ones(2, N)).square().sum().backward()
                optimizer.step()

    train(2)
    gradient = module.weight.grad
    share_module_(module)
    before = contents(store)
    assert module.weight.grad is gradient
    assert optimizers[0].param_groups[0]["params"][0] is module.weight
    assert module.weight in optimizers[0].state
    train(3)
    assert calls.count("forward") == calls.count("grad") == 5
    assert all(torch.equal(one, other) for one, other in zip(module.parameters(), plain.parameters(), strict=True))
    assert contents(store) == before
    # What was trained differs from what is in the store, and can be shared anew.
    assert share_module_(module).bytes_published == NBYTES
    assert all(torch.equal(one, other) for one, other in zip(module.parameters(), plain.parameters(), strict=True))


def test_a_module_that_is_shared_in_a_module_is_shared_once(store: Path) -> None:
    inner = torch.nn.Linear(N, N, bias=False)
    report = share_module_(torch.nn.ModuleList([inner, inner, torch.nn.Sequential(inner)]))
    assert report.bytes_shared == NBYTES and len(objects(store)) == 1


def test_a_limit_decides_what_is_too_small(store: Path) -> None:
    module = Holder(p=parameter(weight(0, 8, 8)))
    assert share_module_(module, min_bytes=257).private_names == ["p"]
    assert share_module_(module, min_bytes=256).bytes_published == 256
    assert shared(store, module.p)


def test_old_memory_is_given_back_and_new_memory_with_the_module(store: Path) -> None:
    module = torch.nn.Linear(N, N)
    share_module_(module)
    gc.collect()
    assert len(mappings(store)) == 1
    del module
    gc.collect()
    assert mappings(store) == [] and held(store) == []


def test_a_state_dict_is_left_as_it_is(store: Path) -> None:
    base = weight(3)
    state = {
        "a": weight(),
        "tied": base,
        "view": base[:8],
        "small": torch.ones(2),
        "alias": base,
        "grad": parameter(weight(4)),
    }
    before = {name: (id(one), one.data_ptr(), bits(one)) for name, one in state.items()}
    result, report = share_state_dict(state)
    assert {name: (id(one), one.data_ptr(), bits(one)) for name, one in state.items()} == before
    assert list(result) == list(state)
    assert {name: bits(one) for name, one in result.items()} == {name: bits(one) for name, one in state.items()}
    assert result["tied"].data_ptr() == result["view"].data_ptr() == result["alias"].data_ptr() != base.data_ptr()
    assert result["small"] is state["small"] and report.private_names == ["small"]
    assert shared(store, result["a"]) and report.bytes_published == 3 * NBYTES + 8 * N * 4
    assert len(objects(store)) == 3
    result["tied"][0] = 1
    assert torch.equal(base, weight(3)) and result["view"][0, 0] == 1


def test_weights_that_came_through_the_store_are_not_published_again(store: Path, tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {"weight": floats([N, N]), "bias": floats([N])})
    module = torch.nn.Linear(N, N)
    assert tetris.torch.load_model(module, path) == (set(), [])
    assert shared(store, module.weight) and shared(store, module.bias)
    count = len(objects(store))
    report = share_module_(module)
    assert report.bytes_already == NBYTES and report.bytes_published == report.bytes_found == 0
    assert len(objects(store)) == count
    other = torch.nn.Linear(N, N)
    other.load_state_dict(tetris.torch.load_file(path))
    assert share_module_(other).bytes_found == NBYTES
    assert len(objects(store)) == count


def test_load_model_keeps_ties_between_what_differs(store: Path, tmp_path: Path) -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            base = torch.empty(2 * N, N)
            self.whole = parameter(base)
            self.part = parameter(base[:N])

    path = tmp_path / "file"
    tetris.torch.save_file({"whole": weight(1, 2 * N, N), "part": weight(1, 2 * N, N)[:N].clone()}, path)
    module = Tied()
    tetris.torch.load_model(module, path, strict=False)
    assert torch.equal(module.whole[:N], module.part)
    with torch.no_grad():
        module.part[0, 0] = 99
    assert module.whole[0, 0] == 99


def test_two_processes_end_up_with_one_copy(store: Path) -> None:
    program = """
        import json, sys, torch, tetris.torch
        torch.manual_seed(3)
        module = torch.nn.Sequential(torch.nn.Linear(1024, 2048), torch.nn.Linear(2048, 512)).bfloat16()
        report = tetris.torch.share_module_(module)
        total = float(sum(one.double().sum() for one in module.parameters()))
        print(json.dumps([report.bytes_published, report.bytes_found, total]))
        sys.stdin.readline()
    """
    nbytes = (1024 * 2048 + 2048 * 512) * 2
    with Helper(program) as first:
        one = first.line()
        with Helper(program) as second:
            other = second.line()
            assert one[:2] == [nbytes, 0] and other[:2] == [0, nbytes] and one[2] == other[2]
            found = [smaps(store, helper.pid) for helper in (first, second)]
            assert all(one["Private_Dirty"] + one["Private_Clean"] == one["Anonymous"] == 0 for one in found)
            assert sum(one["Pss"] for one in found) <= nbytes * 1.1


# Derived tensors.


def test_a_derivation_runs_once_on_a_node(store: Path, tmp_path: Path) -> None:
    program = """
        import json, sys, tetris, tetris.torch, torch
        weights = tetris.torch.load_file(sys.argv[1])
        runs = []
        result = tetris.derived(weights["w"], "double", lambda t: runs.append(1) or t * 2)
        print(json.dumps([len(runs), result.sum().item(), result.shape]))
    """
    path = model_files.write(tmp_path / "file", {"w": floats([N, N])})
    first, second = (python(program, path) for _ in range(2))
    assert (first[0], second[0]) == (1, 0) and first[1:] == second[1:]
    source = tetris.torch.load_file(path)["w"]
    # The same bytes, from wherever they are.
    result = tetris.derived(source.clone(), "double", lambda _: pytest.fail("it is known"))
    assert torch.equal(result, source * 2) and shared(store, result)
    result.zero_()
    assert torch.equal(tetris.derived(source, "double", lambda _: pytest.fail("it is known")), source * 2)


def counted() -> tuple[list[int], Callable[[torch.Tensor], torch.Tensor]]:
    """A function and its runs."""
    runs: list[int] = []

    def run(tensor: torch.Tensor) -> torch.Tensor:
        runs.append(1)
        return tensor.clone()

    return runs, run


def test_results_are_apart_by_name_version_type_shape_and_bytes(store: Path) -> None:
    runs, run = counted()
    source = torch.arange(24, dtype=torch.int32)
    different = [
        lambda: tetris.derived(source, "a", run),
        lambda: tetris.derived(source, "b", run),
        lambda: tetris.derived(source, "", run),
        lambda: tetris.derived(source, "a", run, version=2),
        lambda: tetris.derived(source.view(4, 6), "a", run),
        lambda: tetris.derived(source.view(6, 4), "a", run),
        lambda: tetris.derived(source.view(torch.float32), "a", run),
        lambda: tetris.derived(source.view(torch.int64), "a", run),
        lambda: tetris.derived(source + 1, "a", run),
        lambda: tetris.derived(source.numpy(), "a", lambda array: run(torch.from_numpy(array)).numpy()),
    ]
    first = [call() for call in different]
    assert len(runs) == len(different)
    second = [call() for call in different]
    assert len(runs) == len(different)
    for one, other in zip(first, second, strict=True):
        assert type(one) is type(other) and one.shape == other.shape and one.dtype == other.dtype
    # Strides do not matter, values do.
    assert torch.equal(tetris.derived(source.view(4, 6).t().contiguous().t(), "a", run), source.view(4, 6))
    assert len(runs) == len(different)


def test_a_source_that_was_written_to_is_another_source(store: Path, tmp_path: Path) -> None:
    path = model_files.write(tmp_path / "file", {"w": floats([N, N]), "s": floats([8])})
    for name in ("w", "s"):
        source = tetris.torch.load_file(path)[name]
        known = tetris.derived(source, "double", lambda tensor: tensor * 2)
        source.view(-1)[3] = 100
        again = tetris.derived(source, "double", lambda tensor: tensor * 2)
        assert again.view(-1)[3] == 200 and known.view(-1)[3] != 200
        assert torch.equal(
            tetris.derived(tetris.torch.load_file(path)[name], "double", lambda _: pytest.fail("known")), known
        )


def test_an_exception_is_passed_on_and_nothing_is_kept(store: Path) -> None:
    def failing(_: torch.Tensor) -> torch.Tensor:
        raise KeyError("mine")

    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            tetris.derived(weight(), "failing", failing)
    assert objects(store) == []
    assert torch.equal(tetris.derived(weight(), "failing", lambda tensor: tensor + 1), weight() + 1)
    with pytest.raises(KeyboardInterrupt):
        tetris.derived(weight(), "interrupted", lambda _: (_ for _ in ()).throw(KeyboardInterrupt()))


RESULTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "tensor": lambda t: t + 1,
    "itself": lambda t: t,
    "view": lambda t: t[3:5, ::2],
    "transposed": lambda t: t.t(),
    "scalar": lambda t: t.sum(),
    "empty": lambda t: t[:0],
    "empty with a shape": lambda t: torch.empty(3, 0, 2, dtype=torch.int16),
    "bfloat16": lambda t: t.bfloat16(),
    "float8": lambda t: t.to(torch.float8_e5m2),
    "bool": lambda t: t > 0,
    "complex": lambda t: torch.complex(t, t),
    "complex128": lambda t: torch.complex(t.double(), t.double()),
    "conjugated": lambda t: torch.complex(t, t).conj(),
    "expanded": lambda t: t[:1].expand(4, N),
    "a parameter": lambda t: torch.nn.Parameter(t * 2),
    "tuple": lambda t: (t + 1, t.bfloat16(), t[:0], t.sum()),
    "a tuple of one": lambda t: (t,),
    "an empty tuple": lambda t: (),
    "dict": lambda t: {"values": t.to(torch.int8), "scales": t.abs().amax(1), "": t[:1], "ключ": t[0]},
    "an empty dict": lambda t: {},
}


@pytest.mark.parametrize("kind", RESULTS)
def test_results_of_every_form_come_back_as_they_were(store: Path, kind: str) -> None:
    def plain(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.dtype, tuple(value.shape), bits(value.detach().resolve_conj())
        if isinstance(value, dict):
            return [(key, plain(one)) for key, one in value.items()]
        return type(value), [plain(one) for one in value]

    expected = plain(RESULTS[kind](weight()))
    for _ in range(2):
        result = tetris.derived(weight(), kind, RESULTS[kind])
        assert plain(result) == expected
    for one in result.values() if isinstance(result, dict) else result if isinstance(result, tuple) else [result]:
        assert one.is_contiguous() and not one.requires_grad
        assert one.numel() == 0 or shared(store, one)


@pytest.mark.parametrize(
    "result", [None, 1, "text", [torch.ones(1)], {1: torch.ones(1)}, (torch.ones(1), 2), np.ones(1)]
)
def test_results_that_are_no_tensors_are_refused(result: Any) -> None:
    with pytest.raises(ValueError):
        tetris.derived(weight(), f"{result!r}", lambda _: result)


def test_sources_that_are_no_dense_tensors_are_refused() -> None:
    for source in (
        weight().to_sparse(),
        torch.empty(2, device="meta"),
        torch.quantize_per_tensor(weight(), 1.0, 0, torch.qint8),
    ):
        with pytest.raises(ValueError, match="dense"):
            tetris.derived(source, "x", lambda tensor: tensor)
    for source in (1, None, [1.0], b"bytes"):
        with pytest.raises(TypeError):
            tetris.derived(source, "x", lambda tensor: tensor)
    for source in (np.array(["text"]), np.array([object()]), np.ones(2, ">f4"), np.zeros(2, [("a", "f4")])):
        with pytest.raises(ValueError):
            tetris.derived(source, "x", lambda array: array)


def test_names_of_any_length_that_can_be_recorded(store: Path) -> None:
    for name in ("x" * 3500, "ключ" * 400, "\0", "a/b/../c", "\n"):
        runs, run = counted()
        assert all(torch.equal(tetris.derived(weight(), name, run), weight()) for _ in range(2))
        assert len(runs) == 1
    with pytest.raises(ValueError):
        tetris.derived(weight(), "x" * 100_000, lambda tensor: tensor)


def test_empty_and_scalar_sources_are_sources(store: Path) -> None:
    for source in (torch.empty(0), torch.empty(3, 0), torch.tensor(1.5), torch.empty(0, dtype=torch.int8)):
        result = tetris.derived(source, "one more", lambda tensor: tensor + 1)
        assert result.shape == source.shape and result.dtype == (source + 1).dtype
    array = tetris.derived(np.array(1.5), "one more", lambda array: np.asarray(array + 1))
    assert array.shape == () and array == 2.5


def test_arrays_are_derived_read_only_with_their_types(store: Path) -> None:
    import ml_dtypes

    source = np.arange(24, dtype=np.float32).reshape(4, 6)
    makes: dict[str, Callable[[np.ndarray], Any]] = {
        "float16": lambda a: a.astype(np.float16),
        "bfloat16": lambda a: a.astype(ml_dtypes.bfloat16),
        "complex": lambda a: a.astype(np.complex128),
        "columns": lambda a: a[:, ::2],
        "fortran": np.asfortranarray,
        "empty": lambda a: a[:0],
    }
    for name, make in makes.items():
        for _ in range(2):
            found = tetris.derived(source, name, make)
            assert found.dtype == make(source).dtype and found.shape == make(source).shape
            assert np.array_equal(found, make(source)) and not found.flags.writeable
    both = tetris.derived(source, "both", lambda a: {"x": a + 1, "y": a.sum(0)})
    assert list(both) == ["x", "y"] and np.array_equal(both["y"], source.sum(0))


def test_threads_that_derive_the_same_run_it_once_or_agree(store: Path) -> None:
    from test_processes import in_threads

    results: list[torch.Tensor] = []
    in_threads(6, lambda _: results.append(tetris.derived(weight(), "double", lambda tensor: tensor * 2)))
    assert all(torch.equal(result, weight() * 2) for result in results) and len(objects(store)) == 1


class Wrapper(torch.Tensor):
    """A tensor made of two others, as quantized weights are."""

    data_part: torch.Tensor
    scale: torch.Tensor

    @staticmethod
    def __new__(cls, data_part: torch.Tensor, scale: torch.Tensor) -> Self:
        return torch.Tensor._make_wrapper_subclass(cls, data_part.shape, dtype=scale.dtype)

    def __init__(self, data_part: torch.Tensor, scale: torch.Tensor) -> None:
        self.data_part, self.scale = data_part, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["data_part", "scale"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return args[0]
        raise NotImplementedError(str(func))


def test_the_tensors_inside_of_a_wrapper_are_shared(store: Path) -> None:
    def module() -> torch.nn.Module:
        made = torch.nn.Module()
        parts = torch.arange(65536, dtype=torch.int32).view(256, 256), torch.ones(256, 256)
        made.weight = torch.nn.Parameter(Wrapper(*parts), requires_grad=False)
        return made

    first, second = module(), module()
    report = tetris.torch.share_module_(first)
    assert report.bytes_published == report.bytes_shared == 2 * 65536 * 4, report
    assert tetris.torch.share_module_(second).bytes_found == 2 * 65536 * 4
    assert torch.equal(second.weight.data_part, torch.arange(65536, dtype=torch.int32).view(256, 256))
