"""llama.cpp in several processes: one copy of a quantized GGUF file, and the same results as without the store."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

gguf = pytest.importorskip("gguf")
llama_cpp = pytest.importorskip("llama_cpp")

import numpy
from process import Helper, python, smaps
from restricted import Restricted

PROCESSES = 4
LAYERS, WIDTH, HEADS, INNER = 16, 1024, 8, 2816
SHAPES = {
    "attn_q": (WIDTH, WIDTH),
    "attn_k": (WIDTH, WIDTH),
    "attn_v": (WIDTH, WIDTH),
    "attn_output": (WIDTH, WIDTH),
    "ffn_gate": (INNER, WIDTH),
    "ffn_up": (INNER, WIDTH),
    "ffn_down": (WIDTH, INNER),
}
KINDS = {"Q4_0": 2, "Q4_K": 15}

#: Loads a model, computes, and says what it computed and what it holds.
PROGRAM = """
import ctypes, hashlib, json, os, sys, time
import llama_cpp

params = {"n_ctx": 512, "n_batch": 512, "n_threads": 1, "n_threads_batch": 1, "verbose": False}
if sys.argv[2] == "plain":
    # As the hook has it, by the library's own parameters.
    default = llama_cpp.llama_cpp.llama_model_default_params
    import llama_cpp.llama_cpp as raw
    def plain():
        found = default()
        found.use_extra_bufts = False
        return found
    raw.llama_model_default_params = plain
    llama_cpp.llama_model_default_params = plain
model = llama_cpp.Llama(sys.argv[1], **params)
prompt = [3 + (index * 7) % 250 for index in range(256)]
times = []
for _ in range(3):
    model.reset()
    begin = time.perf_counter()
    model.eval(prompt)
    times.append(time.perf_counter() - begin)
logits = llama_cpp.llama_get_logits_ith(model.ctx, -1)
logits = bytes((ctypes.c_float * model.n_vocab()).from_address(ctypes.addressof(logits.contents)))
model.reset()
tokens = []
for token in model.generate(prompt, temp=0.0):
    tokens.append(token)
    if len(tokens) == 16:
        break
anonymous, maps = 0, set()
for line in open("/proc/self/smaps_rollup"):
    if line.startswith("Anonymous:"):
        anonymous = int(line.split()[1]) * 1024
for line in open("/proc/self/maps"):
    fields = line.split(maxsplit=5)
    if len(fields) == 6 and (".gguf" in fields[5] or "objects-v1" in fields[5]):
        maps.add(fields[5].strip())
print(json.dumps({"tokens": tokens, "logits": hashlib.sha256(logits).hexdigest(), "anonymous": anonymous,
                  "prompt_seconds": min(times), "maps": sorted(maps)}))
sys.stdout.flush()
sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama in float16, with a vocabulary of bytes."""
    path = tmp_path_factory.mktemp("source") / "source.gguf"
    random = numpy.random.default_rng(7)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_file_type(1)
    tokens = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % byte for byte in range(256))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([2, 3, 3, *[6] * 256])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)

    def weight(*shape: int) -> Any:
        return (random.standard_normal(shape, dtype=numpy.float32) / numpy.sqrt(shape[-1])).astype(numpy.float16)

    writer.add_tensor("token_embd.weight", weight(len(tokens), WIDTH))
    writer.add_tensor("output.weight", weight(len(tokens), WIDTH))
    writer.add_tensor("output_norm.weight", numpy.ones(WIDTH, numpy.float32))
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", numpy.ones(WIDTH, numpy.float32))
        for name, shape in SHAPES.items():
            writer.add_tensor(f"blk.{layer}.{name}.weight", weight(*shape))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module", params=sorted(KINDS))
def model(request: pytest.FixtureRequest, source: Path) -> Path:
    """The same, quantized by llama.cpp."""
    path = source.with_name(f"{request.param}.gguf")
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = {"Q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0, "Q4_K": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_S}[
        request.param
    ]
    params.nthread = 2
    status = llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(path), params)
    assert status == 0
    return path


def alone(model: Path, way: str = "stock", env: dict[str, str] | None = None) -> Any:
    """Lines of one process."""
    with Helper(PROGRAM, model, way, env=env) as process:
        return process.line()


def test_four_processes_have_one_copy_and_the_same_results(model: Path, store: Path, tmp_path: Path) -> None:
    stock = alone(model)
    plain = alone(model, "plain")
    assert all(".gguf" in path for path in (*stock["maps"], *plain["maps"]))
    size = model.stat().st_size
    env = {"TETRIS_PATCH": "1"}
    processes = []
    try:
        for number in range(PROCESSES):
            # Each with its own download, which the page cache would not share.
            copy = shutil.copy(model, tmp_path / f"{number}.gguf")
            processes.append(Helper(PROGRAM, copy, "stock", env=env))
        said = [process.line() for process in processes]
        mapped = sum(smaps(store, process.pid)["Pss"] for process in processes)
    finally:
        for process in processes:
            process.__exit__()
    own = sum(max(0, one["anonymous"] - plain["anonymous"]) for one in said)
    copies = (mapped + own) / size
    repacked = (stock["anonymous"] - plain["anonymous"]) / size
    shared = alone(model, env=env)["prompt_seconds"] / stock["prompt_seconds"]
    print(
        f"\n{model.name}: {copies:.3f} copies in {PROCESSES} processes; a prompt takes {shared:.2f} of stock's time. "
        f"Stock has {repacked:.2f} of a copy in private memory, beside its file, in each process."
    )
    for one in said:
        assert one["logits"] == plain["logits"] and one["tokens"] == plain["tokens"]
        assert all("objects-v1" in path for path in one["maps"]), one["maps"]
    assert copies <= 1.05


def test_who_asks_for_it_gets_the_repacked_weights(model: Path, store: Path) -> None:
    stock = alone(model)
    repacked = alone(model, env={"TETRIS_PATCH": "1", "TETRIS_LLAMA_REPACK": "1"})
    assert (repacked["logits"], repacked["tokens"]) == (stock["logits"], stock["tokens"])


def test_in_a_pod_the_daemon_puts_the_file_into_the_store(model: Path, empty_dir: Path) -> None:
    restricted = Restricted(empty_dir)
    path = shutil.copy(model, restricted.file(model.name))
    try:
        said = restricted.python(PROGRAM, path, "stock", patch=True)
    finally:
        restricted.end()
    assert said["maps"] and all("objects-v1" in mapped for mapped in said["maps"])


@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="mounting needs root and /dev/fuse")
def test_a_mounted_model_needs_no_package(model: Path, store: Path, tmp_path: Path, tetris_bin: str) -> None:
    stock = alone(model)
    source, mounted = tmp_path / "source", tmp_path / "mounted"
    source.mkdir()
    mounted.mkdir()
    shutil.copy(model, source)
    command = [tetris_bin, "--store", str(store)]
    subprocess.run([*command, "pull", str(source)], check=True)
    mount = subprocess.Popen([*command, "mount", "--format", "json", str(source), str(mounted)], stdout=subprocess.PIPE)
    try:
        assert mount.stdout is not None and mount.stdout.readline()
        said = alone(mounted / model.name)
    finally:
        mount.terminate()
        assert mount.wait() == 0
    assert (said["logits"], said["tokens"]) == (stock["logits"], stock["tokens"])
    assert said["maps"] == [str(mounted / model.name)]


def test_ctransformers_maps_the_same_file(model: Path, store: Path, tmp_path: Path) -> None:
    if model.name != "Q4_0.gguf":
        pytest.skip("one quantization that its llama.cpp knows is enough")
    # It knows version 2 of the format, which is as version 3 on machines of this byte order.
    path = Path(shutil.copy(model, tmp_path / "older.gguf"))
    with path.open("r+b") as file:
        file.seek(4)
        file.write((2).to_bytes(4, "little"))
    program = """
    import json, sys
    from ctransformers.llm import LLM, Config

    model = LLM(sys.argv[1], "llama", config=Config(threads=1))
    model.eval([1, 5, 9, 70])
    maps = {line.split(maxsplit=5)[5].strip() for line in open("/proc/self/maps") if len(line.split()) > 5}
    print(json.dumps([model.sample(top_k=1), sorted(one for one in maps if "objects-v1" in one or "older" in one)]))
    """
    token, maps = python(program, path, env={"TETRIS_PATCH": "1"})
    expected, private = python(program, path, env={"TETRIS_PATCH": "0"})
    assert token == expected
    assert [Path(mapped).parent.name for mapped in maps] == ["objects-v1"] and private == [str(path)]
