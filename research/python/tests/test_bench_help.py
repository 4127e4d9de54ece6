"""Help of the benchmarks on a terminal of 80 columns, and what they say where packages are missing."""

import os
import subprocess
import sys

import pytest

NEEDED = {
    "": ("torch",),
    ".engines": (),
    ".gpu": ("torch",),
    ".instances": ("tetris_instance", "torch", "transformers", "onnxruntime", "onnx"),
    ".onnx": ("numpy", "onnxruntime", "onnx"),
    ".tracing": ("torch",),
    ".warmth": ("torch",),
}


def command(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a benchmark where none of the packages is installed."""
    packages = sorted({package for needed in NEEDED.values() for package in needed})
    program = (
        f"import runpy, sys; sys.modules.update(dict.fromkeys({packages})); "
        f"runpy.run_module('tetris_bench{name}', run_name='__main__', alter_sys=True)"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )


@pytest.mark.parametrize("name", NEEDED)
def test_help_fits_a_terminal_gives_defaults_and_needs_no_package(name: str) -> None:
    done = command(name, "--help")
    assert done.returncode == 0, done.stderr
    assert f"usage: python -m tetris_bench{name} " in done.stdout
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []
    assert "[default: " in done.stdout and "%(" not in done.stdout


@pytest.mark.parametrize("name", [name for name, packages in NEEDED.items() if packages])
def test_missing_packages_end_the_command_with_their_names(name: str) -> None:
    done = command(name)
    install = f"`{sys.executable} -m pip install {' '.join(NEEDED[name])}`"
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"python -m tetris_bench{name}: needs {', '.join(NEEDED[name])}, "
        f"not installed for {sys.executable}: {install}\n"
    )


def test_a_given_model_needs_no_package_that_makes_models() -> None:
    done = command(".onnx", "--model", "model.onnx")
    assert done.returncode == 1 and "needs numpy, onnxruntime, not" in done.stderr
