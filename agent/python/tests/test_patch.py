"""Programs that know nothing of this package load through the store, and behave as they did before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import model_files
import pytest
import tetris
from model_files import floats
from process import contents, held, objects, python, run

ON = {"TETRIS_PATCH": "1"}
REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file."""
    return model_files.write(tmp_path_factory.mktemp("patch") / "file", {"w": floats([128, 256]), "b": floats([128])})


def test_without_the_variable_nothing_is_imported_and_nothing_differs() -> None:
    program = """
        import json, sys
        before = sorted(sys.modules)
        import safetensors
        finders = [str(type(one)) for one in sys.meta_path]
        print(json.dumps([before, sorted(sys.modules), finders, str(safetensors.safe_open)]))
    """
    unset, isolated = python(program), python(program, flags=("-S",), env={"PYTHONPATH": site_packages()})
    assert not [name for name in unset[1] if name.startswith("tetris")]
    assert "tetris" not in f"{unset[2:]}"
    for value in ("", "0"):
        assert python(program, env={"TETRIS_PATCH": value}) == unset
    assert not [name for name in isolated[1] if name.startswith("tetris")]


def site_packages() -> str:
    """Folder of the packages."""
    import safetensors

    return str(Path(safetensors.__file__).parents[1])


def test_with_the_variable_only_what_is_needed_is_imported() -> None:
    program = """
        import json, sys
        names = ("tetris", "torch", "numpy", "safetensors")
        print(json.dumps([name for name in sys.modules if name.startswith(names)]))
    """
    modules = python(program, env=ON)
    assert modules and not [name for name in modules if name.startswith(("torch", "numpy", "safetensors"))]
    assert "tetris._native" not in modules


ORDERS = {
    "attribute of the module": "import safetensors; f = safetensors.safe_open(path, 'np'); got = f.get_tensors()",
    "name from the module": "from safetensors import safe_open; f = safe_open(path, 'np'); got = f.get_tensors()",
    "numpy first": "import numpy; from safetensors import safe_open; got = safe_open(path, 'np').get_tensors()",
    "safetensors.numpy": "from safetensors.numpy import load_file; got = load_file(path)",
    "star": "from safetensors import *; import safetensors; got = safetensors.safe_open(path, 'np').get_tensors()",
    "importlib": "import importlib; got = importlib.import_module('safetensors').safe_open(path, 'np').get_tensors()",
    "in a thread": "import threading; got = {}\n"
    "def work():\n    from safetensors.numpy import load_file\n    got.update(load_file(path))\n"
    "t = threading.Thread(target=work); t.start(); t.join()",
    "in a function": "def f():\n    from safetensors import safe_open\n    return safe_open(path, 'np').get_tensors()\n"
    "got = f()",
    "reloaded": "import importlib, safetensors; importlib.reload(safetensors)\n"
    "got = safetensors.safe_open(path, 'np').get_tensors()",
    "patched before": "import tetris; tetris.patch(); from safetensors.numpy import load_file; got = load_file(path)",
    "patched after": "from safetensors import safe_open; import safetensors.numpy, tetris; tetris.patch()\n"
    "got = safetensors.numpy.load_file(path); assert safe_open is safetensors.safe_open",
    "patched twice": "import tetris; tetris.patch(); tetris.patch()\n"
    "from safetensors.numpy import load_file; got = load_file(path)",
}


@pytest.mark.parametrize("variable", [True, False], ids=["TETRIS_PATCH=1", "unset"])
@pytest.mark.parametrize("order", ORDERS)
def test_imports_in_any_order_are_patched(store: Path, path: Path, order: str, variable: bool) -> None:
    program = f"import sys, json\npath = sys.argv[1]\n{ORDERS[order]}\n" + (
        "maps = open('/proc/self/maps').read().count('/objects-v1/')\n"
        "print(json.dumps([maps, sorted(got), got['w'].shape, float(got['w'].sum())]))"
    )
    expected = variable or order.startswith("patched")
    found = python(program, path, env=ON if variable else {})
    assert (found[0] > 0) == expected
    assert found[1:3] == [["b", "w"], [128, 256]]
    assert bool(objects(store)) == expected


def test_patching_is_taken_back() -> None:
    program = """
        import json, sys
        import safetensors, safetensors.torch, torch
        from safetensors import safe_open as taken
        from safetensors.torch import load_file, load_model
        def now():
            return [safetensors.safe_open, safetensors.torch.safe_open, safetensors.torch.load_file,
                    safetensors.torch.load_model, taken, load_file, load_model, torch.nn.Module.load_state_dict]
        import tetris
        before, finders = now(), list(sys.meta_path)
        for _ in range(3):
            tetris.patch()
            assert all(one is not other for one, other in zip(now()[:7], before[:7])), now()
            tetris.unpatch()
            assert all(one is other for one, other in zip(now(), before)), now()
            assert sys.meta_path == finders
        tetris.unpatch()
        assert all(one is other for one, other in zip(now(), before))
        print(1)
    """
    assert python(program) == 1


def test_a_patched_safe_open_is_still_a_type_with_its_instances(store: Path, path: Path) -> None:
    program = """
        import json, sys, inspect
        import safetensors
        from safetensors import safe_open
        opened = safe_open(sys.argv[1], framework="np")
        assert isinstance(safe_open, type)
        assert isinstance(opened, safe_open) and isinstance(opened, safetensors.safe_open)
        class Mine(safe_open):
            def extra(self):
                return sorted(self.keys())
        with Mine(sys.argv[1], framework="np") as mine:
            assert isinstance(mine, safe_open) and mine.extra() == ["b", "w"]
        try:
            safe_open("/no/such/file", framework="np")
        except FileNotFoundError as error:
            message = str(error)
        try:
            opened.get_tensor("x")
        except safetensors.SafetensorError:
            pass
        assert list(inspect.signature(safe_open).parameters)[:3] == ["filename", "framework", "device"]
        print(json.dumps(message))
    """
    assert "/no/such/file" in python(program, path, env=ON)


@pytest.mark.parametrize("flags", [("-I",), ("-E",), ("-O",), ("-B",), ("-s",), ("-X", "importtime"), ("-W", "error")])
def test_interpreters_with_flags_start_and_load(store: Path, path: Path, flags: tuple[str, ...]) -> None:
    program = """
        import json, sys
        from safetensors.numpy import load_file
        got = load_file(sys.argv[1])
        print(json.dumps([sorted(got), open('/proc/self/maps').read().count('/objects-v1/') > 0]))
    """
    assert python(program, path, env=ON, flags=flags)[0] == ["b", "w"]


def test_a_broken_environment_never_keeps_a_program_from_running(path: Path, tmp_path: Path) -> None:
    program = (
        "import json, sys; from safetensors.numpy import load_file; print(json.dumps(sorted(load_file(sys.argv[1]))))"
    )
    (tmp_path / "tetris").mkdir()
    (tmp_path / "tetris" / "__init__.py").write_text("")
    for env in ({"TETRIS_STORE": "/dev/null"}, {"TETRIS_STORE": "\udcff"}, {"PYTHONPATH": str(tmp_path)}):
        done = run(program, path, env={**ON, **env})
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == ["b", "w"]


def test_sitecustomize_and_zipped_programs_are_patched(store: Path, path: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import safetensors.numpy\n")
    program = """
        import json, sys, safetensors.numpy
        got = safetensors.numpy.load_file(sys.argv[1])
        print(json.dumps(open('/proc/self/maps').read().count('/objects-v1/')))
    """
    assert python(program, path, env={**ON, "PYTHONPATH": str(tmp_path)}) > 0


def test_threads_that_import_at_once_are_all_patched(store: Path, path: Path) -> None:
    program = """
        import json, sys, threading
        results = []
        barrier = threading.Barrier(8)
        def work():
            barrier.wait()
            from safetensors.numpy import load_file
            results.append(sorted(load_file(sys.argv[1])))
        threads = [threading.Thread(target=work) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        import safetensors
        print(json.dumps([len(results), safetensors.safe_open.__module__]))
    """
    assert python(program, path, env=ON) == [8, "tetris._safe_open"]


def test_load_state_dict_of_a_patched_program_copies_and_still_shares(store: Path, path: Path) -> None:
    program = """
        import json, sys, torch
        from safetensors.torch import load_file
        weights = load_file(sys.argv[1])
        state = {"weight": weights["w"], "bias": weights["b"]}
        module = torch.nn.Linear(256, 128)
        ids = [id(one) for one in module.parameters()]
        module.load_state_dict(state)
        assert ids == [id(one) for one in module.parameters()]
        assert torch.equal(module.weight, weights["w"]) and torch.equal(module.bias, weights["b"])
        with torch.no_grad():
            module.weight[0, 0] = 99
            module.bias[0] = 99
        assert weights["w"][0, 0] != 99 and weights["b"][0] != 99
        weights["w"][1, 1] = 98
        assert module.weight[1, 1] != 98
        written = torch.nn.Linear(256, 128)
        written.load_state_dict(state)
        assert written.weight[1, 1] == 98 and torch.equal(written.weight, weights["w"])
        print(1)
    """
    before = path.read_bytes()
    assert python(program, path, env=ON) == 1
    assert path.read_bytes() == before
    assert any(content.startswith(floats([128, 256]).data) for content in contents(store).values())


# transformers.

BUILD = """
    import json, sys, torch
    from transformers import BertConfig, BertModel, BertForMaskedLM
    torch.manual_seed(0)
    config = BertConfig(vocab_size=2000, hidden_size=256, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=1024, max_position_embeddings=64)
    folder = sys.argv[1]
    model = BertModel(config)
    model.save_pretrained(f"{folder}/plain")
    model.save_pretrained(f"{folder}/sharded", max_shard_size="2MB")
    BertForMaskedLM(config).save_pretrained(f"{folder}/tied")
    import os, shutil
    os.makedirs(f"{folder}/bin")
    shutil.copy(f"{folder}/plain/config.json", f"{folder}/bin/config.json")
    torch.save(model.state_dict(), f"{folder}/bin/pytorch_model.bin")
    minilm = sys.argv[2]
    if os.path.exists(minilm):
        os.makedirs(f"{folder}/minilm")
        BertConfig(vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
                   intermediate_size=1536, max_position_embeddings=512).save_pretrained(f"{folder}/minilm")
        os.symlink(minilm, f"{folder}/minilm/model.safetensors")
    print(len(os.listdir(f"{folder}/sharded")))
"""

#: Loads in as many forks as it is told, which wait for each other, and tells what each found.
LOAD = """
    import hashlib, json, os, sys
    import torch, transformers
    from transformers import AutoModel, BertForMaskedLM
    transformers.utils.logging.disable_progress_bar()
    folder, count, dtypes = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(",")
    sys.path.insert(0, os.getcwd())
    from process import smaps
    from pathlib import Path
    store = Path(os.environ["TETRIS_STORE"])

    def load(dtype):
        cls = BertForMaskedLM if folder.endswith("tied") else AutoModel
        model = cls.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
        torch.set_num_threads(1)
        with torch.inference_mode():
            output = model(input_ids=torch.arange(2 * 16).view(2, 16) % 1000)[0]
        digest = hashlib.sha256(output.float().numpy().tobytes())
        for name, tensor in sorted(model.state_dict().items()):
            digest.update(f"{name} {tensor.dtype}".encode())
            digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        if folder.endswith("tied"):
            assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
        sizes = {one.data_ptr(): one.nbytes for one in model.parameters()}
        return model, digest.hexdigest(), sum(sizes.values())

    results = []
    for dtype in dtypes:
        # A pipe for each step: a fast process would otherwise take the go of a slow one for its own end.
        ready, go, done, end = os.pipe(), os.pipe(), os.pipe(), os.pipe()
        for _ in range(count):
            if os.fork() == 0:
                model, digest, nbytes = load(dtype)
                os.write(ready[1], b"x")
                os.read(go[0], 1)
                found = smaps(store)
                line = json.dumps([digest, nbytes, found.get("Pss", 0), found.get("Rss", 0)])
                os.write(done[1], f"{line}\\n".encode())
                os.read(end[0], 1)
                os._exit(0)
        for _ in range(count):
            os.read(ready[0], 1)
        os.write(go[1], b"x" * count)
        lines = b""
        while lines.count(b"\\n") < count:
            lines += os.read(done[0], 65536)
        os.write(end[1], b"x" * count)
        for _ in range(count):
            os.wait()
        results.append([json.loads(line) for line in lines.splitlines()])
    print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders as `from_pretrained` takes them."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    folder = tmp_path_factory.mktemp("models")
    shards = python(BUILD, folder, REPOSITORY / "target/minilm/model.safetensors")
    assert shards > 3
    return folder


def loaded(folder: Path, count: int, *dtypes: str, patched: bool = True) -> list[list[list[Any]]]:
    """Findings of processes that loaded a model in these types."""
    return python(LOAD, folder, count, ",".join(dtypes), env=ON if patched else {})


@pytest.mark.parametrize("kind", ["plain", "tied", "sharded", "bin", "minilm"])
def test_from_pretrained_gives_the_same_bits_from_one_copy(store: Path, models: Path, kind: str) -> None:
    folder = models / kind
    if not folder.exists():
        pytest.skip("all-MiniLM-L6-v2 is not there: tests/fetch-minilm.sh")
    dtypes = ("float32", "bfloat16")
    expected = [results[0][0] for results in loaded(folder, 1, *dtypes, patched=False)]
    assert objects(store) == []
    processes = 8 if kind in ("plain", "minilm") else 2
    for digest, results in zip(expected, loaded(folder, processes, *dtypes), strict=True):
        assert {result[0] for result in results} == {digest}
        nbytes = results[0][1]
        # The weights are there once, small ones apart, which are private.
        assert 0.9 * nbytes <= sum(result[2] for result in results) <= 1.1 * nbytes + processes * 64 * 1024
        assert all(result[3] >= 0.9 * nbytes for result in results)
    assert held(store) == []
    # The second time, everything is there.
    count = len(objects(store))
    loaded(folder, 1, *dtypes)
    assert len(objects(store)) == count


@pytest.mark.parametrize("order", ["before", "after"])
def test_transformers_may_be_imported_before_or_after_patching(store: Path, models: Path, order: str) -> None:
    first, then = "from transformers import AutoModel", "import tetris; tetris.patch()"
    if order == "after":
        first, then = then, first
    program = f"""
import json, sys
{first}
{then}
model = AutoModel.from_pretrained(sys.argv[1])
maps = open('/proc/self/maps').read().count('/objects-v1/')
tetris.unpatch()
again = AutoModel.from_pretrained(sys.argv[1])
same = all((one == other).all() for one, other in zip(model.parameters(), again.parameters()))
print(json.dumps([maps > 0, open('/proc/self/maps').read().count('/objects-v1/') - maps, bool(same)]))
"""
    assert python(program, models / "plain") == [True, 0, True]


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is fetched."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    yield
    assert tetris.__version__
