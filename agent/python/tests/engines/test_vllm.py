"""vLLM's engines on the CPU: one copy of the weights that they run on, and the same tokens as without the store."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("vllm")

from process import Helper, mappings, objects, smaps
from restricted import Restricted

REPLICAS = 4
HIDDEN, INNER, LAYERS, HEADS, VOCABULARY = 1024, 2816, 20, 16, 32000

EAGER = {"enforce_eager": True}

#: Starts an engine, generates, and says what it generated and what it holds. The engine runs in this process.
PROGRAM = """
import ctypes, gc, json, os, sys, time
os.environ |= {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
}
options = json.loads(sys.argv[2])
# vLLM logs to standard output.
said = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
from vllm import LLM, SamplingParams

seconds = []
import vllm.v1.worker.cpu_model_runner as runner
from vllm.model_executor.model_loader.base_loader import BaseModelLoader

# The time of weights is that of the load without that of the model's modules.
def timed(owner, name, sign):
    stock = getattr(owner, name)
    def wrapper(*arguments, **keywords):
        begin = time.perf_counter()
        try:
            return stock(*arguments, **keywords)
        finally:
            seconds.append(sign * (time.perf_counter() - begin))
    setattr(owner, name, wrapper)

timed(runner, "get_model", 1)
timed(BaseModelLoader, "create_model", -1)

engine = LLM(model=sys.argv[1], skip_tokenizer_init=True, max_model_len=512, **options)
prompts = [{"prompt_token_ids": [3 + (index * step) % 31000 for index in range(64)]} for step in (7, 11, 13, 17)]
greedy = SamplingParams(temperature=0.0, max_tokens=32, ignore_eos=True, detokenize=False)
engine.generate(prompts, greedy, use_tqdm=False)
speeds = []
for _ in range(3):
    begin = time.perf_counter()
    outputs = engine.generate(prompts, greedy, use_tqdm=False)
    speeds.append(sum(len(one.outputs[0].token_ids) for one in outputs) / (time.perf_counter() - begin))
# Free memory that the allocator keeps tells nothing of weights.
gc.collect()
ctypes.CDLL(None).malloc_trim(0)
rollup = open("/proc/self/smaps_rollup").read().splitlines()
said.write(json.dumps({
    "anonymous": next(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Anonymous:")),
    "tokens": [list(one.outputs[0].token_ids) for one in outputs],
    "weight_seconds": sum(seconds),
    "tokens_per_second": max(speeds),
}) + "\\n")
said.flush()
sys.stdin.readline()
"""


def made(
    folder: Path,
    *,
    layers: int = LAYERS,
    hidden: int = HIDDEN,
    inner: int = INNER,
    heads: int = HEADS,
    tied: bool = False,
) -> Path:
    """A random Llama in bfloat16."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=64,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


def quantized(folder: Path) -> Path:
    """Replace the weights of a model's linear layers by random ones of 4 bits, as AWQ has them."""
    import torch
    from safetensors.torch import load_file, save_file

    group, per_word = 128, 8
    generator = torch.Generator().manual_seed(11)
    file = folder / "model.safetensors"
    tensors = {}
    for name, tensor in load_file(file).items():
        if not name.endswith("proj.weight"):
            tensors[name] = tensor.half()
            continue
        columns, rows = tensor.shape
        layer = name.removesuffix("weight")
        shape = (rows, columns // per_word)
        tensors[f"{layer}qweight"] = torch.randint(-(1 << 31), 1 << 31, shape, generator=generator).int()
        zero = 0x88888888 - (1 << 32)
        tensors[f"{layer}qzeros"] = torch.full((rows // group, columns // per_word), zero, dtype=torch.int32)
        tensors[f"{layer}scales"] = torch.full((rows // group, columns), 0.2 / rows**0.5).half()
    save_file(tensors, file, {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config |= {"dtype": "float16"}
    config["quantization_config"] = {
        "quant_method": "awq",
        "bits": 4,
        "group_size": group,
        "zero_point": True,
        "version": "gemm",
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of some 640 MB."""
    return made(tmp_path_factory.mktemp("model"))


def node_bytes(store: Path) -> int:
    """Bytes that a store takes."""
    return sum(path.stat().st_blocks * 512 for path in store.rglob("*") if path.is_file())


class Figures(NamedTuple):
    """Answers of engines over the store, and what they hold."""

    said: list[Any]
    #: What one engine runs on, in bytes.
    copy: int
    #: What each engine has written to of that, in bytes.
    written: list[int]


def measured(
    folder: Path, store: Path, tmp_path: Path, options: dict[str, Any], restricted: Restricted | None = None
) -> Figures:
    """Start engines one after the other, each on a download of its own."""
    arguments = json.dumps({**options, "load_format": "tetris"})
    view, env, within = (store, {}, []) if restricted is None else (restricted.view, restricted.env, restricted.within)
    with ExitStack() as stack:
        started, said = [], []
        for number in range(REPLICAS):
            own = shutil.copytree(folder, tmp_path / f"model-{number}")
            started.append(stack.enter_context(Helper(PROGRAM, own, arguments, env=env, within=within)))
            said.append(started[-1].line())
        mapped = [smaps(view, engine.pid) for engine in started]
        return Figures(said, node_bytes(store), [maps["Private_Dirty"] for maps in mapped])


def assert_one_copy(folder: Path, stock: Any, figures: Figures) -> None:
    """Engines over the store hold one copy, and generate what vLLM's own loader generates."""
    # Of the same engine with its weights, which are as many bytes.
    without_weights = stock["anonymous"] - figures.copy
    copies = (figures.copy + sum(said["anonymous"] - without_weights for said in figures.said)) / figures.copy
    seconds = [said["weight_seconds"] / stock["weight_seconds"] for said in figures.said]
    speeds = [said["tokens_per_second"] / stock["tokens_per_second"] for said in figures.said]
    first, *others = seconds
    print(
        f"\n{folder.name}: {copies:.3f} copies of {figures.copy / 1e6:.0f} MB in {REPLICAS} engines. "
        f"Over stock's: time of the weights in the first {first:.2f}, in the others {min(others):.3f} to "
        f"{max(others):.3f} of {stock['weight_seconds']:.2f} s; tokens a second {min(speeds):.2f} to {max(speeds):.2f}"
    )
    for said in figures.said:
        assert said["tokens"] == stock["tokens"]
    for nbytes in figures.written:
        # Small tensors that the engine itself writes to are copied, and no more.
        assert nbytes < 1 << 20
    assert copies <= 1.05


def of_stock(folder: Path, options: dict[str, Any]) -> Any:
    """Start an engine by vLLM's own loader; return what it says."""
    with Helper(PROGRAM, folder, json.dumps(options), env={"TETRIS_PATCH": "0"}) as engine:
        return engine.line()


def test_replicas_hold_one_copy_of_the_weights_that_they_run_on(model: Path, store: Path, tmp_path: Path) -> None:
    stock = of_stock(model, EAGER)
    assert_one_copy(model, stock, measured(model, store, tmp_path, EAGER))


def test_replicas_in_restricted_pods_do_so(model: Path, empty_dir: Path, tmp_path: Path) -> None:
    stock = of_stock(model, EAGER)
    restricted = Restricted(empty_dir)
    try:
        assert_one_copy(model, stock, measured(model, restricted.store, tmp_path, EAGER, restricted))
    finally:
        restricted.end()


def test_tied_embeddings_stay_so(tmp_path: Path, store: Path) -> None:
    folder = made(tmp_path / "tied", layers=2, hidden=512, inner=1024, heads=8, tied=True)
    stock = of_stock(folder, EAGER)
    for _ in range(2):
        with Helper(PROGRAM, folder, json.dumps({**EAGER, "load_format": "tetris"})) as engine:
            assert engine.line()["tokens"] == stock["tokens"]
            assert mappings(store, engine.pid)


def test_compiled_engines_share(tmp_path: Path, store: Path) -> None:
    folder = made(tmp_path / "compiled", layers=2, hidden=512, inner=1024, heads=8)
    # vLLM caches what it compiles by its configuration, in which the loader leaves its mark.
    stock = of_stock(folder, {})
    for _ in range(2):
        with Helper(PROGRAM, folder, json.dumps({"load_format": "tetris"})) as engine:
            assert engine.line()["tokens"] == stock["tokens"]
            assert mappings(store, engine.pid)


def test_quantized_weights_are_shared_as_they_are_repacked(store: Path, tmp_path: Path) -> None:
    folder = quantized(made(tmp_path / "quantized"))
    options = {**EAGER, "dtype": "bfloat16"}
    stock = of_stock(folder, options)
    assert_one_copy(folder, stock, measured(folder, store, tmp_path, options))


def test_parts_of_two_workers_are_shared_by_their_places(tmp_path: Path, store: Path) -> None:
    folder = made(tmp_path / "parallel", layers=2, hidden=512, inner=1024, heads=8)
    options = {**EAGER, "tensor_parallel_size": 2, "distributed_executor_backend": "mp"}
    stock = of_stock(folder, options)
    objects_of_one = 0
    for _ in range(2):
        with Helper(PROGRAM, folder, json.dumps({**options, "load_format": "tetris"})) as engine:
            assert engine.line()["tokens"] == stock["tokens"]
            found = len(objects(store))
            # The second engine's workers add nothing.
            assert objects_of_one in (0, found)
            objects_of_one = found


def test_a_model_that_is_changed_has_weights_of_its_own(tmp_path: Path, store: Path) -> None:
    folder = made(tmp_path / "one", layers=2, hidden=512, inner=1024, heads=8)
    other = shutil.copytree(folder, tmp_path / "other")
    file = other / "model.safetensors"
    content = bytearray(file.read_bytes())
    # A fine-tune: of the same names and shapes, which the header of the file cannot tell from it.
    content[-(1 << 20) :] = content[-(2 << 20) : -(1 << 20)]
    file.write_bytes(content)
    for each in (folder, other):
        stock = of_stock(each, EAGER)
        with Helper(PROGRAM, each, json.dumps({**EAGER, "load_format": "tetris"})) as engine:
            assert engine.line()["tokens"] == stock["tokens"]


def test_a_patched_interpreter_knows_the_format_without_the_entry_point(tmp_path: Path, store: Path) -> None:
    folder = made(tmp_path / "one", layers=2, hidden=512, inner=1024, heads=8)
    stock = of_stock(folder, EAGER)
    # As in a pod to which the node gives the package.
    env = {"TETRIS_PATCH": "1", "VLLM_PLUGINS": "none"}
    with Helper(PROGRAM, folder, json.dumps({**EAGER, "load_format": "tetris"}), env=env) as engine:
        assert engine.line()["tokens"] == stock["tokens"]
        assert mappings(store, engine.pid)
    # The weights that it runs on, of which those of embeddings are there twice, and not the file's as well.
    sizes = [path.stat().st_size for path in objects(store)]
    assert sum(sizes) < 2.4 * sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def test_without_a_store_engines_load_as_vllm_does(tmp_path: Path) -> None:
    folder = made(tmp_path / "one", layers=2, hidden=512, inner=1024, heads=8)
    stock = of_stock(folder, EAGER)
    env = {"TETRIS_STORE": str(tmp_path / "none")}
    with Helper(PROGRAM, folder, json.dumps({**EAGER, "load_format": "tetris"}), env=env) as engine:
        assert engine.line()["tokens"] == stock["tokens"]
