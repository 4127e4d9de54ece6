"""GGUF files that libraries of the llama.cpp family map: their constructors get paths in the store.

The libraries here are fakes, which map what they are told to; `tests/engines` runs the real ones.
"""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import Any

import pytest
from process import held, python

#: A package with the classes, arguments and attributes that the real ones have.
LIBRARIES = {
    "llama_cpp/__init__.py": "from ._internals import *\n",
    "llama_cpp/_internals.py": """
import mmap, os, re

class Params:
    load_mode, vocab_only, use_extra_bufts = 1, False, True

class OlderParams:
    use_mmap, use_direct_io, vocab_only, use_extra_bufts = True, False, False, True

class LlamaModel:
    def __init__(self, *, path_model: str, params: Params, verbose: bool = True):
        self.path_model, self.params = path_model, params
        paths = [path_model]
        if (part := re.fullmatch(r"(.*)-00001-of-(\\d{5})[.]gguf", path_model)):
            paths = [f"{part[1]}-{at:05}-of-{part[2]}.gguf" for at in range(1, int(part[2]) + 1)]
        self.opened = paths
        self.maps = []
        for path in paths:
            with open(path, "rb") as file:
                self.maps.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
        if bytes(self.maps[0][:4]) != b"GGUF":
            raise ValueError(f"Failed to load model from file: {path_model}")
""",
    "ctransformers/__init__.py": "from .llm import *\n",
    "ctransformers/llm.py": """
import mmap
from typing import Optional

class Config:
    def __init__(self, mmap=True):
        self.mmap = mmap

class LLM:
    def __init__(self, model_path: str, model_type: Optional[str] = None, *, config=None, lib=None):
        self._model_path, self.opened = model_path, [model_path]
        with open(model_path, "rb") as file:
            self.maps = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)]
""",
}
PREAMBLE = """
import json, os, sys
import llama_cpp, ctransformers

def shown(model):
    store = os.path.realpath(os.environ["TETRIS_STORE"])
    of_store = [os.path.realpath(path).startswith(store) for path in model.opened]
    return {"of_store": of_store, "bytes": [bytes(map[-4:]).decode() for map in model.maps],
            "repacked": getattr(getattr(model, "params", None), "use_extra_bufts", None)}
"""


@pytest.fixture
def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fakes, for interpreters that are started."""
    for name, text in LIBRARIES.items():
        path = tmp_path / "libraries" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "libraries"))
    monkeypatch.setenv("TETRIS_PATCH", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def gguf(path: Path, end: str = "last") -> Path:
    """A file that begins as GGUF files do."""
    path.write_bytes(b"GGUF" + os.urandom(100_000) + end.encode())
    return path


def loaded(program: str, *arguments: object, env: dict[str, str] | None = None) -> Any:
    """Facts that a program shows of its models."""
    return python(PREAMBLE + program, *arguments, env=env)


LOAD = """
model = llama_cpp.LlamaModel(path_model=sys.argv[1], params=llama_cpp.Params())
print(json.dumps({**shown(model), "path": model.path_model}))
"""


@pytest.mark.usefixtures("libraries")
def test_a_model_is_mapped_in_the_store_and_not_repacked(store: Path, tmp_path: Path) -> None:
    path = gguf(tmp_path / "model.gguf")
    expected = {"of_store": [True], "bytes": ["last"], "repacked": False, "path": str(path)}
    assert loaded(LOAD, path) == expected
    assert loaded(LOAD, path, env={"TETRIS_LLAMA_REPACK": "1"}) == {**expected, "repacked": True}
    private = {**expected, "of_store": [False], "repacked": True}
    assert loaded(LOAD, path, env={"TETRIS_PATCH": "0"}) == private
    assert loaded(LOAD, path, env={"TETRIS_PATCH": "files"}) == private
    assert loaded(LOAD, path, env={"TETRIS_STORE": str(tmp_path / "no-store")}) == private
    assert held(store) == []


@pytest.mark.usefixtures("libraries")
def test_the_reference_lasts_as_long_as_the_model(store: Path, tmp_path: Path) -> None:
    path = gguf(tmp_path / "model.gguf")
    program = """
    sys.path.insert(0, os.getcwd())
    import pathlib, process
    held = lambda: len(process.held(pathlib.Path(os.environ["TETRIS_STORE"])))
    model = llama_cpp.LlamaModel(path_model=sys.argv[1], params=llama_cpp.Params())
    during = held()
    del model
    print(json.dumps([during, held()]))
    """
    assert loaded(textwrap.dedent(program), path) == [1, 0]


@pytest.mark.usefixtures("libraries", "store")
@pytest.mark.parametrize(
    ("params", "setting", "shared"),
    [
        ("Params", "load_mode = -1", True),
        ("Params", "load_mode = 0", False),
        ("Params", "load_mode = 2", False),
        ("Params", "load_mode = 3", True),
        ("Params", "load_mode = 4", False),
        ("Params", "vocab_only = True", False),
        ("OlderParams", "use_mmap = True", True),
        ("OlderParams", "use_mmap = False", False),
        ("OlderParams", "use_direct_io = True", False),
    ],
)
def test_a_model_that_is_not_mapped_is_left_alone(tmp_path: Path, params: str, setting: str, shared: bool) -> None:
    path = gguf(tmp_path / "model.gguf")
    program = f"from llama_cpp._internals import *\nparams = {params}(); params.{setting}"
    found = loaded(program + LOAD.replace("llama_cpp.Params()", "params"), path)
    assert (found["of_store"], found["repacked"]) == ([shared], not shared)


@pytest.mark.usefixtures("libraries", "store")
def test_a_model_in_parts_is_shared_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    parts = [gguf(tmp_path / f"model-{number:05}-of-00003.gguf", f"pt-{number}") for number in (1, 2, 3)]
    found = loaded(LOAD, parts[0])
    assert (found["of_store"], found["bytes"]) == ([True] * 3, ["pt-1", "pt-2", "pt-3"])
    assert found["path"] == str(parts[0])
    assert [path.name for path in tmp_path.glob("tetris-gguf-*")] == [], "the folder goes with the model"
    parts[2].unlink()
    failing = (
        "try:"
        + LOAD.replace("\n", "\n    ")
        + "\nexcept FileNotFoundError as error:\n    print(json.dumps(error.filename))"
    )
    assert loaded(failing, parts[0]) == str(parts[2])


@pytest.mark.usefixtures("libraries", "store")
def test_errors_of_the_library_stay_its_own(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"none" * 30_000)
    program = """
errors = []
for call in (lambda: llama_cpp.LlamaModel(path_model=sys.argv[1], params=llama_cpp.Params()),
             lambda: llama_cpp.LlamaModel(path_model="/there/is/none.gguf", params=llama_cpp.Params()),
             lambda: llama_cpp.LlamaModel(params=llama_cpp.Params()),
             lambda: llama_cpp.LlamaModel(path_model=7, params=llama_cpp.Params())):
    try:
        call()
    except Exception as error:
        errors.append(type(error).__name__)
print(json.dumps(errors))
"""
    patched = loaded(program, path)
    assert patched == loaded(program, path, env={"TETRIS_PATCH": "0"})
    assert patched == ["ValueError", "FileNotFoundError", "TypeError", "TypeError"]


@pytest.mark.usefixtures("libraries", "store")
def test_ctransformers_maps_in_the_store(tmp_path: Path) -> None:
    path = gguf(tmp_path / "model.gguf")
    program = """
model = ctransformers.LLM(sys.argv[1], "llama")
private = ctransformers.LLM(model_path=sys.argv[1], config=ctransformers.Config(mmap=False))
print(json.dumps([shown(model)["of_store"], model._model_path, shown(private)["of_store"]]))
"""
    assert loaded(program, path) == [[True], str(path), [False]]


@pytest.mark.usefixtures("libraries", "store")
def test_the_patch_can_be_taken_back_and_tells_its_state(tmp_path: Path) -> None:
    path = gguf(tmp_path / "model.gguf")
    program = """
import tetris
name = "llama_cpp._internals.LlamaModel.__init__"
before = tetris.patch_status().functions[name]
tetris.unpatch()
model = llama_cpp.LlamaModel(path_model=sys.argv[1], params=llama_cpp.Params())
print(json.dumps([before, tetris.patch_status().functions[name], shown(model)["of_store"]]))
"""
    assert loaded(program, path) == [True, False, [False]]
