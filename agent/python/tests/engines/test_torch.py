"""Models of torch that differ from their file: compiled, quantized, merged, as agent/python/README.md says of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tetris

pytest.importorskip("torchao")
pytest.importorskip("sentence_transformers")

#: Goes before every program. `shared` is the part of tensors' bytes that lies in objects of the store.
PREAMBLE = """
import json, os, sys
import torch
import tetris, tetris.torch

def parts(tensor):
    if not hasattr(tensor, "__tensor_flatten__"):
        return [tensor]
    return [one for name in tensor.__tensor_flatten__()[0] for one in parts(getattr(tensor, name))]

def shared(tensors):
    objects = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and "/objects-v1/" in fields[5]:
                objects.append([int(number, 16) for number in fields[0].split("-")])
    def inside(tensor):
        begin, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
        return any(low <= begin and end <= high for low, high in objects)
    all_parts = {one.data_ptr(): one for tensor in tensors for one in parts(tensor) if one.nbytes >= 65536}.values()
    return sum(one.nbytes for one in all_parts if inside(one)) / sum(one.nbytes for one in all_parts)

def of_module(module):
    return shared([*module.parameters(), *module.buffers()])
"""

WIDTH = 1024


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty store."""
    import shutil
    import tempfile

    directory = Path(tempfile.mkdtemp(prefix="tetris-torch-", dir="/dev/shm"))
    tetris.create_store(directory / "store")
    yield directory / "store"
    shutil.rmtree(directory)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A file of two layers."""
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(1)
    layers = {f"{layer}.weight": torch.randn(WIDTH, WIDTH, generator=generator) / 32 for layer in (0, 2)}
    path = tmp_path / "model.safetensors"
    save_file(layers, path)
    old = path.stat().st_mtime - 60
    os.utime(path, (old, old))
    return path


MODULE = f"""
def module(path):
    with torch.device("meta"):
        made = torch.nn.Sequential(torch.nn.Linear({WIDTH}, {WIDTH}, bias=False), torch.nn.ReLU(),
                                   torch.nn.Linear({WIDTH}, {WIDTH}, bias=False))
    made.load_state_dict(tetris.torch.load_file(path), assign=True)
    return made.eval().requires_grad_(False)
inputs = torch.ones(4, {WIDTH})
"""


def python(store: Path, program: str, *arguments: object, **environment: str) -> Any:
    """Run a program over the store; return what its last line is in JSON."""
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + MODULE + textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TETRIS_STORE": str(store), "TETRIS_PATCH": "1", **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_compiled_modules_run_on_the_shared_weights(store: Path, weights: Path) -> None:
    program = """
        plain = module(sys.argv[1])
        compiled = torch.compile(plain)
        with torch.inference_mode():
            close = torch.allclose(compiled(inputs), plain(inputs), atol=1e-4)
        print(json.dumps([of_module(compiled), close]))
    """
    assert python(store, program, weights) == [1.0, True]


FREEZING = """
    import torch._inductor.config
    torch._inductor.config.freezing = True
    plain = module(sys.argv[1])
    with torch.inference_mode():
        expected = plain(inputs)
        compiled = torch.compile(plain)
        close = torch.allclose(compiled(inputs), expected, atol=1e-4)
    from torch._inductor.codecache import PyCodeCache
    values = [one for graph in PyCodeCache.modules for one in vars(graph).values() if isinstance(one, torch.Tensor)]
    # oneDNN's form, in memory that it allocates.
    constants = [one for one in values if one.layout != torch.strided]
    print(json.dumps([of_module(plain), close, len(constants)]))
"""


def test_freezing_folds_weights_into_constants_of_the_graph(store: Path, weights: Path) -> None:
    of_the_module, close, constants = python(store, FREEZING, weights)
    # The module's own weights stay shared, and those that the graph packed are the process's own.
    assert (of_the_module, close) == (1.0, True)
    assert constants == 2


AOT = """
    import torch._inductor
    path = os.path.join(os.path.dirname(sys.argv[1]), "model.pt2")
    plain = module(sys.argv[1])
    with torch.inference_mode():
        expected = plain(inputs)
        if not os.path.exists(path):
            options = {"aot_inductor.package_constants_in_so": False}
            program = torch.export.export(plain, (inputs,))
            torch._inductor.aoti_compile_and_package(program, package_path=path, inductor_configs=options)
        model = torch._inductor.aoti_load_package(path)
        named = dict(plain.named_parameters())
        model.load_constants(named, check_full_update=True, user_managed=True)
        close = torch.allclose(model(inputs), expected, atol=1e-4)
        # A change of the weight shows in the model: it uses that memory.
        plain[0].weight.zero_()
        uses = bool((model(inputs) == 0).all())
    print(json.dumps([shared(named.values()), close, uses]))
"""


def test_constants_of_aot_inductor_are_those_that_the_program_gives(store: Path, weights: Path) -> None:
    program = AOT.replace("plain[0].weight.zero_()", "pass").replace("(model(inputs) == 0).all()", "True")
    assert python(store, program, weights) == [1.0, True, True]
    # Written to, pages are the process's own: nobody else sees that.
    _, close, uses = python(store, AOT, weights)
    assert close and uses
    assert python(store, program, weights) == [1.0, True, True]


PACKAGED = f"""
    import torch._inductor
    path = os.path.join(os.path.dirname(sys.argv[1]), "packaged.pt2")
    with torch.inference_mode():
        if not os.path.exists(path):
            program = torch.export.export(module(sys.argv[1]), (inputs,))
            torch._inductor.aoti_compile_and_package(program, package_path=path)
        model = torch._inductor.aoti_load_package(path)
        close = torch.allclose(model(inputs), module(sys.argv[1])(inputs), atol=1e-4)
    with open("/proc/self/maps") as maps:
        lines = [line.split(maxsplit=5) for line in maps if line.endswith(".wrapper.so\\n")]
    constants = [
        fields[5].strip()
        for fields in lines
        for begin, end in [fields[0].split("-")]
        if int(end, 16) - int(begin, 16) >= 2 * 4 * {WIDTH} ** 2
    ]
    print(json.dumps([close, constants]))
"""


def test_constants_that_aot_inductor_packages_are_in_a_library_of_each_process(store: Path, weights: Path) -> None:
    found = [python(store, PACKAGED, weights) for _ in range(2)]
    assert [close for close, _ in found] == [True, True]
    # Both weights are in it. No page is shared with another process, which unpacks a library of its own.
    [[one], [other]] = [constants for _, constants in found]
    assert one != other


QUANTIZED = """
    from torchao.quantization import Int8WeightOnlyConfig, quantize_
    quantized = module(sys.argv[1])
    quantize_(quantized, Int8WeightOnlyConfig())
    before = of_module(quantized)
    with torch.inference_mode():
        expected = quantized(inputs)
        report = tetris.torch.share_module_(quantized)
        same = torch.equal(quantized(inputs), expected)
    print(json.dumps([before, of_module(quantized), same, report.bytes_found > 0]))
"""


def test_modules_that_torchao_quantized_are_shared_when_told(store: Path, weights: Path) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            PREAMBLE + MODULE + textwrap.dedent(QUANTIZED) + "sys.stdout.flush(); sys.stdin.read()",
            weights,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TETRIS_STORE": str(store), "TETRIS_PATCH": "1"},
    )
    assert holder.stdout is not None
    assert json.loads(holder.stdout.readline()) == [0.0, 1.0, True, False]
    assert python(store, QUANTIZED, weights) == [0.0, 1.0, True, True]
    holder.communicate("")


def bert(folder: Path) -> Path:
    """A small BERT with a tokenizer, without a download."""
    import torch
    import transformers

    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=1000, hidden_size=256, num_hidden_layers=2, num_attention_heads=4, intermediate_size=1024
    )
    transformers.BertModel(config).eval().save_pretrained(folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(900))]
    (folder / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizerFast(vocab_file=str(folder / "vocab.txt")).save_pretrained(folder)
    aged(folder)
    return folder


def aged(folder: Path) -> None:
    """Let files be old enough to be recognized."""
    import time

    time.sleep(0.2)


def test_merged_adapters_are_private_until_told(store: Path, tmp_path: Path) -> None:
    model, adapter = bert(tmp_path / "bert"), tmp_path / "adapter"
    make = """
        import peft, transformers
        base = transformers.AutoModel.from_pretrained(sys.argv[1])
        config = peft.LoraConfig(r=4, target_modules=["query", "value"], init_lora_weights=False)
        torch.manual_seed(2)
        peft.get_peft_model(base, config).save_pretrained(sys.argv[2])
        print(1)
    """
    python(store, make, model, adapter)
    program = """
        import peft, transformers
        base = transformers.AutoModel.from_pretrained(sys.argv[1])
        whole = of_module(base)
        adapted = peft.PeftModel.from_pretrained(base, sys.argv[2])
        unmerged = of_module(adapted)
        merged = adapted.merge_and_unload().eval()
        changed = [p for name, p in merged.named_parameters() if name.endswith(("query.weight", "value.weight"))]
        others = [p for name, p in merged.named_parameters() if not name.endswith(("query.weight", "value.weight"))]
        written = [not tetris._native.is_unmodified(one.data_ptr(), one.nbytes) for one in changed]
        state = [whole, unmerged, all(written), shared(others)]
        tetris.torch.share_module_(merged)
        print(json.dumps([*state, of_module(merged)]))
    """
    # The merged weights are written to, or made anew; the others stay as they were.
    assert python(store, program, model, adapter) == [1.0, 1.0, True, 1.0, 1.0]


def test_sentence_transformers_hold_one_copy(store: Path, tmp_path: Path) -> None:
    program = """
        from sentence_transformers import SentenceTransformer
        model = SentenceTransformer(sys.argv[1], device="cpu")
        vector = model.encode(["w1 w2 w3"])
        print(json.dumps([of_module(model), vector.shape[1]]))
    """
    assert python(store, program, bert(tmp_path / "bert")) == [1.0, 256]


def test_pipelines_of_diffusers_hold_one_copy(store: Path, tmp_path: Path) -> None:
    make = """
        import diffusers
        torch.manual_seed(3)
        unet = diffusers.UNet2DModel(sample_size=16, in_channels=3, out_channels=3, layers_per_block=1,
                                     block_out_channels=(128, 256), norm_num_groups=32,
                                     down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                                     up_block_types=("AttnUpBlock2D", "UpBlock2D"))
        diffusers.DDPMPipeline(unet=unet, scheduler=diffusers.DDPMScheduler()).save_pretrained(sys.argv[1])
        print(1)
    """
    folder = tmp_path / "pipeline"
    python(store, make, folder)
    aged(folder)
    program = """
        import diffusers
        pipeline = diffusers.DDPMPipeline.from_pretrained(sys.argv[1])
        image = pipeline(num_inference_steps=1, output_type="np", generator=torch.Generator().manual_seed(1)).images
        print(json.dumps([of_module(pipeline.unet), list(image.shape)]))
    """
    assert python(store, program, folder) == [1.0, [1, 16, 16, 3]]
