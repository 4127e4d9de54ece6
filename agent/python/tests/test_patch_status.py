"""The switch `TETRIS_PATCH`, and the state of the patch as it is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import model_files
import pytest
import tetris
from model_files import floats
from process import python, run
from tetris._environment import OFF, ON, read_switch

STATUS = "import json, tetris; print(json.dumps(tetris.patch_status()))"
IS_PATCHED = "import json, sys; print(json.dumps(any('tetris' in str(type(one)) for one in sys.meta_path)))"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file."""
    return model_files.write(tmp_path_factory.mktemp("status") / "file", {"w": floats([128, 256])})


def site_packages() -> str:
    """Folder of the packages."""
    return sysconfig.get_path("platlib")


@pytest.mark.parametrize("value", [*ON, *OFF, "", "True", "YES", " on ", "FALSE", "Off", "No", "files", "FILES"])
def test_the_variable_takes_what_people_write(value: str) -> None:
    done = run(IS_PATCHED, env={"TETRIS_PATCH": value})
    expected = value.strip().lower() in (*ON, "files")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, str(expected).lower(), "")


@pytest.mark.parametrize("value", ["enable", "2", "-1", "1,files", "oui"])
def test_another_value_is_told_with_the_accepted_ones_and_has_no_effect(value: str) -> None:
    done = run(IS_PATCHED, env={"TETRIS_PATCH": value})
    assert (done.returncode, done.stdout.strip()) == (0, "false")
    assert done.stderr.count("TETRIS_PATCH") == 1 and repr(value) in done.stderr
    assert all(word in done.stderr for word in (*ON, *OFF, "files", "Tetris:"))
    active, occasion, variable, _, problems = python(STATUS, env={"TETRIS_PATCH": value})
    assert (active, occasion, variable) == (False, None, value)
    assert len(problems) == 1 and repr(value) in problems[0]


def test_the_line_that_python_runs_at_start_up_knows_the_same_values() -> None:
    [line] = Path(site_packages(), "tetris_store_patch.pth").read_text().splitlines()
    assert str(("", *OFF)).replace("'", '"') in line


def test_switches_of_one_kind_are_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {"TRUE": "on", "off": "off", "": None, "  ": None, "other": "other"}
    for value, found in expected.items():
        monkeypatch.setenv("TETRIS_TEST", value)
        assert read_switch("TETRIS_TEST", "other") == found
    monkeypatch.delenv("TETRIS_TEST")
    assert read_switch("TETRIS_TEST") is None
    monkeypatch.setenv("TETRIS_TEST", "other")
    with pytest.raises(ValueError, match=r"TETRIS_TEST.*'other'"):
        read_switch("TETRIS_TEST")


def test_the_status_of_a_program_without_a_patch_has_no_problem() -> None:
    status = tetris.patch_status()
    assert isinstance(status, tetris.PatchStatus)
    assert (status.active, status.occasion, status.variable, status.problems) == (False, None, None, ())
    assert not any(status.functions.values())


def test_files_patches_safetensors_alone() -> None:
    program = "import safetensors.torch\n" + STATUS
    active, _, _, functions, problems = python(program, env={"TETRIS_PATCH": "Files"})
    assert active and problems == []
    assert functions == {
        "safetensors.safe_open": True,
        "safetensors.torch.load_file": True,
        "safetensors.torch.load_model": True,
        "torch.nn.modules.module.Module.load_state_dict": False,
    }


def test_a_function_that_something_replaces_later_is_told() -> None:
    program = "import safetensors, tetris; tetris.patch(); safetensors.safe_open = object\n" + STATUS
    *_, functions, problems = python(program)
    assert functions == {"safetensors.safe_open": False}
    assert len(problems) == 1 and "safetensors.safe_open" in problems[0] and "tetris.patch()" in problems[0]


def test_a_patch_that_is_switched_off_late_is_told() -> None:
    program = "import os; os.environ['TETRIS_PATCH'] = 'off'\n" + STATUS
    active, occasion, _, _, problems = python(program, env={"TETRIS_PATCH": "1"})
    assert active and occasion == "start-up"
    assert len(problems) == 1 and "tetris.unpatch()" in problems[0]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter of an environment into which nothing is installed."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return str(folder / "bin" / "python")


def test_a_package_on_the_path_that_is_not_installed_patches_when_it_is_imported_and_says_so(
    store: Path, path: Path, bare: str
) -> None:
    program = (
        "import json, os, sys; from safetensors.numpy import load_file; import tetris; got = load_file(sys.argv[1])\n"
        "maps = open('/proc/self/maps').read().count(os.environ['TETRIS_STORE'])\n"
        "print(json.dumps([maps > 0, *tetris.patch_status()]))"
    )
    env = {**os.environ, "TETRIS_PATCH": "1", "PYTHONPATH": site_packages()}
    done = subprocess.run([bare, "-c", program, str(path)], capture_output=True, text=True, check=True, env=env)
    shared, active, occasion, _, functions, problems = json.loads(done.stdout)
    assert shared and active and occasion == "import" and all(functions.values())
    [problem] = problems
    assert "tetris_store_patch.pth" in problem and site_packages() in problem and "pip" in problem
    assert done.stderr.count(problem) == 1


def test_an_interpreter_without_site_packages_says_so() -> None:
    program = "import json, tetris; print(json.dumps(tetris.patch_status()))"
    env = {"TETRIS_PATCH": "1", "PYTHONPATH": site_packages()}
    active, occasion, _, _, problems = python(program, env=env, flags=("-S",))
    assert active and occasion == "import"
    assert len(problems) == 1 and "-S" in problems[0]
