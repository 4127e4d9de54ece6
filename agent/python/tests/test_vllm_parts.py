"""Parts of the loader for vLLM, without vLLM: packed weights, and the state of a model."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tetris.torch
import torch
from gpu_mirror import Mirror
from process import is_mapped, python
from tetris._vllm import device, state
from tetris._vllm.memory import proportional_bytes
from tetris._vllm.packed import PackedLinear

DTYPES = (torch.bfloat16, torch.float32)


def packed(
    dtype: torch.dtype = torch.bfloat16, columns: int = 512, rows: int = 256
) -> tuple[torch.Tensor, PackedLinear]:
    """A weight, and the function over it."""
    weight = torch.randn(columns, rows, generator=torch.Generator().manual_seed(3)).to(dtype)
    made = PackedLinear.of(weight)
    if made is None:
        pytest.skip(f"oneDNN packs no {dtype} on this processor")
    return weight, made


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_attached_bytes_compute_what_the_packed_weight_does(dtype: torch.dtype, rows: int) -> None:
    weight, made = packed(dtype)
    attached = PackedLinear.attached(made.content().clone(), made.description())
    x = torch.randn(rows, weight.shape[1]).to(dtype)
    bias = torch.randn(weight.shape[0]).to(dtype)
    for given in (None, bias):
        assert torch.equal(attached(x, weight, given), made(x, weight, given))
        expected = torch.nn.functional.linear(x, weight, given)
        torch.testing.assert_close(attached(x, weight, given), expected, rtol=0.02, atol=0.02)


def test_packed_weights_are_objects_that_processes_share(store: Path) -> None:
    weight, made = packed()

    def build() -> Any:
        return {"packed": made.content()}, {"description": json.dumps(made.description()).encode()}

    found = tetris.torch.layout("pack", build, sources={"weight": weight})
    attached = PackedLinear.attached(found.tensors["packed"], json.loads(found.attributes["description"]))
    assert is_mapped(store, found.tensors["packed"].data_ptr(), found.tensors["packed"].nbytes)
    x = torch.ones(3, weight.shape[1], dtype=weight.dtype)
    assert torch.equal(attached(x, weight, None), made(x, weight, None))


def test_compiled_code_calls_the_packed_weight() -> None:
    weight, made = packed()
    x = torch.randn(5, weight.shape[1]).to(weight.dtype)

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return 2 * made(x, weight, None)

    compiled = torch.compile(doubled, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), doubled(x))


def test_descriptions_that_do_not_fit_are_refused() -> None:
    _, made = packed()
    content, description = made.content().clone(), made.description()
    for wrong in ({"form": "00"}, {"form": ""}, {"shape": [512]}, {"shape": [1 << 20, 1 << 20]}):
        with pytest.raises(ValueError):
            PackedLinear.attached(content, {**description, **wrong})
    with pytest.raises(ValueError, match=r"has .* bytes, found"):
        PackedLinear.attached(content[: content.numel() // 2], description)


def test_what_is_no_matrix_of_a_known_type_is_not_packed() -> None:
    assert PackedLinear.of(torch.zeros(2, 3, 4)) is None
    assert PackedLinear.of(torch.zeros(4, 4, dtype=torch.int8)) is None


class Layer(torch.nn.Module):
    """A layer as engines have them."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(8, 4), requires_grad=False)
        self.scale = torch.nn.Parameter(torch.zeros(8), requires_grad=False)
        self.register_buffer("table", torch.zeros(3))
        self.hint = "none"


def model() -> torch.nn.Module:
    """A model of two layers, of which one has its weight by two names."""
    made = torch.nn.Sequential(Layer(), Layer())
    made.add_module("head", Layer())
    made.head.weight = made[0].weight
    return made


def loaded() -> tuple[torch.nn.Module, state.Before]:
    """A model after loading, which changes what engines change."""
    made = model()
    before = state.Before(made)
    with torch.no_grad():
        made[0].weight.fill_(1.5)
        made[1].table.fill_(2.5)
    made[1].weight = torch.nn.Parameter(torch.empty(0), requires_grad=False)
    made[1].scale = None
    made[1].projection = torch.full((2, 2), 3.5)
    made[1].hint = "vec"
    made[1].sizes = (1, [2, None], {"type": torch.bfloat16})
    made[1].cpu_linear = torch.nn.functional.linear
    return made, before


def test_a_state_makes_another_model_the_same() -> None:
    made, before = loaded()
    tensors, attributes = state.read(made, before)
    assert len([name for name in tensors if name.endswith("weight")]) == 2, "a weight by two names is one"
    other = model()
    other[0].weight.weight_loader = "kept"
    state.write(other, tensors, attributes)
    assert torch.equal(other[0].weight, made[0].weight) and other.head.weight is other[0].weight
    assert other[0].weight.weight_loader == "kept"
    assert other[1].weight.numel() == 0 and other[1].scale is None
    assert torch.equal(other[1].table, made[1].table) and torch.equal(other[1].projection, made[1].projection)
    assert (other[1].hint, other[1].sizes, other[0].hint) == ("vec", made[1].sizes, "none")
    assert other[1].cpu_linear is torch.nn.functional.linear


def test_a_packed_layer_is_part_of_the_state() -> None:
    weight, function = packed()
    made = model()
    before = state.Before(made)
    made[1].cpu_linear = function
    other = model()
    state.write(other, *state.read(made, before))
    x = torch.ones(2, weight.shape[1], dtype=weight.dtype)
    assert torch.equal(other[1].cpu_linear(x, weight, None), function(x, weight, None))


def test_state_that_no_other_process_could_read_is_refused() -> None:
    made = model()
    before = state.Before(made)
    made[1].handle = object()
    with pytest.raises(state.UnfitError, match=r"'1\.handle' to a object"):
        state.read(made, before)
    made = model()
    before = state.Before(made)
    made.add_module("late", Layer())
    with pytest.raises(state.UnfitError, match="adds the module 'late'"):
        state.read(made, before)
    made = model()
    before = state.Before(made)
    del made[1].hint
    with pytest.raises(state.UnfitError, match="removes 'hint'"):
        state.read(made, before)


def test_the_state_of_another_model_is_refused() -> None:
    made, before = loaded()
    tensors, attributes = state.read(made, before)
    with pytest.raises(state.UnfitError, match="does not fit"):
        state.write(torch.nn.Sequential(Layer()), tensors, attributes)
    for wrong in (b"", b"[]", b"{}", b'{"parameters": {"x.y": []}, "buffers": {}, "attributes": {}}'):
        with pytest.raises(state.UnfitError, match="does not fit"):
            state.write(model(), tensors, {state.DESCRIPTION: wrong})


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    made, before = loaded()
    tensors, attributes = state.read(made, before)
    description = json.loads(attributes[state.DESCRIPTION])
    description["attributes"]["no.such.layer"] = {"hint": {"plain": ["value", 1]}}
    other = model()
    parameters = {name: (id(one), one.data_ptr()) for name, one in other.named_parameters(remove_duplicate=False)}
    attributes_before = [dict(vars(module)) for module in other.modules()]
    with pytest.raises(state.UnfitError, match="does not fit"):
        state.write(other, tensors, {state.DESCRIPTION: json.dumps(description).encode()})
    after = {name: (id(one), one.data_ptr()) for name, one in other.named_parameters(remove_duplicate=False)}
    assert after == parameters
    assert [dict(vars(module)) for module in other.modules()] == attributes_before
    assert other[1].table.sum() == 0


def test_pages_that_two_processes_map_are_counted_in_halves(store: Path) -> None:
    weights = torch.ones(32 << 20, dtype=torch.uint8)
    tetris.torch.layout("count", lambda: {"w": weights}, sources={"w": weights})
    program = """
    import ctypes, json, os, statistics, torch, tetris.torch
    from tetris._vllm.memory import proportional_bytes
    w = torch.ones(32 << 20, dtype=torch.uint8)
    # Its own copy goes: what is left is the one of the store.
    found = tetris.torch.layout("count", lambda: 1 / 0, sources={"w": w}).tensors["w"]
    del w

    def more():
        # Unmaps the pages (MADV_DONTNEED); the next use maps those of the store again.
        assert ctypes.CDLL(None).madvise(ctypes.c_void_p(found.data_ptr()), ctypes.c_size_t(found.nbytes), 4) == 0
        alone = proportional_bytes(os.getpid())
        found.sum()
        return proportional_bytes(os.getpid()) - alone

    # Processes that start or end beside this one change its share of the libraries.
    print(json.dumps(statistics.median(more() for _ in range(9))))
    """
    mapped = tetris.torch.layout("count", lambda: {"w": weights}, sources={"w": weights})
    mapped.tensors["w"].sum()
    more = python(program)
    assert 12 << 20 < more < 20 << 20
    assert proportional_bytes(1 << 30) is None


def test_large_weights_are_read_and_the_rest_is_written_to(store: Path) -> None:
    weight = torch.zeros(512, 128)

    def build() -> dict[str, torch.Tensor]:
        return {
            "attribute:projection": weight.t()[:64],
            "attribute:workspace": torch.zeros(512, 128),
            "buffer:table": torch.zeros(512, 129),
            "packed:linear": torch.zeros(1 << 18, dtype=torch.uint8),
            "parameter:empty": torch.empty(0),
            "parameter:scale": torch.zeros(8),
            "parameter:weight": weight,
        }

    layout = tetris.torch.layout("parts", build, sources={"weight": weight})
    assert device.written(layout.tensors) == {
        "attribute:workspace",
        "buffer:table",
        "parameter:empty",
        "parameter:scale",
    }


def test_large_parameters_are_made_without_memory() -> None:
    with device.hollow_parameters():
        large, small = torch.nn.Linear(4, 4).weight, torch.nn.Linear(4, 4).bias
        made = torch.nn.Module()
        made.register_parameter("weight", torch.nn.Parameter(torch.empty(512, 128)))
        made.register_parameter("none", None)
    assert made.weight.untyped_storage().nbytes() == 4
    assert (made.weight.shape, made.weight.dtype, made.none) == (torch.Size([512, 128]), torch.float32, None)
    assert large.untyped_storage().nbytes() == 64 and small.untyped_storage().nbytes() == 16
    full = torch.ones(512, 128)
    made.weight.data = full
    assert torch.equal(made.weight, full)
    made.register_parameter("again", torch.nn.Parameter(torch.empty(512, 128)))
    assert made.again.untyped_storage().nbytes() == 512 * 128 * 4, "it ends with the block"


def test_a_model_lets_go_of_its_weights_before_others_come() -> None:
    made, before = loaded()
    tensors, attributes = state.read(made, before)
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    old = made[0].weight.untyped_storage().data_ptr()
    changes = state.Changes.of(made, tensors, attributes)
    changes.let_go()
    assert made[0].weight.untyped_storage().nbytes() == 4 and made.head.weight is made[0].weight
    assert made[1].projection is None
    state.Changes.of(made, kept, attributes).apply()
    assert torch.equal(made[0].weight, torch.full((8, 4), 1.5)) and made[0].weight.data_ptr() != old
    assert torch.equal(made[1].projection, torch.full((2, 2), 3.5))


def engine_config(**changed: Any) -> Any:
    """The configuration of an engine, as far as the mirror is concerned."""
    uva, prefetch = SimpleNamespace(cpu_offload_gb=0), SimpleNamespace(offload_group_size=0)
    config = SimpleNamespace(
        model_config=SimpleNamespace(enable_sleep_mode=False),
        parallel_config=SimpleNamespace(enable_eplb=False),
        weight_transfer_config=None,
        offload_config=SimpleNamespace(uva=uva, prefetch=prefetch),
    )
    for path, value in changed.items():
        *owners, name = path.split("__")
        owner: Any = config
        for each in owners:
            owner = getattr(owner, each)
        setattr(owner, name, value)
    return config


CPU = torch.device("cpu")


def test_an_engine_is_on_the_mirror_where_it_reads_its_weights_only(mirror: Mirror) -> None:
    assert device.mirror_of(engine_config(), CPU, None) == (None, None)
    assert device.mirror_of(engine_config(), CPU, "simulated") == ("simulated", None)
    for changed, expected in (
        ({"model_config__enable_sleep_mode": True}, "sleep mode"),
        ({"parallel_config__enable_eplb": True}, "EPLB"),
        ({"weight_transfer_config": object()}, "trainer"),
        ({"offload_config__uva__cpu_offload_gb": 1.5}, "host memory"),
        ({"offload_config__prefetch__offload_group_size": 8}, "host memory"),
    ):
        found, reason = device.mirror_of(engine_config(**changed), CPU, "simulated")
        assert found is None and reason is not None and expected in reason, changed


def test_an_engine_without_a_mirror_has_the_reason(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, reason = device.mirror_of(engine_config(), CPU, "simulated")
    assert found is None and reason is not None and str(store / "gpu") in reason
    if torch.cuda.is_available():
        pytest.skip("needs a torch that sees no GPU")
    for where, chosen, expected in (("cuda", None, "TETRIS_GPU"), ("cuda", "simulated", "for engines on the CPU")):
        found, reason = device.mirror_of(engine_config(), torch.device(where), chosen)
        assert found is None and reason is not None and expected in reason
    monkeypatch.setenv("TETRIS_GPU", "off")
    found, reason = device.mirror_of(engine_config(), CPU, "simulated")
    assert found is None and reason is not None and "TETRIS_GPU" in reason
