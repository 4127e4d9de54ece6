"""Help of the benchmarks on a terminal of 80 columns."""

import os
import subprocess
import sys

import pytest

NEEDED = {"": (), ".engines": (), ".gpu": ("torch",), ".onnx": ("onnxruntime",), ".tracing": ("torch",), ".warmth": ()}


@pytest.mark.parametrize("name", NEEDED)
def test_help_fits_a_terminal_and_gives_defaults(name: str) -> None:
    for module in NEEDED[name]:
        pytest.importorskip(module)
    shown = subprocess.run(
        [sys.executable, "-m", f"tetris.bench{name}", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "80"},
    ).stdout
    assert f"usage: python -m tetris.bench{name} " in shown
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert "[default: " in shown and "%(" not in shown
