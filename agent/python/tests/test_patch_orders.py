"""The patch and the modules of this package combine, whatever comes first."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import model_files
import pytest
from model_files import floats
from process import HANGS_S, run

ON = "import os; os.environ['TETRIS_PATCH'] = '1'"
CALL = "import tetris; tetris.patch()"

#: Imports in the order of a program. `taken` is a name that the program has taken from safetensors.
TORCH = {
    "safetensors alone": ["from safetensors.torch import load_file as taken"],
    "tetris.torch after safetensors.torch": [
        "from safetensors.torch import load_file as taken",
        "from tetris.torch import load_file",
    ],
    "tetris.torch before safetensors.torch": [
        "from tetris.torch import load_file",
        "from safetensors.torch import load_file as taken",
    ],
    "safe_open of tetris first": [
        "from tetris import safe_open",
        "from safetensors.torch import load_file as taken",
        "import tetris.torch",
    ],
    "tetris.numpy first": [
        "import tetris.numpy",
        "import tetris.torch",
        "from safetensors.torch import load_file as taken",
    ],
    "torch first": ["import torch", "import tetris.torch", "from safetensors.torch import load_file as taken"],
}
NUMPY = {
    "safetensors alone": ["from safetensors.numpy import load_file as taken"],
    "tetris.numpy after safetensors.numpy": [
        "from safetensors.numpy import load_file as taken",
        "from tetris.numpy import load_file",
    ],
    "tetris.numpy before safetensors.numpy": [
        "from tetris.numpy import load_file",
        "from safetensors.numpy import load_file as taken",
    ],
    "safe_open of tetris first": ["from tetris import safe_open", "from safetensors.numpy import load_file as taken"],
    "safetensors first": [
        "import safetensors",
        "import tetris.numpy",
        "from safetensors.numpy import load_file as taken",
    ],
}

#: Loads in every way, and tells what is patched and what is over memory of the store.
TELL = """
    import json, os, sys
    from pathlib import Path
    from process import is_mapped
    import tetris
    store, path = Path(os.environ["TETRIS_STORE"]), sys.argv[1]
    def is_shared(tensor):
        address = tensor.data_ptr() if hasattr(tensor, "data_ptr") else tensor.ctypes.data
        return is_mapped(store, address, tensor.nbytes)
    def ways():
        import safetensors
        from safetensors import safe_open
        if kind == "torch":
            import safetensors.torch, tetris.torch, torch
            module, state = torch.nn.Linear(256, 128), torch.nn.Linear(256, 128)
            safetensors.torch.load_model(module, path)
            state.load_state_dict(taken(path))
            yield "safetensors.torch.load_model", module.weight
            yield "load_state_dict", state.weight
            yield "safetensors.torch.load_file", safetensors.torch.load_file(path)["weight"]
            yield "tetris.torch.load_file", tetris.torch.load_file(path)["weight"]
        else:
            import safetensors.numpy, tetris.numpy
            yield "safetensors.numpy.load_file", safetensors.numpy.load_file(path)["weight"]
            yield "tetris.numpy.load_file", tetris.numpy.load_file(path)["weight"]
        yield "taken", taken(path)["weight"]
        for name, opener in (("safe_open", safe_open), ("safetensors.safe_open", safetensors.safe_open)):
            with opener(path, "pt" if kind == "torch" else "np") as opened:
                yield name, opened.get_tensor("weight")
    private = [name for name, tensor in ways() if not is_shared(tensor)]
    status = tetris.patch_status()
    print(json.dumps([status.active, status.occasion, status.functions, private, status.problems]))
"""


class Told(NamedTuple):
    """Findings of :data:`TELL`."""

    active: bool
    occasion: str | None
    functions: dict[str, bool]
    #: The ways of loading that gave private memory.
    private: list[str]
    problems: list[str]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for a module."""
    tensors = {"weight": floats([128, 256]), "bias": floats([128])}
    return model_files.write(tmp_path_factory.mktemp("orders") / "file", tensors)


def program_of(kind: str, statements: list[str]) -> str:
    """A program of statements that then loads."""
    return "\n".join([f"kind = {kind!r}", *statements]) + textwrap.dedent(TELL)


def told(done: subprocess.CompletedProcess[str]) -> Told:
    assert done.returncode == 0, done.stderr
    assert "loads privately" not in done.stderr, done.stderr
    return Told(*json.loads(done.stdout.splitlines()[-1]))


def assert_patched(found: Told, kind: str, occasion: str) -> None:
    """Assert that every function is patched and every load shared."""
    expected = ["safetensors.safe_open"]
    if kind == "torch":
        expected += ["safetensors.torch.load_file", "safetensors.torch.load_model"]
        expected += ["torch.nn.modules.module.Module.load_state_dict"]
    else:
        expected += ["safetensors.numpy.load_file"]
    assert found.active and found.occasion == occasion
    assert {name: found.functions.get(name) for name in expected} == dict.fromkeys(expected, True)
    assert all(found.functions.values())
    assert found.private == [] and found.problems == []


ORDERS = [
    pytest.param(kind, statements, id=f"{kind}, {name}")
    for kind, orders in (("torch", TORCH), ("numpy", NUMPY))
    for name, statements in orders.items()
]


@pytest.mark.parametrize(("kind", "statements"), ORDERS)
def test_with_the_variable_every_order_of_imports_is_patched(
    store: Path, path: Path, kind: str, statements: list[str]
) -> None:
    done = run(program_of(kind, statements), path, env={"TETRIS_PATCH": "1"})
    assert_patched(told(done), kind, "start-up")


@pytest.mark.parametrize(("kind", "statements"), ORDERS)
def test_a_call_before_or_after_every_order_of_imports_patches(
    store: Path, path: Path, kind: str, statements: list[str]
) -> None:
    assert_patched(told(run(program_of(kind, [CALL, *statements]), path)), kind, "call")
    assert_patched(told(run(program_of(kind, [*statements, CALL]), path)), kind, "call")


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_programs_of_exec_are_patched_in_every_order_of_imports(
    store: Path, path: Path, tetris_bin: str, kind: str, order: str
) -> None:
    statements = (TORCH if kind == "torch" else NUMPY)[f"tetris.{kind} {order} safetensors.{kind}"]
    command = [tetris_bin, "exec", "--", sys.executable, "-c", program_of(kind, statements), str(path)]
    here = Path(__file__).parent
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS_S, cwd=here)
    assert_patched(told(done), kind, "start-up")


@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_a_variable_that_is_set_late_counts_when_tetris_is_imported(store: Path, path: Path, kind: str) -> None:
    # As `%env TETRIS_PATCH=1` in a kernel that has imported everything but tetris.
    before = [f"from safetensors.{kind} import load_file as taken", ON]
    for after in (f"import tetris.{kind}", "from tetris import safe_open", "import tetris"):
        assert_patched(told(run(program_of(kind, [*before, after]), path)), kind, "import")


@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_a_variable_that_is_set_after_tetris_was_imported_is_told_and_a_call_remedies(
    store: Path, path: Path, kind: str
) -> None:
    late = [f"import tetris.{kind}", f"from safetensors.{kind} import load_file as taken", ON]
    done = run(program_of(kind, late), path)
    found = told(done)
    assert not found.active and found.occasion is None and not any(found.functions.values())
    assert "taken" in found.private and f"tetris.{kind}.load_file" not in found.private
    [problem] = found.problems
    assert "TETRIS_PATCH" in problem and "tetris.patch()" in problem
    # The first load through tetris says so, to people who do not look at the status.
    assert problem in done.stderr and done.stderr.count(problem) == 1
    assert_patched(told(run(program_of(kind, [*late, CALL]), path)), kind, "call")


@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_threads_that_import_both_at_once_are_patched(store: Path, path: Path, kind: str) -> None:
    threads = f"""
        import threading
        barrier = threading.Barrier(4)
        def work(name):
            barrier.wait()
            __import__(name)
        names = ["safetensors.{kind}", "tetris.{kind}", "tetris._safe_open", "safetensors"]
        threads = [threading.Thread(target=work, args=(name,)) for name in names]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    """
    statements = [textwrap.dedent(threads), f"from safetensors.{kind} import load_file as taken"]
    for _ in range(3):
        done = run(program_of(kind, statements), path, env={"TETRIS_PATCH": "1"})
        assert_patched(told(done), kind, "start-up")


def test_a_patch_that_was_taken_back_stays_so_whatever_is_imported(store: Path, path: Path) -> None:
    statements = [CALL, "tetris.unpatch()", "import tetris.numpy", "from safetensors.numpy import load_file as taken"]
    found = told(run(program_of("numpy", statements), path, env={"TETRIS_PATCH": "1"}))
    assert not found.active and not any(found.functions.values()) and found.problems == []
    assert found.private == ["safetensors.numpy.load_file", "taken", "safe_open", "safetensors.safe_open"]
