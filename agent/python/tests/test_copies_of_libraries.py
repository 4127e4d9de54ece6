"""Copies that libraries make of loaded tensors do not stay."""

from __future__ import annotations

from pathlib import Path

import process
import pytest

#: What the programs below begin with. `shared` says which of a module's weights are mapped from the store.
PRELUDE = """
    import json, sys
    import torch
    from safetensors.torch import load_file, load_model, save_file
    from tetris import _native

    def shared(module):
        return {
            name: _native.is_unmodified(tensor.data_ptr(), tensor.nbytes)
            for name, tensor in module.state_dict().items()
        }

    torch.manual_seed(1)
    class Model(torch.nn.Module):
        def __init__(self, tied=True):
            super().__init__()
            self.embed = torch.nn.Embedding(300, 128)
            self.body = torch.nn.Linear(128, 256)
            self.head = torch.nn.Linear(128, 300, bias=False)
            if tied:
                self.head.weight = self.embed.weight
            self.register_buffer("table", torch.randn(200, 200))

    path = sys.argv[1]
    saved = {name: tensor.clone() for name, tensor in Model().state_dict().items()}
    save_file(saved, path)
"""

PATCHED = {"TETRIS_PATCH": "1"}


def patched(tmp_path: Path, program: str, env: dict[str, str] | None = None) -> object:
    """Run a program with everything patched, or with `env`."""
    return process.python(PRELUDE + program, tmp_path / "m.safetensors", env=PATCHED if env is None else env)


@pytest.mark.usefixtures("store")
def test_load_state_dict_leaves_no_copy_of_large_tensors(tmp_path: Path) -> None:
    found = patched(
        tmp_path,
        """
    torch.manual_seed(2)
    model = Model()
    before = {name: id(tensor) for name, tensor in model.named_parameters()}
    result = model.load_state_dict(load_file(path))
    after = {name: id(tensor) for name, tensor in model.named_parameters()}
    equal = all(torch.equal(tensor, saved[name]) for name, tensor in model.state_dict().items())
    print(json.dumps([str(result), before == after, equal, model.head.weight is model.embed.weight, shared(model)]))
    """,
    )
    result, same_parameters, equal, tied, shared = found
    assert result == "<All keys matched successfully>"
    assert same_parameters and equal and tied
    # Below 64 KiB a copy costs less than looking for its object.
    assert not shared.pop("body.bias")
    assert all(shared.values()), shared


@pytest.mark.usefixtures("store")
def test_a_module_does_not_see_what_is_done_to_the_state_dict(tmp_path: Path) -> None:
    found = patched(
        tmp_path,
        """
    model, weights = Model(), load_file(path)
    model.load_state_dict(weights)
    weights["table"].zero_()
    with torch.no_grad():
        model.embed.weight.fill_(7)
    print(json.dumps([
        torch.equal(model.table, saved["table"]),
        torch.equal(weights["embed.weight"], saved["embed.weight"]),
    ]))
    """,
    )
    assert found == [True, True]


@pytest.mark.usefixtures("store")
def test_memory_that_others_use_is_not_exchanged(tmp_path: Path) -> None:
    found = patched(
        tmp_path,
        """
    model, weights = Model(tied=False), load_file(path)
    view = model.embed.weight.data
    model.body.share_memory()
    arena = torch.zeros(40_000 + 100)
    model.table = arena[:40_000].view(200, 200)
    model.load_state_dict(weights)
    print(json.dumps([
        torch.equal(view, saved["embed.weight"]),
        model.body.weight.is_shared(),
        torch.equal(arena[:40_000].view(200, 200), saved["table"]),
        shared(model),
    ]))
    """,
    )
    alias_follows, still_shared_memory, arena_follows, shared = found
    assert alias_follows and still_shared_memory and arena_follows
    assert [name for name, is_shared in shared.items() if is_shared] == ["head.weight"]


@pytest.mark.usefixtures("store")
def test_what_is_not_as_in_the_file_is_only_copied(tmp_path: Path) -> None:
    found = patched(
        tmp_path,
        """
    weights = load_file(path)
    weights["table"].add_(1)
    weights["body.weight"] = weights["body.weight"].clone()
    model = Model(tied=False).to(torch.float64)
    model.head.float()
    model.table = model.table.float()
    model.load_state_dict(weights)
    wrong = [n for n, t in model.state_dict().items() if not torch.equal(t, weights[n].to(t.dtype))]
    print(json.dumps([wrong, shared(model)]))
    """,
    )
    wrong, shared = found
    assert wrong == []
    assert [name for name, is_shared in shared.items() if is_shared] == ["head.weight"]


@pytest.mark.usefixtures("store")
def test_errors_are_those_of_torch(tmp_path: Path) -> None:
    program = """
    errors = []
    for arguments in ((), (5,), ({},), ({"x": torch.ones(1)},), ({"table": torch.ones(1)}, False)):
        try:
            Model().load_state_dict(*arguments)
        except Exception as error:
            errors.append([type(error).__name__, str(error)])
    print(json.dumps(errors))
    """
    with_patch = patched(tmp_path, program)
    assert len(with_patch) == 5
    assert with_patch == patched(tmp_path, program, env={})


@pytest.mark.usefixtures("store")
def test_safetensors_load_model_leaves_no_copy(tmp_path: Path) -> None:
    found = patched(
        tmp_path,
        """
    from safetensors.torch import save_model
    save_model(Model(), path)
    torch.manual_seed(2)
    model = Model()
    missing, unexpected = load_model(model, path)
    print(json.dumps([list(missing), list(unexpected), shared(model), model.head.weight is model.embed.weight]))
    """,
    )
    missing, unexpected, shared, tied = found
    assert (missing, unexpected, tied) == ([], [], True)
    assert all(shared.values()), shared


@pytest.mark.usefixtures("store")
def test_only_files_are_patched_when_nothing_else_is_wanted(tmp_path: Path) -> None:
    found = patched(
        tmp_path,
        """
    model, weights = Model(), load_file(path)
    model.load_state_dict(weights)
    kept = {n: _native.is_unmodified(t.data_ptr(), t.nbytes) for n, t in weights.items()}
    print(json.dumps([any(shared(model).values()), kept["table"]]))
    """,
        env={"TETRIS_PATCH": "files"},
    )
    assert found == [False, True]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_models_of_diffusers_share_their_weights_cast_or_not(tmp_path: Path, dtype: str) -> None:
    pytest.importorskip("diffusers")
    program = """
    import hashlib
    from diffusers import UNet2DModel
    folder, dtype = sys.argv[1] + ".unet", getattr(torch, sys.argv[2])
    if sys.argv[3] == "save":
        UNet2DModel(
            sample_size=16, block_out_channels=(64, 128), down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        ).save_pretrained(folder)
    model = UNet2DModel.from_pretrained(folder, torch_dtype=dtype)
    if sys.argv[3] == "save":
        # safetensors' tensors begin at any byte, and convolutions compute by other kernels there.
        for tensor in model.parameters():
            tensor.data = tensor.data.clone()
    with torch.no_grad():
        out = model(torch.ones(1, 3, 16, 16, dtype=dtype), 5).sample
    large = [t for t in model.parameters() if t.nbytes >= 64 << 10]
    print(json.dumps([
        hashlib.sha256(out.float().numpy().tobytes()).hexdigest(),
        len(large),
        sum(_native.is_unmodified(t.data_ptr(), t.nbytes) for t in large),
    ]))
    """
    path = tmp_path / "m.safetensors"
    plain, large, shared = process.python(PRELUDE + program, path, dtype, "save")
    assert large > 0 and shared == 0
    patched, _, shared = process.python(PRELUDE + program, path, dtype, "load", env=PATCHED)
    assert patched == plain
    assert shared == large
