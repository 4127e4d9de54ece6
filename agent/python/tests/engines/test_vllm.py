"""vLLM's engines on the CPU: one copy of the weights that they run on, and the same tokens as without the store."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from sysconfig import get_path
from typing import Any, NamedTuple

import pytest
import tetris

pytest.importorskip("vllm")

from containers import VIEW, Image, Pod, readable, require_docker
from gpu_mirror import MIB, Mirror, chunks, held_bytes
from injected import fill_volume
from mounts import mounted
from process import Helper, mappings, objects, smaps
from restricted import Restricted

SAMPLE = Path(__file__).parents[4] / "deploy" / "samples" / "vllm"
#: An engine takes half a minute of processor time to start, one that compiles takes more.
HANGS_S = 900
REPLICAS = 4
HIDDEN, INNER, LAYERS, HEADS, VOCABULARY = 1024, 2816, 20, 16, 32000

EAGER = {"enforce_eager": True}
#: The engine runs on weights of a mirror without a GPU.
ON_MIRROR = {**EAGER, "load_format": "tetris", "model_loader_extra_config": {"device": "simulated"}}

#: Rounds in which two engines with weights of their own and one over the store generate in turns.
ROUNDS = 9

#: Starts an engine in this process, generates, and says what it generated and what it holds. Generates again for each
#: line that it gets, and says the tokens per second of processor time: with one thread, which waits for no other, these
#: are the same beside other programs.
PROGRAM = """
import ctypes, gc, json, logging, os, sys, time
os.environ |= {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}
options = json.loads(sys.argv[2])
if "gpu_memory_utilization" not in options:
    os.environ["VLLM_CPU_KVCACHE_SPACE"] = "1"
# vLLM logs to standard output.
said = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
warnings = []
handler = logging.Handler(logging.WARNING)
handler.emit = lambda record: warnings.append(record.getMessage())
logging.getLogger("tetris").addHandler(handler)
from vllm import LLM, SamplingParams

seconds = []
import vllm.v1.worker.cpu_model_runner as runner
import vllm.v1.worker.cpu_worker as worker
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

cache = []
sized = worker.CPUWorker.determine_available_memory
worker.CPUWorker.determine_available_memory = lambda one: cache.append(sized(one)) or cache[0]

engine = LLM(model=sys.argv[1], skip_tokenizer_init=True, max_model_len=512, **options)
prompts = [{"prompt_token_ids": [3 + (index * step) % 31000 for index in range(64)]} for step in (7, 11, 13, 17)]
greedy = SamplingParams(temperature=0.0, max_tokens=32, ignore_eos=True, detokenize=False)
outputs = engine.generate(prompts, greedy, use_tqdm=False)
# Free memory that the allocator keeps tells nothing of weights.
gc.collect()
ctypes.CDLL(None).malloc_trim(0)
rollup = open("/proc/self/smaps_rollup").read().splitlines()
said.write(json.dumps({
    "anonymous": next(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Anonymous:")),
    "tokens": [list(one.outputs[0].token_ids) for one in outputs],
    "weight_seconds": sum(seconds),
    # Workers in processes of their own size theirs there.
    "cache_bytes": cache[0] if cache else None,
    "warnings": warnings,
}) + "\\n")
said.flush()
for _ in sys.stdin:
    begin = time.process_time()
    outputs = engine.generate(prompts, greedy, use_tqdm=False)
    tokens = sum(len(one.outputs[0].token_ids) for one in outputs)
    said.write(json.dumps(tokens / (time.process_time() - begin)) + "\\n")
    said.flush()
"""

#: Goes before the program: the engine publishes a state that does not fit its model, for itself and others.
PLANT = """
import json, sys
from tetris._vllm import state

read, damage = state.read, json.loads(sys.argv[3])

def damaged(*arguments):
    tensors, attributes = read(*arguments)
    if damage == "nothing but a bracket":
        return tensors, {state.DESCRIPTION: b"{"}
    description = json.loads(attributes[state.DESCRIPTION])
    # The last that is put into a model, which has all others by then.
    description["attributes"]["no.such.layer"] = {"hint": {"plain": ["value", 1]}}
    return tensors, {state.DESCRIPTION: json.dumps(description).encode()}

state.read = damaged
"""

#: Runs a server until it answers, asks it for tokens, and says these and how many bytes of the store it maps.
SERVED = """
import json, pathlib, subprocess, sys, time, urllib.request
command, url, health = json.loads(sys.argv[1])
server = subprocess.Popen(command, stdout=2)

def asked(path, body=None):
    body = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return answer.read()

def is_there():
    assert server.poll() is None, f"the server ended with status {server.returncode}"
    try:
        asked(health)
    except OSError:
        return False
    return True

while not is_there():
    time.sleep(0.5)
[model] = json.loads(asked("/v1/models"))["data"]
prompt = [3 + index * 7 for index in range(64)]
about = {"prompt": prompt, "max_tokens": 16, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
[answer] = json.loads(asked("/v1/completions", {"model": model["id"], **about}))["choices"]
mapped = 0
for maps in pathlib.Path("/proc").glob("[0-9]*/maps"):
    for line in maps.read_text().splitlines():
        if "/objects-v1/" in line:
            begin, end = (int(number, 16) for number in line.split()[0].split("-"))
            mapped += end - begin
print(json.dumps({"tokens": answer["token_ids"], "mapped": mapped}), flush=True)
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
    positions: int = 512,
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
        max_position_embeddings=positions,
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


def made_store(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store, which `TETRIS_STORE` names."""
    store = directory / "store"
    tetris.create_store(store)
    monkeypatch.setenv("TETRIS_STORE", str(store))
    return store


def node_bytes(store: Path) -> int:
    """Bytes that a store takes."""
    return sum(path.stat().st_blocks * 512 for path in store.rglob("*") if path.is_file())


class Figures(NamedTuple):
    """Answers of an engine by vLLM's own loader and of engines over the store, and what they hold."""

    stock: Any
    said: list[Any]
    #: What one engine runs on, in bytes.
    copy: int
    #: What each engine has written to of that, in bytes.
    written: list[int]
    #: Median of the rounds' tokens per second of processor time over the store.
    speed: float
    #: The same of two engines by vLLM's own loader, of which the second was started last. Their pages differ.
    stock_speeds: tuple[float, float]


def measured(
    folder: Path,
    store: Path,
    tmp_path: Path,
    options: dict[str, Any],
    start: Callable[..., Helper] = Helper,
    view: Path | None = None,
) -> Figures:
    """Start engines one after the other, each on a download of its own. They see the store as `view`."""
    arguments = json.dumps({**options, "load_format": "tetris"})
    with ExitStack() as stack:
        stock = stack.enter_context(with_stock_loader(folder, options))
        stock_said = stock.line(HANGS_S)
        started, said = [], []
        for number in range(REPLICAS):
            own = shutil.copytree(folder, tmp_path / f"model-{number}")
            started.append(stack.enter_context(start(PROGRAM, own, arguments)))
            said.append(started[-1].line(HANGS_S))
        written = [smaps(view or store, engine.pid)["Anonymous"] for engine in started]
        other = stack.enter_context(with_stock_loader(folder, options))
        assert other.line(HANGS_S)["tokens"] == stock_said["tokens"]
        rounds = [[again(engine) for engine in (stock, started[-1], other)] for _ in range(ROUNDS)]
        first, over_store, last = (median(speeds) for speeds in zip(*rounds, strict=True))
        return Figures(stock_said, said, node_bytes(store), written, over_store, (first, last))


def again(engine: Helper) -> float:
    """Have an engine generate, and none else; return its tokens per second of processor time."""
    engine.go_on()
    return float(engine.line(HANGS_S))


def assert_one_copy(name: str, figures: Figures) -> None:
    """Engines over the store hold one copy, and generate what vLLM's own loader generates."""
    stock = figures.stock
    # Of the same engine with its weights, which are as many bytes.
    without_weights = stock["anonymous"] - figures.copy
    copies = (figures.copy + sum(said["anonymous"] - without_weights for said in figures.said)) / figures.copy
    first, *others = [said["weight_seconds"] / stock["weight_seconds"] for said in figures.said]
    slower, faster = sorted(figures.stock_speeds)
    print(
        f"\n{name}: {copies:.3f} copies of {figures.copy / 1e6:.0f} MB in {REPLICAS} engines. "
        f"Over stock's: time of the weights in the first {first:.2f}, in the others {median(others):.3f} "
        f"({min(others):.3f} to {max(others):.3f}) of {stock['weight_seconds']:.2f} s; "
        f"tokens per second of processor time "
        f"{figures.speed / faster:.3f} (another engine of stock's: {slower / faster:.3f})"
    )
    for said in figures.said:
        assert said["tokens"] == stock["tokens"]
    for nbytes in figures.written:
        # Small tensors that the engine itself writes to are copied, and no more.
        assert nbytes < 1 << 20
    assert copies <= 1.05
    assert figures.speed > 0.9 * faster


def with_stock_loader(folder: Path, options: dict[str, Any]) -> Helper:
    """Start an engine by vLLM's own loader."""
    return Helper(PROGRAM, folder, json.dumps(options), env={"TETRIS_PATCH": "0"})


def of_stock(folder: Path, options: dict[str, Any]) -> Any:
    """Start an engine by vLLM's own loader; return what it says."""
    with with_stock_loader(folder, options) as engine:
        return engine.line(HANGS_S)


@pytest.fixture
def tmpfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty directory on a tmpfs with 2 MiB pages, as a node has it."""
    with mounted(tmp_path_factory.mktemp("tmpfs"), "size=2g,huge=within_size,mode=755") as directory:
        yield directory


def test_replicas_hold_one_copy_of_the_weights_that_they_run_on(
    model: Path, tmpfs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = made_store(tmpfs, monkeypatch)
    assert_one_copy("bfloat16", measured(model, store, tmp_path, EAGER))


def test_replicas_that_can_only_read_the_store_do_so(model: Path, tmpfs: Path, tmp_path: Path) -> None:
    restricted = Restricted(tmpfs)
    start = partial(Helper, env=restricted.env, within=restricted.within)
    try:
        figures = measured(model, restricted.store, tmp_path, EAGER, start, restricted.view)
        assert_one_copy("bfloat16, a store to read", figures)
    finally:
        restricted.end()


def test_replicas_in_containers_do_so(model: Path, tmpfs: Path, tmp_path: Path) -> None:
    require_docker()
    restricted = Restricted(tmpfs)

    def start(program: str, folder: Path, options: str) -> Pod:
        return Pod(image, restricted.store, program, "/model", options, volumes={Path("/model"): readable(folder)})

    try:
        with Image() as image:
            figures = measured(model, restricted.store, tmp_path, EAGER, start, VIEW)
            assert_one_copy("bfloat16, containers", figures)
    finally:
        restricted.end()


def downloaded(model: Path, cache: Path, name: str) -> Path:
    """A cache of Hugging Face with a model by this name."""
    entry, commit = cache / "hub" / f"models--{name.replace('/', '--')}", "0" * 40
    shutil.copytree(model, entry / "snapshots" / commit)
    (entry / "refs").mkdir()
    (entry / "refs" / "main").write_text(commit)
    return readable(cache)


def give_tokenizer(folder: Path) -> None:
    """Give a model a tokenizer, without which there is no server: a word for each token."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(WordLevel({f"w{number}": number for number in range(VOCABULARY)}, unk_token="w0"))
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)


def test_the_sample_serves_in_containers(tmpfs: Path, tmp_path: Path) -> None:
    import yaml

    require_docker()
    manifest = yaml.safe_load((SAMPLE / "deployment.yaml").read_text())["spec"]["template"]
    assert manifest["metadata"]["labels"]["tetris.dev/inject"] == "python"
    [server] = manifest["spec"]["containers"]
    command = [*server["command"], *server["args"]]
    address = f"http://127.0.0.1:{server['ports'][0]['containerPort']}", server["readinessProbe"]["httpGet"]["path"]

    [shm] = [volume["emptyDir"] for volume in manifest["spec"]["volumes"] if volume["name"] == "shm"]
    shm_bytes = int(shm["sizeLimit"].removesuffix("Gi")) << 30
    positions = int(command[command.index("--max-model-len") + 1])
    model = made(tmp_path / "model", layers=2, hidden=512, inner=1024, heads=8, positions=positions)
    give_tokenizer(model)
    nothing, empty, package = tmp_path / "nothing", tmp_path / "empty", tmp_path / "package"
    nothing.mkdir()
    empty.touch()
    fill_volume(package)
    readable(package)
    # An image of vLLM has nothing of Tetris, and finds its programs.
    hidden = {path: nothing if path.is_dir() else empty for path in Path(get_path("purelib")).glob("tetris*")}
    env = {"PATH": f"{get_path('scripts')}:/usr/bin:/bin", **{one["name"]: one["value"] for one in server["env"]}}
    # In place of the network.
    env["HF_HUB_OFFLINE"] = "1"
    # An image has vLLM by the name that its command asks for. The package index has it as vllm-cpu.
    named = tmp_path / "named" / f"vllm-{version('vllm-cpu')}+cpu.dist-info"
    named.mkdir(parents=True)
    (named / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version('vllm-cpu')}+cpu\n")
    env["PYTHONPATH"] = "/named"
    # What the webhook adds.
    injected = {"TETRIS_STORE": str(VIEW), "TETRIS_PATCH": "1", "PYTHONPATH": "/run/tetris/python:/named"}

    def start(number: int, command: list[str], env: dict[str, str]) -> Pod:
        cache = downloaded(model, tmp_path / f"cache-{number}", server["args"][0])
        volumes = {**hidden, Path(env["HF_HOME"]): cache, Path("/run/tetris/python"): package}
        volumes[Path("/named")] = readable(named.parent)
        about = json.dumps([command, *address])
        return Pod(image, restricted.store, SERVED, about, volumes=volumes, env=env, shm_bytes=shm_bytes)

    restricted = Restricted(tmpfs)
    try:
        with Image() as image:
            with start(0, ["auto" if word == "tetris" else word for word in command], env) as stock:
                expected = stock.line(HANGS_S)
            assert expected["mapped"] == 0
            with start(1, command, env | injected) as first, start(2, command, env | injected) as second:
                said = first.line(HANGS_S)
                made_by_first = objects(restricted.store)
                assert said == second.line(HANGS_S)
            assert said["tokens"] == expected["tokens"]
            # The second adds nothing, and both run on what the first has made.
            assert objects(restricted.store) == made_by_first
            assert said["mapped"] >= 0.95 * sum(path.stat().st_size for path in made_by_first)
    finally:
        restricted.end()


def test_tied_embeddings_stay_so(tmp_path: Path, store: Path) -> None:
    folder = made(tmp_path / "tied", layers=2, hidden=512, inner=1024, heads=8, tied=True)
    stock = of_stock(folder, EAGER)
    for _ in range(2):
        with Helper(PROGRAM, folder, json.dumps({**EAGER, "load_format": "tetris"})) as engine:
            assert engine.line(HANGS_S)["tokens"] == stock["tokens"]
            assert mappings(store, engine.pid)


def test_compiled_engines_share(tmp_path: Path, store: Path) -> None:
    folder = made(tmp_path / "compiled", layers=2, hidden=512, inner=1024, heads=8)
    # vLLM caches what it compiles by its configuration, in which the loader leaves its mark.
    stock = of_stock(folder, {})
    for _ in range(2):
        with Helper(PROGRAM, folder, json.dumps({"load_format": "tetris"})) as engine:
            assert engine.line(HANGS_S)["tokens"] == stock["tokens"]
            assert mappings(store, engine.pid)


def test_the_cache_that_vllm_sizes_gets_the_room_that_sharing_leaves(
    tmpfs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each engine takes its part of the weights off its cache, and not all of them."""
    store = made_store(tmpfs, monkeypatch)
    # Large layers, which are few: vLLM touches them all before it sizes the cache, in what it compiles.
    folder = made(tmp_path / "large", layers=2, inner=16384)
    share = 4 * (1 << 30) / (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    options = {"load_format": "tetris", "gpu_memory_utilization": share}
    arguments = folder, json.dumps(options)
    with Helper(PROGRAM, *arguments) as first:
        first.line(HANGS_S)
    with Helper(PROGRAM, *arguments) as alone:
        said = alone.line(HANGS_S)
        mapped = smaps(store, alone.pid)["Rss"]
        with Helper(PROGRAM, *arguments) as second:
            beside = second.line(HANGS_S)
            assert mappings(store, second.pid)
    gained = (beside["cache_bytes"] - said["cache_bytes"]) / mapped
    print(f"\nthe second engine's cache gained {gained:.2f} of the {mapped / 1e6:.0f} MB of weights that it shares")
    # Half of them, as two engines map them, and half of the libraries that both have read from files.
    assert 0.4 < gained < 1


def test_quantized_weights_are_shared_as_they_are_repacked(
    tmpfs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = quantized(made(tmp_path / "quantized"))
    options = {**EAGER, "dtype": "bfloat16"}
    store = made_store(tmpfs, monkeypatch)
    assert_one_copy("AWQ of 4 bits", measured(folder, store, tmp_path, options))


def test_parts_of_two_workers_are_shared_by_their_places(tmp_path: Path, store: Path) -> None:
    folder = made(tmp_path / "parallel", layers=2, hidden=512, inner=1024, heads=8)
    options = {**EAGER, "tensor_parallel_size": 2, "distributed_executor_backend": "mp"}
    stock = of_stock(folder, options)
    objects_of_one = 0
    for _ in range(2):
        with Helper(PROGRAM, folder, json.dumps({**options, "load_format": "tetris"})) as engine:
            assert engine.line(HANGS_S)["tokens"] == stock["tokens"]
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
            assert engine.line(HANGS_S)["tokens"] == stock["tokens"]


@pytest.mark.parametrize(
    ("damage", "options"),
    [("nothing but a bracket", EAGER), ("a layer too many", EAGER), ("a layer too many", {})],
    ids=["unreadable", "unfit", "unfit, compiled"],
)
def test_weights_that_do_not_fit_the_model_are_loaded_as_vllm_does(
    tmp_path: Path, store: Path, damage: str, options: dict[str, Any]
) -> None:
    folder = made(tmp_path / "one", layers=2, hidden=512, inner=1024, heads=8)
    stock = of_stock(folder, options)
    arguments = folder, json.dumps({**options, "load_format": "tetris"})
    # The one that publishes them, and one that finds them: both have made a model by then, whose layers have names.
    for program, *more in ((PLANT + PROGRAM, json.dumps(damage)), (PROGRAM,)):
        with Helper(program, *arguments, *more) as engine:
            said = engine.line(HANGS_S)
            assert said["tokens"] == stock["tokens"]
            assert ["does not fit the model" in warning for warning in said["warnings"]] == [True], said["warnings"]
            assert not mappings(store, engine.pid)
        assert objects(store)


def test_a_patched_interpreter_knows_the_format_without_the_entry_point(tmp_path: Path, store: Path) -> None:
    folder = made(tmp_path / "one", layers=2, hidden=512, inner=1024, heads=8)
    stock = of_stock(folder, EAGER)
    # As in a pod to which the node gives the package.
    env = {"TETRIS_PATCH": "1", "VLLM_PLUGINS": "none"}
    with Helper(PROGRAM, folder, json.dumps({**EAGER, "load_format": "tetris"}), env=env) as engine:
        assert engine.line(HANGS_S)["tokens"] == stock["tokens"]
        assert mappings(store, engine.pid)
    # The weights that it runs on, of which those of embeddings are there twice, and not the file's as well.
    sizes = [path.stat().st_size for path in objects(store)]
    assert sum(sizes) < 2.4 * sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def test_without_a_store_engines_load_as_vllm_does(tmp_path: Path) -> None:
    folder = made(tmp_path / "one", layers=2, hidden=512, inner=1024, heads=8)
    stock = of_stock(folder, EAGER)
    env = {"TETRIS_STORE": str(tmp_path / "none")}
    with Helper(PROGRAM, folder, json.dumps({**EAGER, "load_format": "tetris"}), env=env) as engine:
        assert engine.line(HANGS_S)["tokens"] == stock["tokens"]


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_engines_on_a_mirror_run_on_its_copy(tmp_path: Path, store: Path, tied: bool) -> None:
    folder = made(tmp_path / "one", layers=2, hidden=512, inner=1024, heads=8, tied=tied)
    stock = of_stock(folder, EAGER)
    other = shutil.copytree(folder, tmp_path / "other")
    with ExitStack() as stack:
        mirror = stack.enter_context(Mirror(store, device_bytes=512 * MIB))
        engines, held, private = [], [], []
        for each in (folder, other):
            engines.append(stack.enter_context(Helper(PROGRAM, each, json.dumps(ON_MIRROR))))
            said = engines[-1].line(HANGS_S)
            assert (said["tokens"], said["warnings"]) == (stock["tokens"], [])
            held.append(held_bytes())
            private.append(said["anonymous"])
        # Both map the same memory, which nothing can write to, and no other copy of the weights.
        first, second = (chunks(engine.pid) for engine in engines)
        assert first == second and set(first.values()) == {"r--s"}
        assert held[0] == held[1] > sum(file.stat().st_size for file in folder.glob("*.safetensors")) * 0.95
        assert not any(mappings(store, engine.pid) for engine in engines)
        assert private[1] < stock["anonymous"] - 0.8 * held[1]
        # What they have mapped is theirs to read without the mirror.
        mirror.kill()
        assert all(again(engine) > 0 for engine in engines)


@pytest.mark.parametrize("device_bytes", [None, 8 * MIB], ids=["absent", "full"])
def test_engines_whose_mirror_gives_nothing_have_weights_of_their_own(
    tmp_path: Path, store: Path, device_bytes: int | None
) -> None:
    folder = made(tmp_path / "one", layers=2, hidden=512, inner=1024, heads=8)
    stock = of_stock(folder, EAGER)
    reason = "weights are not shared: " if device_bytes is None else "nothing is shared there: "
    with ExitStack() as stack:
        if device_bytes is not None:
            stack.enter_context(Mirror(store, device_bytes=device_bytes))
        # One that makes the weights, and one that finds them where the first has published them.
        for _ in range(2):
            with Helper(PROGRAM, folder, json.dumps(ON_MIRROR)) as engine:
                said = engine.line(HANGS_S)
                assert said["tokens"] == stock["tokens"]
                assert [reason in warning for warning in said["warnings"]] == [True], said["warnings"]
                assert not chunks(engine.pid) and not mappings(store, engine.pid)


def test_a_mirror_serves_engines_that_can_only_read_the_store(tmp_path: Path, tmpfs: Path) -> None:
    folder = made(tmp_path / "one", layers=2, hidden=512, inner=1024, heads=8)
    stock = of_stock(folder, EAGER)
    restricted = Restricted(tmpfs)
    try:
        with ExitStack() as stack:
            stack.enter_context(Mirror(restricted.store, device_bytes=512 * MIB))
            mapped = []
            for _ in range(2):
                engine = Helper(PROGRAM, folder, json.dumps(ON_MIRROR), env=restricted.env, within=restricted.within)
                said = stack.enter_context(engine).line(HANGS_S)
                assert (said["tokens"], said["warnings"]) == (stock["tokens"], [])
                mapped.append(chunks(engine.pid))
            assert mapped[0] == mapped[1] and mapped[0]
    finally:
        restricted.end()


def test_a_store_to_read_that_nobody_publishes_to_leaves_weights_private(tmp_path: Path, tmpfs: Path) -> None:
    folder = made(tmp_path / "one", layers=2, hidden=512, inner=1024, heads=8)
    stock = of_stock(folder, EAGER)
    restricted = Restricted(tmpfs)
    restricted.end()
    with Mirror(restricted.store, device_bytes=512 * MIB):
        arguments = folder, json.dumps(ON_MIRROR)
        with Helper(PROGRAM, *arguments, env=restricted.env, within=restricted.within) as engine:
            said = engine.line(HANGS_S)
            assert said["tokens"] == stock["tokens"]
            assert any("not shared: " in warning for warning in said["warnings"]), said["warnings"]
            assert not chunks(engine.pid)
